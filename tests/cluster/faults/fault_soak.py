"""Many faults for a long time, and what they cost in accuracy."""
import json
import pathlib
import random
import signal
import time

from fault_kit import POLICIES, monotonic
from fault_world import DIGITS, Figures, World

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEDGER = ROOT / "build" / "soak.jsonl"  # every soak ever run here, one line each
WORKERS = 8
EVERY_S = 5
WITHIN = 0.003  # of the undisturbed run's accuracy
KINDS = {"worker killed": 5, "worker stopped": 4, "partition": 4, "connection reset": 3, "coordinator killed": 1, "coordinator stopped": 1}


def job(world, seconds):
    """Long enough that both runs are on their plateau, and that the disturbed one is still training when the last blow falls."""
    world.write_job(epochs=max(60, seconds // 4), train=DIGITS.format(world.examples, 1), test=DIGITS.format(8192, 2),
                    lr="pg.cosine { from = 1e-3 }", checkpoint="every_epochs = 20")


def soak(seconds, seed):
    rng, figures = random.Random(seed), Figures()
    counts = dict.fromkeys(KINDS, 0)
    with World(POLICIES["periodic"], examples=8192, figures=figures, seed=seed) as calm:
        job(calm, seconds)
        calm.let_go()
        calm.start(WORKERS)
        undisturbed = calm.finish()["test"]["accuracy"]
    print(f"# undisturbed: {undisturbed}", flush=True)
    with World(POLICIES["periodic"], examples=8192, figures=figures, seed=seed) as world:
        job(world, seconds)
        world.start(WORKERS, relay_data=True)
        end = monotonic() + seconds
        while monotonic() < end:
            kind = rng.choices(list(KINDS), KINDS.values())[0]
            counts[kind] += 1
            began, mark = monotonic(), world.events.mark()
            strike(world, rng, kind, rng.choice(list(world.workers)))
            time.sleep(max(0.0, began + EVERY_S - monotonic()))
            world.check_alive()
            figures.add("soak: steps told per fault", sum(e.get("event") == "step" for e in world.events.since(mark)))
        world.heal_all()
        world.steps(1, workers=WORKERS)
        accuracy = world.finish()["test"]["accuracy"]
        ledger = world.ledger()
    entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seed": seed, "seconds": seconds, "faults": counts,
             "accuracy": accuracy, "undisturbed": undisturbed, "ledger": ledger, "ok": abs(accuracy - undisturbed) <= WITHIN}
    return entry, figures


def strike(world, rng, kind, name):
    child = world.worker(name)
    if kind == "worker killed":
        child.kill()
        world.start_worker(name, relay_data=True)
    elif kind in ("worker stopped", "coordinator stopped"):
        target = child if kind == "worker stopped" else world.coordinator
        target.signal(signal.SIGSTOP)
        time.sleep(rng.choice([1, 2, 4, 10, 60]) if kind == "worker stopped" and rng.random() < 0.2 else rng.choice([1, 2, 4]))
        target.signal(signal.SIGCONT)
    elif kind == "partition":
        ways = rng.choice([("up", "down"), ("up",), ("down",)])
        world.control(name).silence(*ways)
        world.data(name).silence(*ways)
        time.sleep(rng.choice([1, 2, 4]))
        world.heal_all()
    elif kind == "connection reset":
        rng.choice([world.control(name), world.data(name)]).reset()
    else:
        world.kill_coordinator()
        world.start_coordinator(resume=True)


def run_soak(seconds, seed):
    print(f"# --seed {seed}", flush=True)
    entry, figures = soak(seconds, seed)
    with open(LEDGER, "a") as file:
        file.write(json.dumps(entry) + "\n")
    for line in figures.lines():
        print(f"# {line}")
    print(json.dumps(entry))
    runs = [json.loads(line) for line in LEDGER.read_text().splitlines()]
    print(f"# all soaks in {LEDGER}: {len(runs)} runs, {sum(sum(r['faults'].values()) for r in runs)} faults, {sum(not r['ok'] for r in runs)} not good")
    return 0 if entry["ok"] else 1
