"""    stragglers  (E7) one of 4 workers 4 times slower, MLP on MNIST, averages every 48 steps, on the simulated clock with real training: all
              wait for it; by_speed; a quorum of 3 with 50 ms of grace; and 30 % of the contributions lost. Then 4 real workers, three held
              to two fifths of a core and one to a tenth, waited for and by speed (needs root and control groups; else left out)
    bandwidth   (E9) every = "auto" for 80 % at 2, 10 and 100 Mbit/s and after steps between 10 and 1 or 100, simulated: the share of the time
              in training, round by round; then 2 real workers on a network that is held to 10 Mbit/s, and then to 1 (needs root, ip and tc; else
              left out)
    guards      (E4) models/char_lm.lua, changes every 50 steps through the largest 2 % with all feedback, outer (0.7, 0.9): must be stopped; and
              runs that end well, which must not be
"""
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from experiment_kit import MLP, PROGRAM, ROOT, Launched

sys.path.insert(0, str(ROOT / "tests" / "cluster" / "faults"))
from fault_network import Net  # noqa: E402
from harness import Skip  # noqa: E402


# Its rounds take much longer than the pauses of Held, and it is evaluated in the end alone.
WIDE = {**MLP, "epochs": 1, "data": {**MLP["data"], "train": {"type": "concat", "sources": 24 * [MLP["data"]["train"]]}, "batch": 256},
        "network": ["flatten", {"type": "dense", "out": 512, "activation": "relu"}, {"type": "dense", "out": 256, "activation": "relu"},
                    {"type": "dense", "out": 10}]}


def simulate(job, averaging, *options):
    """The only point of a simulation."""
    with tempfile.TemporaryDirectory() as folder:
        script = job
        if isinstance(job, dict):
            script = pathlib.Path(folder) / "job.json"
            script.write_text(json.dumps(job))
        command = [PROGRAM, "simulate", script, "--json", "--step-time", "10ms", "--set", f"averaging={json.dumps(averaging)}", *options]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"simulate: exit status {done.returncode}\n{done.stderr[-3000:]}")
        return json.loads(done.stdout)["points"][0]


def stragglers(rows, seeds):
    arms = {"wait": {}, "by_speed": {"by_speed": True}, "quorum": {"quorum": 0.75, "grace_ms": 50}}
    found = {}
    print("| one of 4 is 4 times slower | simulated s | of waiting | test accuracy by seed, % | mean |\n|---|---|---|---|---|")
    for name, options in arms.items():
        points = [simulate({**MLP, "seed": seed}, {"type": "periodic", "every": 48, **options}, "--train", "--speed", "3=0.25") for seed in seeds]
        accuracy = [100 * p["figures"]["accuracy"] for p in points]
        found[name] = statistics.mean(p["wall_s"] for p in points), statistics.mean(accuracy)
        share, worse = found[name][0] / found["wait"][0], found["wait"][1] - found[name][1]
        rows.line(f"| {name} | {found[name][0]:.1f} | {share:.2f} (bar 0.40) | {', '.join(f'{a:.2f}' for a in accuracy)} | {found[name][1]:.2f} |",
                  None if name == "wait" else share <= 0.40 and worse <= 0.4)
    lost = [simulate({**MLP, "seed": seed}, {"type": "periodic", "every": 50}, "--train", "--lose", "0.3") for seed in seeds]
    whole = [simulate({**MLP, "seed": seed}, {"type": "periodic", "every": 50}, "--train") for seed in seeds]
    worse = 100 * (statistics.mean(p["figures"]["accuracy"] for p in whole) - statistics.mean(p["figures"]["accuracy"] for p in lost))
    rows.line(f"30 % of the contributions lost, all equally fast: {worse:+.2f} points (bar 0.5)", worse <= 0.5)
    try:
        real_stragglers(rows, arms)
    except Skip as reason:
        rows.line(f"real workers left out: {reason}", False)


@contextlib.contextmanager
def held(pid, share):
    """The process has this share of one core, by the kernel's CPU bandwidth control."""
    period = 50_000  # microseconds
    first, second = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
    group = (first if first.is_dir() else second) / f"perigee-bench-{pid}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skip(f"no control group can be made: {error}") from error
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * period)))
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{int(share * period)} {period}")
        else:
            raise Skip("the kernel has no CPU bandwidth control here")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(str(pid))
        for _ in range(100):  # a process that has ended leaves its group a moment later
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


SHARES = (0.4, 0.4, 0.4, 0.1)  # of a core: together less than two cores, so that a waiting worker makes no other faster


def real_stragglers(rows, arms):
    found, rates = {}, {}
    for name in ("wait", "by_speed"):
        job = {**WIDE, "averaging": {"type": "periodic", "every": 48, **arms[name]}}
        with tempfile.TemporaryDirectory() as folder, Launched(folder, job, min_workers=4) as run:
            workers = [run.worker(index) for index in range(4)]
            run.train.wait_event("worker_joined", count=4)
            with contextlib.ExitStack() as holds:
                for worker, part in zip(workers, SHARES):
                    holds.enter_context(held(worker.pid, part))
                end = run.end()
            found[name] = end["seconds"], 100 * end["test"]["accuracy"]
            told = [w for event in run.train.of_kind("workers") for w in event["workers"] if w["examples_per_s"] > 0]
            rates[name] = [statistics.median(w["examples_per_s"] for w in told if w["name"] == who) for who in ("w0", "w1", "w2", "w3")]
    share, worse = found["by_speed"][0] / found["wait"][0], found["wait"][1] - found["by_speed"][1]
    rows.line(f"4 real workers, examples/s {listed(rates['wait'])} waiting and {listed(rates['by_speed'])} by speed: {found['wait'][0]:.1f} and "
              f"{found['by_speed'][0]:.1f} s: {share:.2f} (bar 0.40); accuracy {found['wait'][1]:.2f} and {found['by_speed'][1]:.2f} % (bar 0.4 points)",
              share <= 0.40 and worse <= 0.4)


