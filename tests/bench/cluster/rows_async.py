"""    async     (E8) MLP 784-128-64-10 on MNIST with a server, each worker by itself, a push at each step, SGD with a cosine, 6 epochs over all, on the
              simulated clock with real training, all workers equally fast, so that a contribution is one result old for each other worker:
              4 workers at 0.1 without momentum and at 0.05 with a momentum of 0.9 at the server (and at a quarter of the rate, and at each
              worker), 16 workers at 0.2 plainly and with the step divided by the staleness. Then the same with real processes, once, and
              recorded runs of 4 real workers, each trained again by `perigee replay`
"""
import json
import pathlib
import statistics
import subprocess
import tempfile

from experiment_kit import MLP, PROGRAM
from rows_adaptive import simulate

# The server takes each contribution as it is, or with a momentum of its own: velocity' = momentum velocity + delta, x - velocity'.
PLAIN = {"type": "custom", "synchrony": "server", "every": 1,
         "outer": {"program": [{"op": "add", "in": ["mean", 0], "out": "t1"}], "outputs": {"global": "t1"}}}
MOMENTUM = {"type": "custom", "synchrony": "server", "every": 1, "momentum": 0.9, "state": {"velocity": 0}, "outer": {
    "program": [{"op": "mul", "in": ["momentum", "velocity"], "out": "t1"}, {"op": "add", "in": ["t1", "delta"], "out": "t2"},
                {"op": "sub", "in": ["global", "t2"], "out": "t3"}],
    "outputs": {"global": "t3", "velocity": "t2"}}}
AWARE = {"type": "staleness_aware", "every": 1}
REPLAYS = 10


def at_least(bar):
    return f"at least {bar}", lambda found: None not in found and statistics.mean(found) >= bar


def fails(most):
    """What the guard stops has failed."""
    return f"fails, at most {most}", lambda found: all(a is None or a <= most for a in found)


ARMS = (("4 workers, SGD 0.1", 4, 0.1, 0, PLAIN, at_least(97.3)),
        ("4 workers, SGD 0.05, momentum 0.9 at the server", 4, 0.05, 0, MOMENTUM, fails(90)),
        ("4 workers, SGD 0.0125, momentum 0.9 at the server", 4, 0.0125, 0, MOMENTUM, None),
        ("4 workers, SGD 0.05, momentum 0.9 at each worker", 4, 0.05, 0.9, PLAIN, None),
        ("16 workers, SGD 0.2, plain", 16, 0.2, 0, PLAIN, fails(30)),
        ("16 workers, SGD 0.2, staleness_aware", 16, 0.2, 0, AWARE, at_least(93)))


def job_of(lr, momentum, seed, **others):
    return {**MLP, "optimizer": {"type": "sgd", "lr": {"type": "cosine", "from": lr}, "momentum": momentum}, "seed": seed, **others}


def simulated(workers, lr, momentum, averaging, seed):
    """The test accuracy in %; None where the guard stopped the run."""
    point = simulate(job_of(lr, momentum, seed), averaging, "--train", "--nodes", workers, "--bandwidth", "100Gbit", "--latency", "1us",
                     "--threads", 1, "--seed", seed)
    return None if point.get("ended") else 100 * point["figures"]["accuracy"]


def real(workers, job, record=False):
    """The same of real processes; and with `record` what the replay says."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = pathlib.Path(folder) / "job.json", pathlib.Path(folder) / "run"
        script.write_text(json.dumps(job))
        command = [PROGRAM, "train", script, "--log", "json", "--out", out, "--threads", 1, "--workers", workers, *(["--record"] if record else [])]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1800)
        ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event":"end"')]
        accuracy = 100 * ends[-1]["test"]["accuracy"] if done.returncode == 0 and ends else None
        replay = subprocess.run([PROGRAM, "replay", out], capture_output=True, text=True, timeout=1800) if record else None
        return accuracy, replay


def shown(accuracies):
    return ", ".join("stopped" if a is None else f"{a:.2f}" for a in accuracies)


def async_rows(rows, seeds):
    print("| with a server, a push at each step | test accuracy by seed, % | bar | real processes, seed 1 |\n|---|---|---|---|")
    for text, workers, lr, momentum, averaging, bar in ARMS:
        found = [simulated(workers, lr, momentum, averaging, seed) for seed in seeds]
        confirmed, _ = real(workers, job_of(lr, momentum, 1, averaging=averaging))
        rows.line(f"| {text} | {shown(found)} | {bar[0] if bar else ''} | {shown([confirmed])} |", bar and bar[1](found) and bar[1]([confirmed]))
    replays = [real(4, job_of(0.1, 0.5, seed, epochs=1, averaging="staleness_aware"), record=True)[1] for seed in range(1, REPLAYS + 1)]
    same = sum(replay.returncode == 0 for replay in replays)
    rows.line(f"recorded runs of 4 real workers, 1 epoch each, momentum 0.5: {same} of {REPLAYS} trained again bit for bit", same == REPLAYS)


ROWS = {"async": async_rows}
