#!/usr/bin/env python3
"""Shows that two builds of Perigee compute the same bits: `bits.py BEFORE AFTER [--only WORD]`.

Each job of a fixed list is trained by both programs, and the hashes of the results are compared:

    model/NAME      40 steps of every script of models/
    float64, batchnorm and more networks, optimisers and precisions on drawn digits
    policy/NAME     every averaging policy on 3 simulated workers that really train (`perigee simulate --train`), codecs and topologies too
    resume          a run that stops half-way and goes on, which must also equal the run that does not stop
    replay          a recorded run with a parameter server, trained again by AFTER

Both programs share one cache folder, and so one table of kernel choices, since results depend on it. Builds with other kernels measure
each their own, and a busy machine may then choose differently: --turns N trains a job whose hashes differ up to N times, each time with
a fresh cache, and takes it for equal when both programs have reached one hash; the line says so. Prints TAP; the exit status is 0 when all hashes agree.
PERIGEE_DATA names the folder with the data of models/; a model whose data is absent is skipped.
"""
import argparse
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from runner.examples import experiments  # noqa: E402
TIMEOUT_S = 300
STEPS = 40

JOB = """local pg = require "perigee"
return pg.experiment {{
  name = "bits", network = pg.sequential {{ {network} }}, loss = "cross_entropy", seed = 5, epochs = 1,
  data = {{ train = pg.data.digits {{ part = "train", size = {size}, endless = false }}, batch = 16 }},
  optimizer = {optimizer}, {more} }}
"""
MLP = 'pg.flatten {}, pg.dense { 24, activation = "tanh" }, pg.dense { 10 }'
CONV = 'pg.conv2d { 6, kernel = 5 }, pg.batchnorm {}, pg.activation { "relu" }, pg.maxpool { 2 }, pg.dropout { 0.2 }, pg.dense { 10 }'
NETWORKS = {
    "float64": (MLP, "pg.adam { lr = 0.01 }", 'precision = "float64",'),
    "bf16": (MLP, "pg.sgd { lr = 0.05, momentum = 0.9 }", 'precision = "bf16",'),
    "fp16": (MLP, "pg.sgd { lr = 0.05, momentum = 0.9 }", 'precision = "fp16",'),
    "batchnorm": (CONV, "pg.adamw { lr = pg.cosine { from = 0.01 }, weight_decay = 0.01 }", ""),
    "layernorm": ('pg.flatten {}, pg.dense { 32, activation = "gelu" }, pg.layernorm {}, pg.residual { pg.dense { 32 } }, pg.dense { 10 }',
                  "pg.rmsprop { lr = 0.003 }", "regularization = { l2 = 1e-4 },"),
    "lambda": ("pg.flatten {}, pg.dense { 24 }, pg.lambda(function(x) return x * pg.sigmoid(x) end), pg.dense { 10 }", "pg.adagrad { lr = 0.05 }", ""),
}
# name: (averaging, more of the job)
POLICIES = {
    **{name: (f"pg.averaging.{name} {{}}", "") for name in ("allreduce", "signsgd", "dgc", "powersgd", "threshold", "demo")},
    **{name: (f"pg.averaging.{name} {{ every = 4 }}", "")
       for name in ("periodic", "post_local", "bmuf", "slowmo", "diloco", "streaming", "easgd", "downpour", "staleness_aware", "fasgd", "async_local", "gossip")},
    "nested": ("pg.averaging.nested { group = 2 }", ""),
    "int4": ('pg.averaging.diloco { every = 5, codec = "int4" }', ""),
    "topk": ('pg.averaging.periodic { every = 5, codec = "topk" }', ""),
    "ring": ('pg.averaging.periodic { every = 3, topology = "ring" }', ""),
    "tree": ('pg.averaging.allreduce { topology = "tree" }', ""),
    "shards": ("pg.averaging.allreduce { shards = 4 }", ""),
    "average_optimizer": ("pg.averaging.periodic { every = 3, average_optimizer = true }", ""),
}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def run(program, *arguments, cache):
    done = subprocess.run([str(program), *map(str, arguments)], env={**os.environ, "XDG_CACHE_HOME": str(cache)}, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 3:
        raise Skipped(done.stderr.strip().splitlines()[0])
    if done.returncode:
        raise Failed(f"{program} {' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def tensors_hash(file, states):
    """A hash of all tensors by name, without the metadata. `states`: running statistics too."""
    content = pathlib.Path(file).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    digest = hashlib.sha256()
    for name in sorted(header):
        if name == "__metadata__" or (name.startswith("state/") and not states):
            continue
        begin, end = header[name]["data_offsets"]
        digest.update(f"{name} {header[name]['dtype']} {header[name]['shape']}".encode() + content[8 + length + begin:8 + length + end])
    return digest.hexdigest()[:16]


class Trial:
    """One program in a folder of its own."""

    def __init__(self, program, folder, cache, states):
        self.program, self.folder, self.cache, self.states = program, pathlib.Path(folder), cache, states
        self.folder.mkdir(parents=True)

    def again(self, turn):
        """The same program with nothing measured yet."""
        return Trial(self.program, self.folder / f"turn-{turn}-{time.monotonic_ns()}", self.folder / f"cache-{turn}", self.states)

    def train(self, script, name, *options):
        out = self.folder / name
        run(self.program, "train", script, "--threads", 2, "--log", "json", "--out", out, *options, cache=self.cache)
        return tensors_hash(out / "model.safetensors", self.states)

    def resume(self, script, name):
        whole = self.train(script, name + "-whole", "--steps", STEPS)
        self.train(script, name, "--steps", STEPS // 2)
        again = self.folder / (name + "-again")
        run(self.program, "train", script, "--threads", 2, "--log", "json", "--steps", STEPS, "--out", again, "--resume", self.folder / name, cache=self.cache)
        parts = tensors_hash(next(f for f in (again / "model.safetensors", self.folder / name / "model.safetensors") if f.is_file()), self.states)
        if parts != whole:
            raise Failed(f"{self.program}: the resumed run ends with {parts}, the whole one with {whole}")
        return whole

    def simulate(self, script):
        answer = json.loads(run(self.program, "simulate", script, "--train", "--nodes", 3, "--step-time", "10ms", "--bandwidth", "100Mbit",
                                "--latency", "1ms", "--speed-spread", "0.2", "--threads", 1, "--json", cache=self.cache))
        return " ".join(point["hash"] for point in answer["points"])


def job(folder, name, network=MLP, optimizer="pg.sgd { lr = 0.05, momentum = 0.9 }", more="", size=960):
    script = pathlib.Path(folder) / f"{name}.lua"
    script.write_text(JOB.format(network=network, optimizer=optimizer, more=more, size=size))
    return script


def trials(folder):
    """(name, what a Trial does)"""
    for script in experiments():
        yield f"model/{script.stem}", lambda trial, script=script: trial.train(script, script.stem, "--steps", STEPS)
    for name, (network, optimizer, more) in NETWORKS.items():
        script = job(folder, name, network, optimizer, more)
        yield f"network/{name}", lambda trial, script=script: trial.train(script, script.stem)
    for name, (averaging, more) in POLICIES.items():
        script = job(folder, "policy-" + name, more=f"averaging = {averaging}, {more}")
        yield f"policy/{name}", lambda trial, script=script: trial.simulate(script)
    script = job(folder, "policy-batchnorm", CONV, more="averaging = pg.averaging.periodic { every = 4 },", size=480)
    yield "policy/batchnorm", lambda trial: trial.simulate(script)
    resumed = job(folder, "resumed", CONV, "pg.adam { lr = 0.01 }")
    yield "resume", lambda trial: trial.resume(resumed, "resumed")


def replay(before, after, folder):
    script = job(folder, "recorded", more="averaging = pg.averaging.easgd { every = 4 },")
    out = before.folder / "recorded"
    run(before.program, "train", script, "--workers", 3, "--threads", 1, "--record", "--log", "json", "--out", out, cache=before.cache)
    run(after.program, "replay", out, cache=after.cache)


def agree(work, before, after, turns):
    """The hash that both programs reach, and a remark; Failed where they have none in common."""
    first, second = work(before), work(after)
    if first == second:
        return first, ""
    seen = {first}, {second}
    for turn in range(1, turns):
        for trial, hashes in zip((before, after), seen):
            hashes.add(work(trial.again(turn)))
        if common := seen[0] & seen[1]:
            return min(common), f" # measured choices of kernels differ: {len(seen[0])} and {len(seen[1])} results in {turn + 1} turns"
    raise Failed(f"{' '.join(sorted(seen[0]))} before, {' '.join(sorted(seen[1]))} after")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path, help="the program of one build")
    parser.add_argument("after", type=pathlib.Path, help="the program of the other")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    parser.add_argument("--no-states", dest="states", action="store_false", help="compare parameters alone, not running statistics")
    parser.add_argument("--turns", type=int, default=1, help="how often a job is trained whose hashes differ")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        cache = pathlib.Path(folder) / "cache"
        before = Trial(options.before.resolve(), pathlib.Path(folder) / "before", cache, options.states)
        after = Trial(options.after.resolve(), pathlib.Path(folder) / "after", cache, options.states)
        number = 0
        for name, work in [*trials(folder), ("replay", None)]:
            if options.only not in name:
                continue
            number += 1
            try:
                if work is None:
                    replay(before, after, folder)
                    print(f"ok {number} - {name}", flush=True)
                    continue
                reached, remark = agree(work, before, after, options.turns)
                print(f"ok {number} - {name} {reached}{remark}", flush=True)
            except Skipped as why:
                print(f"ok {number} - {name} # SKIP {why}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as why:
                wrong += 1
                print(f"not ok {number} - {name}\n# " + "\n# ".join(str(why).splitlines()), flush=True)
        print(f"1..{number}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
