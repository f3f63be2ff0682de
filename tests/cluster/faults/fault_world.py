"""One training run of real processes for the fault tests: a coordinator, workers behind relays that can be throttled, cut and
silenced, and what must be true of the run when it has ended.

    with World(averaging='periodic { every = 2 }') as world:
        world.start(workers=3)
        world.worker("w1").kill()
        world.expect("worker_lost", "w1")
        world.finish()          # the run ends by itself; ledger, exit codes, lines, processes and descriptors are checked

The run cannot end before the test is done with it: beyond half of the work every message between workers and coordinator is held
up for a while, until finish() lets go. No check depends on how long something took; what took how long is recorded.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from chaos_proxy import ChaosProxy
from harness import Process, Skip, Usage, program, write_secret

PATIENCE = int(os.environ.get("PERIGEE_PATIENCE", "60"))  # seconds for an event that must come; a slow machine may take most of them
END_PATIENCE = 240  # without a step, until the run has ended
HELD_MS = ((0.5, 60), (0.8, 200))  # from this share of the work on, for so long
CLUSTER_ERROR = 5  # exit code
LOOKS = 120  # seconds for which a worker looks for a coordinator, one that may come back, before it gives up with an error
LINK = 3  # descriptors that a connection takes more once it has carried something large: it is in shared memory then
GROWTH = 48 << 20  # bytes of a process that may be caches; a leak per blow is more

JOB = """
local pg = require "perigee"
return pg.experiment {{
  name = "faults",
  network = pg.sequential {{ pg.flatten {{}}, {hidden} pg.dense {{ 10 }} }},
  loss = "cross_entropy", optimizer = pg.adam {{ lr = {lr} }},
  data = {{ train = {train}, test = {test}, batch = {batch} }},
  averaging = pg.averaging.{averaging},
  checkpoint = {{ {checkpoint} }},
  epochs = {epochs}, seed = {seed},
}}
"""
DIGITS = '{{ type = "digits", size = {}, seed = {} }}'


class Failure(Exception):
    """Something that must hold does not."""


class Figures:
    """What was measured, by name: printed as percentiles, never asserted."""

    def __init__(self):
        self._values, self._lock = {}, threading.Lock()

    def add(self, name, value):
        with self._lock:
            self._values.setdefault(name, []).append(value)

    def values(self):
        with self._lock:
            return {name: list(values) for name, values in self._values.items()}

    def lines(self):
        for name, values in sorted(self.values().items()):
            ordered = sorted(values)
            at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]  # noqa: E731
            yield f"{name}: n {len(ordered)}, median {at(0.5):.0f}, p90 {at(0.9):.0f}, p99 {at(0.99):.0f}, most {ordered[-1]:.0f}"


class Child(Process):
    """A process of a world, in a group of its own."""

    def __init__(self, name, arguments, folder, **options):
        self.expected = (0,)  # exit codes, negative for signals; None: any
        super().__init__(arguments, folder, name=name, own_group=True, **options)

    def said(self):
        return "\n".join([*self.lines[-20:], self.stderr()])

    def signal(self, number):
        if self.running():
            self.process.send_signal(number)

    def kill(self):
        if self.expected is not None:
            self.expected = (*self.expected, -signal.SIGKILL)
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def wait(self, deadline=PATIENCE):
        try:
            return super().wait(deadline)
        except AssertionError as late:
            raise Failure(f"{self.name} does not end: {late}") from None

    def close(self):
        if self.running():
            self.signal(signal.SIGCONT)
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait(PATIENCE)
        self.reader.join(5)
        self.errors.close()


class Events:
    """What the coordinator told, in order, with the moment it was read."""

    def __init__(self):
        self.list, self._changed = [], threading.Condition()

    def add(self, event):
        with self._changed:
            self.list.append(event)
            self._changed.notify_all()

    def mark(self):
        with self._changed:
            return len(self.list)

    def since(self, mark):
        with self._changed:
            return self.list[mark:]

    def wait(self, what, found, mark=0, seconds=PATIENCE):
        """The first event from `mark` on for which `found` is true."""
        end = time.monotonic() + seconds
        with self._changed:
            at = mark
            while True:
                for event in self.list[at:]:
                    if found(event):
                        return event
                at = max(at, len(self.list))
                left = end - time.monotonic()
                if left <= 0:
                    raise Failure(f"waited in vain for {what}; the last lines:\n" + tail(self.list))
                self._changed.wait(left)


def tail(events, count=12):
    return "\n".join(json.dumps(e)[:400] for e in events if e.get("event") != "workers")[-6000:] if len(events) <= count else \
        "\n".join(json.dumps(e)[:400] for e in [e for e in events if e.get("event") != "workers"][-count:])


def listening_port(pid, seconds=PATIENCE, over=lambda: False):
    """The TCP port that a process listens on: its only socket in that state. None: it was over before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if over():
            return None
        inodes = set()
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                link = os.readlink(entry.path)
                if link.startswith("socket:["):
                    inodes.add(link[8:-1])
            for table in ("tcp", "tcp6"):
                for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in inodes:
                        return int(fields[1].rsplit(":", 1)[1], 16)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
        time.sleep(0.02)
    raise Failure(f"process {pid} does not listen")


