"""What the rows of experiments.py share: runs of the program, models' bytes, bars.

A row is a function of (Rows, seeds). Rows stand in experiments.py and, named in a table ROWS, in the files rows_*.py beside it.
"""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Process, write_secret  # noqa: E402

PROGRAM = ROOT / "build" / "repl" / "perigee"

MLP = {
    "name": "mlp",
    "network": ["flatten", {"type": "dense", "out": 128, "activation": "relu"}, {"type": "dense", "out": 64, "activation": "relu"},
                {"type": "dense", "out": 10}],
    "loss": "cross_entropy",
    "optimizer": {"type": "sgd", "lr": {"type": "cosine", "from": 0.05}, "momentum": 0.9},
    "data": {"train": {"type": "mnist"}, "test": {"type": "mnist", "part": "test"}, "batch": 32},
    "epochs": 6, "seed": 1,
}


def train(job, *options, **how):
    """(the `end` event, the step events, the model's bytes) of one run."""
    events, model = run_events(job, *options, **how)
    return events[-1], [e for e in events if e.get("event") == "step"], model


def run_events(job, *options, threads=1, env=None):
    """(all events, of which `end` is the last; the model's bytes) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        script = job
        if isinstance(job, dict):
            script = pathlib.Path(folder) / "job.json"
            script.write_text(json.dumps(job))
        out = pathlib.Path(folder) / "run"
        command = [PROGRAM, "train", script, "--log", "json", "--out", out, "--threads", threads, *options]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, **(env or {})})
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not events or events[-1].get("event") != "end":
            sys.exit(f"{script}: exit status {done.returncode}\n{done.stderr[-3000:]}")
        if "digits" in events[-1].get("data", ""):
            sys.exit("MNIST was not found and drawn digits stood in, on which accuracy means nothing; set PERIGEE_DATA")
        return events, (out / "model.safetensors").read_bytes()


class Launched:
    """A coordinator, and workers that are started one by one: here, or in the namespaces of a Net (tests/cluster/faults/fault_network.py)."""

    def __init__(self, folder, job, net=None, min_workers=1):
        self.folder, self.net, self.workers = pathlib.Path(folder), net, {}
        write_secret(self.folder / "key")
        (self.folder / "job.json").write_text(json.dumps(job))
        where = "10.77.0.1:0" if net else "127.0.0.1:0"
        self.train = self._start("hub", "train", "job.json", "--log", "json", "--listen", where, "--secret", "key",
                                 "--min-workers", min_workers)
        self.address = json.loads((self.train.folder() / "cluster.json").read_text())["listen"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.workers.values(), self.train]:
            process.kill()

    def _start(self, where, *arguments, env=None):
        command = list(self.net.inside(where)) if self.net else None
        return Process(arguments, self.folder, env, command, executable=PROGRAM)

    def worker(self, index, *options, env=None):
        self.workers[index] = self._start(f"w{index}", "worker", f"w{index}", "--join", self.address, "--secret", "key", "--threads", 1,
                                          *options, env=env)
        return self.workers[index]

    def end(self, deadline=900):
        status = self.train.wait(deadline)
        if status:
            sys.exit(f"the run ended with {status}:\n{self.train.tail()}")
        return self.train.of_kind("end")[-1]


def tensors(model):
    """The tensors' bytes of a .safetensors file, without its header."""
    (header,) = struct.unpack_from("<Q", model)
    return model[8 + header:]


def float64_tensors(model):
    """{name: numbers} of a .safetensors file's float64 tensors."""
    (header,) = struct.unpack_from("<Q", model)
    content = model[8 + header:]
    entries = json.loads(model[8:8 + header])
    found = {}
    for name, entry in entries.items():
        if entry.get("dtype") == "F64":
            begin, end = entry["data_offsets"]
            found[name] = array.array("d", content[begin:end])
    return found


class Rows:
    failed = False

    def line(self, text, met=None):
        if met is not None:
            self.failed = self.failed or not met
            text += "  met" if met else "  NOT MET"
        print(text, flush=True)
