#!/usr/bin/env python3
"""`perigee train` with keys that change how it trains, on one machine and on several workers: training_test.py PROGRAM. Prints TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
# The figure improves once, against nothing, and never again by so much: the rate falls after each further epoch.
PLATEAU = {"metric": "train.loss", "patience": 1, "min_improvement": 100, "factor": 0.5}
JOB = {
    "network": [{"type": "conv2d", "out": 2, "kernel": 5, "stride": 2, "name": "conv"}, {"type": "batchnorm", "name": "bn", "trainable": False},
                {"type": "dense", "out": 10}],
    "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.08}, "epochs": 4, "seed": 3, "threads": 1, "reduce_on_plateau": PLATEAU,
    "averaging": {"type": "periodic", "every": 2}, "data": {"batch": 8, "train": {"type": "digits", "size": 96}},
}


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def write(name, **changes):
    pathlib.Path(name).write_text(json.dumps({**JOB, **changes}))


def rates(folder):
    """The rate that each epoch ended with."""
    events = [json.loads(line) for line in pathlib.Path(folder, "log.jsonl").read_text().splitlines()]
    last = {event["epoch"]: event["learning_rate"] for event in events if event["event"] == "step"}
    return [last[epoch] for epoch in sorted(last)]


def the_rate_falls_and_the_display_says_so():
    write("job.json")
    text = run("train", "job.json", "--out", "run", "--log", "plain")
    assert rates("run") == [0.08, 0.08, 0.04, 0.02], rates("run")
    assert "the learning rate falls to 0.5 of what the job says" in text, text


def workers_are_told_the_rate():
    write("job.json")
    run("train", "job.json", "--workers", "2", "--out", "cluster", "--log", "json")
    assert rates("cluster") == [0.08, 0.08, 0.04, 0.02], rates("cluster")
    run("train", "job.json", "--resume", "cluster", "--epochs", "6", "--log", "json")  # goes on alone or not: the run knows
    assert rates("cluster")[-1] < 0.02, rates("cluster")


def what_workers_cannot_have_is_refused():
    write("job.json", optimizer={"type": "sgd", "lr": 0.08, "bias_lr": 0.1})
    assert "does not go with a learning rate of biases in a cluster" in run("train", "job.json", "--workers", "2", code=4)
    write("job.json", optimizer={"type": "noop"})
    assert "needs an optimiser with a learning rate" in run("train", "job.json", "--workers", "2", code=4)
    points = {str(step): 0.1 / (1 + step) for step in range(200)}
    write("job.json", optimizer={"type": "sgd", "lr": {"type": "map", "values": points, "by": "step"}})
    assert "schedule is too long to be told to workers" in run("train", "job.json", "--workers", "2", code=4)


def main():
    os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", tempfile.mkdtemp(prefix="perigee-cache-"))
    tests = [the_rate_falls_and_the_display_says_so, workers_are_told_the_rate, what_workers_cannot_have_is_refused]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory(prefix="perigee-training-") as folder:
            os.chdir(folder)
            try:
                test()
                print(f"ok {number} - {test.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"not ok {number} - {test.__name__}\n# {error}")
            os.chdir("/")
    return failed != 0


sys.exit(main())
