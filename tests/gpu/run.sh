#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one command: tests/gpu/run.sh [--bench] [--only PATTERN] [--out FOLDER] [--seconds N] [--rehearse]
#
# Runs from the bundle that tests/gpu/bundle.sh makes (bash, python3 and a driver are enough; no network, no packages) or from a checkout
# whose build/ has the tests. cuBLASLt, cuDNN, NVRTC and NCCL are looked for in python3's nvidia packages, CUDA's folders and the loader's
# path, data sets in $PERIGEE_DATA. Parity of every op, layer and codec with the reference, gradients, LeNet to accuracy, precisions,
# determinism, memory, faults, compute-sanitizer; with --bench also the benchmark, PyTorch in turns beside it. One table at the end says
# PASS, FAIL or "not measured" with the reason; each part has a time limit and all of them together end within 9 minutes (--seconds).
# --only runs the parts whose names match an extended regular expression. --rehearse runs everything small from a checkout without a GPU, on
# what tests/cuda has in its place.
#
# Exit status: 0 nothing failed, 1 something did, 77 there is no GPU.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=0 budget=540 out='' rehearse=0 only=.
usage() { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2; }
while (($#)); do
  case $1 in
    --bench) bench=1 ;;
    --rehearse) rehearse=1 ;;
    --only) (($# > 1)) || usage && only=$2 && shift ;;
    --out) (($# > 1)) || usage && out=$2 && shift ;;
    --seconds) (($# > 1)) || usage && budget=$2 && shift ;;
    *) usage ;;
  esac
  shift
done
out=${out:-$(mktemp -d)}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
: >"$out/table.txt"

# In the bundle this file lies beside bin/ and lib/; in a checkout what is built lies in build/.
if [[ -x $here/bin/perigee ]]; then
  root=$here
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PERIGEE_CUDA_MODULE="$root/lib/libperigee_cuda.so"
  program() { echo "$root/bin/$1"; }
else
  root=$(cd "$here/../.." && pwd)
  build=${PERIGEE_BUILD:-$root/build}
  export build PERIGEE_CUDA_MODULE="$build/repl/libperigee_cuda.so"
  program() {
    case $1 in
      perigee) echo "$build/repl/perigee" ;;
      train_bench) echo "$build/tests/bench/train_bench" ;;
      *) echo "$build/tests/gpu/$1" ;;
    esac
  }
fi
[[ -x $(program perigee) ]] || { echo "there is no $(program perigee): build first, or unpack the bundle" && exit 1; }

# Folders of NVIDIA's libraries: of Python's packages (.../nvidia/*/lib, .../torch/lib), then of the toolkit.
libraries() {
  python3 - <<'PYTHON' 2>/dev/null
import glob, os, sys
found = [f for p in sys.path if p for pattern in ("nvidia/*/lib", "torch/lib") for f in sorted(glob.glob(os.path.join(p, pattern)))]
found += [f for p in ("/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)) for f in (p + "/lib64", p + "/lib")]
print(":".join(dict.fromkeys(f for f in found if glob.glob(f + "/lib*.so*"))))
PYTHON
}
if ((rehearse)); then
  export PERIGEE_CUDA_MODULE="$build/tests/cuda/libperigee_cuda_shim.so" PERIGEE_CUDA_LIBRARIES="$build/tests/cuda/fakes"
  export PERIGEE_SHIM_LIBRARIES=1 PERIGEE_SHIM_MEMORY=open PERIGEE_GPU_BRIEF=1
else
  PERIGEE_CUDA_LIBRARIES="${PERIGEE_CUDA_LIBRARIES:-}${PERIGEE_CUDA_LIBRARIES:+:}$(libraries)"
  export PERIGEE_CUDA_LIBRARIES
fi
# What is measured and compiled on the way is this run's own.
export XDG_CACHE_HOME="$out/cache" PERIGEE_GPU_OUT="$out/work" PERIGEE_PROGRAM PERIGEE_TRAIN_BENCH
PERIGEE_PROGRAM=$(program perigee) PERIGEE_TRAIN_BENCH=$(program train_bench)
mkdir -p "$PERIGEE_GPU_OUT"

row() { printf '%-34s %-13s %7s  %s\n' "$@" | tee -a "$out/table.txt"; }  # what, result, seconds, remark

# Seconds that a part may take which wants so many.
allowed() {
  local left=$((budget - SECONDS))
  echo $((left < $1 ? left : $1))
}

# part NAME SECONDS COMMAND…: one row. Status 77 is "not measured"; the last line of the output is the remark.
failed=0
part() {
  local name=$1 wanted=$2 limit log="$out/${1//[^a-zA-Z0-9]/_}.txt" begun=$SECONDS
  limit=$(allowed "$wanted")
  shift 2
  [[ $name =~ $only ]] || return 0
  if ((limit < 5)); then
    row "$name" "not measured" - "no time was left of $budget s"
    return
  fi
  timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null
  local status=$? remark
  remark=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-160)
  local took=$((SECONDS - begun))
  case $status in
    0) if grep -q '^\[  SKIPPED \]' "$log"; then row "$name" FAIL $took "skipped, though there is a GPU; see $log" && failed=1
       else row "$name" PASS $took "$remark"; fi ;;
    77) row "$name" "not measured" $took "$remark" ;;
    124 | 137) if ((limit < wanted)); then row "$name" "not measured" $took "only $limit s of $budget s were left"
       else row "$name" FAIL $took "was not done after $limit s; see $log" && failed=1; fi ;;
    *) row "$name" FAIL $took "status $status, see $log: $remark" && failed=1 ;;
  esac
}

