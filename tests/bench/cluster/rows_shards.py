"""    noniid    (E10) 4 workers of the MLP on MNIST, which is sorted by label and cut into a shard for each worker: averages every 1, 5 and 50
              steps against every step over shuffled data; replicas that pull apart are told, on these data and not on shuffled ones
    sites     (E10) two sites of two workers: averages inside each every 5 steps and over all every 50 (nested), against every 5 over all:
              accuracy, and bytes between the sites; then a part of both with 2 Mbit/s between the sites, by the kernel's counters (needs
              root, ip and tc; else left out)
"""
import json
import statistics
import sys
import tempfile

from experiment_kit import MLP, Launched, ROOT, run_events

sys.path.insert(0, str(ROOT / "tests" / "cluster" / "faults"))
from fault_network import Net  # noqa: E402
from harness import Skip  # noqa: E402

WORKERS = 4
SORTED = {**MLP["data"], "train": {"type": "by_label", "source": MLP["data"]["train"]}, "shards": WORKERS}
FLAT = {"type": "periodic", "every": 5}
NESTED = {"type": "nested", "inside": {"type": "periodic", "every": 5}, "across": {"type": "periodic", "every": 50}}
PART = 640  # batches of all workers together, with the slow connection


def noniid(rows, seeds):
    print("| data | every | test accuracy by seed, % | mean | loss, points | replicas apart: told in so many runs |\n|---|---|---|---|---|---|")
    mean, told = {}, {}
    for name, every, data in (("shuffled", 1, MLP["data"]), ("shuffled", 50, MLP["data"]), ("sorted", 1, SORTED), ("sorted", 5, SORTED),
                              ("sorted", 50, SORTED)):
        accuracy, apart = [], 0
        for seed in seeds:
            job = {**MLP, "seed": seed, "data": data, "averaging": {"type": "periodic", "every": every}}
            events, _ = run_events(job, "--workers", WORKERS, "--min-workers", WORKERS)
            accuracy.append(100 * events[-1]["test"]["accuracy"])
            apart += any(e["event"] == "replicas_apart" for e in events)
        mean[name, every], told[name, every] = statistics.mean(accuracy), apart
        rows.line(f"| {name} | {every} | {', '.join(f'{a:.2f}' for a in accuracy)} | {mean[name, every]:.2f} | "
                  f"{mean['shuffled', 1] - mean[name, every]:+.2f} | {apart} of {len(seeds)} |")
    for every, bar in ((5, 1), (50, 4)):
        loss = mean["shuffled", 1] - mean["sorted", every]
        rows.line(f"sorted by label, every {every}: {loss:+.2f} points below shuffled and every step (bar {bar})", loss <= bar)
    rows.line("replicas that pull apart are told of on sorted data every 50 steps, not on shuffled ones",
              told["sorted", 50] == len(seeds) and told["shuffled", 50] == 0)


def sited(job, net=None, across=None):
    """(the end event, bytes between the sites by the kernel's count) of two sites of two workers."""
    with tempfile.TemporaryDirectory() as folder, Launched(folder, job, net, WORKERS) as run:
        for index in range(WORKERS):
            run.worker(index, "--site", f"site{index // 2}")
        end = run.end()
        return end, across() if across else 0


def sites(rows, seeds):
    print("| policy | data | test accuracy by seed, % | mean | sent between the sites, MB |\n|---|---|---|---|---|")
    mean, sent = {}, {}
    for name, averaging in (("every 5", FLAT), ("nested 5, 50", NESTED)):
        for kind, data in (("shuffled", MLP["data"]), ("sorted", SORTED)):
            ends = [sited({**MLP, "seed": seed, "data": data, "averaging": averaging})[0] for seed in seeds]
            accuracy = [100 * end["test"]["accuracy"] for end in ends]
            mean[name, kind] = statistics.mean(accuracy)
            sent[name, kind] = statistics.mean(end["bytes_sent_across"] for end in ends)
            rows.line(f"| {name} | {kind} | {', '.join(f'{a:.2f}' for a in accuracy)} | {mean[name, kind]:.2f} | {sent[name, kind] / 1e6:.1f} |")
    loss = mean["every 5", "shuffled"] - mean["nested 5, 50", "shuffled"]
    ratio = sent["every 5", "shuffled"] / sent["nested 5, 50", "shuffled"]
    # 1/10 of the rounds, and the one that the end cuts short.
    most = sent["every 5", "shuffled"] / 10 * (1 + 50 / (MLP["epochs"] * 60_000 / (WORKERS * MLP["data"]["batch"]))) * 1.01
    rows.line(f"nested is {loss:+.2f} points below averages every 5 steps (bar 0.4), with 1/{ratio:.2f} of the bytes between the sites (bar 1/10, and "
              "the round that the end cuts short)", loss <= 0.4 and sent["nested 5, 50", "shuffled"] <= most)
    try:
        with Net(WORKERS) as net:
            net.split((2, 3), 2)
            took, crossed, told = {}, {}, {}
            for name, averaging in (("every 5", FLAT), ("nested 5, 50", NESTED)):
                before = net.crossed()
                job = {**MLP, "steps": PART, "averaging": averaging, "checkpoint": False}
                end, after = sited(job, net, net.crossed)
                took[name], crossed[name], told[name] = end["seconds"], after - before, end["bytes_sent_across"]
                rows.line(f"2 Mbit/s between the sites, {PART} batches, {name}: {took[name]:.1f} s; {crossed[name] / 1e6:.2f} MB between them by the "
                          f"kernel's count, {told[name] / 1e6:.2f} by ours, without headers, control and the model at the end")
            rows.line(f"there nested takes 1/{took['every 5'] / took['nested 5, 50']:.1f} of the time")
    except Skip as reason:
        rows.line(f"2 Mbit/s between the sites: left out, {reason}")


ROWS = {"noniid": noniid, "sites": sites}