def listed(rates):
    return ", ".join(f"{rate:,.0f}" for rate in rates)


def bandwidth(rows, _):
    auto = {"type": "periodic", "every": "auto", "utilisation": 0.8, "every_max": 4096}
    size = ["--parameters", "109386", "--examples", "40000000", "--bandwidth"]
    print("| Mbit/s | steps of a round, and share of the time in training, after 10 rounds | bar |\n|---|---|---|")
    for rate in (2, 10, 100):
        course = simulate(MLP, auto, *size, f"{rate}Mbit")["rounds_in_turn"]
        later = [r["computing"] for r in course[10:40]]
        rows.line(f"| {rate} | {course[20]['averaging']['every']}, {100 * min(later):.0f} to {100 * max(later):.0f} % | 70 to 90 % |",
                  0.7 <= min(later) and max(later) <= 0.9)
    for before, after in ((10, 100), (10, 1)):
        course = simulate(MLP, auto, *size, f"{before}Mbit", "--bandwidth-at", f"200s={after}Mbit")["rounds_in_turn"]
        first = next(i for i, r in enumerate(course) if r["at_s"] > 200)  # the change falls into this round
        settled = next((i for i, r in enumerate(course[first + 1:]) if 0.7 <= r["computing"] <= 0.9), 99)
        rows.line(f"from {before} to {after} Mbit/s: back between 70 and 90 % in the {settled + 1}th round after the one of the change (bar 5)", settled < 5)
    try:
        with Net(2) as net:
            for index in range(2):
                net.limit(index, 10)
            real_bandwidth(rows, net, auto)
    except Skip as reason:
        rows.line(f"real network left out: {reason}")


def real_bandwidth(rows, net, auto):
    """Steps of 1024 examples, so that a round takes more than a second and is in the log; so much data that no round meets an epoch's end."""
    many = {"type": "concat", "sources": 64 * [MLP["data"]["train"]]}
    job = {**MLP, "epochs": 1000, "averaging": auto, "checkpoint": False, "data": {"train": many, "batch": 1024}}
    with tempfile.TemporaryDirectory() as folder, Launched(folder, job, net, 2) as run:
        for index in range(2):
            run.worker(index)

        def course(to):
            run.train.wait_event("step", lambda e: e["step"] >= to, deadline=400)
            return {e["step"]: e for e in run.train.of_kind("step") if "utilisation" in e}

        before = course(18)
        later = [e["utilisation"] for step, e in before.items() if step > 10]
        rows.line(f"2 real workers at 10 Mbit/s, every {before[max(before)]['every']} steps in the end: {100 * statistics.median(later):.0f} % of the "
                  f"time in training after 10 rounds, the median (bar 70 to 90 %)", 0.7 <= statistics.median(later) <= 0.9)
        change = max(before) + 1  # the change falls into this round
        for index in range(2):
            net.limit(index, 1)
        after = course(change + 8)
        told = [after[step]["utilisation"] for step in range(change, change + 9) if step in after]
        settled = next((step - change for step in sorted(after) if step > change and 0.7 <= after[step]["utilisation"] <= 0.9), 99)
        rows.line(f"held to 1 Mbit/s from then on: {', '.join(f'{100 * share:.0f}' for share in told)} % in the round of the change and after it, "
                  f"every {after[max(after)]['every']} steps in the end; back between 70 and 90 % in the {settled}th round after it (bar 5)", settled <= 5)


def guards(rows, seeds):
    script = ROOT / "models" / "char_lm.lua"
    top = {"type": "topk", "share": 0.02, "feedback": True}
    arms = [("largest 2 %, 0.7, 0.9", True, {"rate": 0.7, "momentum": 0.9, "codec": top}),
            ("largest 2 %, 1, 0.5", False, {"rate": 1, "momentum": 0.5, "codec": top}),
            ("fp32, 0.7, 0.9", False, {"rate": 0.7, "momentum": 0.9}),
            ("int2 largest, 0.7, 0.9", False, {"rate": 0.7, "momentum": 0.9, "codec": {"type": "int2", "scale": "largest", "feedback": True}}),
            ("fp32, 0.4, 0.9", False, {"rate": 0.4, "momentum": 0.9}),
            ("int4, 1, 0.5", False, {"rate": 1, "momentum": 0.5, "codec": {"type": "int4", "feedback": True}}),
            ("plain", False, {"rate": 1, "momentum": 0})]
    for name, stops, options in arms:
        for seed in seeds:
            point = simulate(script, {"type": "diloco", "every": 50, **options}, "--train", "--steps", "25000", "--batch", "32", "--set", f"seed={seed}")
            after = len(point["rounds_in_turn"])
            left_out = point["events"].get("outlying", 0)
            rows.line(f"{name}, seed {seed}: {'stopped after round ' + str(after) if point['ended'] else 'went through'}, test loss so far "
                      f"{(point['figures'] or {}).get('loss', float('nan')):.3f}, {left_out} left out; {'must' if stops else 'must not'} be stopped",
                      bool(point["ended"]) == stops and left_out == 0)


ROWS = {"stragglers": stragglers, "bandwidth": bandwidth, "guards": guards}
