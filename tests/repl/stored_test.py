"""What a run leaves on the disk, by the program: arrays of a script beside the run and not in job or model, and checkpoints that a run which is
killed at any moment goes on from. stored_test.py PROGRAM"""

import hashlib
import json
import os
import pathlib
import pty
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())

SCRIPT = """
local pg = require "perigee"
pg.seed(7)
local x, y = {}, {}
for i = 1, 1200 do
  x[i] = {}
  for j = 1, 16 do x[i][j] = math.sin(i * j) end
  y[i] = i % 4
end
local test = pg.randn(64, 16)
return pg.experiment {
  name = "stored",
  network = pg.sequential { pg.dense { 12, activation = "relu" }, pg.dropout { 0.2 }, pg.dense { 4 } },
  loss = "cross_entropy", optimizer = pg.adamw { lr = 1e-3 },
  data = {
    train = pg.data.arrays { x = x, y = y }:map { pg.transform.standardize {} },
    test = pg.data.arrays { x = test, y = test:argmax(2) % 4, classes = 4 },
    batch = 32,
  },
  epochs = EPOCHS, seed = 5, threads = 1,
}
"""


def perigee(*arguments, expect=0, **options):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=False, **options)
    assert done.returncode == expect, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def last_event(*arguments):
    """Warnings stand among the events."""
    return json.loads([line for line in perigee(*arguments).splitlines() if line.startswith("{")][-1])


def write_script(epochs, name="job.lua", text=SCRIPT):
    pathlib.Path(name).write_text(text.replace("EPOCHS", str(epochs)), encoding="utf-8")
    return name


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def has(text, *parts):
    for part in parts:
        assert part in text, f"'{part}' is not in: {text}"


def arrays_lie_beside_the_run():
    script = write_script(2)
    perigee("train", script, "--out", "beside", "--log", "plain")
    run = pathlib.Path("beside")
    assert (run / "job.json").stat().st_size < 4096, (run / "job.json").read_text()
    assert (run / "model.safetensors").stat().st_size < 16384 + 4 * 400, (run / "model.safetensors").stat()
    assert sum(c.stat().st_size for c in (run / "checkpoints").iterdir()) < 3 * 40000
    files = sorted((run / "arrays").iterdir())
    assert len(files) == 4 and all(len(f.stem) == 32 and f.suffix == ".npy" for f in files), files
    written = {f.name: f.stat().st_ino for f in files}
    name = json.loads((run / "job.json").read_text())["data"]["test"]["x"]
    assert name["file"] == f"arrays/{name['hash']}.npy" and name["shape"] == [64, 16] and name["dtype"] == "f32", name

    figures = perigee("eval", run, "--log", "json")
    has(perigee("train", "--resume", run, "--epochs", "3", "--log", "plain"), "epoch 3")
    has(perigee("train", script, "--resume", run, "--epochs", "4", "--log", "plain"), "epoch 4")
    assert {f.name: f.stat().st_ino for f in (run / "arrays").iterdir()} == written, "they are written once"
    os.rename("beside", "moved")
    os.rename("job.lua", "gone.lua")
    has(perigee("train", "--resume", "moved", "--epochs", "5", "--log", "plain"), "epoch 5")
    perigee("train", "moved", "--epochs", "1", "--out", "again", "--log", "plain")
    assert len(list(pathlib.Path("again/arrays").iterdir())) == 4, "another run has its own"
    perigee("train", script.replace("job", "gone"), "--epochs", "2", "--out", "twice", "--log", "plain")
    assert json.loads(perigee("eval", "twice", "--log", "json"))["report"] == json.loads(figures)["report"]


def a_lost_or_changed_array_is_named():
    shutil.copytree("again", "damaged")
    name = json.loads(pathlib.Path("damaged/job.json").read_text())["data"]["test"]["x"]
    file = pathlib.Path("damaged") / name["file"]
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    has(perigee("eval", "damaged", expect=3), str(file), "is not the array that the job names", name["hash"])
    file.unlink()
    has(perigee("eval", "damaged", expect=3), str(file), "neither in memory nor in a file here", "--data")
    shutil.copy("again/model.safetensors", "alone.safetensors")
    has(perigee("eval", "alone.safetensors", expect=3), "neither in memory nor in a file here")
    text = pathlib.Path("damaged/job.json").read_text()
    pathlib.Path("damaged/job.json").write_text(text.replace("arrays/" + name["hash"], "../again/arrays/" + name["hash"]))
    has(perigee("train", "damaged/job.json", "--out", "escaped", expect=3), "leads elsewhere than to an array of a run")


def workers_open_the_same_files():
    write_script(2)
    end = last_event("train", "job.lua", "--workers", "2", "--out", "shared", "--log", "json")
    assert end["workers"] == 2 and end["test"]["examples"] == 64 if "examples" in end["test"] else True, end
    assert len(list(pathlib.Path("shared/arrays").iterdir())) == 4
    assert pathlib.Path("shared/model.safetensors").stat().st_size < 16384 + 4 * 400
    end = last_event("train", "--resume", "shared", "--epochs", "3", "--workers", "2", "--log", "json")
    assert end["epochs"] == 3, end
    served = last_event("train", "job.lua", "--workers", "2", "--set", "data.at=coordinator", "--out", "served", "--log", "json")
    assert served["workers"] == 2, served


