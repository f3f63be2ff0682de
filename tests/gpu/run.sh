#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one command: tests/gpu/run.sh [--bench] [--only PATTERN] [--out FOLDER] [--seconds N] [--rehearse]
#
# Runs from the bundle that tests/gpu/bundle.sh makes (bash, python3 and a driver are enough; no network, no packages) or from a checkout
# whose build/ has the tests. cuBLASLt, cuDNN, NVRTC and NCCL are looked for in python3's nvidia packages, CUDA's folders and the loader's
# path, data sets in $PERIGEE_DATA, or in data/ here or beside this. Parity of every op, layer and codec with the reference, gradients,
# LeNet to accuracy, precisions, determinism, memory, faults, compute-sanitizer; with --bench also the benchmark, PyTorch in turns beside
# it. One table says PASS, FAIL or "not measured" with the reason; parts have a time limit each, and end within 9 minutes together
# (--seconds).
# --only runs the parts whose names match an extended regular expression. --rehearse runs everything small without a GPU, on what tests/cuda
# has in its place in a checkout's build/, or in $PERIGEE_BUILD. FOLDER (perigee-gpu-out where nothing is said) gets five files as the run
# goes on, so that one that is cut short leaves what it had: table.txt, log.txt (of all parts), bench.txt, bench.json, profile.txt (steps).
#
# Exit status: 0 nothing failed, 1 something did, 77 there is no GPU.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=0 budget=540 out='' rehearse=0 only=.
usage() { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2; }
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
if [[ -z $out ]]; then
  out=$PWD/perigee-gpu-out
  mkdir -p "$out" 2>/dev/null && [[ -w $out ]] || out=$(mktemp -d) || exit 2
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) && : >"$out/table.txt" && : >"$out/log.txt" || exit 2
rm -f "$out"/{bench.txt,bench.json,profile.txt}

# Where data sets and caches go: half a gigabyte, of this run alone, and not for those who fetch the output.
work=''
for folder in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm "$out"; do # the last, room or not
  { read -r _ && read -r _ _ _ kilobytes _; } < <(df -Pk "$folder" 2>/dev/null) || kilobytes=0
  ((kilobytes > 2000000)) || [[ $folder == "$out" ]] || continue
  work=$(mktemp -d "$folder/perigee.XXXXXX" 2>/dev/null) && break
done
[[ -n $work ]] || { echo "no folder to write to: set TMPDIR" && exit 2; }
running() { [[ -n $1 ]] && jobs -rp | grep -qx "$1"; }
# stop JOB: ends what was begun beside the parts.
stop() { running "$1" && kill "$1" && wait "$1"; } 2>/dev/null
compiling=
trap 'stop "$compiling"; rm -rf "$work"' EXIT
trap 'exit 143' TERM INT HUP
mkdir -p "$work/logs"
export TMPDIR="$work" HOME="${HOME:-$work}"

# Where containers have the driver without always telling the loader.
for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
  [[ ! -e $folder/libcuda.so.1 || :${LD_LIBRARY_PATH-}: == *:$folder:* ]] ||
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
done
export PATH="$PATH:/usr/local/nvidia/bin:/usr/local/cuda/bin"

# In the bundle this file lies beside bin/ and lib/; in a checkout what is built lies in build/, as does what imitates a GPU.
build=${PERIGEE_BUILD:-$here/../../build}
if [[ -x $here/bin/perigee ]]; then
  root=$here
  # For our programs alone (ours, checks.py, bench.py): python3, compilers and tools have libraries of their own.
  export PERIGEE_GPU_LIBRARIES="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PERIGEE_CUDA_MODULE="$root/lib/libperigee_cuda.so"
  program() { echo "$root/bin/$1"; }
else
  root=$(cd "$here/../.." && pwd)
  export build PERIGEE_CUDA_MODULE="$build/repl/libperigee_cuda.so"
  program() {
    case $1 in
      perigee) echo "$build/repl/perigee" ;;
      train_bench) echo "$build/tests/bench/train_bench" ;;
      *) echo "$build/tests/gpu/$1" ;;
    esac
  }
