#!/usr/bin/env python3
"""Training speed on GPU 0 beside PyTorch's, in turns: tests/gpu/run.sh --bench runs it.

Writes OUT/bench.txt (a table) and OUT/bench.json (every sample), and prints each row as soon as it is there. A row's rate is the median
of its turns; PyTorch's best is the fastest of the settings that work on this machine (peer.py). Both have the same network, batch,
precision, optimiser and data, which lie on the device. float32 rows are float32 on both sides: PyTorch may use tf32 only in the row that
says so, where we do too. What could not be measured says so and why. "floor" is the least time that a step can take here: the bytes that
it has to move over the measured copy bandwidth, or its operations over the device's rate from the data sheet.

--rehearse makes everything small and lets PyTorch compute on the CPU where there is no GPU: it proves the script, its rates mean nothing.
"""
import argparse
import json
import os
import select
import statistics
import struct
import subprocess
import sys
import time

TURNS = 3
REHEARSAL = False
EXAMPLES = 32768  # of data sets of small images: many steps an epoch
# operations a second: bf16 and tf32 on tensor cores without sparsity, float32 without them (data sheets of the SXM modules)
RATES = {"H100": {"bf16": 989e12, "tf32": 494e12, "float32": 67e12}, "H200": {"bf16": 989e12, "tf32": 494e12, "float32": 67e12},
         "A100": {"bf16": 312e12, "tf32": 156e12, "float32": 19.5e12}, "B200": {"bf16": 2250e12, "tf32": 1100e12, "float32": 75e12}}


def conv(out, kernel, **options):
    return {"type": "conv2d", "out": out, "kernel": kernel, **options}


STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # of ResNet-50: width, blocks
CLASSES = 1000


def resnet50(stages=STAGES):
    """He et al. 2016 with the stride in the 3x3 convolution, as torchvision has it."""
    def norm(activation=None):
        return {"type": "batchnorm", **({"activation": activation} if activation else {})}

    layers = [conv(stages[0][0], 7, stride=2, padding=3, bias=False), norm("relu"), {"type": "maxpool", "kernel": 3, "stride": 2, "padding": 1}]
    for stage, (width, blocks) in enumerate(stages):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = [conv(width, 1, bias=False), norm("relu"), conv(width, 3, stride=stride, padding=1, bias=False), norm("relu"),
                     conv(4 * width, 1, bias=False), norm()]
            shortcut = {"shortcut": {"type": "sequential", "layers": [conv(4 * width, 1, stride=stride, bias=False), norm()]}}
            layers.append({"type": "residual", "layers": inner, "activation": "relu", **(shortcut if block == 0 else {})})
    return layers + [{"type": "global_pool", "kind": "average"}, {"type": "dense", "out": CLASSES}]


POOL = {"type": "maxpool", "kernel": 2}
ADAMW = {"type": "adamw", "lr": 0.002, "weight_decay": 0.0005}
SGD = {"type": "sgd", "lr": 0.01, "momentum": 0.9}
LENET = [conv(20, 5, activation="relu"), POOL, conv(50, 5, stride=2, activation="relu"), POOL,
         {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}]
MLP = [{"type": "flatten"}, {"type": "dense", "out": 500, "activation": "relu"}, {"type": "dense", "out": 500, "activation": "relu"},
       {"type": "dense", "out": 10}]
LENET_MACS = 20 * 24 * 24 * 25 + 50 * 4 * 4 * 500 + 200 * 200 + 2000
MLP_MACS = 784 * 500 + 500 * 500 + 5000

# name: layers, optimiser, shape, classes, batch, precision, parameters, multiply-adds forward, bytes an optimiser moves per parameter,
#       bars (times eager, times best)
ROWS = {
    "LeNet 32": (LENET, ADAMW, (1, 28, 28), 10, 32, "float32", 67780, LENET_MACS, 28, (8.0, 1.5)),
    "LeNet 1024": (LENET, ADAMW, (1, 28, 28), 10, 1024, "float32", 67780, LENET_MACS, 28, (None, 1.5)),
    "MLP 784-500-500-10, 128": (MLP, ADAMW, (1, 28, 28), 10, 128, "float32", 648010, MLP_MACS, 28, (5.0, None)),
    "ResNet-50 bf16 NHWC, 128": (resnet50(), SGD, (3, 224, 224), CLASSES, 128, "bf16", 25557032, 4.089e9, 20, (None, 1.05)),
    # The last, for it has no bar.
    "LeNet 1024 tf32": (LENET, ADAMW, (1, 28, 28), 10, 1024, "tf32", 67780, LENET_MACS, 28, (None, None)),
}
SETTINGS = ("eager", "graph", "compile", "compile graph", "tuned graph")  # of PyTorch: peer.py