class World:
    def __init__(self, averaging="allreduce {}", *, figures=None, rounds=1000, batch=16, workers=3, train=None, test=None, examples=2048,
                 checkpoint="every_epochs = 4", seed=1, delay_ms=4.0, held_ms=HELD_MS, file_system_bytes=0):
        """`rounds`: about so many with so many workers. `file_system_bytes`: the run folder is on a file system of that size."""
        self.figures = figures or Figures()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="perigee-faults-"))
        self.out = self.folder / "run"
        self.examples = examples
        self.epochs = max(1, round(rounds * batch * workers / examples))
        self.finished, self.skipped = False, 0
        self.events = Events()
        self.children, self.proxies, self.workers = [], {}, {}
        self.coordinator = None
        self._delay_ms, self._held_ms, self._holds, self._let_go = delay_ms, 0, held_ms, False
        self._usage = {}
        self.secret = self.folder / "cluster.key"
        write_secret(self.secret)
        self._mounted = ""
        if file_system_bytes:
            self._mount(file_system_bytes)
        self._job = {"train": train or DIGITS.format(examples, 1), "test": test or DIGITS.format(256, 2), "batch": batch, "lr": 1e-3,
                     "hidden": 'pg.dense { 32, activation = "relu" },',
                     "averaging": averaging, "checkpoint": checkpoint, "seed": seed}
        self.write_job()

    def write_job(self, epochs=None, **changes):
        self.epochs = epochs or self.epochs
        self._job.update(changes)
        (self.folder / "job.lua").write_text(JOB.format(epochs=self.epochs, **self._job))

    def _mount(self, size):
        place = self.folder / "small"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True)
        if done.returncode:
            raise Skip("a file system of its own is not permitted: " + done.stderr.strip())
        self._mounted, self.out = str(place), place / "run"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.close()
        for proxy in self.proxies.values():
            proxy.__exit__()
        if self._mounted:
            subprocess.run(["umount", "-l", self._mounted], capture_output=True)
        if not os.environ.get("PERIGEE_KEEP_RUNS"):
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- processes ----

    def start(self, workers=3, relay_data=False):
        """Coordinator and workers w0, w1, ... that train; `relay_data`: relays between the workers too."""
        self.start_coordinator()
        for index in range(workers):
            self.start_worker(f"w{index}", relay_data=relay_data)
        self.steps(2, workers=workers)
        self.note_usage()

    def start_coordinator(self, *extra, resume=False, host="127.0.0.1", prefix=()):
        arguments = ["train", "job.lua", "--listen", f"{host}:0", "--secret", self.secret, "--threads", "1", "--log", "json", *extra]
        arguments += ["--resume", self.out] if resume else ["--out", self.out]
        identity = self.out / "cluster.json"
        before = identity.stat().st_mtime_ns if resume else -1
        self.coordinator = Child("coordinator", arguments, self.folder, command=prefix, on_event=self._hear)
        self.children.append(self.coordinator)

        def address():
            if not self.coordinator.running():
                raise Failure("the coordinator ended: " + self.coordinator.said()[-2000:])
            try:
                if identity.stat().st_mtime_ns == before:
                    return None
                return json.loads(identity.read_text()).get("listen")
            except (FileNotFoundError, json.JSONDecodeError):
                return None
        self.poll("the coordinator listens", address)
        self.address = address()
        self.port = int(self.address.rsplit(":", 1)[1])
        for proxy in self.proxies.values():
            if proxy.to_coordinator:
                proxy.target = ("127.0.0.1", self.port)
        return self.coordinator

    def start_agent(self, name, port):
        child = Child(name, ["agent", "--listen", f"127.0.0.1:{port}", "--name", name, "--slots", "2", "--secret", self.secret], self.folder)
        self.children.append(child)
        return child

    def kill_coordinator(self):
        """And takes it off the list, so that another one can be started."""
        self.coordinator.kill()
        self.children.remove(self.coordinator)
        self.coordinator.close()

    def start_alone(self, workers, *extra, resume=False):
        """Coordinator, agent and workers by the one command."""
        self.coordinator = Child("coordinator", ["train", "job.lua", "--workers", workers, "--threads", "1", "--log", "json", *extra,
                                                 "--resume" if resume else "--out", self.out], self.folder, on_event=self._hear)
        self.children.append(self.coordinator)
        self.steps(2, workers=workers)
        self.note_usage()

    def start_on_agents(self, workers, ports):
        """So many on each; no others can join."""
        agents = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.coordinator = Child("coordinator", ["train", "job.lua", "--agents", agents, "--workers", workers, "--secret", self.secret, "--threads",
                                                 "1", "--log", "json", "--out", self.out], self.folder, on_event=self._hear)
        self.children.append(self.coordinator)
        self.steps(2, workers=workers * len(ports))

    def _hear(self, event):
        self.events.add(event)
        held = max((ms for share, ms in self._holds if event.get("progress", 0) > share), default=0)
        if held > self._held_ms and not self._let_go:
            self._held_ms = held
            self._set_delay()

    def _set_delay(self):
        for proxy in list(self.proxies.values()):
            if proxy.to_coordinator:
                proxy.delay_ms = 0 if self._let_go else self._held_ms or self._delay_ms

    def hold(self, ms):
        """Every message between workers and coordinator is held up for so long from now on."""
        self._held_ms = ms
        self._set_delay()

    def heal_all(self):
        for proxy in list(self.proxies.values()):
            proxy.heal()
        self._set_delay()

    def proxy(self, name, to_coordinator):
        if name not in self.proxies:
            proxy = ChaosProxy(target=("127.0.0.1", self.port) if to_coordinator else None)
            proxy.to_coordinator = to_coordinator
            proxy.__enter__()
            self.proxies[name] = proxy
            self._set_delay()
        return self.proxies[name]

    def control(self, name):
        """The relay between a worker and the coordinator."""
        return self.proxy(name, True)

    def data(self, name):
        """The relay through which other workers reach this one."""
        return self.proxy(name + "/data", False)

    def start_worker(self, name, *extra, relay_data=False, join=None, prefix=(), executable=None, secret=None, env=None):
        arguments = ["worker", name, "--join", join or self.control(name).address, "--threads", "1"]
        if secret is not False:
            arguments += ["--secret", secret or self.secret]
        if relay_data:
            arguments += ["--advertise", self.data(name).address]
        child = Child(name, [*arguments, *extra], self.folder, command=prefix, executable=executable, env=env)
        self.children.append(child)
        self.workers[name] = child
        if relay_data:
            # A run that ends meanwhile has no more use for it.
            port = listening_port(child.pid, over=lambda: not child.running() or not self.coordinator.running())
            self.data(name).target = ("127.0.0.1", port) if port else None
        return child

    def worker(self, name):
        return self.workers[name]

    # ---- what must happen ----

    def poll(self, what, found, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found():
                return
            time.sleep(0.02)
        raise Failure(f"waited in vain: {what() if callable(what) else what}; the last lines:\n" + tail(self.events.list))

    def wait(self, what, found, mark=0, seconds=PATIENCE):
        return self.events.wait(what, found, mark, seconds)

    def steps(self, count=1, mark=None, workers=None):
        """So many more "step" events, with so many workers: the run goes on."""
        mark = self.events.mark() if mark is None else mark
        for _ in range(count):
            self.wait(f"the run to go on (workers: {workers})",
                      lambda e: e.get("event") == "step" and (workers is None or e.get("workers") == workers), mark)
            mark = self.events.mark()

    def expect(self, kind, worker=None, mark=0):
        """The line that names the root cause: which worker, on which host, why, and what was done."""
        line = self.wait(f"the line '{kind}' about {worker}", lambda e: e.get("event") == kind and e.get("worker") in (worker, None), mark)
        for part in ("cause", "done") + (("host",) if worker else ()):
            if not line.get(part):
                raise Failure(f"the line has no '{part}': {line}")
        return line

    def faults(self, mark=0):
        return [e for e in self.events.since(mark)
                if e.get("event") in ("worker_lost", "worker_failed", "worker_refused", "worker_stuck", "link_lost", "hash_mismatch", "error")]

    def note_blame(self, mark, names=()):
        """No node but `names` is at fault. That a slow machine makes another node look lost is permitted, and counted; more is not."""
        others = [e for e in self.faults(mark) if e.get("worker") not in names]
        wrong = [e for e in others if e["event"] not in ("worker_lost", "link_lost")]
        if wrong:
            raise Failure(f"lines that blame other nodes than {names}: {wrong[:3]}")
        self.figures.add("lines of a blow about others", sum(e["event"] == "worker_lost" for e in others))

    def record_recovery(self, name, struck, mark, line=None):
        """From the coordinator's own clock, which is this machine's monotonic one: until it knew, and until a round of the next
        membership was committed."""
        if line and "monotonic_s" in line:
            self.figures.add(f"{name}: noticed after ms", 1000 * (line["monotonic_s"] - struck))
        after = self.wait("a round of the next membership",
                          lambda e: e.get("event") == "step" and e.get("monotonic_s", 0) > (line or {}).get("monotonic_s", struck), mark)
        if "monotonic_s" in after:
            self.figures.add(f"{name}: training again after ms", 1000 * (after["monotonic_s"] - struck))

    # ---- nothing is left behind ----

    def note_usage(self):
        """What each process has open now is what it may have open at the end."""
        self._usage = {child: child.usage() for child in self.children if child.running()}

    def check_usage(self):
        came = max(0, sum(child.running() for child in self.children) - len(self._usage))
        for child, before in self._usage.items():
            if child not in self.children or not child.running():
                continue
            links = max(3, len(self.workers)) + came
            # Two workers may have connected to each other at the same moment, and keep both connections. One thread more reads ahead for
            # evaluations, from the first one on.
            most = Usage(before.sockets + 2 * came + 2, before.other_descriptors + LINK * links, before.threads + 1, before.resident + GROWTH)
            now = before

            def back(child=child, most=most):
                nonlocal now
                now = child.usage()
                return all(has <= may for has, may in zip(now, most))
            self.poll(lambda: f"{child.name} has {now}, no more than {most}", back)
            self.figures.add("descriptors more than before", sum(now[:2]) - sum(before[:2]))
            self.figures.add("KiB more than before", (now.resident - before.resident) >> 10)

    # ---- the end ----

    def let_go(self):
        self._let_go = True
        self._set_delay()

    def finish(self, exit_code=0):
        """The run ends by itself, and everything that must be true of it is."""
        self.check_usage()
        self.let_go()
        self.check_alive()
        code = self._wait_for_end()
        if code != exit_code:
            raise Failure(f"the coordinator ended with {code}, not {exit_code}: {self.coordinator.said()[-1500:]}\n{tail(self.events.list)}")
        # Who could not be reached when the run ended is named, and ends by itself; every other worker has heard of it.
        unreached = {e["worker"] for e in self.events.list if e.get("event") == "worker_unreached"}
        for child in self.children:
            if child is self.coordinator:
                continue
            code = child.wait(PATIENCE + LOOKS if child.name in unreached else PATIENCE)
            if child.expected is not None and code not in child.expected + ((CLUSTER_ERROR,) if child.name in unreached else ()):
                raise Failure(f"{child.name} ended with {code}: {child.said()[-1500:]}")
        self.check_ledger(self.skipped)
        self.finished = True
        ends = [e for e in self.events.list if e.get("event") == "end"]
        if len(ends) != 1 or not ends[0].get("model") or not pathlib.Path(self.folder, ends[0]["model"]).is_file():
            raise Failure(f"no model: {ends}")
        wrong = [e for e in self.events.list if e.get("event") == "hash_mismatch"]
        if wrong:
            raise Failure(f"replicas differ: {wrong[0]}")
        return ends[0]

    def interrupt(self):
        """The run is asked to end before it is done."""
        self.check_usage()
        self.coordinator.signal(signal.SIGTERM)
        code, found, left = self.coordinator.wait(), self.ledger(), self.coordinator.workers()
        if code != 128 + signal.SIGTERM or found["duplicates"] or found["missing"] or found["gaps"] or left:
            raise Failure(f"the interrupted run ended with {code}, its ledger {found}, its workers {left}")
        self.finished = True

    def _wait_for_end(self):
        """However slow the machine is: what must not happen is that nothing happens."""
        told = self.events.mark()
        while True:
            try:
                return self.coordinator.wait(END_PATIENCE)
            except Failure:
                before, told = told, self.events.mark()
                if not any(e.get("event") == "step" for e in self.events.since(before)):
                    raise Failure("the run does not end; the last lines:\n" + tail(self.events.list) + "\n" + self.status()) from None

    def check_alive(self):
        if not self.coordinator.running() and self.coordinator.process.returncode != 0:
            raise Failure("the coordinator ended early: " + self.coordinator.said()[-2000:] + "\n" + tail(self.events.list))

    def status(self):
        done = subprocess.run([program(), "status", f"127.0.0.1:{self.port}", "--secret", str(self.secret)], capture_output=True, text=True,
                              timeout=PATIENCE)
        return done.stdout + done.stderr

    def ledger(self):
        done = subprocess.run([program(), "ledger", str(self.out), "--json"], capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode not in (0, 5) or not done.stdout:
            raise Failure(f"perigee ledger: {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def check_ledger(self, skipped=0):
        found = self.ledger()
        planned = self.epochs * self.examples
        if found["duplicates"] or found["missing"] or found["gaps"] or found["counted"] + found["skipped"] != planned or \
                (skipped is not None and found["skipped"] != skipped):
            raise Failure(f"the ledger does not add up to {planned} examples: {found}")
        return found
