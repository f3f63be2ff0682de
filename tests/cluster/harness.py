"""Real Perigee processes for tests: starts agents, trainers and workers, finds their addresses in their JSON logs, signals them, collects
events, checks ledgers. Nothing here sleeps for a fixed time or asserts on one: waits poll for an event and have a generous deadline.

    with Cluster() as cluster:
        train = cluster.train("--workers", "2", "--epochs", "1")
        train.wait_event("step")
        os.kill(train.worker_pids()[0], signal.SIGKILL)
        assert train.wait() == 0, train.tail()
        cluster.check_ledger(train.folder())
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import typing

DEADLINE = 120  # seconds; of a wait on a slow machine under a sanitizer

# 2048 examples of drawn digits: trains in a second and needs no files.
JOB = {
    "name": "small", "seed": 7, "epochs": 2, "loss": "cross_entropy",
    "network": [{"type": "dense", "out": 32, "activation": "relu"}, {"type": "dense", "out": 10}],
    "optimizer": {"type": "adamw", "lr": 1e-3},
    "data": {"train": {"type": "digits", "size": 2048}, "test": {"type": "digits", "part": "test", "size": 512}, "batch": 16},
    "averaging": {"type": "periodic", "every": 4},
}


def program():
    path = os.environ.get("PERIGEE_PROGRAM")
    return path or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "repl" / "perigee")


def has_mnist():
    data = os.environ.get("PERIGEE_DATA")
    return bool(data) and (pathlib.Path(data) / "mnist").is_dir()


def write_secret(path):
    path.touch(0o600)
    path.write_text(os.urandom(32).hex() + "\n")


class Usage(typing.NamedTuple):
    sockets: int
    other_descriptors: int
    threads: int
    resident: int  # bytes


class Process:
    """One program; its standard output is read as JSON Lines while it runs.

    `name` for those who list several; `on_event` hears each event as it comes; `own_group`: it can be killed with its children;
    `executable`: another file than the program."""

    def __init__(self, arguments, folder, env=None, command=None, name="", on_event=None, own_group=False, executable=None):
        self.arguments = list(arguments)
        self.name = name or str(self.arguments[0])
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.changed = threading.Condition()
        self.events, self.lines = [], []
        self.on_event = on_event
        self.process = subprocess.Popen([*(command or []), str(executable or program()), *map(str, arguments)], cwd=folder,
                                        env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, errors="replace", start_new_session=own_group)
        self.folder_of_process = pathlib.Path(folder)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def pid(self):
        return self.process.pid

    def _read(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:  # no event, or the last line of a killed process
                event = None
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                if isinstance(event, dict):
                    self.events.append(event)
                self.changed.notify_all()
            if isinstance(event, dict) and self.on_event:
                self.on_event(event)
        with self.changed:
            self.changed.notify_all()

    def stderr(self):
        self.errors.flush()
        with open(f"/proc/self/fd/{self.errors.fileno()}") as copy:
            return copy.read()

    def tail(self):
        return "\n".join([" ".join(map(str, self.arguments)), *self.lines[-15:], self.stderr()[-2000:]])

    def of_kind(self, kind):
        with self.changed:
            return [e for e in self.events if e.get("event") == kind]

    def wait_event(self, kind, where=lambda event: True, count=1, deadline=DEADLINE):
        """The `count`-th event of this kind that fits; fails when the process ends first."""
        end = time.monotonic() + deadline
        with self.changed:
            while True:
                found = [e for e in self.events if e.get("event") == kind and where(e)]
                if len(found) >= count:
                    return found[count - 1]
                if not self.reader.is_alive():
                    raise AssertionError(f"ended without the event '{kind}':\n{self.tail()}")
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"no event '{kind}' within {deadline} s:\n{self.tail()}")
                self.changed.wait(min(left, 1))

    def wait(self, deadline=DEADLINE):
        """The exit status."""
        try:
            status = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {deadline} s:\n{self.tail()}") from None
        self.reader.join(10)
        return status

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def running(self):
        return self.process.poll() is None

    def folder(self):
        return self.folder_of_process / self.wait_event("start")["folder"]

    def usage(self):
        """What the process has open: see Usage."""
        kinds = []
        for entry in os.scandir(f"/proc/{self.pid}/fd"):
            try:
                kinds.append(os.readlink(entry.path).startswith("socket:"))
            except FileNotFoundError:
                pass
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return Usage(sum(kinds), len(kinds) - sum(kinds), len(os.listdir(f"/proc/{self.pid}/task")), pages * os.sysconf("SC_PAGE_SIZE"))

    def workers(self):
        """Processes that this one started and that show as `perigee worker NAME ...`: their ids by name."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == self.pid and words[:2] == [b"perigee", b"worker"]:
                found[words[2].decode()] = int(entry.name)
        return found

    def worker_pids(self):
        found = self.workers()
        return [found[name] for name in sorted(found)]