def rehearse():
    """The same rows, small: what is proved is that they run."""
    global REHEARSAL, TURNS, EXAMPLES, STAGES
    REHEARSAL, TURNS, EXAMPLES, STAGES = True, 1, 64, ((4, 1), (8, 2))
    for name, row in ROWS.items():
        layers, optimizer, shape, classes, batch, *rest = row
        if "ResNet" in name:
            layers, shape, classes = resnet50(STAGES), (3, 32, 32), 10
            layers[-1] = {"type": "dense", "out": 10}
        ROWS[name] = (layers, optimizer, shape, classes, min(batch, 4), *rest)


def examples_of(name):
    """Of the data set, which lies on the device."""
    _, _, shape, _, batch, *_ = ROWS[name]
    return EXAMPLES if shape[1] < 100 else 4 * batch


def settings_of(name):
    return [setting for setting in SETTINGS if not ("tuned" in setting and "ResNet" in name)]


def plain(text):
    return "".join(c if c.isalnum() else "_" for c in text)


# ---- Perigee ----

def write_npy(path, dtype, shape, chunks):
    """dtype as NumPy spells it; no NumPy is needed."""
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for chunk in chunks:
            file.write(chunk)


def make_job(name, folder):
    layers, optimizer, shape, classes, batch, precision, *_ = ROWS[name]
    stem = os.path.join(folder, plain(name))
    examples = examples_of(name)
    numbers = shape[0] * shape[1] * shape[2]
    # Any numbers will do, as long as they are not all alike.
    one = struct.pack(f"<{numbers}f", *((i * 2654435761 % 1000) / 500 - 1 for i in range(numbers)))
    turns = (4 * (k % numbers) for k in range(examples))
    write_npy(stem + "_x.npy", "<f4", (examples, *shape), (one[at:] + one[:at] for at in turns))
    write_npy(stem + "_y.npy", "<i8", (examples,), [struct.pack(f"<{examples}q", *(k % classes for k in range(examples)))])
    job = {"network": {"type": "sequential", "layers": layers}, "loss": "cross_entropy", "optimizer": optimizer, "epochs": 1000000, "seed": 1,
           "data": {"train": {"type": "npy", "x": stem + "_x.npy", "y": stem + "_y.npy", "classes": classes}, "batch": batch}}
    if precision != "float32":
        job["precision"] = precision
    with open(stem + ".json", "w") as file:
        json.dump(job, file)
    return stem + ".json"


COUNTERS = {}  # of each row: what train_bench counted on the device in a step, where it counts


def own_environment():
    """Of our programs: the libraries that came with them are not for anybody else's."""
    folder = os.environ.get("PERIGEE_GPU_LIBRARIES")
    return {**os.environ, "LD_LIBRARY_PATH": folder} if folder else None


def perigee(program, job, seconds, name, limit_s):
    """images/s; RuntimeError says why not."""
    done = subprocess.run([program, job, "--device", "cuda:0", "--repeats", "1", "--seconds", str(seconds)], capture_output=True, text=True,
                          timeout=limit_s, env=own_environment())
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    result = json.loads(done.stdout)
    if "per_step" in result:
        COUNTERS[name] = result["per_step"]
    return result["images_per_s"][0]


# ---- PyTorch ----