def without_a_folder_nothing_is_written():
    write_script(1)
    before = sorted(os.listdir("."))
    out = perigee("-e", 'local run = pg.start("job.lua", { folder = false }); run:wait(); print(run.state)')
    has(out, "finished")
    assert sorted(os.listdir(".")) == before, os.listdir(".")


def numbers_in_a_json_job_leave_it():
    rows = [[(i * j) % 7 / 4 for j in range(12)] for i in range(1500)]
    job = {"network": [{"type": "dense", "out": 3}], "loss": "cross_entropy", "epochs": 2, "seed": 1, "optimizer": {"type": "sgd", "lr": 0.01},
           "data": {"train": {"type": "arrays", "x": rows, "y": [i % 3 for i in range(1500)]}, "batch": 50}}
    pathlib.Path("large.json").write_text(json.dumps(job))
    perigee("train", "large.json", "--out", "large", "--log", "plain")
    assert pathlib.Path("large/job.json").stat().st_size < 4096
    job["data"]["train"] = {"type": "arrays", "x": rows[:20], "y": [i % 3 for i in range(20)]}
    pathlib.Path("small.json").write_text(json.dumps(job))
    perigee("train", "small.json", "--out", "small", "--log", "plain")
    assert json.loads(pathlib.Path("small/job.json").read_text())["data"]["train"]["y"][:3] == [0, 1, 2], "what is short can be read"
    assert not pathlib.Path("small/arrays").exists()


def mistakes_in_lists_are_named():
    for what, words in (("x = x", ("x[5]", "another length")), ("x = y, y = x", ("y[5]",)), ("x = { pg.randn(3) }", ("pg.data.arrays",))):
        pathlib.Path("wrong.lua").write_text("""
local pg = require "perigee"
local x, y = {}, {}
for i = 1, 5000 do x[i], y[i] = { i, 0 }, i end
x[5] = { 1, 2, 3 }
return pg.experiment { network = pg.dense { 2 }, loss = "mse", data = { train = pg.data.arrays { WHAT } } }
""".replace("WHAT", what))
        has(perigee("train", "wrong.lua", "--out", "wrong", expect=4 if "randn" in what else 4), "wrong.lua", *words)
    assert not pathlib.Path("wrong").exists()


# A run that is killed at any moment and resumed ends with the bits of one that nobody touched.
def a_killed_run_loses_nothing():
    random.seed(3)
    write_script(600)
    begun = time.monotonic()
    perigee("train", "job.lua", "--out", "whole", "--log", "plain")
    longest = time.monotonic() - begun  # a kill comes before a run on this machine is over
    kills = resumed = 0
    for turn in range(200):
        known = turn > 0 and any(pathlib.Path("killed/checkpoints").glob("step-*.safetensors"))
        if turn > 0 and not known:
            shutil.rmtree("killed", ignore_errors=True)
        command = ["--resume", "killed"] if known else ["job.lua", "--out", "killed"]
        resumed += known
        with subprocess.Popen([PROGRAM, "train", *command, "--log", "plain"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as train:
            try:
                train.wait(timeout=random.uniform(0.03, 0.25) * longest if kills < 25 else 240)
            except subprocess.TimeoutExpired:
                train.send_signal(signal.SIGKILL)
                kills += 1
            error = train.stderr.read().decode()
        if train.returncode != -signal.SIGKILL:
            assert train.returncode == 0, error
            break
    assert train.returncode == 0 and resumed >= 1, (kills, resumed)
    assert digest("killed/model.safetensors") == digest("whole/model.safetensors"), f"after {kills} kills"
    left = [f.name for f in pathlib.Path("killed/checkpoints").iterdir()]
    assert len(left) <= 3 and all(name.endswith(".safetensors") for name in left), left
    print(f"# {kills} kills, {resumed} resumes")


def wait_for(what, condition, terminal):
    """Reads the terminal meanwhile: a program that nobody reads from stops at a full buffer."""
    limit = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < limit, what
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 65536)


# The terminal is closed: the kernel sends SIGHUP, and what the run prints goes nowhere.
def a_closed_terminal_leaves_a_checkpoint():
    write_script(100000)
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.execv(PROGRAM, [PROGRAM, "train", "job.lua", "--set", "checkpoint.every_epochs=0", "--out", "hung"])
    log = pathlib.Path("hung/log.jsonl")
    wait_for("the run trains", lambda: log.exists() and '"epoch"' in log.read_text(), terminal)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 128 + signal.SIGHUP, status
    files = list(pathlib.Path("hung/checkpoints").glob("step-*.safetensors"))
    assert len(files) == 1, files
    end = json.loads(log.read_text().splitlines()[-1])
    assert end["event"] == "end" and end["stopped"] == "interrupted" and pathlib.Path(end["checkpoint"]) == files[0], end


TESTS = (arrays_lie_beside_the_run, a_lost_or_changed_array_is_named, workers_open_the_same_files, without_a_folder_nothing_is_written,
         numbers_in_a_json_job_leave_it, mistakes_in_lists_are_named, a_killed_run_loses_nothing, a_closed_terminal_leaves_a_checkpoint)

with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"  # a checkpoint has the table of kernel times, which grows with what was trained before
    for each in TESTS if len(sys.argv) < 3 else [t for t in TESTS if t.__name__ in sys.argv[2:]]:
        begun = time.monotonic()
        each()
        print(f"ok: {each.__name__.replace('_', ' ')} ({time.monotonic() - begun:.1f} s)", flush=True)
