"""Many faults for a long time, over the policies: what they cost in accuracy, and what is left of them in the processes.

Each policy has a calm run and one under blows, of the same job; some policies at a time, each in a process of its own. A run is held
up where it would be over before its blows. Some workers join by themselves, behind relays; where the workers wait
for each other two more are an agent's. Coordinator, agent and server are struck in the first third only, so that what they hold at the
start, in the middle and at the end (SAMPLES) is of one process each."""
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import time
import traceback

from fault_kit import monotonic
from fault_processes import free_port
from fault_world import DIGITS, GROWTH, PATIENCE, Failure, Figures, World

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEDGER = ROOT / "build" / "soak.jsonl"  # every soak ever run here, one line each
JOINED, OF_AGENT = 4, 2  # workers
EVERY_S = 3.5
EXAMPLES, BATCH, EPOCHS, EPOCH_S = 8192, 32, 24, 3  # at least so many epochs, and one for so many seconds
HELD_MS = (4, 200)  # messages of workers that wait for each other, so that a run is as long as its blows take
WITHIN = 0.003  # accuracy that the blows may cost
SAMPLES = (1 / 3, 2 / 3, 1)  # of a policy's time
SERVED = {"easgd", "downpour", "staleness_aware", "async_local"}
POLICIES = {
    "allreduce": "allreduce { deadline_ms = 20000 }",
    "periodic": "periodic { every = 4, deadline_ms = 20000 }",
    "gossip": "gossip { every = 4, consensus = 8, deadline_ms = 20000 }",
    "nested": "nested { inside = pg.averaging.periodic { every = 2 }, across = pg.averaging.periodic { every = 8, deadline_ms = 20000 }, group = 2 }",
    "diloco": "diloco { every = 8, deadline_ms = 20000 }",
    "streaming": "streaming { every = 8, deadline_ms = 20000 }",
    "powersgd": "powersgd { deadline_ms = 20000 }",
    "easgd": "easgd { every = 4, deadline_ms = 20000 }",
    "downpour": "downpour { every = 4, deadline_ms = 20000 }",
    "staleness_aware": "staleness_aware { every = 4, deadline_ms = 20000, codec = 'int8' }",
    "async_local": "async_local { every = 8, deadline_ms = 20000 }",
}
# Weights. Coordinator, agent and server have one of each blow in the first third only.
KINDS = {"worker killed": 8, "worker of the agent killed": 4, "worker stopped": 5, "partition": 3, "connection reset": 1}
EARLY = {"coordinator killed": 1, "coordinator stopped": 1, "agent killed": 1, "server killed": 1}
SIGNALS = {"SIGKILL": ("worker killed", "worker of the agent killed", "coordinator killed", "agent killed", "server killed"),
           "SIGSTOP": ("worker stopped", "coordinator stopped"), "partition": ("partition",), "reset": ("connection reset",)}


