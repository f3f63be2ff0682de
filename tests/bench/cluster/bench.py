#!/usr/bin/env python3
"""Measures all-reduce beside Open MPI and PyTorch's Gloo, in turns on this machine: `./perigee bench cluster [--quick] [--turns N]`.

Every contender adds up float32 blocks of 1, 16 and 64 MB between 2 and 4 processes, exchanges one after the other, and tells the
slowest rank's time per exchange. In each turn all contenders run one after the other; a ratio is taken turn by turn, so that what else
the machine does strikes both, and the median of the turns is shown with the least and the greatest.

floor      what two processes need that only write and read as many bytes over one loopback connection as the exchange has to move
bars       TCP at least 1.0 x Open MPI over TCP and 1.5 x Gloo; TLS at least 0.85 of 1/(1/plain + 2/aead), aead by `openssl speed`;
           shared memory at least 1.0 x Open MPI's
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import results  # noqa: E402
ROOT = HERE.parents[2]
BUILD = ROOT / "build"
OURS = BUILD / "tests" / "bench" / "cluster" / "allreduce_bench"
FLOOR = BUILD / "tests" / "bench" / "cluster" / "floor"
MB = 1 << 20
SIZES = [1 * MB, 16 * MB, 64 * MB]
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TIMEOUT_S = 300


def lines(text):
    """{bytes: seconds, ("cpu", bytes): CPU seconds} of "FLOATS TIMES SECONDS [CPU_SECONDS]" lines."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 3 and parts[0].isdigit():
            found[int(parts[0]) * 4] = float(parts[2])
            if len(parts) == 4:
                found["cpu", int(parts[0]) * 4] = float(parts[3])
    return found