class Cluster:
    """A folder of its own and everything that was started in it, which ends with it."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="perigee-cluster-"))
        self.processes = []
        self.write_job()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes:
            for pid in process.worker_pids():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_job(self, name="job.json", **changes):
        job = json.loads(json.dumps(JOB))
        for key, value in changes.items():
            job[key] = value
        (self.folder / name).write_text(json.dumps(job))
        return name

    def start(self, *arguments, env=None, command=None):
        process = Process(arguments, self.folder, env, command)
        self.processes.append(process)
        return process

    def train(self, *arguments, job="job.json", env=None, command=None):
        return self.start("train", job, "--log", "json", *arguments, env=env, command=command)

    def resume(self, folder, *arguments):
        return self.start("train", "--log", "json", "--resume", folder, *arguments)

    def run(self, *arguments):
        done = subprocess.run([program(), *map(str, arguments)], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=DEADLINE)
        return done.returncode, done.stdout, done.stderr

    def secret(self):
        file = self.folder / "cluster.key"
        if not file.exists():
            write_secret(file)
        return str(file)

    def agent(self, *arguments, secret=True, env=None):
        """An agent on a free port of this machine, with its address."""
        extra = ["--secret", self.secret()] if secret else []
        agent = self.start("agent", "--log", "json", "--listen", "127.0.0.1:0", *extra, *arguments, env=env)
        agent.address = agent.wait_event("listening")["address"]
        return agent

    def coordinator_address(self, train):
        return json.loads((train.folder() / "cluster.json").read_text())["listen"]

    def ledger(self, folder):
        status, out, err = self.run("ledger", folder, "--json")
        assert status == 0, err
        return json.loads(out)

    def check_ledger(self, folder, epochs=None):
        """Every example of every complete epoch counted exactly once, or is booked as skipped."""
        found = self.ledger(folder)
        assert found["duplicates"] == 0 and found["missing"] == 0, found
        if epochs is not None:
            examples = JOB["data"]["train"]["size"]
            assert found["counted"] + found["skipped"] == epochs * examples, found
        return found


def parameters(run):
    """The bytes of a run's model behind the header, which also holds the job: it names the threads."""
    content = (pathlib.Path(run) / "model.safetensors").read_bytes()
    return content[8 + int.from_bytes(content[:8], "little"):]


def wait_until(what, condition, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {deadline} s")
        time.sleep(0.02)


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


def main(tests):
    """Runs functions (those named on the command line) and prints TAP."""
    chosen = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    print(f"1..{len(chosen)}")
    failed = 0
    for number, test in enumerate(chosen, 1):
        try:
            test()
            print(f"ok {number} {test.__name__}", flush=True)
        except Skip as reason:
            print(f"ok {number} {test.__name__} # SKIP {reason}", flush=True)
        except Exception:  # a test that fails must not hide the others
            failed += 1
            print(f"not ok {number} {test.__name__}", flush=True)
            print("\n".join("# " + line for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(failed > 0)