class Soak:
    """One policy under blows."""

    def __init__(self, policy, seconds, rng, figures, epochs):
        self.policy, self.seconds, self.rng, self.figures, self.epochs = policy, seconds, rng, figures, epochs
        self.counts, self.usage = {}, []
        self.agent, self.agent_port, self.held_ms = None, free_port(), HELD_MS[0]

    def job(self, world):
        world.write_job(epochs=self.epochs, train=DIGITS.format(EXAMPLES, 1), test=DIGITS.format(8192, 2), lr="pg.cosine { from = 2e-3 }",
                        checkpoint="every_epochs = 5")

    def calm(self):
        """Accuracy and seconds of a run without blows."""
        with World(POLICIES[self.policy], examples=EXAMPLES, batch=BATCH, delay_ms=0) as world:
            self.job(world)
            world.let_go()
            world.start(JOINED + (0 if self.policy in SERVED else OF_AGENT))
            end = world.finish()
            return end["test"]["accuracy"], end["seconds"]

    def blows(self):
        """The run's last evaluation, and its ledger."""
        with World(POLICIES[self.policy], examples=EXAMPLES, batch=BATCH, figures=self.figures, held_ms=()) as world:
            self.world = world
            try:
                self.job(world)
                self.start()
                self.strike_on()
                world.heal_all()
                world.poll("the run to go on, or to end", lambda mark=world.events.mark(): self.ended() or any(
                    e.get("event") == "step" for e in world.events.since(mark)))
                if self.ended():
                    self.drop_late_comers()
                if self.agent:
                    world.children.remove(self.agent)
                accuracy = world.finish()["test"]["accuracy"]
                return accuracy, world.ledger()
            finally:
                self.end_agent()

    def start(self):
        world, extra = self.world, ()
        if self.policy not in SERVED:
            self.start_agent()
            extra = ("--agents", f"127.0.0.1:{self.agent_port}", "--workers", str(OF_AGENT))
        self.extra = extra
        world.start_coordinator(*extra)
        for index in range(JOINED):
            world.start_worker(f"w{index}", relay_data=True)
        world.steps(2, workers=JOINED + (OF_AGENT if self.agent else 0))
        world.note_usage()

    def ended(self):
        return not self.world.coordinator.running() or any(e.get("event") == "end" for e in self.world.events.list[-8:])

    def drop_late_comers(self):
        """The run was over before the last blows: who was started after them looks for a coordinator that is no more."""
        for child in [c for c in self.world.children if c is not self.world.coordinator and c is not self.agent]:
            try:
                child.wait(10)
            except Failure:
                self.world.children.remove(child)
                child.close()

    def start_agent(self):
        self.agent = self.world.start_agent("agent", self.agent_port)
        self.agent.expected = None

    def end_agent(self):
        if not self.agent:
            return
        self.agent.signal(signal.SIGTERM)
        try:
            self.agent.wait()
        finally:
            self.agent.close()

    def strike_on(self):
        world, begun = self.world, monotonic()
        samples = list(SAMPLES)
        while (passed := (monotonic() - begun) / self.seconds) < 1 and not self.ended():
            if passed >= samples[0]:
                samples.pop(0)
                self.sample()
            self.keep_pace(passed)
            blow, mark = monotonic(), world.events.mark()
            kinds = {**KINDS, **(EARLY if passed < SAMPLES[0] else {})}
            kind = self.rng.choices(list(kinds), kinds.values())[0]
            if self.strike(kind):
                self.counts[kind] = self.counts.get(kind, 0) + 1
                time.sleep(max(0.0, blow + EVERY_S - monotonic()))
                self.figures.add("soak: steps told per fault", sum(e.get("event") == "step" for e in world.events.since(mark)))
            world.check_alive()
        world.heal_all()
        if not self.ended():
            self.sample()

    def keep_pace(self, passed):
        progress = max((e.get("progress", 0) for e in self.world.events.list[-40:]), default=0)
        self.held_ms = min(HELD_MS[1], self.held_ms * 2) if progress > passed else max(HELD_MS[0], self.held_ms / 2)
        self.world.hold(self.held_ms)

    def strike(self, kind):
        """False: there is nobody whom it could hit."""
        world, name = self.world, self.rng.choice(list(self.world.workers))
        child = world.worker(name)
        if kind == "worker killed":
            child.kill()
            world.children.remove(child)
            child.close()
            world.start_worker(name, relay_data=True)
        elif kind == "worker of the agent killed":
            return self.kill_one_of(self.agent, lambda name: True)
        elif kind == "server killed":
            return self.kill_one_of(world.coordinator, lambda name: "/server/" in name)
        elif kind in ("worker stopped", "coordinator stopped"):
            target = child if kind == "worker stopped" else world.coordinator
            target.signal(signal.SIGSTOP)
            time.sleep(self.rng.choice([1, 2, 4]))
            target.signal(signal.SIGCONT)
        elif kind == "partition":
            ways = self.rng.choice([("up", "down"), ("up",), ("down",)])
            world.control(name).silence(*ways)
            world.data(name).silence(*ways)
            time.sleep(self.rng.choice([1, 2, 3]))
            world.heal_all()
        elif kind == "connection reset":
            self.rng.choice([world.control(name), world.data(name)]).reset()
        elif kind == "agent killed":
            if not self.agent:
                return False
            self.agent.kill()
            world.children.remove(self.agent)
            self.agent.close()
            self.start_agent()
        else:
            world.kill_coordinator()
            world.start_coordinator(*self.extra, resume=True)
        return True

    @staticmethod
    def kill_one_of(parent, fits):
        names = {name: pid for name, pid in (parent.workers() if parent else {}).items() if fits(name)}
        if not names:
            return False
        os.kill(names[min(names)], signal.SIGKILL)
        return True

    def sample(self):
        """What coordinator, agent, and the worst of the workers hold."""
        held = {"coordinator": [self.world.coordinator.usage()], "workers": [c.usage() for c in self.world.workers.values() if c.running()]}
        if self.agent:
            held["agent"] = [self.agent.usage()]
        self.usage.append({role: {"mb": round(max(u.resident for u in all_of) / 1e6, 1), "descriptors": max(u.sockets + u.other_descriptors for u in all_of),
                                  "threads": max(u.threads for u in all_of)} for role, all_of in held.items() if all_of})

    def grown(self):
        """What a role holds at the end beyond what it may: that of a process that came later may be less."""
        wrong = []
        for role in self.usage[0] if len(self.usage) == len(SAMPLES) else ():
            first, last = self.usage[0][role], self.usage[-1].get(role)
            if last and (last["mb"] > first["mb"] + GROWTH / 1e6 or last["descriptors"] > first["descriptors"] + 4 * (JOINED + OF_AGENT)
                         or last["threads"] > first["threads"] + 2):
                wrong.append(f"{role}: {first} at first, {last} at the end")
        return wrong


