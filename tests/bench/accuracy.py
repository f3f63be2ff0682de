#!/usr/bin/env python3
"""What the example scripts learn as a user trains them: `python3 tests/bench/accuracy.py [SCRIPT...] [--seeds 123,124,125]`.

Trains models/lenet.lua and models/coming_from/lenet_dl4j.lua with each seed and prints the mean beside the bar. Other scripts of BARS are
trained when they are named. The figure of a seed of `sentiment.lua` is the mean over the ten folds of its data.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Bar:
    figure: str  # of the evaluation of the test part
    bound: float
    epochs: int | None = None  # None: as the script says
    peer: str = ""
    folds: int = 0
    at_most: bool = False

    def met(self, mean):
        return mean <= self.bound if self.at_most else mean >= self.bound

    def text(self, value):
        return f"{value:.3f}" if self.figure == "loss" else f"{100 * value:.2f} %"


BARS = {
    "lenet.lua": Bar("accuracy", 0.991, 5, "PyTorch 99.2 to 99.3 %"),
    "coming_from/lenet_dl4j.lua": Bar("accuracy", 0.977, 5, "PyTorch 98.0 %"),
    "resnet20.lua": Bar("accuracy", 0.73, 10, "PyTorch 75.4 %"),
    "japanese_vowels.lua": Bar("accuracy", 0.965, 40, "PyTorch 97.6 %"),
    "synthetic_control.lua": Bar("accuracy", 0.98, 40, "PyTorch 98.3 %"),
    "sentiment.lua": Bar("accuracy", 0.875, 15, "scikit-learn 88.8 %", folds=10),
    "sound/digits_spoken.lua": Bar("accuracy", 0.99, 12, "PyTorch 100.0 %"),
    "sound/digits_waves.lua": Bar("accuracy", 0.99, 12, "PyTorch 100.0 %"),
    "sound/digit_strings.lua": Bar("label_error_rate", 0.015, None, "PyTorch 0.8 %", at_most=True),
    "char_lstm.lua": Bar("loss", 1.54, 8, "PyTorch 1.525", at_most=True),
    "gpt.lua": Bar("loss", 1.92, None, "PyTorch 1.905", at_most=True),
}


def figure_of(script, bar, *how):
    """The figure of one run, or the mean of all folds'; and the examples a second of the last."""
    ends = [train(script, *how, fold) for fold in range(1, bar.folds + 1)] if bar.folds else [train(script, *how)]
    return statistics.mean(end["test"][bar.figure] for end in ends), ends[-1].get("examples_per_s", 0)


def train(script, epochs, seed, threads, fold=None):
    """The `end` event of one run."""
    with tempfile.TemporaryDirectory() as out:
        command = [ROOT / "build" / "repl" / "perigee", "train", ROOT / "models" / script, *(["--epochs", epochs] if epochs else []), "--seed", seed, "--log", "json",
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
    print("| script | epochs | of the test part | by seed | mean | bar | peer | examples/s |\n|---|---|---|---|---|---|---|---|")
    failed = False
    for script in args.scripts:
        bar = BARS.get(script, Bar("accuracy", 0, 5))
        epochs = args.epochs or bar.epochs
        runs = [figure_of(script, bar, epochs, int(seed), args.threads) for seed in args.seeds.split(",")]
        mean = statistics.mean(figure for figure, _ in runs)
        failed = failed or (not bar.met(mean) and not args.epochs)
        print(f"| {script} | {epochs or 'its own'} | {bar.figure} | {', '.join(bar.text(figure) for figure, _ in runs)} | {bar.text(mean)} | "
              f"{'at most' if bar.at_most else 'at least'} {bar.text(bar.bound)} | {bar.peer} | "
              f"{statistics.median(speed for _, speed in runs):,.0f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
