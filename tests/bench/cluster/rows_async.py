"""    async     MLP 784-128-64-10 on MNIST with a server, each worker by itself, a push at each step (E8): 4 workers with SGD 0.1 without momentum, and with
              0.05 and momentum 0.9, which fails; 16 workers with SGD 0.2, plainly and staleness_aware; and recorded runs of 4 workers, each
              trained again by `perigee replay`
"""
import json
import pathlib
import statistics
import subprocess
import tempfile

from experiment_kit import MLP, PROGRAM

PLAIN = {"type": "custom", "synchrony": "server", "every": 1,
         "outer": {"program": [{"op": "add", "in": ["mean", 0], "out": "t1"}], "outputs": {"global": "t1"}}}
REPLAYS = 10


def run(workers, lr, momentum, averaging, seed, epochs=6, record=False):
    """(test accuracy in %, or None where nothing finite was left; what the replay says, or None)."""
    job = {**MLP, "optimizer": {"type": "sgd", "lr": {"type": "cosine", "from": lr}, "momentum": momentum}, "epochs": epochs, "seed": seed,
           "averaging": averaging}
    with tempfile.TemporaryDirectory() as folder:
        script, out = pathlib.Path(folder) / "job.json", pathlib.Path(folder) / "run"
        script.write_text(json.dumps(job))
        command = [PROGRAM, "train", script, "--log", "json", "--out", out, "--threads", 1, "--workers", workers, *(["--record"] if record else [])]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=1800)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        ends = [e for e in events if e.get("event") == "end"]
        accuracy = 100 * ends[-1]["test"]["accuracy"] if done.returncode == 0 and ends else None
        if not record:
            return accuracy, None
        return accuracy, subprocess.run([PROGRAM, "replay", out], capture_output=True, text=True, timeout=1800)


def shown(accuracies):
    return ", ".join("not finite" if a is None else f"{a:.2f}" for a in accuracies)


def async_rows(rows, seeds):
    def arm(text, workers, lr, momentum, averaging, met, bar):
        found = [run(workers, lr, momentum, averaging, seed)[0] for seed in seeds]
        rows.line(f"{text}: {shown(found)} % (bar: {bar})", met(found))

    def above(least):
        return lambda found: None not in found and statistics.mean(found) >= least

    def fails(most):
        return lambda found: all(a is None or a <= most for a in found)

    arm("4 workers, SGD 0.1, momentum 0", 4, 0.1, 0, PLAIN, above(97.3), "at least 97.3")
    arm("4 workers, SGD 0.05, momentum 0.9", 4, 0.05, 0.9, PLAIN, fails(90), "fails, at most 90")
    arm("16 workers, SGD 0.2, plain", 16, 0.2, 0, PLAIN, fails(30), "diverges, at most 30")
    arm("16 workers, SGD 0.2, staleness_aware", 16, 0.2, 0, "staleness_aware", above(93), "at least 93")
    replays = [run(4, 0.1, 0.5, "staleness_aware", seed, epochs=1, record=True)[1] for seed in range(1, REPLAYS + 1)]
    same = sum(replay.returncode == 0 for replay in replays)
    rows.line(f"replays of 1 epoch, 4 workers, momentum 0.5: {same} of {REPLAYS} identical in every round", same == REPLAYS)


ROWS = {"async": async_rows}
