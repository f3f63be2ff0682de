#!/usr/bin/env python3
"""What happens to a cluster of real processes, and what must be true afterwards: `faults.py [--repeat N] [--seed N] [NAME…]`.

Each function of fault_processes.py, fault_network.py, fault_strangers.py, fault_data.py and fault_served.py is one fault; its first line says what is
done, README.md which fault of which list it is. Most run once with gradients averaged at each step and once with parameters averaged
now and then, strike many times in each run, and end with World.finish(): exit code 0, a model, every example counted exactly once,
equal replicas, lines with the root cause, no descriptor, thread or byte left behind. The moment of each blow is random; `--seed`
repeats them. Several runs go on at once, each in a process of its own, since most of their time they wait. Speaks TAP; what was
measured follows as comments, and is never asserted.

    faults.py --soak 10m [POLICY…]     a random kill, stop or partition every 3.5 s, over the policies: fault_soak.py
    faults.py --kills 10m [POLICY…]    workers and servers of one command are killed every 2 to 5 s: fault_kills.py
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import fault_processes  # noqa: E402, F401 each of the five adds its faults to the list
import fault_network  # noqa: E402, F401
import fault_strangers  # noqa: E402, F401
import fault_data  # noqa: E402, F401
import fault_served  # noqa: E402, F401
from fault_kit import FAULTS, POLICIES  # noqa: E402
from fault_kills import run_kills  # noqa: E402
from fault_soak import run_soak  # noqa: E402
from fault_world import Failure, Figures, World  # noqa: E402
from harness import Skip  # noqa: E402

AT_ONCE = 3
LONGEST_S = 900  # of one run with all its blows; beyond it hangs


def run_here(function, policy, blows, seed):
    """One run in this process; what came of it as a line of JSON."""
    rng, figures = random.Random(f"{seed} {function.__name__} {policy}"), Figures()
    outcome = {"ok": True, "said": ""}
    began = time.monotonic()
    try:
        with World(POLICIES[policy], figures=figures, seed=rng.randrange(1 << 30), file_system_bytes=function.file_system_bytes) as world:
            function(world, rng, blows)
            if not world.finished:
                world.finish()
    except Skip as why:
        outcome["skip"] = str(why)
    except Exception as error:  # noqa: BLE001 a broken test is a failure like any other
        outcome.update(ok=False, said=str(error) if isinstance(error, Failure) else traceback.format_exc())
    print(json.dumps({**outcome, "seconds": time.monotonic() - began, "figures": figures.values()}), flush=True)


def run_apart(function, policy, blows, seed):
    """The same in a process of its own, which is asked to end, so that it takes its children with it, when it hangs."""
    command = [sys.executable, __file__, "--alone", policy, "--repeat", str(blows), "--seed", str(seed), function.__name__]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        child.terminate()
        out, err = child.communicate()
        err += f"\nstill running after {LONGEST_S} s"
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"ok": False, "said": (out + err)[-4000:], "seconds": 0.0, "figures": {}}


def duration(text):
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if not found:
        raise argparse.ArgumentTypeError("as in 90s, 10m or 1h")
    return int(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def main():
    names = [f.__name__ for f in FAULTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, help="so many blows of each fault, instead of its own number")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"so many runs at the same time (default {AT_ONCE})")
    parser.add_argument("--soak", type=duration, metavar="TIME")
    parser.add_argument("--kills", type=duration, metavar="TIME")
    parser.add_argument("--alone", choices=POLICIES, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: " + ", ".join(names))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process stays behind
    if args.soak:
        return run_soak(args.soak, args.seed, args.names, args.at_once)
    if args.kills:
        return run_kills(args.kills, args.seed, args.names, args.at_once)
    unknown = [n for n in args.names if n not in names]
    if unknown:
        parser.error(f"no fault '{unknown[0]}'")
    if args.alone:
        return run_here(FAULTS[names.index(args.names[0])], args.alone, args.repeat, args.seed)

    print(f"# --seed {args.seed}", flush=True)
    figures, failed, number = Figures(), 0, 0
    tasks = {}
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        for function in FAULTS:
            for policy in function.policies if not args.names or function.__name__ in args.names else ():
                blows = max(1, -(-(args.repeat or function.repeat) // len(function.policies)))
                tasks[pool.submit(run_apart, function, policy, blows, args.seed)] = (function, policy, blows)
        for task in concurrent.futures.as_completed(tasks):
            function, policy, blows = tasks[task]
            number += 1
            found = task.result()
            failed += not found["ok"]
            skipped = f"SKIP {found['skip']}" if "skip" in found else f"{found['seconds']:.1f} s"
            print(f"{'ok' if found['ok'] else 'not ok'} {number} - {function.__name__} ({function.number}, {policy}, {blows} times) # {skipped}", flush=True)
            if found["said"]:
                print("\n".join("# " + line for line in found["said"].splitlines()[-40:]), flush=True)
            for name, values in found["figures"].items():
                for value in values:
                    figures.add(name, value)
    print(f"1..{number}")
    for line in figures.lines():
        print(f"# {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