class PeerProcess:
    """peer.py in a process of its own. RuntimeError says why it gives no answer; then it is gone."""

    def __init__(self, name, setting, out):
        self.said = b""
        self.log = os.path.join(out, f"peer_{plain(name)}_{plain(setting)}.txt")
        arguments = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py"), name, setting]
        environment = dict(os.environ)
        if "ResNet" not in name:  # many of them compile at once, each with workers of its own
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
        if "tuned" in setting:  # takes longest and is not waited for
            arguments = ["nice", "-n", "10"] + arguments
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(arguments + ["--rehearse"] * REHEARSAL, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, bufsize=0, env=environment)

    def send(self, command):
        try:
            self.process.stdin.write(f"{command}\n".encode())
        except OSError:
            pass  # it has ended: answer() says why

    def answer(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\n" not in self.said:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.end(f"no answer within {limit_s:.0f} s")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                with open(self.log, errors="replace") as log:
                    self.end(([line.strip() for line in log if line.strip()] or ["it ended"])[-1])
            self.said += got
        line, _, self.said = self.said.partition(b"\n")
        reply = json.loads(line)
        if "failed" in reply:
            self.end(reply["failed"])
        return reply

    def end(self, why):
        self.close()
        raise RuntimeError(why)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def rate(self, seconds):
        """images/s"""
        self.send(seconds)
        return self.answer(20 + 3 * seconds)["rate"]


def compile_all(args):
    """Fills the compilers' caches, all of them at once: nothing is measured meanwhile, and a row's own compilation is short after that."""
    start = time.monotonic()
    peers = {(name, setting): PeerProcess(name, setting, args.out) for name in ROWS for setting in settings_of(name)
             if setting not in ("eager", "graph")}
    for peer in peers.values():
        peer.send("prepare")
    for (name, setting), peer in peers.items():
        try:
            peer.answer(max(1.0, args.seconds - (time.monotonic() - start)))
            print(f"{name}, {setting}: compiled", flush=True)
            peer.close()
        except (RuntimeError, ValueError) as error:
            print(f"{name}, {setting}: {error}", flush=True)


# ---- the table ----

def measure(name, args, peers, end, prepared_by, samples):
    """({setting: why it has no rate}, PyTorch's versions); samples get {"perigee": [...], "eager": [...], ...}."""
    reasons, versions = {}, ""
    turn = 0.05 if REHEARSAL else 1.0 if "ResNet" in name else 0.7
    job = make_job(name, args.work)

    def ours(seconds):
        try:
            return perigee(args.program, job, seconds, name, max(20.0, end - time.monotonic()))
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            reasons["perigee"] = str(error)[:200]
            return None

    def ask(setting, answer):
        try:
            return answer(peers[setting])
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            del peers[setting]
            reasons[setting] = str(error)[:200]
            return None

    for peer in peers.values():
        peer.send("prepare")  # compile, warm up, capture
    for setting in list(peers):
        if reply := ask(setting, lambda peer: peer.answer(max(1.0, prepared_by - time.monotonic()))):
            versions = reply["with"]
    ours(turn / 5)  # finds libraries, compiles and tunes, with the GPU to itself
    for _ in range(TURNS):
        if "perigee" not in reasons and (rate := ours(turn)):
            samples.setdefault("perigee", []).append(rate)
        for setting in list(peers):
            if rate := ask(setting, lambda peer: peer.rate(turn)):
                samples.setdefault(setting, []).append(rate)
    for peer in peers.values():
        peer.close()
    return reasons, versions


def floor_of(name, device, copy_gb_s):
    """(images/s that nothing on this GPU can beat, why)"""
    _, _, _, _, batch, precision, parameters, macs, per_parameter, _ = ROWS[name]
    rates = next((r for key, r in RATES.items() if key in device), None)
    times = []
    if rates:
        times.append((6 * macs * batch / rates[precision], "operations"))
    if copy_gb_s:
        times.append((parameters * per_parameter / (copy_gb_s * 1e9), "bytes"))
    if not times:
        return None, ""
    seconds, why = max(times)
    return batch / seconds, why


def judged(ratio, bar):
    """A ratio beside its bar. A rehearsal reaches none and fails none."""
    if not ratio:
        return f"not measured (bar {bar:g})" if bar else "not measured"
    if bar is None or REHEARSAL:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (bar {bar:g}) {'PASS' if ratio >= bar else 'FAIL'}"


def kernels(args, say):
    """Bandwidths of our own kernels; the copy's in GB/s."""
    small = ["--elements", "5000"] if REHEARSAL else []
    try:
        done = subprocess.run([args.kernels, *small], capture_output=True, text=True, timeout=60, env=own_environment())
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
        result = json.loads(done.stdout)
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        say(f"| kernels alone | FAIL | {str(error)[:200]} |")
        return None, ""
    copy = result["copy_gb_s"]
    say(f"copy bandwidth {copy:.0f} GB/s on {result['device']}")
    for key, what, bar in (("adam_gb_s", "Adam over 100 M parameters", 0.85), ("threshold_gb_s", "threshold encode of 100 M", 0.60)):
        say(f"| {what} | {result[key]:.0f} GB/s | {judged(result[key] / copy, bar)} of copy bandwidth |")
    return copy, result["device"]


def row_text(name, samples, device, copy):
    middle = {mode: statistics.median(rates) for mode, rates in samples.items() if rates}
    ours, eager = middle.pop("perigee", None), middle.get("eager")
    best = max(middle, key=middle.get, default=None)
    floor, why = floor_of(name, device, copy)

    def rate(value):
        return f"{value:.0f}" if value else "not measured"

    return (f"| {name} | {rate(ours)} | {rate(eager)} | {rate(middle.get(best))} ({best or '-'}) | "
            f"{judged(ours and eager and ours / eager, ROWS[name][-1][0])} | {judged(ours and best and ours / middle[best], ROWS[name][-1][1])} | "
            f"{rate(floor)} {why} |")


def counted(name):
    """What the real runtime counted: bars of 0 and 0."""
    if name not in COUNTERS:
        return f"    {name}: launches outside the graph and waits of the host were not measured"
    values = COUNTERS[name]
    right = values["launches"] == 0 and values["host_waits"] == 0
    return (f"    {name}, a step: " + ", ".join(f"{key} {value:g}" for key, value in values.items()) +
            f"; launches and host_waits outside the graph (bar 0 and 0) {'PASS' if right else 'FAIL'} ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="train_bench")
    parser.add_argument("--kernels", help="gpu_kernel_bench")
    parser.add_argument("--out", required=True, help="folder of bench.txt and bench.json")
    parser.add_argument("--work", required=True, help="folder of data sets")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--compile", action="store_true", help="only have PyTorch compile what it will run")
    args = parser.parse_args()
    if args.rehearse:
        rehearse()
    if args.compile:
        compile_all(args)
        return 0
    end = time.monotonic() + args.seconds
    lines, everything = [], {}

    def say(text):
        """Printed at once: whoever ends this early has what was measured until then."""
        lines.append(text)
        print(text, flush=True)
        with open(os.path.join(args.out, "bench.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")

    # All are there from the beginning, for it takes seconds to import PyTorch; they ask for nothing of the GPU before they are told to.
    peers = {name: {setting: PeerProcess(name, setting, args.out) for setting in settings_of(name)} for name in ROWS}
    copy, device = kernels(args, say)
    say("| network, batch | Perigee images/s | PyTorch eager | its best (setting) | times eager | times best | floor images/s |")
    say("|---|---|---|---|---|---|---|")
    weights = {name: 3 if "ResNet" in name else 1 for name in ROWS}
    told = ""
    for number, name in enumerate(ROWS):
        left = end - time.monotonic()
        if left < 15:
            say(f"| {name} | not measured: no time was left |")
            continue
        samples = {}
        share = weights[name] / sum(list(weights.values())[number:])
        reasons, versions = measure(name, args, peers[name], end, time.monotonic() + 0.55 * left * share, samples)
        everything[name] = {"samples": samples, "reasons": reasons, "counters": COUNTERS.get(name), "with": versions}
        say(row_text(name, samples, device, copy))
        say(counted(name))
        for setting, reason in reasons.items():
            say(f"    {name}, {setting}: {reason}")
        if versions and not told:
            say(f"    {versions}")
            told = versions
        with open(os.path.join(args.out, "bench.json"), "w") as file:
            json.dump(everything, file, indent=1)
    for rest in peers.values():
        for peer in rest.values():
            if peer.process.poll() is None:
                peer.close()
    text = "\n".join(lines)
    print(f"bars met {text.count(' PASS')}, missed {text.count(' FAIL')}, not measured {text.count('not measured (bar')}")
    return 1 if any("perigee" not in row["samples"] and name != "LeNet 1024 tf32" for name, row in everything.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