def soak_policy(policy, seconds, seed):
    """What came of one policy, and what was measured."""
    figures, epochs = Figures(), max(EPOCHS, round(seconds / EPOCH_S))
    soak = Soak(policy, seconds, random.Random(f"{seed} {policy}"), figures, epochs)
    entry = {"policy": policy, "ok": False, "said": ""}
    began = monotonic()
    try:
        entry["undisturbed"], entry["undisturbed_s"] = soak.calm()
        if policy in SERVED and entry["undisturbed_s"] < seconds:
            # Nothing holds up workers that do not wait for each other: their runs have epochs for as long as the blows take.
            soak.epochs = round(epochs * seconds / max(entry["undisturbed_s"], 1.0))
            entry["undisturbed"], entry["undisturbed_s"] = soak.calm()
        entry["epochs"] = soak.epochs
        entry["accuracy"], ledger = soak.blows()
        entry["ledger"] = {key: ledger[key] for key in ("counted", "skipped", "duplicates", "missing", "gaps", "rounds")}
        wrong = soak.grown()
        if entry["accuracy"] < entry["undisturbed"] - WITHIN:
            wrong.append(f"accuracy {entry['accuracy']:.4f}, undisturbed {entry['undisturbed']:.4f}")
        entry.update(ok=not wrong, said="; ".join(wrong))
    except Exception as error:  # noqa: BLE001 the other policies have their turn
        entry["said"] = str(error) if isinstance(error, (Failure, AssertionError)) else traceback.format_exc()
    entry.update(faults=soak.counts, usage=soak.usage, seconds=round(monotonic() - began, 1))
    return entry, figures.values()


def table(entries):
    """As it stands in tests/bench/RESULTS.md."""
    lines = ["| policy | killed, stopped, cut off, reset | accuracy, undisturbed (%) | counted once | coordinator | agent | workers, the most |",
             "|---|---|---|---|---|---|---|"]

    def held(entry, role):
        found = [sample[role] for sample in entry["usage"] if role in sample]
        return "; ".join(f"{one['mb']:.0f} MB, {one['descriptors']}, {one['threads']}" for one in found) or "-"
    for entry in entries:
        blows = ", ".join(str(sum(entry["faults"].get(kind, 0) for kind in kinds)) for kinds in SIGNALS.values())
        accuracy = f"{100 * entry['accuracy']:.2f}, {100 * entry['undisturbed']:.2f}" if "accuracy" in entry else "failed"
        counted = f"{entry['ledger']['counted']:,}" if "ledger" in entry else "-"
        lines.append(f"| `{entry['policy']}` | {blows} | {accuracy} | {counted} | " + " | ".join(held(entry, r) for r in ("coordinator", "agent", "workers")) + " |")
    return lines


@contextlib.contextmanager
def end_pool(pool):
    """When this process is asked to end, those of the pool are, too; they take their children with them."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise


def run_soak(seconds, seed, names=(), at_once=1):
    """`seconds` of blows over all policies; with `at_once` of them side by side it takes so much less."""
    unknown = [n for n in names if n not in POLICIES]
    if unknown:
        raise SystemExit(f"no policy '{unknown[0]}' in the soak: " + ", ".join(POLICIES))
    chosen = list(names) or list(POLICIES)
    print(f"# --seed {seed}", flush=True)
    figures, entries = Figures(), []
    began = monotonic()
    with concurrent.futures.ProcessPoolExecutor(at_once) as pool:
        tasks = [pool.submit(soak_policy, policy, seconds / len(chosen), seed) for policy in chosen]
        with end_pool(pool):
            for task in concurrent.futures.as_completed(tasks):
                entry, measured = task.result()
                entries.append(entry)
                for name, values in measured.items():
                    for value in values:
                        figures.add(name, value)
                print(f"{'ok' if entry['ok'] else 'not ok'} {len(entries)} - {entry['policy']} # {entry['seconds']} s, {entry['faults']}", flush=True)
                for line in entry["said"].splitlines()[-40:]:
                    print("# " + line, flush=True)
    entries.sort(key=lambda entry: chosen.index(entry["policy"]))
    print(f"1..{len(entries)}")
    for line in figures.lines():
        print(f"# {line}")
    totals = {name: sum(entry["faults"].get(kind, 0) for entry in entries for kind in kinds) for name, kinds in SIGNALS.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()
    record = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit, "seed": seed, "seconds": round(monotonic() - began),
              "faults": totals, "ok": all(entry["ok"] for entry in entries), "policies": entries}
    with open(LEDGER, "a") as file:
        file.write(json.dumps(record) + "\n")
    print("\n".join(table(entries)))
    print(f"# all blows: {totals}; the whole record is the last line of {LEDGER}", flush=True)
    return 0 if record["ok"] else 1
