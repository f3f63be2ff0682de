"""    ddp       time to 97 % of MNIST's test set, looked at after each epoch, two workers of batch 32 (MLP 784-128-64-10, SGD 0.05, momentum 0.9) whose
              connections are held to 2, 10 and 100 Mbit/s each way: averages every 50 steps in 4 bits beside PyTorch's DistributedDataParallel
              over gloo, plain, with its fp16 hook and with its PowerSGD hook. Ours runs whole. PyTorch's steps to 97 % do not depend on
              the network, so they are counted once without a limit, and its time is that many times a step at the rate, measured on 12
              steps. Needs root, ip and tc
"""
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench import find_torch
from experiment_kit import MLP, PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests" / "cluster" / "faults"))
from fault_network import Net  # noqa: E402
from harness import Process, Skip, write_secret  # noqa: E402

PEER = pathlib.Path(__file__).with_name("peer_ddp_mnist.py")
WORKERS = 2
GOAL = 0.97
POLICY = {"type": "diloco", "every": 50, "rate": 1, "momentum": 0.5, "codec": {"type": "int4", "feedback": True}}
JOB = {**MLP, "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0.9}, "epochs": 20, "averaging": POLICY, "checkpoint": False}  # as the peer


def ours(net, seed):
    """Seconds until the goal; None when it is not reached."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        folder = pathlib.Path(folder)
        write_secret(folder / "key")
        (folder / "job.json").write_text(json.dumps({**JOB, "seed": seed}))

        def start(where, *arguments):
            process = Process(arguments, folder, command=list(net.inside(where)), executable=PROGRAM)
            processes.callback(process.kill)
            return process

        train = start("hub", "train", "job.json", "--log", "json", "--listen", "10.77.0.1:0", "--secret", "key", "--min-workers", WORKERS)
        address = json.loads((train.folder() / "cluster.json").read_text())["listen"]
        for index in range(WORKERS):
            start(f"w{index}", "worker", "--join", address, "--secret", "key", "--threads", 1)
        right = lambda event: event.get("test", {}).get("accuracy", 0) >= GOAL  # noqa: E731
        try:
            return train.wait_event("epoch", right, deadline=600)["seconds"]
        except AssertionError as error:
            print(f"ours did not reach {GOAL:.0%}: {error}", file=sys.stderr)
            return None


def theirs(python, net, hook, seed, *mode):
    ranks = []
    for rank in range(WORKERS):
        where = net.inside(f"w{rank}") if net else ()
        interface = "eth0" if net else "lo"
        address = "10.77.0.2" if net else "127.0.0.1"
        ranks.append(subprocess.Popen(["env", f"GLOO_SOCKET_IFNAME={interface}", *where, python, PEER, str(rank), str(WORKERS), f"{address}:29517",
                                       hook, str(seed), *map(str, mode)], stdout=subprocess.PIPE, text=True))
    texts = [rank.communicate(timeout=900)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{PEER.name} failed in {python}")
    return json.loads(texts[0])


def ddp(rows, seeds):
    python = find_torch()
    steps = {}
    for hook in ("none", "fp16", "powersgd") if python else ():
        runs = [theirs(python, None, hook, seed, "epochs", 20) for seed in seeds]
        steps[hook] = statistics.median(run["steps"] for run in runs)
        reached = ", ".join(f"{100 * run['accuracy']:.2f}" for run in runs)
        rows.line(f"PyTorch DDP, hook {hook}: {steps[hook]:.0f} steps to {reached} %")
    print("| Mbit/s | ours, s by seed | PyTorch DDP, s (ratio) | fp16 | PowerSGD, rank 2 |\n|---|---|---|---|---|")
    try:
        with Net(WORKERS) as net:
            for rate in (2, 10, 100):
                for index in range(WORKERS):
                    net.limit(index, rate)
                times = [ours(net, seed) for seed in seeds]
                own = statistics.median(times) if None not in times else float("nan")
                cells = []
                for hook, count in steps.items():
                    peer = count * theirs(python, net, hook, seeds[0], "steps", 12)["seconds"]
                    cells.append(f"{peer:,.0f} ({peer / own:.1f} x ours)")
                rows.line(f"| {rate} | {', '.join('-' if t is None else f'{t:.1f}' for t in times)} | {' | '.join(cells)} |", None not in times)
    except Skip as reason:
        rows.line(f"not run: {reason}", False)


ROWS = {"ddp": ddp}
