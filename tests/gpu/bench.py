#!/usr/bin/env python3
"""Training speed on GPU 0 beside PyTorch's, in turns: tests/gpu/run.sh --bench runs it.

Writes OUT/bench.txt (a table) and OUT/bench.json (every sample). A row's rate is the median of its turns; PyTorch's best is the fastest
of the settings that work on this machine. What could not be measured says so and why. "floor" is the least time that a step can take here:
the bytes that it has to move over the measured copy bandwidth, or its operations over the tensor cores' rate from the data sheet.
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
EXAMPLES = 32768  # of data sets of small images: many steps an epoch
# operations a second: bf16 and tf32 on tensor cores, without sparsity (data sheets)
RATES = {"H100": (989e12, 494e12), "H200": (989e12, 494e12), "A100": (312e12, 156e12), "B200": (2250e12, 1100e12)}


def conv(out, kernel, **options):
    return {"type": "conv2d", "out": out, "kernel": kernel, **options}


def resnet50():
    """He et al. 2016 with the stride in the 3x3 convolution, as torchvision has it."""
    def norm(activation=None):
        return {"type": "batchnorm", **({"activation": activation} if activation else {})}

    layers = [conv(64, 7, stride=2, padding=3, bias=False), norm("relu"), {"type": "maxpool", "kernel": 3, "stride": 2, "padding": 1}]
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = [conv(width, 1, bias=False), norm("relu"), conv(width, 3, stride=stride, padding=1, bias=False), norm("relu"),
                     conv(4 * width, 1, bias=False), norm()]
            shortcut = {"shortcut": {"type": "sequential", "layers": [conv(4 * width, 1, stride=stride, bias=False), norm()]}}
            layers.append({"type": "residual", "layers": inner, "activation": "relu", **(shortcut if block == 0 else {})})
    return layers + [{"type": "global_pool", "kind": "average"}, {"type": "dense", "out": 1000}]


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
    "ResNet-50 bf16 NHWC, 128": (resnet50(), SGD, (3, 224, 224), 1000, 128, "bf16", 25557032, 4.089e9, 20, (None, 1.05)),
}


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
    stem = os.path.join(folder, name.split()[0].lower() + str(batch))
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


def perigee(program, job, seconds):
    """images/s; RuntimeError says why not."""
    done = subprocess.run([program, job, "--device", "cuda:0", "--repeats", "1", "--seconds", str(seconds)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return json.loads(done.stdout)["images_per_s"][0]


# ---- PyTorch ----

class Peer:
    """One network at one setting: eager, graph (the whole step as a CUDA graph), compile."""

    def __init__(self, name, mode):
        import torch
        import torch.nn as nn
        _, optimizer, shape, classes, self.batch, precision, *_ = ROWS[name]
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = mode != "eager"
        self.torch, self.mode, self.at = torch, mode, 0
        examples = EXAMPLES if shape[1] < 100 else 4 * self.batch
        self.x, self.y = torch.randn(examples, *shape, device="cuda"), torch.randint(0, classes, (examples,), device="cuda")
        self.order = torch.randperm(examples, device="cuda")
        net = {"LeNet": torch_lenet, "MLP": torch_mlp, "ResNet-50": torch_resnet50}[name.split()[0]](nn).cuda()
        last = precision == "bf16"
        if last:
            net = net.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        capturable = mode == "graph"
        if optimizer is SGD:
            self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=mode != "eager" or None)
        else:
            self.optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=5e-4, fused=mode != "eager" or None, capturable=capturable)

        def loss(x, y):
            with torch.autocast("cuda", torch.bfloat16, enabled=last):
                return nn.functional.cross_entropy(net(x), y)

        self.loss = torch.compile(loss, mode="reduce-overhead") if mode == "compile" else loss
        if capturable:
            self.capture()

    def capture(self):
        torch = self.torch
        self.index = self.order[:self.batch].clone()

        def whole():
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.x[self.index], self.y[self.index]).backward()
            self.optimizer.step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                whole()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            whole()

    def step(self):
        if self.at + self.batch > len(self.order):
            self.at = 0
        index = self.order[self.at:self.at + self.batch]
        self.at += self.batch
        if self.mode == "graph":
            self.index.copy_(index)
            self.graph.replay()
            return
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.x[index], self.y[index]).backward()
        self.optimizer.step()

    def rate(self, seconds):
        self.torch.cuda.synchronize()
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                self.step()
            self.torch.cuda.synchronize()
            steps += 10
        return steps * self.batch / (time.perf_counter() - start)


def torch_lenet(nn):
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def torch_mlp(nn):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))


def torch_resnet50(nn):
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

    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


# ---- the table ----

def measure(name, args, deadline, samples):
    """{"perigee": [...], "eager": [...], ...} and what did not work."""
    reasons, peers = {}, {}
    job = make_job(name, args.out)
    try:
        perigee(args.program, job, 0.2)  # finds libraries, compiles and tunes
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        reasons["perigee"] = str(error)[:200]
    for mode in ("eager", "graph", "compile"):
        if time.monotonic() > deadline:
            reasons[mode] = "no time was left"
            continue
        try:
            peers[mode] = Peer(name, mode)
            for _ in range(12):
                peers[mode].step()
        except Exception as error:  # no torch, no compiler, an optimiser without `capturable`
            peers.pop(mode, None)
            reasons[mode] = f"{type(error).__name__}: {str(error)[:160]}"
    for _ in range(TURNS):
        if "perigee" not in reasons:
            try:
                samples.setdefault("perigee", []).append(perigee(args.program, job, 1.0))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                reasons["perigee"] = str(error)[:200]
        for mode, peer in peers.items():
            samples.setdefault(mode, []).append(peer.rate(1.0))
    return reasons


def floor_of(name, device, copy_gb_s):
    """(images/s that nothing on this GPU can beat, why)"""
    _, _, _, _, batch, precision, parameters, macs, per_parameter, _ = ROWS[name]
    rate = next((r for key, r in RATES.items() if key in device), None)
    times = []
    if rate:
        times.append((6 * macs * batch / rate[0 if precision == "bf16" else 1], "operations"))
    if copy_gb_s:
        times.append((parameters * per_parameter / (copy_gb_s * 1e9), "bytes"))
    if not times:
        return None, ""
    seconds, why = max(times)
    return batch / seconds, why


def judged(ratio, bar):
    if bar is None:
        return "-"
    return f"{ratio:.2f} (bar {bar:g}) {'PASS' if ratio >= bar else 'FAIL'}" if ratio else f"not measured (bar {bar:g})"


def kernels(args, lines):
    """Bandwidths of our own kernels; the copy's in GB/s."""
    done = subprocess.run([args.kernels], capture_output=True, text=True, timeout=60)
    if done.returncode:
        lines.append(f"kernels: not measured ({(done.stderr.strip().splitlines() or ['?'])[-1]})")
        return None, ""
    result = json.loads(done.stdout)
    copy = result["copy_gb_s"]
    lines.append(f"copy bandwidth {copy:.0f} GB/s on {result['device']}")
    for key, what, bar in (("adam_gb_s", "Adam over 100 M parameters", 0.85), ("threshold_gb_s", "threshold encode of 100 M", 0.60)):
        lines.append(f"| {what} | {result[key]:.0f} GB/s | {judged(result[key] / copy, bar)} of copy bandwidth |")
    return copy, result["device"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="train_bench")
    parser.add_argument("--kernels", required=True, help="gpu_kernel_bench")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=320)
    args = parser.parse_args()
    start = time.monotonic()
    lines, everything = [], {}
    copy, device = kernels(args, lines)
    lines.append("| network, batch | Perigee images/s | PyTorch eager | its best (setting) | times eager | times best | floor images/s |")
    lines.append("|---|---|---|---|---|---|---|")
    for number, name in enumerate(ROWS):
        left = args.seconds - (time.monotonic() - start)
        samples = {}
        # A row may take what is left in equal parts; ResNet-50, the last, compiles longest.
        reasons = measure(name, args, time.monotonic() + left / (len(ROWS) - number), samples)
        everything[name] = {"samples": samples, "reasons": reasons}
        middle = {mode: statistics.median(rates) for mode, rates in samples.items()}
        ours = middle.pop("perigee", None)
        best = max(middle, key=middle.get, default=None)
        bars = ROWS[name][-1]
        floor, why = floor_of(name, device, copy)

        def rate(value):
            return f"{value:.0f}" if value else "not measured"

        lines.append(f"| {name} | {rate(ours)} | {rate(middle.get('eager'))} | {rate(middle.get(best))} ({best or '-'}) | "
                     f"{judged(ours and middle.get('eager') and ours / middle['eager'], bars[0])} | "
                     f"{judged(ours and best and ours / middle[best], bars[1])} | {rate(floor)} {why} |")
        for mode, reason in reasons.items():
            lines.append(f"    {name}, {mode}: {reason}")
        with open(os.path.join(args.out, "bench.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
        with open(os.path.join(args.out, "bench.json"), "w") as file:
            json.dump(everything, file, indent=1)
    print("\n".join(lines))
    print(f"bench.txt: {sum(' PASS ' in line or line.endswith('PASS |') for line in lines)} bars met")


if __name__ == "__main__":
    sys.exit(main())
