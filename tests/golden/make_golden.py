#!/usr/bin/env python3
"""Writes golden.json: the first losses of small networks in PyTorch, for golden_test.cpp to compare Perigee with.

    python3 tests/golden/make_golden.py > tests/golden/golden.json        (any PyTorch from 1.13; the numbers do not depend on it)

Initial weights and batches come from one formula that both sides compute exactly. Element i of stream s is

    h = (i + 1) * 0x9E3779B9 + (s + 1) * 0x85EBCA6B           (all of this modulo 2^32)
    h ^= h >> 16;  h *= 0x7FEB352D;  h ^= h >> 15;  h *= 0x846CA68B;  h ^= h >> 16
    uniform = h / 2^32                                         in [0, 1), as a double

A parameter is float32(offset + scale * (2 * uniform - 1)), elements in row-major order of PyTorch's shape; parameters appear in the
network's order. Inputs are float32(2 * uniform - 1), or whole numbers floor(uniform * vocabulary); class labels floor(uniform * classes).
Example j of the data set is the j-th row. Training takes the examples in order, without shuffling, for ten steps.

The losses are means over the batch before each update, computed in double precision from the float32 start; the script fails when
PyTorch's own float32 run strays from them by more than 2e-5, so that a wrong trajectory is never stored.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 10
M = 0xFFFFFFFF


def uniform(stream, i):
    h = ((i + 1) * 0x9E3779B9 + (stream + 1) * 0x85EBCA6B) & M
    h ^= h >> 16
    h = h * 0x7FEB352D & M
    h ^= h >> 15
    h = h * 0x846CA68B & M
    h ^= h >> 16
    return h / 2**32


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def reals(stream, shape, scale=1.0, offset=0.0):
    values = [offset + scale * (2 * uniform(stream, i) - 1) for i in range(count(shape))]
    return torch.tensor(values, dtype=torch.float64).float().reshape(shape)  # rounded to float32 once


def integers(stream, shape, below):
    return torch.tensor([int(uniform(stream, i) * below) for i in range(count(shape))]).reshape(shape)


class Residual(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return F.relu(self.body(x) + x)


class Channels(nn.Module):
    """[batch, positions, features] as Perigee has it: features are channels, before positions."""

    def forward(self, x):
        return x.transpose(1, 2)


def conv(out, kernel, **options):
    return {"type": "conv2d", "out": out, "kernel": kernel, **options}


def dense(out, activation=None):
    return {"type": "dense", "out": out, **({"activation": activation} if activation else {})}


BN, RELU = {"type": "batchnorm"}, {"type": "activation", "activation": "relu"}
POOL = {"type": "maxpool", "kernel": 2}

# Each: the network for Perigee and for PyTorch, the data, the optimiser for both.
CASES = {
    "mlp": {
        "layers": [dense(16, "tanh"), dense(12, "sigmoid"), dense(5)],
        "torch": lambda: nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 12), nn.Sigmoid(), nn.Linear(12, 5)),
        "input": (9,), "classes": 5, "batch": 7,
        "optimizer": {"type": "sgd", "lr": 0.5, "momentum": 0.9},
        "torch_optimizer": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
    },
    "lenet": {
        "layers": [conv(20, 5, activation="relu"), POOL, conv(50, 5, stride=2, activation="relu"), POOL, dense(200, "relu"), dense(10)],
        "torch": lambda: nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(),
                                       nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)),
        "input": (1, 28, 28), "classes": 10, "batch": 8,
        "optimizer": {"type": "adamw", "lr": 0.002, "weight_decay": 0.05, "decay_bias": True},
        "torch_optimizer": lambda p: torch.optim.AdamW(p, lr=0.002, weight_decay=0.05),
    },
    "residual": {
        "layers": [conv(6, 3, padding=1, bias=False), BN, RELU,
                   {"type": "residual", "layers": [conv(6, 3, padding=1, bias=False), BN, RELU, conv(6, 3, padding=1, bias=False), BN],
                    "activation": "relu"},
                   conv(10, 3, stride=2, activation="relu"), {"type": "global_pool", "kind": "average"}, dense(4)],
        "torch": lambda: nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
                                       Residual(nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
                                                nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)),
                                       nn.Conv2d(6, 10, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 4)),
        "input": (3, 9, 11), "classes": 4, "batch": 6,
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
        "torch_optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    },
    "tokens": {
        "layers": [{"type": "embedding", "size": 11, "out": 8}, {"type": "layernorm", "over": "channels"}, {"type": "flatten"}, dense(24, "gelu"),
                   {"type": "layernorm"}, dense(11)],
        "torch": lambda: nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm(8), Channels(), nn.Flatten(), nn.Linear(48, 24), nn.GELU(), nn.LayerNorm(24),
                                       nn.Linear(24, 11)),
        "input": (6,), "vocabulary": 11, "classes": 11, "batch": 9,
        "optimizer": {"type": "adam", "lr": 0.01},
        "torch_optimizer": lambda p: torch.optim.Adam(p, lr=0.01),
    },
}


def parameters_of(net):
    """(name, shape, scale, offset): about 1/sqrt(fan in); gains around 1."""
    for name, p in net.named_parameters():
        owner = net.get_submodule(name.rsplit(".", 1)[0])
        if isinstance(owner, (nn.BatchNorm2d, nn.LayerNorm)):
            yield name, p, 0.25, 1.0 if name.endswith("weight") else 0.0
        elif isinstance(owner, nn.Embedding):
            yield name, p, 1.0, 0.0
        else:
            yield name, p, round((3 / count(owner.weight.shape[1:])) ** 0.5, 6), 0.0


def losses(case, dtype, plan):
    net = case["torch"]().to(dtype)
    with torch.no_grad():
        for (_, p), entry in zip(net.named_parameters(), plan):
            p.copy_(reals(entry["stream"], entry["shape"], entry["scale"], entry["offset"]).to(dtype))
    examples = STEPS * case["batch"]
    if "vocabulary" in case:
        x = integers(100, (examples, *case["input"]), case["vocabulary"])
    else:
        x = reals(100, (examples, *case["input"])).to(dtype)
    y = integers(101, (examples,), case["classes"])
    optimizer = case["torch_optimizer"](net.parameters())
    net.train()
    result = []
    for step in range(STEPS):
        rows = slice(step * case["batch"], (step + 1) * case["batch"])
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def written(value, depth=0):
    """JSON with one line for whatever fits in one."""
    flat = json.dumps(value)
    if len(flat) + depth <= 130 or not isinstance(value, (dict, list)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{pad}{json.dumps(k)}: {written(v, depth + 1)}" for k, v in value.items()) + "}"
    return "[\n" + ",\n".join(pad + written(v, depth + 1) for v in value) + "]"


def main():
    torch.set_num_threads(1)
    golden = {"formula": "see make_golden.py", "inputs_stream": 100, "labels_stream": 101, "cases": []}
    for name, case in CASES.items():
        plan = [{"torch_name": n, "shape": list(p.shape), "stream": k, "scale": scale, "offset": offset}
                for k, (n, p, scale, offset) in enumerate(parameters_of(case["torch"]()))]
        exact, single = losses(case, torch.float64, plan), losses(case, torch.float32, plan)
        worst = max(abs(a - b) / max(abs(a), 1e-3) for a, b in zip(exact, single))
        print(f"{name}: {exact[0]:.6f} -> {exact[-1]:.6f}; float32 strays by {worst:.1e}", file=sys.stderr)
        assert worst < 2e-5, f"{name} is ill-conditioned: choose another learning rate"
        golden["cases"].append({
            "name": name, "network": {"type": "sequential", "layers": case["layers"]}, "optimizer": case["optimizer"],
            "input": list(case["input"]), "vocabulary": case.get("vocabulary"), "classes": case["classes"], "batch": case["batch"],
            "parameters": plan, "losses": [round(loss, 12) for loss in exact]})
    print(written(golden))


if __name__ == "__main__":
    main()