echo "output of each part: $out"
"$(program perigee)" doctor | tee "$out/doctor.txt"
if ! grep -qE '^ *ok +GPU ' "$out/doctor.txt"; then
  echo "there is no GPU that Perigee can use, so nothing was measured"
  exit 77
fi
echo

check() { python3 "$here/checks.py" "$@"; }
test_of() { "$(program "$1")" --gtest_brief=1 "${@:2}"; }

# LeNet for two epochs, at least 98 % right on the test part.
accuracy() {
  ((rehearse)) || [[ -n ${PERIGEE_DATA-} && -d $PERIGEE_DATA/mnist ]] || { echo "no mnist in PERIGEE_DATA" && return 77; }
  check accuracy "$root/models/lenet.lua" 0.98 --epochs 2
}

# sanitize TOOL TEST: compute-sanitizer finds nothing in a short run of the test.
sanitize() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/{bin,compute-sanitizer}/compute-sanitizer 2>/dev/null | head -n 1)
  [[ -n $tool ]] || { echo "no compute-sanitizer on this machine" && return 77; }
  local status=0
  # Kernels of our own alone; what libraries ask of the driver and are refused is their business.
  local options=(--tool "$1" --error-exitcode 9 --kernel-regex kns=perigee)
  [[ $1 == memcheck ]] && options+=(--report-api-errors no)
  PERIGEE_GPU_BRIEF=1 "$tool" "${options[@]}" "$(program "$2")" --gtest_brief=1 2>&1 | tee "$out/$1_$2.txt" || status=$?
  if grep -qi 'device not supported\|unable to find\|no supported' "$out/$1_$2.txt"; then
    echo "compute-sanitizer does not work on this machine: $(grep -im1 'not supported\|unable to find\|no supported' "$out/$1_$2.txt")"
    return 77
  fi
  return "$status"
}
export -f accuracy sanitize program check test_of
export out root here rehearse

part "NVIDIA's libraries" 20 bash -c 'check libraries'
part "ops beside the reference" 120 bash -c 'test_of gpu_parity_test'
part "layers and their gradients" 60 bash -c 'test_of gpu_layers_test'
part "LeNet to accuracy" 60 bash -c accuracy
if ((bench)); then
  seconds=$(allowed 290)
  options=(--program "$(program train_bench)" --kernels "$(program gpu_kernel_bench)" --out "$out" --seconds "$seconds")
  ((rehearse)) && options+=(--rehearse) && export PERIGEE_SHIM_STAND_INS=1  # quick kernels
  part "benchmark" $((seconds + 10)) python3 "$here/bench.py" "${options[@]}"
  unset PERIGEE_SHIM_STAND_INS
fi
part "codecs" 30 bash -c 'test_of gpu_codec_test'
part "bf16" 30 bash -c 'check precision bf16'
part "fp16" 30 bash -c 'check precision fp16'
part "tf32" 30 bash -c 'check precision tf32'
part "the same bits twice" 30 bash -c 'check deterministic'
part "memory as predicted" 20 bash -c 'check memory'
part "faults" 30 bash -c 'check faults'
part "several GPUs" 30 bash -c 'check several'
part "memcheck of layers" 60 bash -o pipefail -c 'sanitize memcheck gpu_layers_test'
part "racecheck of layers" 60 bash -o pipefail -c 'sanitize racecheck gpu_layers_test'
part "memcheck of ops" 90 bash -o pipefail -c 'sanitize memcheck gpu_parity_test'
part "every kernel of a run checked" 60 bash -c 'check checked'
part "memcheck of codecs" 60 bash -o pipefail -c 'sanitize memcheck gpu_codec_test'
part "racecheck of codecs" 60 bash -o pipefail -c 'sanitize racecheck gpu_codec_test'
part "racecheck of ops" 90 bash -o pipefail -c 'sanitize racecheck gpu_parity_test'
part "synccheck of layers" 60 bash -o pipefail -c 'sanitize synccheck gpu_layers_test'
part "initcheck of layers" 60 bash -o pipefail -c 'sanitize initcheck gpu_layers_test'

echo
if [[ -f $out/bench.txt ]]; then
  cat "$out/bench.txt"
  grep -q ' FAIL ' "$out/bench.txt" && failed=1
fi
rm -rf "$PERIGEE_GPU_OUT" "$XDG_CACHE_HOME" "$out"/*.npy
echo "all parts took $SECONDS s; $(grep -c ' PASS ' "$out/table.txt") passed, $(grep -c ' FAIL ' "$out/table.txt") failed," \
  "$(grep -c ' not measured ' "$out/table.txt") were not measured"
exit "$failed"
