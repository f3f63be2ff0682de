#!/usr/bin/env python3
"""Training speed of PyTorch, the peer that `./perigee bench` compares with.

Run by `bench.py` in whatever interpreter has torch; by hand:

    python3 tests/bench/torch_peer.py --model lenet --batch 64 --threads 1            # tries every setting, then times the best
    python3 tests/bench/torch_peer.py --model lenet --batch 64 --threads 1 --setting 'nchw fused eager'

Prints one JSON object per line: {"setting": …, "images_per_s": [one number a repeat], "peak_mb": …}.
A setting is `layout optimiser mode`: nchw or nhwc (channels_last); single, foreach or fused; eager or compile.
A step is what any training loop must do: gather the batch from an array in memory, forward, loss, backward, update.
Nothing reads the loss back, so PyTorch never waits for it.
"""
import argparse
import itertools
import json
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def convnet():
    """The held-out network: other sizes than LeNet's, so that a kernel made for one network alone does not show."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 36, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(36, 48, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet20():
    layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)], 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        for k in range(3):
            layers.append(Block(inputs, outputs, stride if k == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# model: (builder, input shape of one example, optimiser)
MODELS = {
    "lenet": (lenet, (1, 28, 28), "adamw"),
    "convnet": (convnet, (3, 32, 32), "adamw"),
    "mlp": (mlp, (1, 28, 28), "adam"),
    "mlp_sgd": (mlp, (1, 28, 28), "sgd"),
    "resnet20": (resnet20, (3, 32, 32), "nesterov"),
}


def make_optimizer(kind, parameters, variant):
    flags = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[variant]
    if kind == "adamw":
        return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=5e-4, **flags)
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=1e-3, **flags)
    return torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, nesterov=kind == "nesterov",
                           weight_decay=5e-4 if kind == "nesterov" else 0, **flags)


class Trainer:
    """One network, its optimiser and a data set in memory."""

    def __init__(self, model, batch, setting):
        layout, variant, mode = setting.split()
        build, shape, kind = MODELS[model]
        torch.manual_seed(1)
        examples = max(4096, 8 * batch)
        self.batch, self.at = batch, 0
        self.inputs = torch.randn(examples, *shape)
        self.labels = torch.randint(0, 10, (examples,))
        self.order = torch.randperm(examples)
        net = build()
        if layout == "nhwc":
            net = net.to(memory_format=torch.channels_last)
            self.inputs = self.inputs.contiguous(memory_format=torch.channels_last)
        self.optimizer = make_optimizer(kind, net.parameters(), variant)
        self.net = net
        self.loss = lambda x, y: F.cross_entropy(net(x), y)
        if mode == "compile":
            self.loss = torch.compile(self.loss)

    def step(self):
        if self.at + self.batch > len(self.order):
            self.at = 0
        index = self.order[self.at:self.at + self.batch]
        self.at += self.batch
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.inputs[index], self.labels[index]).backward()
        self.optimizer.step()

    def rate(self, seconds):
        """(images a second of wall time, images a second of CPU time)"""
        steps, start, cpu_start = 0, time.perf_counter(), time.process_time()
        while True:
            for _ in range(4):
                self.step()
            steps += 4
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return steps * self.batch / elapsed, steps * self.batch / (time.process_time() - cpu_start)


def settings(model, compiled):
    two = int(torch.__version__.split(".")[0]) >= 2
    layouts = ["nchw"] if model.startswith("mlp") else ["nchw", "nhwc"]
    variants = ["single", "foreach"] + (["fused"] if two else [])
    modes = ["eager"] + (["compile"] if two and compiled else [])
    return [" ".join(s) for s in itertools.product(layouts, variants, modes)]


def works(model, batch, setting, seconds):
    """The rate of a setting, or None where this version of PyTorch does not have it."""
    try:
        trainer = Trainer(model, batch, setting)
        for _ in range(4):
            trainer.step()
        which = 1 if torch.get_num_threads() == 1 else 0  # one thread: by CPU time, which other programs do not disturb
        return max(trainer.rate(seconds)[which], trainer.rate(seconds)[which])
    except Exception as error:  # an optimiser without `fused`, no compiler for torch.compile
        print(f"{setting}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--setting", help="one setting, instead of trying all")
    parser.add_argument("--compile", action="store_true", help="try torch.compile too (takes a minute)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one repeat")
    parser.add_argument("--tried", action="store_true", help="print every setting's rate")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    setting = args.setting
    if not setting:
        rates = {}
        for candidate in settings(args.model, args.compile):
            rate = works(args.model, args.batch, candidate, args.seconds / 2)
            if rate:
                rates[candidate] = rate
                if args.tried:
                    print(json.dumps({"tried": candidate, "images_per_s": round(rate)}), flush=True)
        setting = max(rates, key=rates.get)
    trainer = Trainer(args.model, args.batch, setting)
    for _ in range(8):
        trainer.step()
    rates = [trainer.rate(args.seconds) for _ in range(args.repeats)]
    print(json.dumps({
        "version": torch.__version__, "model": args.model, "batch": args.batch, "threads": args.threads,
        "setting": setting, "images_per_s": [round(wall, 1) for wall, _ in rates], "images_per_cpu_s": [round(cpu, 1) for _, cpu in rates],
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}), flush=True)


if __name__ == "__main__":
    main()
