"""    elastic   (E6) 4 workers of MLP 784-128-64-10 on MNIST, periodic every 10: one is killed (SIGKILL) at 30 % of the run, two join at 50 %, one more is
              killed at 70 % in the middle of its upload: its connection is held to 2 Mbit/s, and the kernel's counter of what it has sent says
              how far it is (needs root, ip and tc; else at whatever moment of a round). The ledger counts every example of every epoch once,
              no result differs between workers (a joiner's neither), the accuracy is within 0.4 points of an undisturbed run of the same
              seed, and a round of the others follows within 2 s of a loss. Faults byte by byte are in `./perigee test faults`
"""
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from experiment_kit import MLP, PROGRAM, ROOT, Launched

sys.path.insert(0, str(ROOT / "tests" / "cluster" / "faults"))
from fault_network import Net  # noqa: E402
from harness import Skip  # noqa: E402

WORKERS, JOINERS = 4, 2
JOB = {**MLP, "averaging": {"type": "periodic", "every": 10, "topology": "direct"}}
BLOCK = 4 * 109_386
UPLOAD = BLOCK * 3 // 4  # what a worker of 4 sends of its own contribution; as much again of results follows


def until(run, progress):
    return run.train.wait_event("step", lambda e: e["progress"] >= progress, deadline=600)


def kill(run, which):
    os.kill(run.workers[which].pid, signal.SIGKILL)


def kill_in_upload(run, net, which):
    """How much of its contribution the worker had sent, bytes: more than nothing and less than all."""
    net.limit(which, 2)  # a round takes more than a second then, and each is in the log
    run.train.wait_event("step", count=len(run.train.of_kind("step")) + 3)  # the next upload begins now
    before, deadline = net.sent(f"w{which}"), time.monotonic() + 60
    while net.sent(f"w{which}") - before < UPLOAD // 4:
        if time.monotonic() > deadline:
            sys.exit("the worker sends nothing")
        time.sleep(0.005)
    kill(run, which)
    sent = net.sent(f"w{which}") - before
    net.free(which)  # who comes next there is as fast as the others
    return sent


def whole(seed, net, disturbed):
    """(accuracy in %, ledger, events, bytes of the upload that was cut off) of one run."""
    with tempfile.TemporaryDirectory() as folder, Launched(folder, {**JOB, "seed": seed}, net, 2) as run:
        for index in range(WORKERS):
            run.worker(index)
        cut = None
        if disturbed:
            until(run, 0.3)
            kill(run, 0)
            until(run, 0.5)
            for index in range(WORKERS, WORKERS + JOINERS):
                run.worker(index)
            until(run, 0.7)
            if net:
                cut = kill_in_upload(run, net, 2)
            else:
                kill(run, 2)
        end = run.end()
        audit = subprocess.run([PROGRAM, "ledger", run.train.folder(), "--json"], capture_output=True, text=True, check=True).stdout
        return 100 * end["test"]["accuracy"], json.loads(audit), run.train.events, cut


def longest_pause(events):
    """Seconds from a loss to the first round without that worker, by the coordinator's clock."""
    stepped = [e["monotonic_s"] for e in events if e["event"] == "step" and "monotonic_s" in e]
    return max(min(t for t in stepped if t > e["monotonic_s"]) - e["monotonic_s"] for e in events if e["event"] == "worker_lost")


def elastic(rows, seeds):
    with contextlib.ExitStack() as stack:
        try:
            net = stack.enter_context(Net(WORKERS + JOINERS))
        except Skip as reason:
            net = None
            rows.line(f"without a network of our own ({reason}), the second is killed at whatever moment of a round")
        shaken_runs(rows, seeds, net)


def shaken_runs(rows, seeds, net):
    print("| seed | undisturbed, % | disturbed, % | counted | duplicates, missing | rounds void | workers lost, joined | goes on after, s | of its upload "
          "the second had sent |\n|---|---|---|---|---|---|---|---|---|")
    calm, shaken = [], []
    for seed in seeds:
        calm.append(whole(seed, net, False)[0])
        accuracy, ledger, events, cut = whole(seed, net, True)
        shaken.append(accuracy)
        lost = sum(e["event"] == "worker_lost" for e in events)
        joined = sum(e["event"] == "worker_joined" for e in events)
        drift = [e for e in events if e["event"] == "hash_mismatch"]
        exact = ledger["duplicates"] == ledger["missing"] == 0 and ledger["counted"] == JOB["epochs"] * 60_000
        pause = longest_pause(events)
        part = "not known" if cut is None else f"{100 * cut / UPLOAD:.0f} %"
        aimed = cut is None or cut < UPLOAD
        rows.line(f"| {seed} | {calm[-1]:.2f} | {accuracy:.2f} | {ledger['counted']:,} | {ledger['duplicates']}, {ledger['missing']} | {ledger['voided']} | "
                  f"{lost}, {joined} | {pause:.2f} | {part} |",
                  exact and aimed and not drift and joined >= WORKERS + JOINERS and lost >= 2 and pause <= 2)
    worse = statistics.mean(calm) - statistics.mean(shaken)
    rows.line(f"the disturbed runs are {worse:+.2f} points below (bar 0.4)", worse <= 0.4)


ROWS = {"elastic": elastic}