fi
[[ -n ${PERIGEE_DATA-} ]] || for folder in "$root" "$PWD"; do [[ ! -d $folder/data/mnist ]] || export PERIGEE_DATA="$folder/data"; done
ours() { LD_LIBRARY_PATH="${PERIGEE_GPU_LIBRARIES-${LD_LIBRARY_PATH-}}" "$@"; }
[[ -x $(program perigee) ]] || { echo "there is no $(program perigee): build first, or unpack the bundle" && exit 1; }

# The first Python that has PyTorch, or any.
python=python3
for candidate in python3 python /opt/*/.venv/bin/python3 /opt/*/bin/python3; do
  if timeout 30 "$candidate" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; then
    python=$candidate && break
  fi
done

# Folders of NVIDIA's libraries: of Python's packages (.../nvidia/*/lib, .../torch/lib), then of the toolkit.
libraries() {
  timeout 30 "$python" - <<'PYTHON' 2>/dev/null
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
export XDG_CACHE_HOME="$work/cache" TORCHINDUCTOR_CACHE_DIR="$work/inductor" TRITON_HOME="$work" TRITON_CACHE_DIR="$work/triton"
export CUDA_CACHE_PATH="$work/driver" PERIGEE_GPU_OUT="$work/jobs"
export PERIGEE_PROGRAM PERIGEE_TRAIN_BENCH
PERIGEE_PROGRAM=$(program perigee) PERIGEE_TRAIN_BENCH=$(program train_bench)
mkdir -p "$PERIGEE_GPU_OUT"

row() { printf '%-34s %-13s %7s  %s\n' "$@" | tee -a "$out/table.txt"; }  # what, result, seconds, remark

# Seconds that a part may take which wants so many.
allowed() {
  local left=$((budget - SECONDS))
  echo $((left < $1 ? left : $1))
}

# keep TITLE FILE...: the ends of files go into log.txt.
keep() {
  local file
  for file in "${@:2}"; do
    [[ -s $file ]] && { echo "---- $1 ${file##*/}" && tail -c 200000 "$file" && echo; } >>"$out/log.txt"
  done
}

# why FILE: what a part that failed said, in a few lines: a test's first failures, else its last words.
why() {
  if grep -q ': Failure$' "$1"; then grep -A 6 -m 2 ': Failure$' "$1"; else grep -v '^ *$\|^{' "$1" | tail -n 5; fi |
    cut -c1-220 | head -n 12 | sed 's/^/    /'
}

# part NAME SECONDS COMMAND…: one row. Status 77 is "not measured"; the last line of the output is the remark. The benchmark's output is
# shown too.
failed=0
part() {
  local name=$1 wanted=$2 limit log="$work/logs/${1//[^a-zA-Z0-9]/_}.txt" begun=$SECONDS
  limit=$(allowed "$wanted")
  shift 2
  [[ $name =~ $only ]] || return 0
  if ((limit < 5)); then
    row "$name" "not measured" - "no time was left of $budget s"
    return
  fi
  local status remark result=FAIL
  if [[ $name == benchmark ]]; then
    timeout -k 5 "$limit" "$@" 2>&1 </dev/null | tee "$log"
    status=${PIPESTATUS[0]}
  else
    timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null
    status=$?
  fi
  remark=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-160)
  local took=$((SECONDS - begun))
  case $status in
    0) if grep -q '^\[  SKIPPED \]' "$log"; then remark="skipped, though there is a GPU"; else result=PASS; fi ;;
    77) result="not measured" ;;
    124 | 137) if ((limit < wanted)); then result="not measured" remark="only $limit s of $budget s were left"
       elif [[ $name == *check\ of* ]]; then result="not measured" remark="compute-sanitizer was not done after $limit s"
       else remark="was not done after $limit s"; fi ;;
    *) remark="status $status: $remark" ;;
  esac
  row "$name" "$result" $took "$remark"
  keep "$name:" "$log"
  [[ $result == FAIL ]] && failed=1 && why "$log" | tee -a "$out/table.txt"
  return 0
}

