#!/usr/bin/env python3
"""The peer of models/programs/anomaly.lua: the same two networks in PyTorch, and scikit-learn's one-class support vector machine.

    perigee -e 'dofile "models/programs/anomaly.lua"'
    python3 tests/bench/anomaly.py --data DATA          # one thread; DATA holds the files of MNIST (PERIGEE_DATA has them in mnist/)
    python3 tests/bench/anomaly.py --data DATA --pairs 5

`--pairs N`: one-class networks whose AUC differs by 0.12 from seed to seed are compared seed by seed: PyTorch begins with the parameters that
Perigee draws, and both see the examples in one order.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import numpy
import torch
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM


def mnist(folder, part, kind, offset):
    path = next(p for p in pathlib.Path(folder).rglob(f"{part}-{kind}-ubyte*"))
    raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    return numpy.frombuffer(raw, dtype=numpy.uint8, offset=offset)


def digits(folder, part):
    return mnist(folder, part, "images-idx3", 16).reshape(-1, 784).astype(numpy.float32) / 255, mnist(folder, part, "labels-idx1", 8)


def epochs(x, parameters, count, loss_of, shuffle=True):
    adam = torch.optim.Adam(parameters, lr=1e-3)
    for _ in range(count):
        order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
        for begin in range(0, len(x), 128):
            adam.zero_grad()
            loss_of(x[order[begin:begin + 128]]).backward()
            adam.step()


def autoencoder(x):
    layers = torch.nn.ModuleDict({name: torch.nn.Linear(*sizes) for name, sizes in
                                  {"h": (784, 400), "code": (400, 40), "g": (20, 400), "x": (400, 784)}.items()})
    encode = lambda x: layers["code"](torch.relu(layers["h"](x))).chunk(2, 1)
    decode = lambda z: layers["x"](torch.relu(layers["g"](z)))
    entropy = lambda z, x: torch.nn.functional.binary_cross_entropy_with_logits(decode(z), x, reduction="none").sum(1)

    def loss_of(x):
        mean, log_variance = encode(x)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return (entropy(z, x) - 0.5 * (1 + log_variance - mean * mean - log_variance.exp()).sum(1)).mean()

    def score(x, samples=16):
        mean, log_variance = encode(x)
        draws = [-entropy(mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean), x) for _ in range(samples)]
        return -torch.logsumexp(torch.stack(draws), 0)

    epochs(x, layers.parameters(), 10, loss_of)
    return score


def one_class(x, nu=0.04, hidden=32, begin=None):
    """`begin`: the weights of both layers and the radius that it starts from, and then takes the examples in their order."""
    v, w = (torch.nn.Linear(*sizes, bias=False, dtype=x.dtype) for sizes in ((x.shape[1], hidden), (hidden, 1)))
    r = torch.nn.Parameter(torch.tensor(0.1, dtype=x.dtype))
    for layer in (v, w):
        torch.nn.init.xavier_uniform_(layer.weight)
    if begin:
        for parameter, values in zip((v.weight, w.weight, r), begin):
            parameter.data.copy_(torch.from_numpy(values).reshape(parameter.shape))
    score = lambda x: w(torch.sigmoid(v(x)))[:, 0]

    def loss_of(x):
        penalty = 0.5 * (v.weight ** 2).sum() + 0.5 * (w.weight ** 2).sum()
        return penalty + torch.relu(r - score(x)).mean() / nu - r

    epochs(x, [v.weight, w.weight, r], 40, loss_of, shuffle=begin is None)
    return score


SCRIPT = """
local pg = require "perigee"
local function learn(rate, epochs, file)
  local run = pg.start(pg.experiment {
    network = pg.sequential { pg.ocnn { hidden = 32, nu = 0.04, activation = "sigmoid", name = "one" } }, loss = "none", target = "x",
    data = { train = pg.data.arrays { x = pg.load "one.npy" }, batch = 128, shuffle = false }, seed = tonumber(arg[1]),
    optimizer = rate == 0 and pg.sgd { lr = 0 } or pg.adam { lr = rate }, epochs = epochs }, { folder = false, threads = 1 })
  run:wait()
  run:save(file)
end
learn(0, 1, "begin.safetensors")
learn(1e-3, 40, "end.safetensors")
local outside = pg.load_model "end.safetensors"
pg.save("scores.npy", outside((pg.load "test.npy")):reshape(-1))
"""


def parameters(path):
    """The three of a safetensors file, by the last part of their names."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    return {name.split(".")[-1]: numpy.frombuffer(bytearray(raw[8 + size:][slice(*entry["data_offsets"])]), numpy.float32)
            for name, entry in header.items() if name in ("one.weight", "one.score", "one.radius")}


def area(score, test, normal):
    with torch.no_grad():
        return roc_auc_score(normal, -score(test).numpy())


def pairs(program, one, test, normal, count):
    print("seed  Perigee  PyTorch  PyTorch in float64")
    differences, of_rounding = [], []
    for seed in range(1, count + 1):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            numpy.save(folder / "one.npy", one.numpy())
            numpy.save(folder / "test.npy", test.numpy())
            subprocess.run([program, "-e", f"arg = {{ {seed} }} " + SCRIPT], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            begin = parameters(folder / "begin.safetensors")
            ours = roc_auc_score(normal, -numpy.load(folder / "scores.npy"))
        start = [begin[name] for name in ("weight", "score", "radius")]
        theirs, exact = [area(one_class(one.to(dtype), begin=start), test.to(dtype), normal) for dtype in (torch.float32, torch.float64)]
        differences.append(ours - theirs)
        of_rounding.append(exact - theirs)
        print(f"{seed:4d}  {ours:.4f}   {theirs:.4f}   {exact:.4f}", flush=True)
    for what, each in (("Perigee", differences), ("float64", of_rounding)):
        error = statistics.stdev(each) / len(each) ** 0.5
        print(f"{what} against PyTorch: mean {statistics.mean(each):+.4f} +- {error:.4f}, the largest {max(map(abs, each)):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("PERIGEE_DATA", ".")))
    parser.add_argument("--digit", type=int, default=9)
    parser.add_argument("--one-class", action="store_true", help="leave the autoencoder out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="seeds 1 to N of one-class networks alone")
    parser.add_argument("--perigee", default=pathlib.Path(__file__).resolve().parents[2] / "build/repl/perigee")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    x, y = digits(args.data, "train")
    x, one = torch.from_numpy(x[y != args.digit]), torch.from_numpy(x[y == args.digit])
    test, y = digits(args.data, "t10k")
    test, anomalous = torch.from_numpy(test), y == args.digit
    if args.pairs:
        return pairs(args.perigee, one, test, ~anomalous, args.pairs)
    if not args.one_class:
        score = autoencoder(x)
    with torch.no_grad():
        if not args.one_class:
            print(f"variational autoencoder: AUC {roc_auc_score(anomalous, score(test).numpy()):.4f}", flush=True)
    print(f"one-class network: AUC {area(one_class(one), test, ~anomalous):.4f}", flush=True)
    machine = OneClassSVM(nu=0.04, gamma="scale").fit(one.numpy())
    print(f"one-class support vector machine: AUC {roc_auc_score(~anomalous, -machine.decision_function(test.numpy())):.4f}")


if __name__ == "__main__":
    main()
