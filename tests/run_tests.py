#!/usr/bin/env python3
"""Builds and runs the tests: `./perigee test [--all | --everything] [--soak TIME] [PART…]`.

    build      everything that is built by default, in build/
    lint       tests/rules/lint.py
    unit       every test that Meson knows: GoogleTest programs, Lua tests
    models     every script of models/ for a few steps
  and with --all, which CI runs:
    install    meson install into a folder; the embedding test builds against it
    mnist      one epoch of models/lenet.lua on the real MNIST, at least 97.5 %
    simulator  simulated clusters with faults, the coordinator's work per round; a share of 12,000 seeds
  and one share of these, which the hash of the commit chooses (tests/runner/rotation.py):
    asan       the unit tests with the address and undefined-behaviour sanitizers, in build-asan/; a fifth of the programs
    tsan       loader and training threads with the thread sanitizer, in build-tsan/
    isa        the kernel tests again, capped at each lower instruction set
    fuzz       every program of tests/fuzz/ with libFuzzer, at most 20 s each from one seed, in build-fuzz/;
               PERIGEE_FUZZ_SECONDS=600 seeks new inputs for so long each
    package    the .deb installs and runs on a clean Debian 12 root made with debootstrap
    wheel      the wheel installs into a fresh virtual environment and runs there; auditwheel agrees with its tag
    bundle     what tests/gpu/run.sh needs on a machine with a GPU is made, and runs where nothing else is installed
    rehearsal  tests/gpu/run.sh on the shim
    faults     real processes of a cluster that are killed, stopped and cut off: tests/cluster/faults/faults.py
    stores     s3://, hdfs://, https:// and sftp:// with real servers, which it installs: tests/stores/stores_test.py
    alone      every C++ file compiles without precompiled headers and without its folder's other files
    planted    the simulator notices deliberate bugs
    engines    Spark, Ray, Dask and etcd, which it installs, and the files that `perigee submit` prints: tests/cluster/engines
    races      the CUDA kernels on the shim, with every access watched
  --everything runs all parts whole. accuracy of resnet20 is not here: tests/bench/accuracy.py measures it.

Each part has a budget in seconds, for two idle cores and an empty compiler cache; the table at the end compares. Before it stand the
ten slowest tests. The last line is `N passed, N failed, N skipped`; the exit status is 0 only when nothing failed.
"""
import argparse
import os
import subprocess
import sys
import time

from runner import parts, rotation
from runner.report import ROOT, Part

# Headers that are compiled once and used by many files are the same wherever the checkout is.
os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")


def arguments():
    parser = argparse.ArgumentParser(prog="perigee test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the slow parts too, of the rotating ones the share of this commit")
    parser.add_argument("--share", type=int, choices=range(1, len(rotation.SHARES) + 1), help="with --all: this share instead of the commit's")
    parser.add_argument("--everything", action="store_true", help="every part whole")
    parser.add_argument("--soak", metavar="TIME", help="only this: a cluster under random faults for so long, as in 10m")
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these: " + ", ".join(rotation.schedule()))
    args = parser.parse_args()
    if unknown := [p for p in args.parts if p not in rotation.schedule()]:
        parser.error(f"no part '{unknown[0]}'; the parts are {', '.join(rotation.schedule())}")
    return args


def share_of_this_commit():
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        sys.exit("run_tests.py: no commit chooses what to run here; say --share N or --everything")
    return rotation.share_of(found.stdout.strip())


def chosen_parts(args):
    """{part: its slice}."""
    everything = rotation.schedule()
    if args.parts:
        return {name: everything[name] for name in everything if name in args.parts}
    if args.everything:
        return everything
    if not args.all:
        return {name: everything[name] for name in rotation.QUICK}
    share = share_of_this_commit() if args.share is None else args.share - 1
    chosen = rotation.schedule(share)
    left_out = [name for name in rotation.rotating() if name not in chosen]
    print(f"share {share + 1} of {len(rotation.SHARES)}: {', '.join(f'{name}{piece}' for name, piece in rotation.SHARES[share].items())}; "
          f"at other commits: {', '.join(left_out)}", flush=True)
    return chosen


def run_part(name, piece):
    part = Part(name)
    start = time.monotonic()
    print(f"== {name}{piece} (budget {rotation.BUDGETS[name]} s)", flush=True)
    try:
        getattr(parts, name)(part, piece)
    except Exception as error:  # a broken harness is a failure, and the closing lines still come
        part.fail(f"{type(error).__name__}: {error}")
    part.seconds = time.monotonic() - start
    return part


def print_report(reports):
    slowest = sorted((time_and_name for part in reports for time_and_name in part.times), reverse=True)[:10]
    if slowest:
        print("\nthe slowest tests:")
    for seconds, name in slowest:
        print(f"{seconds:8.1f} s  {name}")
    print(f"\n{'part':<10} {'budget':>7} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for part in reports:
        budget = rotation.BUDGETS[part.name]
        notes = [f"{part.seconds - budget:.0f} s over the budget"] * (part.seconds > budget) + part.notes
        print(f"{part.name:<10} {budget:>7} {part.seconds:>8.1f} {part.passed:>7} {part.failed:>7} {part.skipped:>8}  {'; '.join(notes)}".rstrip())
    print(f"{'all':<10} {sum(rotation.BUDGETS[p.name] for p in reports):>7} {sum(p.seconds for p in reports):>8.1f}\n")
    print(f"{sum(p.passed for p in reports)} passed, {sum(p.failed for p in reports)} failed, {sum(p.skipped for p in reports)} skipped", flush=True)


def main():
    args = arguments()
    if args.everything:
        os.environ["PERIGEE_TEST_EVERYTHING"] = "1"  # parts that otherwise take samples take all
    if args.soak:
        if run_part("build", rotation.WHOLE).failed:
            return 1
        return subprocess.run([sys.executable, str(ROOT / "tests" / "cluster" / "faults" / "faults.py"), "--soak", args.soak]).returncode
    reports = []
    for name, piece in chosen_parts(args).items():
        reports.append(run_part(name, piece))
        if name == "build" and reports[-1].failed:
            break
    print_report(reports)
    return 1 if any(part.failed for part in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
