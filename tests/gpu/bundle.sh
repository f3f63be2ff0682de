#!/usr/bin/env bash
# Makes the bundle that tests/gpu/run.sh is run from on a machine with a GPU: tests/gpu/bundle.sh [--build FOLDER] [--check] [FILE.tar.xz]
#
# In it: the program, the CUDA module, the small shared libraries that they need, tests and benchmark, models, run.sh. Not in it: libc, the
# driver, CUDA's libraries (run.sh finds those of the machine), oneDNN and OpenBLAS (nothing needs them), data sets. At most 40 MB. Build it
# on Debian 12, the oldest that it has to run on. --check unpacks it and runs doctor and host tests where nothing else is installed.
# Exit status 77: this build has no CUDA module.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build check=0 file=
while (($#)); do
  case $1 in
    --build) build=$2 && shift ;;
    --check) check=1 ;;
    -*) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
    *) file=$1 ;;
  esac
  shift
done
file=${file:-$build/perigee-gpu.tar.xz}
readonly most_bytes=40000000
readonly glibc='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so'

[[ -d $build ]] || meson setup "$build" --buildtype=release
if ! meson introspect "$build" --targets | grep -q '"perigee_cuda@sha"\|"name": "perigee_cuda"'; then
  echo "$build has no CUDA module: nvcc is needed (meson setup -Dcuda=enabled)"
  exit 77
fi

programs=(repl/perigee tests/bench/train_bench tests/gpu/gpu_parity_test tests/gpu/gpu_layers_test tests/gpu/gpu_codec_test
  tests/gpu/gpu_kernel_bench tests/gpu/gpu_step_profile tests/kernels/parity_test tests/nn/nn_test)
ninja -C "$build" repl/libperigee_cuda.so cuda_cold "${programs[@]}" >"$build/bundle-build.txt" || { tail -n 40 "$build/bundle-build.txt" && exit 1; }

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
top=$staging/perigee-gpu
mkdir -p "$top"/{bin,lib,models}
for program in "${programs[@]}"; do strip -o "$top/bin/${program##*/}" "$build/$program"; done
strip -o "$top/lib/libperigee_cuda.so" "$build/repl/libperigee_cuda.so"

# What they are linked with, and what that is linked with.
while read -r name path; do
  [[ $name =~ $glibc ]] || strip -o "$top/lib/$name" "$(readlink -f "$path")"
done < <(ldd "${programs[@]/#/$build/}" "$build/repl/libperigee_cuda.so" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u)
if compgen -G "$top/lib/lib{dnnl,openblas,gomp}*" >/dev/null; then
  echo "the bundle would need oneDNN, OpenBLAS or OpenMP" && exit 1
fi
cp models/*.lua "$top/models"
cp tests/gpu/run.sh tests/gpu/{bench,contestants,rows,peer,checks}.py LICENSE "$top"

mkdir -p "$(dirname "$file")"
tar -C "$staging" -cf - perigee-gpu | xz -T1 -6 >"$file"
bytes=$(stat -c %s "$file")
echo "$file: $bytes bytes"
tar -tJf "$file" | sed 's/^/  /'
((bytes <= most_bytes)) || { echo "more than $most_bytes bytes" && exit 1; }
((check)) || exit 0

# A root with nothing but libc, and the bundle.
clean=$staging/clean
mkdir -p "$clean/tmp" "$clean/proc"
tar -C "$clean" -xJf "$file"
while read -r path; do install -D "$(readlink -f "$path")" "$clean$path"; done < <(
  ldd "$build/repl/perigee" "$top"/lib/* |
    grep -oE '/[^ ]*/(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so[^ ]*' | sort -u)
inside() {
  local program=/perigee-gpu/bin/$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LD_LIBRARY_PATH=/perigee-gpu/lib chroot "$clean" "$program" "$@"
}
probe=$(chroot "$clean" /perigee-gpu/bin/none 2>&1) || true # fails either way: what it says tells why
if [[ $probe != *'No such file'* ]]; then
  echo "no root can be changed here, so the bundle runs in this one"
  inside() {
    local program=$clean/perigee-gpu/bin/$1
    shift
    env -i PATH=/ HOME="$clean/tmp" LD_LIBRARY_PATH="$clean/perigee-gpu/lib" "$program" "$@"
  }
fi
inside perigee doctor >"$staging/doctor.txt" || true # it counts what a machine like this lacks
grep -q 'CUDA kernels' "$staging/doctor.txt" || { cat "$staging/doctor.txt" && exit 1; }
grep 'CUDA kernels\|GPU\|cuBLASLt\|cuDNN\|NVRTC\|driver' "$staging/doctor.txt"
inside parity_test --gtest_brief=1 --gtest_filter=-Parity.EveryKernelAgreesWithTheReference | tail -n 1 # it wants LAPACK
inside nn_test --gtest_brief=1 | tail -n 1
inside gpu_parity_test --gtest_brief=1 | tail -n 1
# Without a GPU run.sh says so and leaves with 77; with one it is for a person to run.
status=0
PERIGEE_CUDA_LIBRARIES='' "$clean/perigee-gpu/run.sh" --seconds 20 --out "$staging/out" >"$staging/run.txt" 2>&1 || status=$?
if ! command -v nvidia-smi >/dev/null && ((status != 77)); then
  cat "$staging/run.txt" && exit 1
fi
# And where a GPU is imitated, its programs find each other.
if [[ -e $build/tests/cuda/libperigee_cuda_shim.so && -e $build/tests/cuda/fakes/libcudnn.so.9 ]]; then
  PERIGEE_BUILD=$(realpath "$build") "$clean/perigee-gpu/run.sh" --rehearse --only "libraries|codecs|several" --out "$staging/out" \
    >"$staging/run.txt" 2>&1 || { cat "$staging/run.txt" && exit 1; }
fi
echo "the bundle runs"