def run_ranks(commands):
    """Starts one process per rank; what rank 0 prints. {} when one fails."""
    processes = [subprocess.Popen(c, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for rank, c in enumerate(commands)]
    try:
        text = processes[0].communicate(timeout=TIMEOUT_S)[0]
        problems = [p.communicate(timeout=60)[1] for p in processes[1:]]
    except subprocess.TimeoutExpired:
        text, problems = "", ["it took too long"]
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    if any(p.returncode for p in processes):
        print(f"{commands[0][0]}: {' '.join(filter(None, problems)).strip()[-300:]}", file=sys.stderr)
        return {}
    return lines(text)


class Contenders:
    def __init__(self, args, folder):
        self.seconds = str(args.seconds)
        self.floats = [str(size // 4) for size in SIZES]
        self.folder = folder
        self.mpi = self.build_mpi()
        self.torch = find_torch()

    def build_mpi(self):
        if not shutil.which("mpicxx") or not shutil.which("mpirun"):
            return None
        program = self.folder / "allreduce_mpi"
        subprocess.run(["mpicxx", "-O2", "-o", program, HERE / "allreduce_mpi.cpp"], check=True)
        return program

    def ours(self, size, mode):
        with tempfile.TemporaryDirectory() as meeting:
            return run_ranks([[OURS, str(rank), str(size), meeting, mode, "auto", self.seconds, *self.floats] for rank in range(size)])

    def open_mpi(self, size, transport):
        if not self.mpi:
            return {}
        command = ["mpirun", "-n", str(size), "--oversubscribe", "--mca", "btl", f"{transport},self", self.mpi, self.seconds, *self.floats]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **MPI_ENV}, timeout=TIMEOUT_S)
        if done.returncode:
            print(f"mpirun: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return lines(done.stdout) if done.returncode == 0 else {}

    def gloo(self, size):
        if not self.torch:
            return {}
        with tempfile.TemporaryDirectory() as meeting:
            return run_ranks([[self.torch, HERE / "allreduce_gloo.py", str(rank), str(size), f"{meeting}/file", self.seconds, *self.floats] for rank in range(size)])

    def turn(self, size):
        return {"plain": self.ours(size, "plain"), "mpi tcp": self.open_mpi(size, "tcp"), "gloo": self.gloo(size),
                "tls": self.ours(size, "tls"), "shared": self.ours(size, "shared"), "mpi shared": self.open_mpi(size, "vader")}


def find_torch():
    tried = [*filter(None, os.environ.get("PERIGEE_TORCH_PYTHON", "").split(":")), str(BUILD / "torch" / "bin" / "python"), "python3"]
    for python in tried:
        if shutil.which(python) and subprocess.run([python, "-c", "import torch.distributed"], capture_output=True).returncode == 0:
            return python
    print("no interpreter with PyTorch was found; PERIGEE_TORCH_PYTHON names one", file=sys.stderr)
    return None


def floor():
    """({bytes: seconds} of the bare socket, bytes a second of a copy in memory, of AES-128-GCM)."""
    text = subprocess.run([FLOOR, *map(str, SIZES)], capture_output=True, text=True, check=True).stdout
    tcp = {int(b): float(s) for kind, b, s in map(str.split, text.splitlines()) if kind == "tcp"}
    copies = [int(b) / float(s) for kind, b, s in map(str.split, text.splitlines()) if kind == "copy"]
    aead = 0.0
    if shutil.which("openssl"):
        speed = subprocess.run(["openssl", "speed", "-seconds", "1", "-bytes", "16384", "-evp", "aes-128-gcm"], capture_output=True, text=True)
        found = re.findall(r"([\d.]+)k\s*$", speed.stdout, re.M)
        aead = float(found[-1]) * 1000 if found else 0.0
    return tcp, copies[-1], aead


def spread(values, form="{:.2f}"):
    if not values:
        return "-"
    text = form.format(statistics.median(values))
    return text if len(values) == 1 else f"{text} [{form.format(min(values))}-{form.format(max(values))}]"


def ratio(turns, ours, theirs, size):
    return [t[theirs][size] / t[ours][size] for t in turns if size in t[ours] and size in t[theirs]]


def cpu_table(turns, processes, aead):
    """What is left true by a machine that does other work. Open MPI polls: its CPU time is its waiting time."""
    print("\nCPU milliseconds an exchange, of rank 0\n")
    print("| MB | TCP | Gloo | TLS | shared | x Gloo | TLS of allowed |")
    print("|---|---|---|---|---|---|---|")
    for size in SIZES:
        cpu = {name: [t[name]["cpu", size] for t in turns if ("cpu", size) in t[name]] for name in ("plain", "gloo", "tls", "shared")}
        times = {name: spread([1e3 * v for v in values]) for name, values in cpu.items()}
        moved = 2 * (processes - 1) / processes * size
        gloo = [theirs / ours for theirs, ours in zip(cpu["gloo"], cpu["plain"])]
        allowed = [(plain + 2 * moved / aead) / tls for plain, tls in zip(cpu["plain"], cpu["tls"])] if aead else []
        print(f"| {size // MB} | {times['plain']} | {times['gloo']} | {times['tls']} | {times['shared']} | {spread(gloo)} | {spread(allowed)} |", flush=True)


def encrypted_share(turns, size, moved, aead):
    """Of what 1/(1/plain + 2/aead) allows, in bytes that a process sends a second."""
    shares = []
    for turn in turns:
        if size in turn["tls"] and size in turn["plain"] and aead:
            allowed = turn["plain"][size] + 2 * moved / aead
            shares.append(allowed / turn["tls"][size])
    return shares


def table(processes, turns, floors):
    tcp, copy, aead = floors
    print(f"\n{processes} processes; milliseconds an exchange\n")
    print("| MB | floor TCP | TCP | Open MPI TCP | Gloo | TLS | shared | Open MPI shared | x Open MPI TCP (1.0) | x Gloo (1.5) | TLS of allowed (0.85) | shared x Open MPI (1.0) |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        moved = 2 * (processes - 1) / processes * size
        times = {name: spread([1e3 * t[name][size] for t in turns if size in t[name]], "{:.2f}") for name in turns[0]}
        bare = f"{1e3 * tcp[size] * moved / size:.2f}" if processes == 2 else "-"
        print(f"| {size // MB} | {bare} | {times['plain']} | {times['mpi tcp']} | {times['gloo']} | {times['tls']} | {times['shared']} | {times['mpi shared']} | "
              f"{spread(ratio(turns, 'plain', 'mpi tcp', size))} | {spread(ratio(turns, 'plain', 'gloo', size))} | "
              f"{spread(encrypted_share(turns, size, moved, aead))} | {spread(ratio(turns, 'shared', 'mpi shared', size))} |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="perigee bench cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short turn; for a look, not for the record")
    parser.add_argument("--turns", type=int, help="how often the contenders take turns (5)")
    parser.add_argument("--seconds", type=float, help="of each size in each turn (0.5)")
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--json", metavar="FILE", help="write every number there too")
    results.add_option(parser)
    args = parser.parse_args()
    report = results.Report(args.results, "./perigee bench cluster")
    report.check("cluster/bench.py")
    args.turns = args.turns or (1 if args.quick else 5)
    args.seconds = args.seconds or (0.2 if args.quick else 0.5)

    with report.section("cluster/bench.py"):
        measure(args)


def measure(args):
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    floors = floor()
    print(f"{model}, {os.cpu_count()} cores; copy {floors[1] / 1e9:.1f} GB/s in each of two processes, AES-128-GCM {floors[2] / 1e9:.1f} GB/s; "
          f"load {os.getloadavg()[0]:.1f}; {args.turns} turns; median [min-max]", flush=True)
    record = {"model": model, "floor": floors, "turns": {}}
    with tempfile.TemporaryDirectory() as folder:
        contenders = Contenders(args, pathlib.Path(folder))
        for processes in args.processes:
            turns = [contenders.turn(processes) for _ in range(args.turns)]
            record["turns"][processes] = turns
            table(processes, turns, floors)
            cpu_table(turns, processes, floors[2])
    if args.json:
        plain = {p: [{name: {str(k): v for k, v in times.items()} for name, times in turn.items()} for turn in turns] for p, turns in record["turns"].items()}
        pathlib.Path(args.json).write_text(json.dumps({**record, "turns": plain}, indent=1))


if __name__ == "__main__":
    main()
