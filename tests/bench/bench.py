#!/usr/bin/env python3
"""Measures Perigee beside PyTorch, in turns on this machine: `./perigee bench [--quick] [ROW…]`.

Rows are names or beginnings of names: `lenet`, `lenet/64/2` (model/batch/threads), `mlp`, `resnet20`, `convnet`, `start`, `memory`,
`size`, `allocations`, `latency`, `tensors`. Prints Markdown tables: median [min-max] of images a second of each, the ratio turn by turn, the bar where the
project set one, and the floor: the time that the arithmetic alone takes at the measured FMA peak, or the parameters' traffic at the
measured bandwidth. The floor counts dense arithmetic; a program that skips exact zeros can beat it.

Times are wall clock. On a machine that does other work, `--cpu-time` counts the rows with one thread by CPU time instead, of both
programs; a sample is taken again (up to --tries times) while other processes use more than a tenth of the cores it runs on.

PyTorch is looked for in the interpreters named by PERIGEE_TORCH_PYTHON (colon-separated), in build/torch, and in the usual places;
`--install-torch` puts PyPI's into build/torch. Of several the fastest counts, row by row, each at its best setting (torch_peer.py).
"""
import argparse
import array
import json
import os
import pathlib
import random
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import latency
import results
import tensors

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PEER = ROOT / "tests" / "bench" / "torch_peer.py"
PROGRAM = BUILD / "repl" / "perigee"
MNIST_BYTES = 70000 * (784 + 1)

# ---- what is measured ----


def conv(out, kernel, **options):
    return {"type": "conv2d", "out": out, "kernel": kernel, **options, "activation": "relu"}


def dense(out, activation=None):
    return {"type": "dense", "out": out, **({"activation": activation} if activation else {})}


POOL = {"type": "maxpool", "kernel": 2}
ADAMW = {"type": "adamw", "lr": 0.002, "weight_decay": 0.0005}
MLP = [dense(500, "relu"), dense(500, "relu"), dense(10)]

# model: (layers or a script of models/, optimiser, input shape, parameters, multiply-adds of one example's forward pass,
#         those of the first layer, which needs no input gradient)
MODELS = {
    "lenet": ([conv(20, 5), POOL, conv(50, 5, stride=2), POOL, dense(200, "relu"), dense(10)], ADAMW, (1, 28, 28), 67780,
              20 * 24 * 24 * 25 + 50 * 4 * 4 * 500 + 200 * 200 + 2000, 20 * 24 * 24 * 25),
    "convnet": ([conv(24, 3, padding=1), POOL, conv(36, 3), POOL, conv(48, 3), POOL, dense(96, "relu"), dense(10)], ADAMW, (3, 32, 32),
                43582, 24 * 32 * 32 * 27 + 36 * 14 * 14 * 216 + 48 * 5 * 5 * 324 + 192 * 96 + 960, 24 * 32 * 32 * 27),
    "mlp": (MLP, {"type": "adam", "lr": 0.001}, (1, 28, 28), 648010, 784 * 500 + 500 * 500 + 5000, 784 * 500),
    "mlp_sgd": (MLP, {"type": "sgd", "lr": 0.01, "momentum": 0.9}, (1, 28, 28), 648010, 784 * 500 + 500 * 500 + 5000, 784 * 500),
    "resnet20": ("resnet20.lua", {"type": "nesterov", "lr": 0.01, "momentum": 0.9}, (3, 32, 32), 272474,
                 40_800_000, 442_368),
}
SLOTS = {"adamw": 2, "adam": 2, "sgd": 1, "nesterov": 1}
BARS = {("lenet", b, t): 4.0 for b in (32, 64, 128) for t in (1, 2)}
BARS |= {("mlp", 64, 1): 1.25, ("mlp", 64, 2): 1.6, ("mlp", 128, 1): 1.15, ("mlp", 128, 2): 1.35}
BARS |= {("resnet20", b, t): 1.3 for b in (64, 128) for t in (1, 2)}
ROWS = list(BARS) + [("convnet", 64, 1), ("convnet", 64, 2), ("mlp_sgd", 64, 1), ("mlp_sgd", 64, 2)]


