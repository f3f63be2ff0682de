"""Processes of a cluster die, stand still, come in numbers, or have other clocks."""
import os
import pathlib
import signal
import socket
import subprocess
import time

from fault_kit import fault, monotonic, skip_unless, wait_a_moment
from fault_world import PATIENCE, Failure
from harness import program


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# ---- processes die ----


@fault("F1", repeat=20)
def kill_worker(world, rng, blows):
    """kill -9 of a worker at any moment; another one takes its place."""
    world.start(3)
    for _ in range(blows):
        name = rng.choice(list(world.workers))
        mark = world.events.mark()
        wait_a_moment(rng)
        struck = monotonic()
        world.worker(name).kill()
        line = world.expect("worker_lost", name, mark)
        world.record_recovery("worker killed", struck, mark, line)
        world.start_worker(name)
        world.steps(1, workers=3)
        world.note_blame(mark, {name})


@fault("F1", repeat=20)
def kill_worker_of_agent(world, rng, blows):
    """kill -9 of a worker process of `train --workers`: its agent starts it again, and nothing is left behind."""
    world.write_job(epochs=200 * world.epochs)  # there is no relay to hold this run up: it is interrupted
    world.start_alone(workers=3)
    for blow in range(blows):
        mark = world.events.mark()
        wait_a_moment(rng)
        children = world.coordinator.workers()
        victim = sorted(children)[blow % 3]  # in turn: an agent gives a worker up that crashes more than five times in a short while
        struck = monotonic()
        os.kill(children[victim], signal.SIGKILL)
        line = world.wait(f"the line that tells how {victim} ended",
                          lambda e, victim=victim: e.get("event") == "worker_lost" and e.get("worker") == victim and "signal 9" in e["cause"], mark)
        if "started again" not in line["done"]:
            raise Failure(f"the line does not say what is done: {line}")
        world.record_recovery("worker of an agent killed", struck, mark, line)
        world.poll("its next process", lambda: len(world.coordinator.workers()) == 3)
        world.steps(1, workers=3)
        world.note_blame(mark, {victim})
    world.interrupt()


@fault("F1", repeat=16)
def kill_what_has_trained(world, rng, blows):
    """kill -9 of workers that have trained, again and again: with one restart allowed in an hour none is given up."""
    world.write_job(epochs=2000 * world.epochs)
    world.start_alone(2, "--restarts", "1/1h")
    for blow in range(blows):
        mark = world.events.mark()
        children = world.coordinator.workers()
        victim = sorted(children)[blow % 2]
        os.kill(children[victim], signal.SIGKILL)
        line = world.wait(f"the line that tells how {victim} ended",
                          lambda e, victim=victim: e.get("event") == "worker_lost" and e.get("worker") == victim and "signal 9" in e["cause"], mark)
        if not line["done"].endswith("it is started again"):
            raise Failure(f"it has trained, and what befell it counts: {line}")
        world.steps(1, workers=2)
        time.sleep(1.5)  # a beat tells that it trains, and the launcher its agent
    world.interrupt()


@fault("F1", repeat=12)
def restart_agents(world, rng, blows):
    """Agents end, by SIGTERM or drained, and are started again, one after the other: while one worker lives the run goes on."""
    world.write_job(epochs=2000 * world.epochs)
    ports = [free_port() for _ in range(2)]
    agents = [world.start_agent(f"agent{n}", port) for n, port in enumerate(ports)]
    world.start_on_agents(2, ports)
    hasty = False
    for blow in range(blows):
        which = blow % 2
        old, struck, mark = agents[which], monotonic(), world.events.mark()
        old.expected = (0, 128 + signal.SIGTERM)
        if rng.random() < 0.5:
            old.signal(signal.SIGTERM)
        else:
            subprocess.run([program(), "agent", "--drain", f"127.0.0.1:{ports[which]}", "--secret", world.secret], check=True, timeout=PATIENCE)
        old.wait()
        world.children.remove(old)
        old.close()
        agents[which] = world.start_agent(f"agent{which}", ports[which])
        hasty, hurried = rng.random() < 0.4, hasty
        if hasty:  # the other one ends while the workers of this one begin: for a moment there may be none
            time.sleep(0.5)
        else:
            world.steps(1, mark, workers=4 if hurried else 2)
            world.steps(1, workers=4)
            world.figures.add("agent restarted: all train again after ms", 1000 * (monotonic() - struck))
            time.sleep(0.5 * rng.random())
        if world.faults(mark):
            raise Failure(f"a worker that left in order is told as lost: {world.faults(mark)[:2]}")
    world.steps(1, workers=4)
    world.interrupt()


