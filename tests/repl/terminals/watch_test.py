#!/usr/bin/env python3
"""A run in another terminal: `perigee watch` and `perigee attach RUN`. watch_test.py PROGRAM. Prints TAP."""
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
JOB = {"name": "watched", "network": ["flatten", {"type": "dense", "out": 10}], "loss": "cross_entropy",
       "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.5}, "epochs": 1000000, "checkpoint": {"every_seconds": 0.2, "every_epochs": 0},
       "data": {"train": {"type": "digits", "size": 320, "endless": False}, "test": {"type": "digits", "part": "test", "size": 64, "endless": False}}}


def wait_until(what, holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)


class Place:
    def __init__(self, folder, **changes):
        self.folder = pathlib.Path(folder)
        self.run = self.folder / "run"
        (self.folder / "job.json").write_text(json.dumps(JOB | changes))
        self.children = []

    def start(self, *arguments, **options):
        child = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 **options)
        self.children.append(child)
        return child

    def train(self, *more):
        child = self.start("train", "job.json", "--out", "run", "--threads", "1", "--log", "plain", *more)
        wait_until("the run", lambda: (self.run / "log.jsonl").exists() and self.steps() > 0)
        return child

    def events(self):
        lines = (self.run / "log.jsonl").read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def steps(self):
        return max((event.get("step", 0) for event in self.events()), default=0)

    def answers(self):
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.run / "control.sock")) == 0

    def attach(self, *lines, code=0):
        done = subprocess.run([PROGRAM, "attach", "run", *[word for line in lines for word in ("-e", line)]], cwd=self.folder, capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == code, done
        return (done.stdout + done.stderr).splitlines()

    def end(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()


def ctrl_c_leaves_the_run_alone(place):
    train = place.train()
    watch = place.start("watch", "run", "--log", "plain")
    time.sleep(0.5)
    watch.send_signal(signal.SIGINT)
    out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 130 and "watched: digits" in out and "stopping" not in out, (watch.returncode, out)
    before = place.steps()
    wait_until("more steps", lambda: place.steps() > before)
    assert train.poll() is None


def a_run_is_watched_to_its_end(place):
    train = place.train()
    watch = place.start("watch", "run", "--log", "plain")
    plotted = place.attach('run:plot "loss"', "run.state")
    assert any("step" in line for line in plotted) and plotted[-1] == '"training"', plotted
    set_to, now = place.attach("run.optimizer.momentum = 0.8", "run.optimizer.momentum", "run.lr = 0.01", "run.optimizer.lr")
    assert (set_to, now) == ("0.8", "0.01"), (set_to, now)
    refused = place.attach("run.seed = 3", code=1)
    assert any("start another run with it" in line for line in refused), refused
    assert any("another process" in line and "run:save" in line for line in place.attach("run.network.x", code=1))
    place.attach('run:save "now.safetensors"', 'print(pg.load_model("now.safetensors"))')
    assert (place.folder / "now.safetensors").exists()
    place.attach("run:pause()", 'repeat run:wait(0.05) until run.state == "paused"', "run:resume()")
    over = place.attach('run:on("over", function(event) print("told " .. event.state) end)', "run:stop()", "run:wait(60).state")
    assert "told stopped" in over and over[-1] == '"stopped"', over
    out, _ = train.communicate(timeout=60)
    assert train.returncode == 130 and "optimizer.momentum = 0.8 after step" in out and "paused after step" in out, out
    out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0, (watch.returncode, out)
    for part in ("optimizer.momentum = 0.8 after step", "paused after step", "goes on after step", "stopped after step",
                 "continue with: perigee train --resume run"):
        assert part in out, (part, out)
    assert not (place.run / "control.sock").exists()
    # The options that were set hold after the resume, and are told again.
    again = place.start("train", "--resume", "run", "--log", "plain", "--threads", "1")
    wait_until("the settings", lambda: sum(event["event"] == "set" and event.get("resumed", False) for event in place.events()) == 2)
    wait_until("the socket", lambda: (place.run / "control.sock").exists())
    assert place.attach("run.optimizer.momentum", "run.optimizer.lr") == ["0.8", "0.01"]
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=60)


def a_run_that_is_over_is_shown(place):
    (place.folder / "job.json").write_text(json.dumps(JOB | {"epochs": 2}))
    assert place.start("train", "job.json", "--out", "run", "--log", "plain").wait(60) == 0
    watch = place.start("watch", "run", "--log", "plain")
    out, _ = watch.communicate(timeout=60)
    assert watch.returncode == 0 and "epoch 2: train" in out and "trained 20 steps" in out and "model run/model.safetensors" in out, out
    assert place.attach("run.state") == ['"finished"']
    assert any("the run is over" in line for line in place.attach("run:pause()", code=1))


def a_run_that_failed_says_why(place):
    (place.folder / "job.json").write_text(json.dumps(JOB | {"optimizer": {"type": "sgd", "lr": 1e9}, "network": ["flatten", *[{"type": "dense", "out": 10}] * 4]}))
    assert place.start("train", "job.json", "--out", "run", "--log", "plain").wait(60) == 4
    watch = place.start("watch", "run", "--log", "plain")
    out, err = watch.communicate(timeout=60)
    assert watch.returncode == 4 and "the run failed: " in err and "not finite" in err, (out, err)


def a_process_that_was_killed_is_told(place):
    train = place.train()
    wait_until("a checkpoint", lambda: list((place.run / "checkpoints").glob("step-*")))
    watch = place.start("watch", "run", "--log", "plain")
    time.sleep(0.3)
    train.kill()
    out, err = watch.communicate(timeout=60)
    assert watch.returncode == 7 and "`perigee train --resume run`" in err, (watch.returncode, err)
    assert place.attach("run.state") == ['"lost"']
    # The advice works, and a watcher begins with the new start.
    again = place.start("train", "--resume", "run", "--log", "plain")
    wait_until("the second start", lambda: sum(event["event"] == "start" for event in place.events()) == 2)
    watch = place.start("watch", "run", "--log", "json")
    # The killed one's socket has made room for a live one.
    wait_until("the socket", lambda: place.answers())
    assert place.attach("run.state") == ['"training"']
    again.send_signal(signal.SIGTERM)
    out, _ = watch.communicate(timeout=60)
    shown = [json.loads(line) for line in out.splitlines()]
    assert shown[0]["event"] == "start" and shown[0]["step"] > 0 and shown[-1]["event"] == "end", shown
    assert again.wait(60) == 143


def nothing_to_watch_is_an_error(place):
    for arguments, part in ((("watch",), "there is no run in runs/"), (("watch", "nowhere"), "there is no run in this folder"),
                            (("attach", "."), "there is no run in this folder")):
        child = place.start(*arguments)
        _, err = child.communicate(timeout=60)
        assert child.returncode == 2 and part in err, (arguments, err)


def others_may_not_open_the_socket(place):
    place.train()
    wait_until("the socket", lambda: (place.run / "control.sock").exists())
    assert stat.S_IMODE(os.stat(place.run / "control.sock").st_mode) == 0o600


ASK = """import socket, sys
client = socket.socket(socket.AF_UNIX)
client.settimeout(20)
client.connect(sys.argv[1])
client.sendall(b'{"ask": "progress"}\\n')
print(client.recv(9))"""


def another_user_gets_no_answer(place):
    """Where a file system lets others open the socket. Only root can play another user."""
    place.train()
    path = place.run / "control.sock"
    wait_until("the socket", path.exists)
    for folder, mode in ((place.folder, 0o755), (place.run, 0o755), (path, 0o666)):
        folder.chmod(mode)
    ask = [sys.executable, "-c", ASK, str(path)]
    assert b"answer" in subprocess.run(ask, capture_output=True, timeout=60).stdout
    if os.geteuid() != 0:
        return "only root can play another user"
    system = ["/usr/bin/python3", *ask[1:]]  # others may not run that of root's home
    other = subprocess.run(system, capture_output=True, timeout=60, user=65534)
    assert other.stdout.strip() == b"b''" or b"ConnectionReset" in other.stderr or b"BrokenPipe" in other.stderr, other
    return ""


HOSTILE = "a\x1b]0;title\x07b\x9b2Jc"


def a_log_cannot_steer_the_terminal(place):
    place.run.mkdir()
    events = [{"event": "start", "name": HOSTILE, "data": HOSTILE, "parameters": 1}, {"event": "paused", "step": 3, "cause": HOSTILE},
              {"event": "set", "step": 4, "option": HOSTILE, "value": 1}, {"event": "error", "text": HOSTILE}]
    (place.run / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for log in ("plain", "json"):
        out, err = place.start("watch", "run", "--log", log).communicate(timeout=60)
        assert "a]0;titleb2Jc" in out and "a]0;titleb2Jc" in err and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), (out, err)
    shown = place.attach("print(run.progress)", "run.progress.error")
    assert "titleb2Jc" in " ".join(shown) and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(shown)), shown


def main():
    tests = [ctrl_c_leaves_the_run_alone, a_run_is_watched_to_its_end, a_run_that_is_over_is_shown, a_run_that_failed_says_why,
             a_process_that_was_killed_is_told, nothing_to_watch_is_an_error, others_may_not_open_the_socket, another_user_gets_no_answer,
             a_log_cannot_steer_the_terminal]
    failures = 0
    for number, test in enumerate(tests, 1):
        problem = skipped = ""
        with tempfile.TemporaryDirectory(prefix="perigee-watch-") as folder:
            place = Place(folder)
            try:
                skipped = test(place)
            except Exception as error:  # noqa: BLE001
                problem = f"{type(error).__name__}: {error}"
            finally:
                place.end()
        failures += bool(problem)
        print(f"{'not ok' if problem else 'ok'} {number} {test.__name__.replace('_', ' ')}" +
              (f" # SKIP {skipped}" if skipped else "") + "".join(f"\n# {line}" for line in problem.splitlines()[:12]), flush=True)
    print(f"1..{len(tests)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