# ---- running programs ----


def cores(threads):
    """Pins to the last `threads` cores: the first serves interrupts."""
    available = sorted(os.sched_getaffinity(0))
    return set(available[-threads:])


def run(command, threads=None, env=None, timeout=600):
    pin = (lambda: os.sched_setaffinity(0, cores(threads))) if threads else None
    return subprocess.run([str(c) for c in command], env={**os.environ, **(env or {})}, preexec_fn=pin, timeout=timeout, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def busy_seconds():
    """CPU time that all processes have used, and the hypervisor has taken."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def undisturbed(sample, args):
    """`sample()`, repeated while others used the machine; the least disturbed result, with their share of a core in "foreign"."""
    best = None
    for _ in range(args.tries):
        busy, own, start = busy_seconds(), own_seconds(), time.perf_counter()
        result = sample()
        elapsed = time.perf_counter() - start
        result["foreign"] = max(0.0, busy_seconds() - busy - (own_seconds() - own)) / elapsed
        if best is None or result["foreign"] < best["foreign"]:
            best = result
        if best["foreign"] < 0.1 * (os.cpu_count() or 1):
            break
    return best


def rates_of(result, row, args):
    return result["images_per_cpu_s" if args.cpu_time and row[2] == 1 else "images_per_s"]


def last_json(text):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else None


def cpu_flags():
    try:
        return next(line for line in open("/proc/cpuinfo") if line.startswith("flags")).split()
    except (OSError, StopIteration):
        return []


def torch_environment(threads):
    """One OpenMP pool for all, and OpenBLAS's best kernels: its own detection misses CPUs newer than itself."""
    env = {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    flags = cpu_flags()
    if "avx512f" in flags:
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    elif "avx2" in flags:
        env["OPENBLAS_CORETYPE"] = "Haswell"
    folder = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
    if os.path.isdir(folder):
        env["LD_LIBRARY_PATH"] = ":".join([folder, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return env


class Torch:
    """One interpreter that has PyTorch."""

    def __init__(self, python, version):
        self.python, self.version = python, version
        self.settings = {}

    def measure(self, row, args):
        model, batch, threads = row
        setting = self.settings.get(row)
        command = [self.python, PEER, "--model", model, "--batch", batch, "--threads", threads, "--repeats", args.repeats,
                   "--seconds", args.seconds]
        if setting:
            command += ["--setting", setting]
        elif args.compile:
            command += ["--compile"]
        done = run(command, threads, torch_environment(threads), timeout=1200)
        result = last_json(done.stdout)
        if done.returncode or not result:
            raise RuntimeError(f"{self.python}: {done.stderr.strip().splitlines()[-1:]}")
        self.settings[row] = result["setting"]
        return result


def find_torch():
    tried = [*filter(None, os.environ.get("PERIGEE_TORCH_PYTHON", "").split(":")), str(BUILD / "torch" / "bin" / "python"),
             sys.executable, "python3", "/usr/bin/python3"]
    found, seen = [], set()
    for python in tried:
        path = shutil.which(python)
        if not path:
            continue
        done = run([path, "-c", "import torch; print(torch.__version__, torch.__file__)"], env={"CUDA_VISIBLE_DEVICES": ""})
        if done.returncode == 0:
            version, where = done.stdout.split()[-2:]
            if where not in seen:
                seen.add(where)
                found.append(Torch(path, version))
    return found


def install_torch():
    folder = BUILD / "torch"
    if (folder / "bin" / "python").exists():
        return
    print("installing PyTorch from PyPI into build/torch (about 3 GB)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", "torch", "numpy"], check=True)


# ---- training speed ----


def write_idx(path, dims, kind, values):
    with open(path, "wb") as file:
        file.write(struct.pack(">HBB", 0, kind, len(dims)) + struct.pack(f">{len(dims)}I", *dims))
        file.write(values)


class Jobs:
    """Job files over random data, in a folder that goes with this object. Random pixels and labels: the time does not depend on them."""

    EXAMPLES = 4096

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.random = random.Random(1)
        write_idx(self.folder / "labels.idx", (self.EXAMPLES,), 0x08, bytes(self.random.randrange(10) for _ in range(self.EXAMPLES)))

    def network(self, layers):
        if not isinstance(layers, str):
            return {"type": "sequential", "layers": layers}
        done = run([PROGRAM, "describe", ROOT / "models" / layers, "--json"])
        if done.returncode:
            raise RuntimeError(f"models/{layers}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)["network"]

    def path(self, model):
        layers, optimizer, shape, *_ = MODELS[model]
        name = "x" + "x".join(map(str, shape)) + ".idx"
        if not (self.folder / name).exists():
            elements = self.EXAMPLES * shape[0] * shape[1] * shape[2]
            values = array.array("f", (self.random.gauss(0, 1) for _ in range(elements // 64))) * 64  # repeats; nothing learns from it
            if sys.byteorder == "little":
                values.byteswap()
            write_idx(self.folder / name, (self.EXAMPLES, *shape), 0x0D, values.tobytes())
        job = {"perigee": 1, "name": model, "network": self.network(layers), "loss": "cross_entropy", "optimizer": optimizer, "seed": 1,
               "data": {"train": {"type": "idx", "x": name, "y": "labels.idx", "classes": 10}, "batch": 64}, "epochs": 1000000}
        if model == "resnet20":
            job["regularization"] = {"l2": 5e-4}
        path = self.folder / f"{model}.json"
        path.write_text(json.dumps(job))
        return path


def measure_perigee(job, row, args):
    _, batch, threads = row
    done = run([BUILD / "tests" / "bench" / "train_bench", job, "--batch", batch, "--threads", threads, "--repeats", args.repeats,
                "--seconds", args.seconds], threads)
    result = last_json(done.stdout)
    if done.returncode or not result:
        raise RuntimeError(done.stderr.strip()[-500:])
    return result


def spread(values, form="{:,.0f}"):
    return f"{form.format(statistics.median(values))} [{form.format(min(values))}-{form.format(max(values))}]"


def floor(row, peak):
    """Images a second that the machine allows: (by arithmetic, by parameter traffic)."""
    model, batch, threads = row
    _, optimizer, shape, parameters, forward, first = MODELS[model]
    flops = 2.0 * (3 * forward - first)  # forward, weight gradients, input gradients of all but the first layer
    step_bytes = 4.0 * parameters * (2 + 2 * SLOTS[optimizer["type"]]) + 4.0 * batch * shape[0] * shape[1] * shape[2]
    return peak[f"gflops_{threads}"] * 1e9 / flops, batch * peak[f"gbytes_{threads}"] * 1e9 / step_bytes


def bench_training(rows, torches, peak, args):
    print("| model / batch / threads | Perigee images/s | PyTorch images/s | its version, setting | ratio | bar | floor: FMA, bytes | of FMA floor | cores used by others |")
    print("|---|---|---|---|---|---|---|---|---|")
    jobs, records = Jobs(), []
    for row in rows:
        name = "/".join(map(str, row))
        ours, theirs, by_torch, foreign, best = [], [], {}, 0.0, None
        try:
            job = jobs.path(row[0])
            for turn in range(args.turns):
                samples = [undisturbed(lambda: measure_perigee(job, row, args), args)]
                ours.append(rates_of(samples[0], row, args))
                for torch in list(torches if turn == 0 else [best] if torches else []):
                    samples.append(undisturbed(lambda torch=torch: torch.measure(row, args), args))
                    by_torch.setdefault(torch, []).append(rates_of(samples[-1], row, args))
                foreign = max([foreign, *(sample["foreign"] for sample in samples)])
                if turn == 0 and torches:
                    best = max(by_torch, key=lambda t: statistics.median(by_torch[t][0]))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"| {name} | failed: {str(error)[:160]} | | | | | | | |", flush=True)
            continue
        flat = [rate for turn in ours for rate in turn]
        by_fma, by_bytes = floor(row, peak)
        record = {"row": name, "perigee": flat, "floor_fma": by_fma, "floor_bytes": by_bytes, "foreign": foreign}
        cells = [name, spread(flat), "", "", "", "", f"{by_fma:,.0f}, {by_bytes:,.0f}", f"{100 * statistics.median(flat) / by_fma:.0f} %",
                 f"{foreign:.2f}"]
        if torches:
            theirs = by_torch[best]
            ratios = [statistics.median(a) / statistics.median(b) for a, b in zip(ours, theirs)]
            cells[2:5] = [spread([r for t in theirs for r in t]), f"{best.version} {best.settings[row]}", spread(ratios, "{:.2f}")]
            bar = BARS.get(row)
            if bar:
                cells[5] = f"{bar} {'met' if statistics.median(ratios) >= bar else 'MISSED'}"
            record |= {"torch": [r for t in theirs for r in t], "version": best.version, "setting": best.settings[row], "ratios": ratios}
        records.append(record)
        print("| " + " | ".join(cells) + " |", flush=True)
    return records


# ---- start-up, memory, size, allocations ----


def best_wall(command, tries, env=None):
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        done = run(command, env=env)
        times.append(1000 * (time.perf_counter() - start))
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
    return times


def data_environment():
    folder = os.environ.get("PERIGEE_DATA") or str(ROOT.parent / "shared" / "data")
    return {"PERIGEE_DATA": folder} if os.path.isdir(folder) else {}


def time_to_first_step(env):
    """Milliseconds from exec to the first `step` event of LeNet."""
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        process = subprocess.Popen([PROGRAM, "train", ROOT / "models" / "lenet.lua", "--steps", "1", "--log", "json", "--out", out],
                                   env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        elapsed = None
        for line in process.stdout:
            if elapsed is None and '"step"' in line:
                elapsed = 1000 * (time.perf_counter() - start)
        process.wait()
        return elapsed if elapsed is not None else float("nan")


def bench_start(torches, args):
    tries = 5 if args.quick else 20
    print("| start-up | Perigee ms | PyTorch ms | bar |\n|---|---|---|---|")
    version = best_wall([PROGRAM, "version"], tries)
    imports = [best_wall([t.python, "-c", "import torch"], 3, torch_environment(1)) for t in torches]
    theirs = spread(min(imports, key=statistics.median), "{:.0f}") + " (import torch)" if imports else ""
    print(f"| process `perigee version` | {spread(version, '{:.1f}')} | {theirs} | under 10 |", flush=True)
    env = data_environment()
    with tempfile.TemporaryDirectory() as cache:
        cold = time_to_first_step({**env, "XDG_CACHE_HOME": cache})
        warm = [time_to_first_step({**env, "XDG_CACHE_HOME": cache}) for _ in range(max(tries // 4, 3))]
    print(f"| start to first step of LeNet, caches warm | {spread(warm, '{:.0f}')} | | under 300 |")
    print(f"| the same, cold | {cold:.0f} | | tuning at most 2000 |", flush=True)


def peak_memory(command, env):
    process = subprocess.Popen([str(c) for c in command], env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}")
    return usage.ru_maxrss / 1024


def bench_memory(torches, args):
    print("| peak memory | MB | bar |\n|---|---|---|")
    env = data_environment()
    with tempfile.TemporaryDirectory() as out:
        peak = peak_memory([PROGRAM, "train", ROOT / "models" / "lenet.lua", "--epochs", "1", "--log", "json", "--out", out], env)
    data = MNIST_BYTES / 2**20 if env else 0
    print(f"| LeNet training, one epoch, without the data set ({data:.0f} MB) | {peak - data:.0f} | under 100 |")
    for torch in torches:
        result = torch.measure(("lenet", 32, 1), args)
        print(f"| PyTorch {torch.version}, LeNet training without data set | {result['peak_mb'] - 4096 * 784 * 4 / 2**20:.0f} | |", flush=True)


BASE_PACKAGES = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libzstd1", "liblzma5", "libssl3", "libgomp1"}


def bench_size(args):
    print("| installed | MB | bar |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        done = run(["meson", "install", "-C", BUILD, "--destdir", folder, "--no-rebuild", "--quiet", "--strip"])
        if done.returncode:
            raise RuntimeError(done.stderr[-300:] + done.stdout[-300:])
        files = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and not p.is_symlink()]
        own = sum(p.stat().st_size for p in files)
        needed = [path for path in files if path.open("rb").read(4) == b"\x7fELF"]
        loader = {line.split()[0]: line.split("=>")[-1].strip() for line in run(["/sbin/ldconfig", "-p"]).stdout.splitlines() if "x86-64" in line}
        for folder_name in ("kernels", "src", "cluster", "lua"):  # what is loaded on first use: lists of names, tried in turn
            for source in (ROOT / folder_name).rglob("*.cpp"):
                for line in source.read_text().splitlines():
                    found = [loader[name] for name in re.findall(r'"(lib[\w+.-]+\.so(?:\.\d+)*)"', line) if name in loader]
                    needed += found[:1]
        libraries = {}
        for path in needed:
            targets = [line.split("=>")[-1].split("(")[0].strip() for line in run(["ldd", path]).stdout.splitlines()]
            for target in [str(path), *targets]:
                if target.startswith("/") and not target.startswith(folder):
                    real = os.path.realpath(target)
                    libraries[real] = os.path.getsize(real)
    owners = {}
    for real in libraries:
        found = run(["dpkg", "-S", real]).stdout or run(["dpkg", "-S", real.removeprefix("/usr")]).stdout
        if found:  # else it came with CUDA, not with apt
            owners[real] = found.split(":")[0]
    apt = {real: owner for real, owner in owners.items() if owner not in BASE_PACKAGES}
    added = sum(libraries[real] for real in apt)
    print(f"| program, library, modules, headers, Lua files | {own / 1e6:.1f} | under 12 |")
    print(f"| with the libraries that apt adds ({', '.join(sorted(set(apt.values())))}) "
          f"| {(own + added) / 1e6:.1f} | under 80 |", flush=True)


def count_allocations(job, steps, threads, folder):
    counts = folder / f"counts-{steps}"
    done = run([BUILD / "tests" / "bench" / "train_bench", job, "--batch", 64, "--threads", threads, "--steps", steps],
               env={"LD_PRELOAD": str(BUILD / "tests" / "bench" / "libcount_allocations.so"), "PERIGEE_ALLOCATIONS": str(counts)})
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])
    result = {}
    for line in counts.read_text().splitlines():
        number, path = line.split(" ", 1)
        result[os.path.basename(path)] = int(number)
    return result


def bench_allocations(args):
    print("| heap allocations per training step | by our code | by libraries | bar |\n|---|---|---|---|")
    jobs = Jobs()
    for model in ("lenet", "mlp", "resnet20"):
        job = jobs.path(model)
        counted = 40 if model == "resnet20" else 200
        for threads in (1, 2):
            count_allocations(job, 1, threads, jobs.folder)  # fills the tuning table
            few, many = (count_allocations(job, steps, threads, jobs.folder) for steps in (counted // 2, counted // 2 + counted))
            delta = {name: (many.get(name, 0) - few.get(name, 0)) / counted for name in many}
            ours = sum(value for name, value in delta.items() if name in ("program", "train_bench") or name.startswith("libperigee"))
            others = ", ".join(f"{name} {value:.2f}" for name, value in delta.items() if value and name not in ("program", "train_bench"))
            print(f"| {model}, {threads} threads | {ours:.2f} | {others or '0'} | 0 |", flush=True)


def measure_peak():
    done = run([BUILD / "tests" / "bench" / "peak"])
    return last_json(done.stdout)


EXTRA = ["start", "memory", "size", "allocations", "latency", "tensors"]


def main():
    parser = argparse.ArgumentParser(prog="perigee bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="one turn of short repeats; for a look, not for the record")
    parser.add_argument("--turns", type=int, help="how often Perigee and PyTorch take turns (3)")
    parser.add_argument("--repeats", type=int, help="timed repeats a turn (5)")
    parser.add_argument("--seconds", type=float, help="length of a repeat (0.5; resnet20 takes at least that)")
    parser.add_argument("--no-torch", action="store_true", help="Perigee alone")
    parser.add_argument("--install-torch", action="store_true", help="put PyPI's PyTorch into build/torch first")
    parser.add_argument("--compile", action="store_true", help="let PyTorch try torch.compile too")
    parser.add_argument("--cpu-time", action="store_true", help="rows with one thread by CPU time")
    parser.add_argument("--tries", type=int, default=3, help="how often a disturbed sample is taken again (3)")
    parser.add_argument("--json", metavar="FILE", help="write every number there too")
    results.add_option(parser)
    args = parser.parse_args()
    args.turns = args.turns or (1 if args.quick else 3)
    args.repeats = args.repeats or (3 if args.quick else 5)
    args.seconds = args.seconds or (0.25 if args.quick else 0.5)

    names = {"/".join(map(str, row)): row for row in ROWS}
    chosen = [row for name, row in names.items() if not args.rows or any(name == r or name.startswith(r + "/") for r in args.rows)]
    extra = [e for e in EXTRA if not args.rows or e in args.rows]
    if args.rows and not chosen and not extra:
        parser.error(f"no such row; the rows are {', '.join([*names, *EXTRA])}")
    chosen = [row for row in chosen if row[2] <= (os.cpu_count() or 1)]
    report = results.Report(args.results, "./perigee bench")
    report.check(*(["bench.py training"] if chosen else []), *(f"bench.py {name}" for name in extra))

    if args.install_torch:
        install_torch()
    torches = [] if args.no_torch else find_torch()
    if not torches and not args.no_torch:
        print("no interpreter with PyTorch was found; --install-torch gets it", file=sys.stderr)
    peak = measure_peak()
    model_name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"{model_name}, {os.cpu_count()} cores, {peak['isa']}; FMA peak {peak['gflops_1']:.0f} / "
          f"{peak.get('gflops_2', 0):.0f} GFLOP/s, copy {peak['gbytes_1']:.0f} / {peak.get('gbytes_2', 0):.0f} GB/s on 1 / 2 cores; "
          f"load {os.getloadavg()[0]:.1f}; {'CPU time for one thread, ' if args.cpu_time else ''}wall clock; median [min-max]; {args.turns} turns of {args.repeats} repeats of {args.seconds} s\n", flush=True)
    records = []
    if chosen:
        with report.section("bench.py training"):
            records = bench_training(chosen, torches, peak, args)
    for name, function in (("start", lambda: bench_start(torches, args)), ("memory", lambda: bench_memory(torches, args)),
                           ("size", lambda: bench_size(args)), ("allocations", lambda: bench_allocations(args)),
                           ("latency", lambda: latency.bench(sys.modules[__name__], torches, peak, args)),
                           ("tensors", lambda: tensors.bench(sys.modules[__name__], torches, args))):
        if name in extra:
            print()
            try:
                with report.section(f"bench.py {name}"):
                    function()
            except (RuntimeError, OSError) as error:
                print(f"| {name} failed: {str(error)[:300]} |", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"peak": peak, "rows": records}, indent=1))


if __name__ == "__main__":
    main()
