"""`perigee train --detach`: the run outlives its terminal, its folder has what it prints, and what fails before it trains fails here.
detach_test.py PROGRAM"""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())

SCRIPT = """
local pg = require "perigee"
return pg.experiment {
  name = "left",
  network = pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 10 } },
  loss = "cross_entropy", optimizer = pg.sgd { lr = 1e-2 },
  data = { train = pg.data.digits({ size = 400 }).train, batch = 20 },
  epochs = 1000000, seed = 5, threads = 1,
}
"""


def wait_until(done, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def is_gone(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        return state == "Z"
    except FileNotFoundError:
        return True


def perigee(*arguments, **variables):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables})


def parts_of(text):
    """The process and the folder that --detach tells."""
    found = re.search(r"as process (\d+); what it prints is in (\S+)/output\.txt", text)
    assert found, text
    for command in ("perigee watch ", "perigee attach "):
        assert command + found[2] in text, text
    return int(found[1]), pathlib.Path(found[2])


def stop(process, folder):
    os.kill(process, signal.SIGTERM)
    wait_until(lambda: is_gone(process), f"the end of process {process}")
    assert "stopped after step" in (folder / "output.txt").read_text(encoding="utf-8")
    assert list((folder / "checkpoints").glob("*.safetensors")), "no checkpoint"


def outlives_its_terminal():
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROGRAM, [PROGRAM, "train", "job.lua", "--detach"])
    text = ""
    while "stop it" not in text:
        assert select.select([terminal], [], [], 60)[0], text
        text += os.read(terminal, 65536).decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    process, folder = parts_of(text.replace("\r\n", "\n"))
    assert "run folder " + str(folder) in text, text
    os.close(terminal)
    assert os.getsid(process) == process
    output = folder / "output.txt"
    wait_until(lambda: output.read_text(encoding="utf-8").count("epoch ") >= 3, "three epochs after the terminal was closed")
    assert output.read_text(encoding="utf-8").count("run folder") == 1
    stop(process, folder)


def workers_are_its_own():
    done = perigee("train", "job.lua", "--detach", "--workers", "2", "--set", "averaging=allreduce", "--out", "two")
    assert done.returncode == 0, done.stderr
    process, folder = parts_of(done.stdout)
    assert str(folder) == "two"
    wait_until(lambda: "epoch 2" in (folder / "output.txt").read_text(encoding="utf-8"), "two epochs of two workers")
    stop(process, folder)


def what_fails_before_fails_here():
    done = perigee("train", "nothere.lua", "--detach")
    assert done.returncode == 2 and "there is no such file" in done.stdout + done.stderr, done
    done = perigee("train", "job.lua", "--detach", "--set", "loss=mse_")
    assert done.returncode != 0 and "mse_" in done.stdout + done.stderr, done
    done = perigee("train", "job.lua", "--detach", TMPDIR="/nonexistent")
    assert done.returncode == 7 and "no file for what the run prints can be made" in done.stderr, done
    done = perigee("train", "job.lua", "--detach", "--dry-run")
    assert done.returncode == 2 and "--dry-run ends by itself" in done.stderr, done


def ctrl_c_before_it_trains_ends_it():
    """A script that computes for long: the process that would train ends with this one."""
    pathlib.Path("long.lua").write_text("while true do end", encoding="utf-8")
    waiting = subprocess.Popen([PROGRAM, "train", "long.lua", "--detach"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    children = pathlib.Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children")
    wait_until(lambda: children.read_text(encoding="utf-8").split(), "the process that trains")
    child = int(children.read_text(encoding="utf-8").split()[0])
    time.sleep(0.3)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130, waiting.returncode
    wait_until(lambda: is_gone(child), "the end of the process that would train")


def main():
    with tempfile.TemporaryDirectory(prefix="perigee-detach-") as folder:
        os.chdir(folder)
        pathlib.Path("job.lua").write_text(SCRIPT, encoding="utf-8")
        for test in (outlives_its_terminal, workers_are_its_own, what_fails_before_fails_here, ctrl_c_before_it_trains_ends_it):
            test()
            print("ok", test.__name__)
        os.chdir("/")


if __name__ == "__main__":
    main()