echo "what is measured goes to $out"
said="$work/logs/machine.txt"
{
  timeout 10 nvidia-smi --format=csv,noheader \
    --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,clocks.max.memory,power.limit
  ours timeout -k 5 120 "$(program perigee)" doctor # reads libraries of a gigabyte for the first time
} 2>&1 </dev/null | tee "$said"
keep machine "$said"
if ! grep -qE '^ *ok +GPU ' "$said"; then
  # One that others see is a failure of ours, of which the parts tell more.
  if ! nvidia-smi -L </dev/null 2>/dev/null | grep -q '^GPU '; then
    echo "there is no GPU that Perigee can use, so nothing was measured"
    exit 77
  fi
  row doctor FAIL "$SECONDS" "finds no GPU, though nvidia-smi does" && failed=1
fi
echo

check() { "$python" "$here/checks.py" "$@"; }
test_of() { ours "$(program "$1")" --gtest_brief=1 "${@:2}"; }

# LeNet for two epochs, at least 98 % right on the test part.
accuracy() {
  ((rehearse)) || [[ -n ${PERIGEE_DATA-} && -d $PERIGEE_DATA/mnist ]] || { echo "no mnist in PERIGEE_DATA" && return 77; }
  check accuracy "$root/models/lenet.lua" 0.98 --epochs 2
}

# sanitize TOOL TEST: compute-sanitizer finds nothing in a short run of the test. There are machines where it cannot work: once it has said
# so it is not asked again. A test that it lets down may fail there, or not end with its own word.
sanitize() {
  local tool log="$work/logs/$1_$2.txt" status=0 refused="$work/refused.txt"
  [[ ! -s $refused ]] || { tail -n 1 "$refused" && return 77; }
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/{bin,compute-sanitizer}/compute-sanitizer 2>/dev/null | head -n 1)
  [[ -n $tool ]] || { echo "no compute-sanitizer on this machine" && return 77; }
  # Kernels of our own alone; what libraries ask of the driver and are refused is their business.
  local options=(--tool "$1" --error-exitcode 9 --kernel-regex kns=perigee)
  [[ $1 == memcheck ]] && options+=(--report-api-errors no)
  [[ $1 == initcheck ]] && hide_libraries
  PERIGEE_GPU_BRIEF=1 ours "$tool" "${options[@]}" "$(program "$2")" --gtest_brief=1 >"$log" 2>&1 || status=$?
  tail -n 100 "$log"
  if grep -qi 'device not supported' "$log"; then
    echo "compute-sanitizer says: Device not supported" | tee "$refused"
    return 77
  elif ! grep -q '^\[  \(PASSED\|FAILED\)' "$log" && ! grep -q 'ERROR SUMMARY: [1-9]' "$log"; then
    echo "not run, because compute-sanitizer says: $(grep -im1 'error\|support\|unable\|no GPU' "$log" || echo nothing)"
    return 77
  fi
  grep -m1 'ERROR SUMMARY' "$log"
  return "$status"
}
# Kernels of a library are not looked into: their results would be reported as never written. So our own kernels do everything. The loader
# takes the first file of a name, and these are none.
hide_libraries() {
  export PERIGEE_CUDA_LIBRARIES="$work/hidden" PERIGEE_GPU_LIBRARIES="$work/hidden:${PERIGEE_GPU_LIBRARIES-${LD_LIBRARY_PATH-}}"
  mkdir -p "$work/hidden" && touch "$work/hidden"/lib{cudnn.so.9,cublasLt.so.13,cublasLt.so.12}
}
export -f accuracy sanitize hide_libraries program check test_of ours
export out work root here rehearse python

