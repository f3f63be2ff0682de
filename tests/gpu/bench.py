#!/usr/bin/env python3
"""Training speed on GPU 0 beside PyTorch's, in turns: tests/gpu/run.sh --bench runs it.

Writes OUT/bench.txt (a table) and OUT/bench.json (every sample). A row's rate is the median of its turns; PyTorch's best is the fastest
of the settings that work on this machine. Both have the same network, batch, precision, optimiser and data, which lie on the device. float32
rows are float32 on both sides: PyTorch may use tf32 only in the row that says so, where we do too. What could not be measured says so and
why. "floor" is the least time that a step can take here: the bytes that it has to move over the measured copy bandwidth, or its operations
over the device's rate from the data sheet.

--rehearse makes everything small and lets PyTorch compute on the CPU where there is no GPU: it proves the script, its rates mean nothing.
"""
import argparse
import json
import os
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
MODES = ("eager", "graph", "compile")


def rehearse():
    """The same rows, small: what is proved is that they run."""
    global TURNS, EXAMPLES, STAGES
    TURNS, EXAMPLES, STAGES = 1, 64, ((4, 1), (8, 2))
    for name, row in ROWS.items():
        layers, optimizer, shape, classes, batch, *rest = row
        if "ResNet" in name:
            layers, shape, classes = resnet50(STAGES), (3, 32, 32), 10
            layers[-1] = {"type": "dense", "out": 10}
        ROWS[name] = (layers, optimizer, shape, classes, min(batch, 4), *rest)


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
    stem = os.path.join(folder, "".join(c if c.isalnum() else "_" for c in name))
    examples = EXAMPLES if shape[1] < 100 else 4 * batch
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


def perigee(program, job, seconds, name):
    """images/s; RuntimeError says why not."""
    done = subprocess.run([program, job, "--device", "cuda:0", "--repeats", "1", "--seconds", str(seconds)], capture_output=True, text=True, timeout=150)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    result = json.loads(done.stdout)
    if "per_step" in result:
        COUNTERS[name] = result["per_step"]
    return result["images_per_s"][0]


# ---- PyTorch ----

def device_of(torch):
    """cuda; the CPU only in a rehearsal."""
    if torch.cuda.is_available():
        return "cuda"
    if REHEARSAL:
        return "cpu"
    raise RuntimeError("this PyTorch sees no GPU")


class Peer:
    """One network at one setting: eager, graph (the whole step as a CUDA graph), compile (its own CUDA graphs too)."""

    def __init__(self, name, mode):
        import torch
        import torch.nn as nn
        _, optimizer, shape, classes, self.batch, precision, *_ = ROWS[name]
        self.torch, self.mode, self.at, self.device = torch, mode, 0, device_of(torch)
        if mode == "graph" and self.device == "cpu":
            raise RuntimeError("CUDA graphs are for GPUs")
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"  # by default convolutions use it
        examples = EXAMPLES if shape[1] < 100 else 4 * self.batch
        self.x = torch.randn(examples, *shape, device=self.device)
        self.y = torch.randint(0, classes, (examples,), device=self.device)
        self.order = torch.randperm(examples, device=self.device)
        net = {"LeNet": torch_lenet, "MLP": torch_mlp, "ResNet-50": torch_resnet50}[name.split()[0].rstrip(",")](nn, classes).to(self.device)
        half = precision == "bf16"
        if half:
            net = net.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        fused = mode != "eager" or None
        if optimizer is SGD:
            self.optimizer = torch.optim.SGD(net.parameters(), lr=SGD["lr"], momentum=SGD["momentum"], fused=fused)
        else:
            self.optimizer = torch.optim.AdamW(net.parameters(), lr=ADAMW["lr"], weight_decay=ADAMW["weight_decay"], fused=fused,
                                               capturable=mode == "graph")

        def loss(x, y):
            with torch.autocast(self.device, torch.bfloat16, enabled=half):
                return nn.functional.cross_entropy(net(x), y)

        self.loss = torch.compile(loss, mode="reduce-overhead") if mode == "compile" else loss
        if mode == "graph":
            self.capture()

    def whole(self, index):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.x[index], self.y[index]).backward()
        self.optimizer.step()

    def capture(self):
        torch = self.torch
        self.index = self.order[:self.batch].clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.whole(self.index)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.whole(self.index)

    def step(self):
        if self.at + self.batch > len(self.order):
            self.at = 0
        index = self.order[self.at:self.at + self.batch]
        self.at += self.batch
        if self.mode == "graph":
            self.index.copy_(index)
            self.graph.replay()
        else:
            self.whole(index)

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def rate(self, seconds):
        """images/s. Waits for the device about twenty times, not every few steps: that would cost PyTorch most where steps are short."""
        self.wait()
        steps, chunk, start = 0, 1, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            if steps and passed / steps * chunk < seconds / 20:
                chunk *= 2
            for _ in range(chunk):
                self.step()
            self.wait()
            steps += chunk
        return steps * self.batch / (time.perf_counter() - start)


