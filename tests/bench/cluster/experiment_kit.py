"""What the rows of experiments.py share: runs of the program, models' bytes, bars.

A row is a function of (Rows, seeds). Rows stand in experiments.py and, named in a table ROWS, in the files rows_*.py beside it.
"""
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
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


def train(job, *options, threads=1):
    """(the `end` event, the step events, the model's bytes) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        script = job
        if isinstance(job, dict):
            script = pathlib.Path(folder) / "job.json"
            script.write_text(json.dumps(job))
        out = pathlib.Path(folder) / "run"
        command = [PROGRAM, "train", script, "--log", "json", "--out", out, "--threads", threads, *options]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        ends = [e for e in events if e.get("event") == "end"]
        if done.returncode or not ends:
            sys.exit(f"{script}: exit status {done.returncode}\n{done.stderr[-3000:]}")
        if "digits" in ends[-1].get("data", ""):
            sys.exit("MNIST was not found and drawn digits stood in, on which accuracy means nothing; set PERIGEE_DATA")
        return ends[-1], [e for e in events if e.get("event") == "step"], (out / "model.safetensors").read_bytes()


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