# PyTorch's compilations take a minute or two: they begin now, beside parts that measure no time. The benchmark follows when they are done.
begin_compiling() {
  local command=(timeout -k 5 150 "$python" "$here/bench.py" --compile --out "$out" --work "$PERIGEE_GPU_OUT" --seconds 140)
  ((rehearse)) && command+=(--rehearse)
  "${command[@]}" >"$work/logs/compile.txt" 2>&1 </dev/null &
  compiling=$!
}
benchmark() {
  local seconds options watch clocks="$work/logs/clocks.txt"
  wait "$compiling"
  keep "PyTorch's compilers:" "$work/logs/compile.txt"
  seconds=$(allowed 330)
  options=(--program "$(program train_bench)" --kernels "$(program gpu_kernel_bench)" --profile "$(program gpu_step_profile)" --out "$out"
    --work "$PERIGEE_GPU_OUT" --seconds "$seconds")
  ((rehearse)) && options+=(--rehearse) && export PERIGEE_SHIM_STAND_INS=1 # quick kernels
  timeout 600 nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv -lms 2000 \
    >"$clocks" 2>&1 </dev/null &
  watch=$!
  # With a cache of its own: what the parts before it have measured was not measured in quiet.
  part "benchmark" $((seconds + 10)) env XDG_CACHE_HOME="$work/quiet" "$python" "$here/bench.py" "${options[@]}"
  stop "$watch"
  unset PERIGEE_SHIM_STAND_INS
  keep clocks "$clocks"
  keep "" "$PERIGEE_GPU_OUT"/{ours,peer}_*.txt "$work"/quiet/perigee/tuning-*.json
  bench=0
}
# A part that may come before the benchmark or after it.
either() {
  ((bench)) && ! running "$compiling" && benchmark
  part "$@"
}

[[ benchmark =~ $only ]] || bench=0
((bench)) && begin_compiling
part "NVIDIA's libraries" 20 bash -c 'check libraries'
part "ops beside the reference" 120 bash -c 'test_of gpu_parity_test'
either "layers and their gradients" 60 bash -c 'test_of gpu_layers_test'
either "LeNet to accuracy" 60 bash -c accuracy
either "codecs" 30 bash -c 'test_of gpu_codec_test'
either "bf16" 30 bash -c 'check precision bf16'
either "fp16" 30 bash -c 'check precision fp16'
either "tf32" 30 bash -c 'check precision tf32'
either "the same bits twice" 30 bash -c 'check deterministic'
either "the same bits in each form" 45 bash -c 'check forms'
either "memory as predicted" 40 bash -c 'check memory'
either "faults" 30 bash -c 'check faults'
either "several GPUs" 30 bash -c 'check several'
either "every kernel of a run checked" 60 bash -c 'check checked'
((bench)) && benchmark
part "memcheck of layers" 60 bash -c 'sanitize memcheck gpu_layers_test'
part "racecheck of layers" 60 bash -c 'sanitize racecheck gpu_layers_test'
part "memcheck of ops" 90 bash -c 'sanitize memcheck gpu_parity_test'
part "memcheck of codecs" 60 bash -c 'sanitize memcheck gpu_codec_test'
part "racecheck of codecs" 60 bash -c 'sanitize racecheck gpu_codec_test'
part "racecheck of ops" 90 bash -c 'sanitize racecheck gpu_parity_test'
part "synccheck of layers" 60 bash -c 'sanitize synccheck gpu_layers_test'
part "initcheck of layers" 60 bash -c 'sanitize initcheck gpu_layers_test'

# Once more and together: whoever keeps only the end of what was printed has every result.
echo
grep -v '^    ' "$out/table.txt" # reasons and counters have been shown
if [[ -f $out/bench.txt ]]; then
  grep -v '^    ' "$out/bench.txt"
  grep -q ' FAIL ' "$out/bench.txt" && failed=1
fi
counted() { grep -cE "^.{34} $1 " "$out/table.txt"; }
echo "all parts took $SECONDS s; $(counted PASS) passed, $(counted FAIL) failed, $(counted 'not measured') were not measured"
exit "$failed"
