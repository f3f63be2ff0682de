"""    elastic   4 workers of MLP 784-128-64-10 on MNIST, periodic every 10: one is killed (SIGKILL) at 30 % of the run, two join at 50 %, one more is killed at
              70 %, at whatever moment of a round. The ledger counts every example of every epoch once, no result differs between workers (a
              joiner's neither), the accuracy is within 0.4 points of an undisturbed run of the same seed, and a round of the others follows
              within 2 s of a loss. Faults in the middle of an exchange, byte by byte, are in `./perigee test faults`
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

from experiment_kit import MLP, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Process, write_secret  # noqa: E402

WORKERS = 4
JOB = {**MLP, "averaging": {"type": "periodic", "every": 10}}


class Run:
    def __init__(self, folder, seed):
        self.folder, self.workers, self.started = pathlib.Path(folder), [], 0
        write_secret(self.folder / "key")
        (self.folder / "job.json").write_text(json.dumps({**JOB, "seed": seed}))
        self.train = Process(["train", "job.json", "--log", "json", "--listen", "127.0.0.1:0", "--secret", "key", "--min-workers", 2], self.folder,
                             executable=PROGRAM)
        self.address = json.loads((self.train.folder() / "cluster.json").read_text())["listen"]
        for _ in range(WORKERS):
            self.join()

    def join(self):
        name = f"w{self.started}"
        self.started += 1
        self.workers.append(Process(["worker", name, "--join", self.address, "--secret", "key", "--threads", 1], self.folder, name=name,
                                    executable=PROGRAM))

    def kill(self, which):
        worker = self.workers.pop(which)
        os.kill(worker.pid, signal.SIGKILL)
        return worker.name

    def until(self, progress):
        return self.train.wait_event("step", lambda e: e["progress"] >= progress, deadline=600)

    def end(self):
        status = self.train.wait(deadline=600)
        if status:
            sys.exit(f"the run ended with {status}:\n{self.train.tail()}")
        return self.train.of_kind("end")[-1]

    def ledger(self):
        done = subprocess.run([PROGRAM, "ledger", self.train.folder(), "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def close(self):
        for process in [*self.workers, self.train]:
            process.kill()


def whole(seed, disturbed):
    """(accuracy in %, ledger, events) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, seed)
        try:
            if disturbed:
                run.until(0.3)
                run.kill(0)
                run.until(0.5)
                run.join()
                run.join()
                run.until(0.7)
                run.kill(1)
            end = run.end()
            return 100 * end["test"]["accuracy"], run.ledger(), run.train.events
        finally:
            run.close()


def longest_pause(events):
    """Seconds from a loss to the first round without that worker, by the coordinator's clock."""
    stepped = [e["monotonic_s"] for e in events if e["event"] == "step" and "monotonic_s" in e]
    return max(min(t for t in stepped if t > e["monotonic_s"]) - e["monotonic_s"] for e in events if e["event"] == "worker_lost")


def elastic(rows, seeds):
    print("| seed | undisturbed, % | disturbed, % | counted | duplicates, missing | rounds void | workers lost, joined | goes on after, s |\n"
          "|---|---|---|---|---|---|---|---|")
    calm, shaken = [], []
    for seed in seeds:
        calm.append(whole(seed, False)[0])
        accuracy, ledger, events = whole(seed, True)
        shaken.append(accuracy)
        lost = sum(e["event"] == "worker_lost" for e in events)
        joined = sum(e["event"] == "worker_joined" for e in events)
        drift = [e for e in events if e["event"] == "hash_mismatch"]
        exact = ledger["duplicates"] == ledger["missing"] == 0 and ledger["counted"] == JOB["epochs"] * 60_000
        pause = longest_pause(events)
        rows.line(f"| {seed} | {calm[-1]:.2f} | {accuracy:.2f} | {ledger['counted']:,} | {ledger['duplicates']}, {ledger['missing']} | {ledger['voided']} | "
                  f"{lost}, {joined} | {pause:.2f} |", exact and not drift and joined >= WORKERS + 2 and lost >= 2 and pause <= 2)
    worse = statistics.mean(calm) - statistics.mean(shaken)
    rows.line(f"the disturbed runs are {worse:+.2f} points below (bar 0.4)", worse <= 0.4)


ROWS = {"elastic": elastic}
