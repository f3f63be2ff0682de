"""Workers and servers that their launcher started are killed every two to five seconds, for a long time, with each policy: the run goes on, makes
rounds between the blows, and is at last asked to end. What the launcher says of each failure names what it does next."""
import concurrent.futures
import os
import random
import signal
import time
import traceback

from fault_kit import monotonic
from fault_soak import POLICIES, end_pool
from fault_world import PATIENCE, Failure, World

WORKERS = 3
EVERY_S = (2, 5)


def kill_on(world, seconds, rng):
    """-> what happened."""
    end, counts = monotonic() + seconds, {"killed": 0, "servers": 0, "rounds": 0}
    while monotonic() < end:
        names = world.coordinator.workers()
        if names:
            name = rng.choice(sorted(names))
            os.kill(names[name], signal.SIGKILL)
            counts["killed"] += 1
            counts["servers"] += "/server/" in name
        mark = world.events.mark()
        time.sleep(rng.uniform(*EVERY_S))
        counts["rounds"] += sum(e.get("event") == "step" for e in world.events.since(mark))
        world.check_alive()
    world.steps(1)
    return counts


def kill_policy(policy, seconds, seed):
    entry = {"policy": policy, "ok": False, "said": "", "counts": {}}
    began = monotonic()
    try:
        with World(POLICIES[policy]) as world:
            world.write_job(epochs=1_000_000, checkpoint="every_epochs = 1000")
            world.start_alone(WORKERS)
            entry["counts"] = kill_on(world, seconds, random.Random(f"{seed} {policy}"))
            untold = [e for e in world.events.list if e.get("event") == "worker_lost" and not e.get("done")]
            if untold:
                raise Failure(f"a loss does not say what happens next: {untold[0]}")
            world.coordinator.signal(signal.SIGTERM)
            code, found, left = world.coordinator.wait(4 * PATIENCE), world.ledger(), world.coordinator.workers()
            if code != 128 + signal.SIGTERM or found["duplicates"] or found["missing"] or found["gaps"] or left:
                raise Failure(f"ended with {code}, its ledger {found}, its workers {left}")
            entry["ok"] = True
    except Exception as error:  # noqa: BLE001 the other policies have their turn
        entry["said"] = str(error) if isinstance(error, (Failure, AssertionError)) else traceback.format_exc()
    return {**entry, "seconds": round(monotonic() - began)}


def run_kills(seconds, seed, names=(), at_once=1):
    unknown = [n for n in names if n not in POLICIES]
    if unknown:
        raise SystemExit(f"no policy '{unknown[0]}' here: " + ", ".join(POLICIES))
    chosen = list(names) or list(POLICIES)
    print(f"# --seed {seed}", flush=True)
    entries = []
    with concurrent.futures.ProcessPoolExecutor(at_once) as pool:
        tasks = [pool.submit(kill_policy, policy, seconds / len(chosen), seed) for policy in chosen]
        with end_pool(pool):
            for task in concurrent.futures.as_completed(tasks):
                entry = task.result()
                entries.append(entry)
                print(f"{'ok' if entry['ok'] else 'not ok'} {len(entries)} - {entry['policy']} # {entry['seconds']} s, {entry['counts']}", flush=True)
                for line in entry["said"].splitlines()[-40:]:
                    print("# " + line, flush=True)
    print(f"1..{len(entries)}")
    print(f"# all kills: {sum(entry['counts'].get('killed', 0) for entry in entries)}")
    return 0 if all(entry["ok"] for entry in entries) else 1