@fault("F2", repeat=20)
def kill_coordinator(world, rng, blows):
    """kill -9 of the coordinator; started again with --resume, it finds the workers as they were."""
    world.start(3)
    for _ in range(blows):
        wait_a_moment(rng)
        world.kill_coordinator()
        mark, struck = world.events.mark(), monotonic()
        world.start_coordinator(resume=True)
        world.steps(1, mark, workers=3)
        world.figures.add("coordinator killed: training again after ms, with the time to start it", 1000 * (monotonic() - struck))
        if any(e.get("event") == "rounds_voided" for e in world.events.since(mark)):
            raise Failure("rounds that workers hold became void")


@fault("F2", repeat=2, policies=("allreduce", "periodic", "served"))
def lose_the_first_epoch(world, rng, blows):
    """Killed, or the terminal closed, long before the first epoch ends: there is a checkpoint, and --resume goes on from it."""
    skip_unless(signal.getsignal(signal.SIGHUP) != signal.SIG_IGN, "SIGHUP is ignored here, as by nohup")
    world.write_job(epochs=100_000, checkpoint="every_epochs = 50000")
    began = monotonic()
    world.start_alone(2)
    checkpoints = lambda: sorted(pathlib.Path(world.out, "checkpoints").glob("step-*.safetensors"))  # noqa: E731
    for blow in range(blows):
        world.poll("a first checkpoint", checkpoints, seconds=10)
        world.figures.add("first checkpoint after ms", 1000 * (monotonic() - began))
        world.kill_coordinator()
        before = checkpoints()[-1]
        mark = world.events.mark()
        world.start_alone(2, resume=True)
        voided = [e for e in world.events.since(mark) if e.get("event") == "rounds_voided" and e["round"] < 0]
        if voided:
            raise Failure(f"the checkpoint was of no use: {voided[0]}")
        world.coordinator.signal(signal.SIGHUP)
        if (code := world.coordinator.wait()) != 128 + signal.SIGHUP or checkpoints()[-1] <= before:
            raise Failure(f"a closed terminal ends with {code}, and the newest checkpoint is {checkpoints()[-1]}, after {before}")
        world.kill_coordinator()
        world.start_alone(2, resume=True)
    world.interrupt()


@fault("F3", repeat=20)
def kill_all(world, rng, blows):
    """kill -9 of everything at once; --resume goes on from the last checkpoint with new workers."""
    world.start(3)
    for _ in range(blows):
        wait_a_moment(rng, 1)
        for child in world.children:
            child.signal(signal.SIGKILL)
        for child in world.children:
            child.close()
        world.children.clear()
        world.workers.clear()
        mark = world.events.mark()
        world.start_coordinator(resume=True)
        for index in range(3):
            world.start_worker(f"w{index}")
        world.steps(1, mark, workers=3)


# ---- processes stand still ----


