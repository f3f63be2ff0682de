#!/usr/bin/env python3
"""Test accuracy of the example scripts as a user trains them: `python3 tests/bench/accuracy.py [SCRIPT…] [--seeds 123,124,125]`.

Trains models/lenet.lua and models/coming_from/lenet_dl4j.lua for five epochs with each seed and prints the mean beside the bar. Other scripts are
trained when they are named: `resnet20.lua` for ten epochs, `japanese_vowels.lua`, `synthetic_control.lua`, and `sentiment.lua`, whose
figure of a seed is the mean over the ten folds of its data.
trained when they are named: `resnet20.lua` for ten epochs, `japanese_vowels.lua`, `synthetic_control.lua` and
`digits_spoken.lua`.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# script: (epochs, least mean accuracy, PyTorch's)
BARS = {"lenet.lua": (5, 0.991, "99.2 to 99.3 %"), "coming_from/lenet_dl4j.lua": (5, 0.977, "98.0 %"), "resnet20.lua": (10, 0.73, "75.4 %"),
        "japanese_vowels.lua": (40, 0.965, ""), "synthetic_control.lua": (40, 0.98, ""),
        "sentiment.lua": (15, 0.875, "scikit-learn: 88.8 %"), "digits_spoken.lua": (12, 0.99, "")}
FOLDS = {"sentiment.lua": 10}


def train_folds(script, *how):
    """The `end` event of one run, or of the last fold's with the mean accuracy of all."""
    if script not in FOLDS:
        return train(script, *how)
    ends = [train(script, *how, fold) for fold in range(1, FOLDS[script] + 1)]
    ends[-1]["test"]["accuracy"] = statistics.mean(end["test"]["accuracy"] for end in ends)
    return ends[-1]


def train(script, epochs, seed, threads, fold=None):
    """The `end` event of one run."""
    with tempfile.TemporaryDirectory() as out:
        command = [ROOT / "build" / "repl" / "perigee", "train", ROOT / "models" / script, "--epochs", epochs, "--seed", seed, "--log", "json",
                   "--out", out, *(["--threads", threads] if threads else []),
                   *(["--set", f"data.train.fold={fold}", "--set", f"data.test.fold={fold}"] if fold else [])]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    ends = [line for line in done.stdout.splitlines() if '"end"' in line]
    if done.returncode or not ends:
        sys.exit(f"{script}, seed {seed}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    end = json.loads(ends[-1])
    if "digits" in end.get("data", ""):
        sys.exit(f"{script}: MNIST was not found and drawn digits stood in, on which accuracy means nothing; set PERIGEE_DATA")
    return end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", default=["lenet.lua", "coming_from/lenet_dl4j.lua"])
    parser.add_argument("--seeds", default="123,124,125")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    shared = ROOT.parent / "shared" / "data"
    if "PERIGEE_DATA" not in os.environ and shared.is_dir():
        os.environ["PERIGEE_DATA"] = str(shared)
    print("| script | epochs | test accuracy by seed, % | mean | bar | PyTorch | images/s |\n|---|---|---|---|---|---|---|")
    failed = False
    for script in args.scripts:
        epochs, bar, peer = BARS.get(script, (5, 0.0, ""))
        epochs = args.epochs or epochs
        ends = [train_folds(script, epochs, int(seed), args.threads) for seed in args.seeds.split(",")]
        accuracies = [end["test"]["accuracy"] for end in ends]
        mean = statistics.mean(accuracies)
        failed = failed or (mean < bar and not args.epochs)
        print(f"| {script} | {epochs} | {', '.join(f'{100 * a:.2f}' for a in accuracies)} | {100 * mean:.2f} | {100 * bar:.1f} | {peer} | "
              f"{statistics.median(end.get('examples_per_s', 0) for end in ends):,.0f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
