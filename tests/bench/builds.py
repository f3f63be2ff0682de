#!/usr/bin/env python3
"""Measures two builds of Perigee in turns on this machine: `tests/bench/builds.py BEFORE AFTER [--turns N] [ROW…]`.

BEFORE and AFTER are build folders in which `ninja repl/perigee tests/bench/train_bench tests/bench/predict_bench` has run; one may be of an
older commit. Rows are those of training in bench.py, `predict` (one prediction of LeNet on one core), `version` (start of the program) and
`policy` (reading a job with an averaging policy). Prints a Markdown table: the median of both, and the ratio AFTER / BEFORE turn by turn.
A ratio above 1.03 of the medians is marked SLOWER and sets the exit status to 1. Kernels and sub-batches are chosen anew in each turn, in a
cache folder of its own: a choice that was once made on a busy machine would decide all turns.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import bench

MARK = 1.03


def wall(command):
    start = time.perf_counter()
    done = bench.run(command, 1)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return time.perf_counter() - start


def smallest(command, count=20):
    return min(wall(command) for _ in range(count))


def measures(jobs, args):
    """{row: function of a build folder that gives seconds}"""
    cores = os.cpu_count() or 1

    def train(row, job):
        def sample(build):
            command = [build / "tests" / "bench" / "train_bench", job, "--batch", row[1], "--threads", row[2], "--repeats", args.repeats, "--seconds", args.seconds]
            done = bench.run(command, row[2])
            result = bench.last_json(done.stdout)
            if done.returncode or not result:
                raise RuntimeError(done.stderr.strip()[-500:])
            return 1 / statistics.median(result["images_per_cpu_s" if args.cpu_time and row[2] == 1 else "images_per_s"])
        return sample

    def predict(build):
        done = bench.run([build / "tests" / "bench" / "predict_bench", jobs.path("lenet"), args.seconds], 1)
        return bench.last_json(done.stdout)["p50_us"] / 1e6

    rows = {"/".join(map(str, row)): train(row, jobs.path(row[0])) for row in bench.ROWS if row[2] <= cores}
    rows["predict"] = predict
    rows["version"] = lambda build: smallest([build / "repl" / "perigee", "version"])
    rows["policy"] = lambda build: smallest([build / "repl" / "perigee", "describe", bench.ROOT / "models" / "lenet.lua"], 5)
    return {name: work for name, work in rows.items() if not args.rows or any(name.startswith(row) for row in args.rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="timed repeats a turn")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a repeat")
    parser.add_argument("--cpu-time", action="store_true", help="rows with one thread by CPU time, on a machine that does other work")
    args = parser.parse_args()
    jobs = bench.Jobs()
    caches = tempfile.TemporaryDirectory(prefix="perigee-builds-")
    slower = 0
    print(f"load {os.getloadavg()[0]:.1f}; {args.turns} turns\n\n| row | before, ms | after, ms | ratio of medians | turns | |\n|---|---|---|---|---|---|")
    for name, work in measures(jobs, args).items():
        before, after = [], []
        for turn in range(args.turns):  # who begins changes, so that neither always runs on the warmer machine
            os.environ["XDG_CACHE_HOME"] = f"{caches.name}/{turn}"
            for build, times in ((args.before, before), (args.after, after))[::1 if turn % 2 == 0 else -1]:
                times.append(1e3 * work(build.resolve()))
        ratio = statistics.median(after) / statistics.median(before)
        slower += ratio > MARK
        turns = " ".join(f"{a / b:.3f}" for a, b in zip(after, before))
        print(f"| {name} | {statistics.median(before):.4g} | {statistics.median(after):.4g} | {ratio:.3f} | {turns} | {'SLOWER' if ratio > MARK else ''} |", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
