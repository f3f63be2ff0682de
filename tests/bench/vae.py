#!/usr/bin/env python3
"""The variational autoencoder of models/vae.lua beside the same program in PyTorch: CPU time of training, and the test ELBO. With
`--model models/denoising.lua` the denoising one.

    python3 tests/bench/vae.py --perigee build/repl/perigee --data DATA --epochs 1 --repeats 3
    python3 tests/bench/vae.py --torch --data DATA --epochs 10          # the peer alone

Both run in one process with --threads threads, in turns; the figure is user + system time of the whole process, less that of a run of one step,
so that reading data and starting cost neither side anything. DATA holds the four files of MNIST (PERIGEE_DATA has them in mnist/).
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile


def mnist(folder, part):
    import numpy
    name = f"{'train' if part == 'train' else 't10k'}-images-idx3-ubyte"
    path = next(p for p in pathlib.Path(folder).rglob(name + "*"))
    raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    return numpy.frombuffer(raw, dtype=numpy.uint8, offset=16).reshape(-1, 784).astype(numpy.float32) / 255


def denoising(torch):
    """Parameters, the loss of a batch and its size: three pixels in ten are set to 0; the decoder has the encoder's weights."""
    code = torch.nn.Linear(784, 512)
    bias = torch.nn.Parameter(torch.zeros(784))

    def loss_of(x):
        hidden = torch.sigmoid(code(x * (torch.rand_like(x) >= 0.3)))
        logits = torch.nn.functional.linear(hidden, code.weight.t(), bias)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")

    return [*code.parameters(), bias], loss_of, 100


def variational(torch):
    layers = torch.nn.ModuleDict({name: torch.nn.Linear(*sizes) for name, sizes in
                                  {"h": (784, 400), "code": (400, 40), "g": (20, 400), "x": (400, 784)}.items()})
    def loss_of(x):
        mean, log_variance = layers["code"](torch.relu(layers["h"](x))).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        logits = layers["x"](torch.relu(layers["g"](z)))
        error = torch.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return error - 0.5 * torch.sum(1 + log_variance - mean * mean - log_variance.exp())

    return layers.parameters(), loss_of, 128


def peer(args):
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    is_denoising = pathlib.Path(args.model).name == "denoising.lua"
    parameters, loss_of, batch = (denoising if is_denoising else variational)(torch)
    adam = torch.optim.Adam(parameters, lr=1e-3)
    train = torch.from_numpy(mnist(args.data, "train"))
    steps = 0
    for _ in range(args.epochs):
        order = torch.randperm(len(train))
        for begin in range(0, len(train), batch):
            if args.steps and steps == args.steps:
                break
            x = train[order[begin:begin + batch]]
            adam.zero_grad()
            (loss_of(x) / len(x)).backward()
            adam.step()
            steps += 1
    if not args.steps:
        with torch.no_grad():
            test = torch.from_numpy(mnist(args.data, "test"))
            print(f"test {'loss' if is_denoising else 'ELBO'} {(1 if is_denoising else -1) * loss_of(test).item() / len(test):.3f}")


def cpu_seconds(command, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(args):
    env = dict(os.environ, PERIGEE_DATA=str(args.data), OMP_NUM_THREADS=str(args.threads), MKL_NUM_THREADS=str(args.threads))
    scratch = pathlib.Path(tempfile.mkdtemp())
    job = json.loads(subprocess.run([args.perigee, "describe", "--json", args.model], check=True, env=env, stdout=subprocess.PIPE).stdout)
    job["data"].pop("test")
    (scratch / "job.json").write_text(json.dumps(job))
    ours = [args.perigee, "train", str(scratch / "job.json"), "--out", str(scratch / "run"), "--threads", str(args.threads)]
    theirs = [sys.executable, __file__, "--torch", "--model", args.model, "--data", str(args.data), "--threads", str(args.threads)]
    rows = []
    for _ in range(args.repeats):
        row = []
        for command in (ours, theirs):
            whole = cpu_seconds(command + ["--epochs", str(args.epochs)], env)
            shutil.rmtree(scratch / "run", ignore_errors=True)
            row.append(whole - cpu_seconds(command + ["--steps", "1"], env))
            shutil.rmtree(scratch / "run", ignore_errors=True)
        rows.append(row)
        print(f"perigee {row[0]:.2f} s, PyTorch {row[1]:.2f} s, ratio {row[1] / row[0]:.2f}", flush=True)
    print(f"median ratio {statistics.median(b / a for a, b in rows):.2f} ({args.epochs} epochs, {args.threads} threads)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--perigee", default="build/repl/perigee")
    parser.add_argument("--model", default="models/vae.lua")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("PERIGEE_DATA", ".")))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    (peer if args.torch else compare)(args)


if __name__ == "__main__":
    main()