@fault("F4", repeat=20)
def stop_worker(world, rng, blows):
    """SIGSTOP of a worker for 1 to 4 s: evicted when that is too long, and back by itself after SIGCONT."""
    world.start(3)
    for _ in range(blows):
        name = rng.choice(list(world.workers))
        mark = world.events.mark()
        wait_a_moment(rng)
        struck = monotonic()
        world.worker(name).signal(signal.SIGSTOP)
        pause = rng.choice([1.0, 1.5, 2.5, 4.0])
        if pause > 2:
            line = world.expect("worker_lost", name, mark)
            world.record_recovery("worker stopped", struck, mark, line)
        time.sleep(max(0.0, struck + pause - monotonic()))
        world.worker(name).signal(signal.SIGCONT)
        back = monotonic()
        world.steps(1, workers=3)
        world.figures.add("worker stopped: takes part again after SIGCONT ms", 1000 * (monotonic() - back))
        world.note_blame(mark, {name})


@fault("F5", repeat=20)
def stop_coordinator(world, rng, blows):
    """SIGSTOP of the coordinator for 1 to 4 s, half of the time at an epoch's end, where it waits for evaluation and checkpoint: the
    workers keep what they have and go on when it is back."""
    world.write_job(checkpoint="every_epochs = 1")
    world.start(3)
    for blow in range(blows):
        if blow % 2:
            world.wait("the end of an epoch", lambda e: e.get("event") == "epoch", world.events.mark())
        wait_a_moment(rng, 0.05 if blow % 2 else 0.4)
        world.coordinator.signal(signal.SIGSTOP)
        time.sleep(rng.choice([1.0, 2.0, 4.0]))
        mark = world.events.mark()
        world.coordinator.signal(signal.SIGCONT)
        back = monotonic()
        world.steps(1, mark, workers=3)
        world.figures.add("coordinator stopped: training again after SIGCONT ms", 1000 * (monotonic() - back))


# ---- many come and go ----


@fault("F31", repeat=2)
def elastic(world, rng, blows):
    """1 worker, then 16, then 3, while it trains."""
    world.start(1)
    for index in range(1, 16):
        world.start_worker(f"w{index}")
    world.steps(1, workers=16)
    mark = world.events.mark()
    leaving = rng.sample(list(world.workers), 13)
    for name in leaving:
        child = world.workers.pop(name)
        if rng.random() < 0.5:
            child.kill()
        else:
            child.expected = (143, 128 + signal.SIGTERM)
            child.signal(signal.SIGTERM)
    world.steps(2, workers=3)
    world.note_blame(mark, set(leaving))


# ---- clocks ----


@fault("F25", repeat=2)
def wall_clocks(world, rng, blows):
    """Workers whose wall clocks are a day off and leap by another while they train, by libfaketime: nothing depends on them."""
    library = next((p for p in pathlib.Path("/usr/lib").glob("**/libfaketime.so.1")), None)
    skip_unless(library, "libfaketime is not installed")
    world.start_coordinator()
    clocks = {}
    for name, offset in (("w0", "+1d"), ("w1", "-1d"), ("w2", "+1h")):
        clocks[name] = world.folder / f"{name}.clock"
        clocks[name].write_text(offset + "\n")
        world.start_worker(name, env={"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(clocks[name]), "FAKETIME_NO_CACHE": "1",
                                      "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    world.steps(2, workers=3)
    for offset in ("-1h", "+2d", "-2d"):
        for clock in clocks.values():
            clock.write_text(offset + "\n")
        world.steps(1, workers=3)
    world.note_blame(0)


@fault("F26", repeat=2)
def monotonic_clocks(world, rng, blows):
    """Workers whose monotonic clocks are a day apart, in time namespaces: only differences are used."""
    works = subprocess.run(["unshare", "--time", "--monotonic", "1000", "--fork", "true"], capture_output=True)
    skip_unless(works.returncode == 0, "time namespaces are not permitted")
    world.start_coordinator()
    for index, offset in enumerate((0, 86_400, 864_000)):
        world.start_worker(f"w{index}", prefix=("unshare", "--time", "--monotonic", str(offset), "--fork", "--kill-child"))
    world.steps(3, workers=3)
    world.note_blame(0)
