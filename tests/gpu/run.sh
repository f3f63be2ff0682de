#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one command: tests/gpu/run.sh [--bench] [--out FOLDER] [--seconds N]
#
# Runs from the bundle that tests/gpu/bundle.sh makes (bash, python3 and a driver are enough; no network, no packages) or from a checkout
# whose build/ has the tests. cuBLASLt, cuDNN and NVRTC are looked for in the loader's path and in python3's nvidia packages, data sets in
# $PERIGEE_DATA. Without --bench: parity of every op and layer with the reference, training, LeNet to accuracy, compute-sanitizer. With it
# also the benchmark, PyTorch in turns beside it. One table at the end says PASS, FAIL or "not measured" with the reason; each part has a
# time limit and all of them together end within 9 minutes (--seconds).
#
# Exit status: 0 nothing failed, 1 something did, 77 there is no GPU.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=0 budget=540 out=
while (($#)); do
  case $1 in
    --bench) bench=1 ;;
    --out) out=$2 && shift ;;
    --seconds) budget=$2 && shift ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
  esac
  shift
done
out=${out:-$(mktemp -d)}
mkdir -p "$out"
: >"$out/table.txt"

# In the bundle this file lies beside bin/ and lib/; in a checkout what is built lies in build/.
if [[ -x $here/bin/perigee ]]; then
  root=$here
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PERIGEE_CUDA_MODULE="$root/lib/libperigee_cuda.so"
  program() { echo "$root/bin/$1"; }
  models=$root/models bench_script=$root/bench.py
else
  root=$(cd "$here/../.." && pwd)
  export PERIGEE_CUDA_MODULE="$root/build/repl/libperigee_cuda.so"
  program() {
    case $1 in
      perigee) echo "$root/build/repl/perigee" ;;
      train_bench) echo "$root/build/tests/bench/train_bench" ;;
      *) echo "$root/build/tests/gpu/$1" ;;
    esac
  }
  models=$root/models bench_script=$here/bench.py
fi
[[ -x $(program perigee) ]] || { echo "there is no $(program perigee): build first, or unpack the bundle" && exit 1; }

# Folders of NVIDIA's libraries in Python's packages: .../nvidia/*/lib.
libraries() {
  python3 - <<'PYTHON' 2>/dev/null
import glob, os, site, sysconfig
roots = {sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()}
print(":".join(sorted(f for r in roots for f in glob.glob(os.path.join(r, "nvidia", "*", "lib")))))
PYTHON
}
found=$(libraries)
export PERIGEE_CUDA_LIBRARIES="${PERIGEE_CUDA_LIBRARIES:-}${PERIGEE_CUDA_LIBRARIES:+:}$found"

row() { printf '%-34s %-13s %7s  %s\n' "$@" | tee -a "$out/table.txt"; }  # what, result, seconds, remark

# part NAME SECONDS COMMAND…: one row. Status 77 is "not measured"; the last line of the output is the remark.
failed=0
part() {
  local name=$1 limit=$2 log="$out/${1//[^a-zA-Z0-9]/_}.txt" begun=$SECONDS
  shift 2
  local left=$((budget - SECONDS))
  if ((left < 10)); then
    row "$name" "not measured" - "no time was left of $budget s"
    return
  fi
  timeout -k 5 "$((left < limit ? left : limit))" "$@" >"$log" 2>&1
  local status=$? remark
  remark=$(grep -v '^$' "$log" | tail -n 1 | cut -c1-100)
  case $status in
    0) if grep -q '^\[  SKIPPED \]' "$log"; then row "$name" "not measured" $((SECONDS - begun)) "$(grep -m1 'no ' "$log" | cut -c1-100)"
       else row "$name" PASS $((SECONDS - begun)) "$remark"; fi ;;
    77) row "$name" "not measured" $((SECONDS - begun)) "$remark" ;;
    124 | 137) row "$name" FAIL $((SECONDS - begun)) "was not done after so long; see $log" && failed=1 ;;
    *) row "$name" FAIL $((SECONDS - begun)) "status $status, see $log: $remark" && failed=1 ;;
  esac
}

echo "output of each part: $out"
"$(program perigee)" doctor | tee "$out/doctor.txt"
if ! grep -qE '^ *ok +GPU ' "$out/doctor.txt"; then
  echo "there is no GPU that Perigee can use, so nothing was measured"
  exit 77
fi
echo

# LeNet for two epochs, at least 98 % right on the test part.
accuracy() {
  [[ -n ${PERIGEE_DATA-} && -d $PERIGEE_DATA/mnist ]] || { echo "no mnist in PERIGEE_DATA" && return 77; }
  "$(program perigee)" train "$models/lenet.lua" --device cuda:0 --epochs 2 --log json --out "$out/lenet" >"$out/lenet.jsonl" ||
    { tail -n 3 "$out/lenet.jsonl" && return 1; }
  python3 - "$out/lenet.jsonl" <<'PYTHON'
import json, sys
end = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{") and '"end"' in line][-1]
accuracy = end["test"]["accuracy"]
print(f"accuracy {accuracy:.4f} after 2 epochs; at least 0.98 is wanted")
sys.exit(accuracy < 0.98)
PYTHON
}

# sanitize TOOL TEST FILTER: compute-sanitizer finds nothing.
sanitize() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null | head -n 1)
  [[ -n $tool ]] || { echo "no compute-sanitizer on this machine" && return 77; }
  "$tool" --tool "$1" --error-exitcode 9 "$(program "$2")" --gtest_filter="$3" || return 1
}
export -f accuracy sanitize program
export out models root here

part "ops" 120 "$(program gpu_parity_test)"
part "layers and their gradients" 60 "$(program gpu_layers_test)"
part "codecs" 60 "$(program gpu_codec_test)"
part "LeNet to accuracy" 60 bash -c accuracy
if ((bench)); then
  part "benchmark" 330 python3 "$bench_script" --program "$(program train_bench)" --kernels "$(program gpu_kernel_bench)" --out "$out" --seconds 320
fi
part "memcheck of layers" 60 bash -c 'sanitize memcheck gpu_layers_test "*"'
part "racecheck of layers" 60 bash -c 'sanitize racecheck gpu_layers_test "*"'
part "memcheck of ops" 90 bash -c 'sanitize memcheck gpu_parity_test "*"'

echo
if [[ -f $out/bench.txt ]]; then
  cat "$out/bench.txt"
  grep -q ' FAIL ' "$out/bench.txt" && failed=1
fi
echo "all parts took $SECONDS s"
exit "$failed"
