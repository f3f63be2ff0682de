"""Asynchronous runs: the server, its workers and the launcher die. Each run is recorded, and what it came to is trained again at the end."""
import os
import pathlib
import signal
import subprocess

from fault_kit import fault, monotonic, wait_a_moment
from fault_world import DIGITS, PATIENCE, Failure
from harness import program

SERVED = ("served",)
LASTING = {"epochs": 100_000, "checkpoint": "every_steps = 100"}  # it is interrupted


def strike(world, rng, name, what="server killed", also=None):
    """kill -9 of that process, and of another at the same moment; its next one is there and the run goes on when this returns."""
    mark = world.events.mark()
    wait_a_moment(rng)
    names = world.coordinator.workers()
    before, struck = names[name], monotonic()
    for each in filter(None, (also, name)):
        os.kill(names[each], signal.SIGKILL)
    line = world.wait(f"the line that tells how {name} ended",
                      lambda e: e.get("event") == "worker_lost" and e.get("worker") == name and "signal 9" in e["cause"], mark)
    world.record_recovery(what, struck, mark, line)
    world.poll(f"the next process of {name}", lambda: world.coordinator.workers().get(name, before) != before)
    world.steps(1, workers=3)
    world.note_blame(mark, {name, also} - {None})
    return mark


def end_and_replay(world):
    world.interrupt()
    done = subprocess.run([program(), "replay", world.out], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode or f"{world.ledger()['rounds']:,} rounds" not in done.stdout:
        raise Failure(f"the record does not tell what the ledger does, {world.ledger()}: {done.stdout}{done.stderr}")


@fault("F1", repeat=6, policies=SERVED)
def kill_worker_of_server(world, rng, blows):
    """kill -9 of a worker that trains with a server: no other worker waits, and others train what it had under way."""
    world.write_job(**LASTING)
    world.start_alone(3, "--record")
    trainers = sorted(n for n in world.coordinator.workers() if "/server/" not in n)
    for blow in range(blows):
        mark = strike(world, rng, trainers[blow % 3], "worker of a server killed")
        if any(e.get("event") == "rounds_voided" for e in world.events.since(mark)):
            raise Failure("rounds that the server holds became void")
    end_and_replay(world)


@fault("F1", repeat=4, policies=SERVED)
def kill_server(world, rng, blows):
    """kill -9 of the server: its next process makes the same rounds again. A worker now and then dies with it: what it had pushed may be void, and
    no worker waits for it."""
    world.write_job(**LASTING)
    world.start_alone(3, "--record")
    server = next(n for n in world.coordinator.workers() if "/server/" in n)
    for blow in range(blows):
        if blow % 2 == 0:
            strike(world, rng, server)
            continue
        mark = strike(world, rng, server, "server and worker killed", also=min(world.coordinator.workers()))
        waits = [e for e in world.events.since(mark) if e.get("event") == "waiting" and "no worker that is left" in e["cause"]]
        if waits:
            raise Failure(f"workers are waited for of whose death their agents have told: {waits}")
    end_and_replay(world)


@fault("F1", repeat=6, policies=("served", "elastic", "downpour"))
def kill_server_early(world, rng, blows):
    """kill -9 of the server at 0.3 and 0.6 of a run of one epoch that makes no checkpoint: no round that was committed is lost."""
    world.examples = 40_000
    world.write_job(epochs=1, train=DIGITS.format(world.examples, 1), hidden='pg.dense { 512, activation = "relu" },',
                    checkpoint="every_epochs = 1000")
    world.start_alone(3)
    for share in (0.3, 0.6)[:blows]:
        world.wait("a part of the run", lambda e, share=share: e.get("event") == "step" and e.get("progress", 0) > share, world.events.mark())
        server = next(n for n in world.coordinator.workers() if "/server/" in n)
        mark, struck = world.events.mark(), monotonic()
        os.kill(world.coordinator.workers()[server], signal.SIGKILL)
        line = world.wait("the line that tells how it ended", lambda e, name=server: e.get("event") == "worker_lost" and e.get("worker") == name, mark)
        world.record_recovery("server killed early", struck, mark, line)
    wrong = [e for e in world.events.list if e.get("event") in ("rounds_voided", "redo_failed")]
    if wrong:
        raise Failure(f"rounds are lost with the server: {wrong}")


@fault("F2", repeat=3, policies=SERVED)
def kill_launcher_of_server(world, rng, blows):
    """kill -9 of the launcher, with which its workers and its server end; --resume goes on from the last checkpoint, and records on."""
    world.write_job(**LASTING)
    world.start_alone(3, "--record")
    for _ in range(blows):
        world.poll("a checkpoint", lambda: any(pathlib.Path(world.out, "checkpoints").glob("step-*")))
        wait_a_moment(rng)
        world.kill_coordinator()
        world.start_alone(3, resume=True)
    end_and_replay(world)
