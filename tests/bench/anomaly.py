#!/usr/bin/env python3
"""The peer of models/programs/anomaly.lua: the same two networks in PyTorch, and scikit-learn's one-class support vector machine.

    perigee -e 'dofile "models/programs/anomaly.lua"'
    python3 tests/bench/anomaly.py --data DATA          # one thread; DATA holds the files of MNIST (PERIGEE_DATA has them in mnist/)
"""
import argparse
import gzip
import os
import pathlib

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


def epochs(x, parameters, count, loss_of):
    adam = torch.optim.Adam(parameters, lr=1e-3)
    for _ in range(count):
        order = torch.randperm(len(x))
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


def one_class(x, nu=0.04, hidden=32):
    v, w, r = torch.nn.Linear(x.shape[1], hidden, bias=False), torch.nn.Linear(hidden, 1, bias=False), torch.nn.Parameter(torch.tensor(0.1))
    for layer in (v, w):
        torch.nn.init.xavier_uniform_(layer.weight)
    score = lambda x: w(torch.sigmoid(v(x)))[:, 0]

    def loss_of(x):
        penalty = 0.5 * (v.weight ** 2).sum() + 0.5 * (w.weight ** 2).sum()
        return penalty + torch.relu(r - score(x)).mean() / nu - r

    epochs(x, [v.weight, w.weight, r], 40, loss_of)
    return score


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("PERIGEE_DATA", ".")))
    parser.add_argument("--digit", type=int, default=9)
    parser.add_argument("--one-class", action="store_true", help="leave the autoencoder out")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    x, y = digits(args.data, "train")
    x, one = torch.from_numpy(x[y != args.digit]), torch.from_numpy(x[y == args.digit])
    test, y = digits(args.data, "t10k")
    test, anomalous = torch.from_numpy(test), y == args.digit
    if not args.one_class:
        score = autoencoder(x)
    with torch.no_grad():
        if not args.one_class:
            print(f"variational autoencoder: AUC {roc_auc_score(anomalous, score(test).numpy()):.4f}", flush=True)
    inside = one_class(one)
    with torch.no_grad():
        print(f"one-class network: AUC {roc_auc_score(~anomalous, -inside(test).numpy()):.4f}", flush=True)
    machine = OneClassSVM(nu=0.04, gamma="scale").fit(one.numpy())
    print(f"one-class support vector machine: AUC {roc_auc_score(~anomalous, -machine.decision_function(test.numpy())):.4f}")


if __name__ == "__main__":
    main()
