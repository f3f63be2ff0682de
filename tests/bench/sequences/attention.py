#!/usr/bin/env python3
"""Attention alone beside PyTorch's scaled_dot_product_attention, on one thread, in turns, by CPU time.

    ninja -C build tests/bench/attention_bench
    python3 tests/bench/sequences/attention.py --python PYTHON_WITH_TORCH

Prints a row for each shape: milliseconds of both, forward and backward together, and how many times faster ours is.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
SHAPES = [(32, 64, 4, 32, 1), (8, 128, 4, 64, 1), (8, 128, 4, 64, 0), (2, 512, 4, 64, 1), (1, 1024, 4, 64, 1),
          (1, 4096, 1, 64, 1), (1, 4096, 1, 64, 0)]  # examples, steps, heads, features of a head, causal


def peer(examples, steps, heads, features, causal):
    """Runs in the interpreter that has torch."""
    import time

    import torch

    torch.set_num_threads(1)
    q, k, v = [torch.randn(examples, steps, heads, features).transpose(1, 2).requires_grad_() for _ in range(3)]
    slope = torch.randn(examples, steps, heads, features).transpose(1, 2)
    best = [1e30, 1e30]
    for _ in range(9):
        spent, calls, begin = [0.0, 0.0], 0, time.process_time()
        while time.process_time() - begin < 0.2:
            start = time.process_time()
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
            middle = time.process_time()
            torch.autograd.grad(o, (q, k, v), slope)
            spent[0] += middle - start
            spent[1] += time.process_time() - middle
            calls += 1
        best = [min(a, b / calls) for a, b in zip(best, spent)]
    print(json.dumps({"forward_ms": best[0] * 1e3, "backward_ms": best[1] * 1e3}))


def milliseconds(command):
    environment = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="1")
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    return result["forward_ms"] + result["backward_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peer", nargs=5, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(*options.peer)
    print("examples steps heads features causal   ours ms  PyTorch ms  times faster")
    for shape in SHAPES:
        numbers = [str(number) for number in shape]
        ours, theirs = [], []
        for _ in range(options.turns):
            ours.append(milliseconds([ROOT / "build/tests/bench/attention_bench", *numbers]))
            theirs.append(milliseconds([options.python, __file__, "--peer", *numbers]))
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        print("%8d %5d %5d %8d %6d %9.3f %11.3f %13.2f" % (*shape, min(ours), min(theirs), ratio), flush=True)


if __name__ == "__main__":
    main()