def torch_lenet(nn, classes):
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes))


def torch_mlp(nn, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, classes))


def torch_resnet50(nn, classes):
    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = 4 * width
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)

    inputs = STAGES[0][0]
    layers = [nn.Conv2d(3, inputs, 7, 2, 3, bias=False), nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


# ---- the table ----

def measure(name, args, deadline, samples):
    """{"perigee": [...], "eager": [...], ...} and what did not work."""
    reasons, peers = {}, {}
    turn = 0.05 if REHEARSAL else 1.0
    job = make_job(name, args.out)

    def ours(seconds):
        try:
            return perigee(args.program, job, seconds, name)
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            reasons["perigee"] = str(error)[:200]
            return None

    ours(turn / 5)  # finds libraries, compiles and tunes
    for mode in MODES:
        if time.monotonic() > deadline:
            reasons[mode] = "no time was left"
            continue
        try:
            peers[mode] = Peer(name, mode)
            for _ in range(12):
                peers[mode].step()
            peers[mode].wait()
        except Exception as error:  # no torch, no compiler, an optimiser without `capturable`
            peers.pop(mode, None)
            reasons[mode] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    for _ in range(TURNS):
        if "perigee" not in reasons and (rate := ours(turn)):
            samples.setdefault("perigee", []).append(rate)
        for mode, peer in list(peers.items()):
            try:
                samples.setdefault(mode, []).append(peer.rate(turn))
            except Exception as error:  # of the device, or no memory beside the others
                peers.pop(mode)
                reasons[mode] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return reasons


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


def kernels(args, lines):
    """Bandwidths of our own kernels; the copy's in GB/s."""
    small = ["--elements", "5000"] if REHEARSAL else []
    try:
        done = subprocess.run([args.kernels, *small], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
        result = json.loads(done.stdout)
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        lines.append(f"| kernels alone | FAIL | {str(error)[:200]} |")
        return None, ""
    copy = result["copy_gb_s"]
    lines.append(f"copy bandwidth {copy:.0f} GB/s on {result['device']}")
    for key, what, bar in (("adam_gb_s", "Adam over 100 M parameters", 0.85), ("threshold_gb_s", "threshold encode of 100 M", 0.60)):
        lines.append(f"| {what} | {result[key]:.0f} GB/s | {judged(result[key] / copy, bar)} of copy bandwidth |")
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
    global REHEARSAL
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="train_bench")
    parser.add_argument("--kernels", required=True, help="gpu_kernel_bench")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    REHEARSAL = args.rehearse
    if REHEARSAL:
        rehearse()
    start = time.monotonic()
    lines, everything = [], {}
    copy, device = kernels(args, lines)
    lines.append("| network, batch | Perigee images/s | PyTorch eager | its best (setting) | times eager | times best | floor images/s |")
    lines.append("|---|---|---|---|---|---|---|")
    for number, name in enumerate(ROWS):
        left = args.seconds - (time.monotonic() - start)
        if left < 10:
            lines.append(f"| {name} | not measured: no time was left |")
            continue
        samples = {}
        # A row may take what is left in equal parts, of which settings of PyTorch take most.
        reasons = measure(name, args, time.monotonic() + 0.6 * left / (len(ROWS) - number), samples)
        everything[name] = {"samples": samples, "reasons": reasons, "counters": COUNTERS.get(name)}
        lines.append(row_text(name, samples, device, copy))
        lines.append(counted(name))
        lines.extend(f"    {name}, {mode}: {reason}" for mode, reason in reasons.items())
        with open(os.path.join(args.out, "bench.json"), "w") as file:
            json.dump(everything, file, indent=1)
        with open(os.path.join(args.out, "bench.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
    with open(os.path.join(args.out, "bench.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    text = "\n".join(lines)
    print(f"bars met {text.count(' PASS')}, missed {text.count(' FAIL')}, not measured {text.count('not measured (bar')}")
    return 1 if any("perigee" not in row["samples"] and name != "LeNet 1024 tf32" for name, row in everything.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
