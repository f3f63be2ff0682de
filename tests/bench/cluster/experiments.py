#!/usr/bin/env python3
"""What averaging costs in accuracy and saves in bytes, with real worker processes: `./perigee bench averaging [ROW…]`.

    sweep     periodic averaging every H = 1, 5, 10, 50, 250 steps, 4 workers, MLP 784-128-64-10 on MNIST, SGD 0.05 momentum 0.9 cosine, 6 epochs
              over all workers together, batch 32 each: loss of accuracy against H = 1, and bytes, which must be 1/H within 1 % and the one round
              that the end of the run cuts short (SparkNet's curve)
    outer     models/char_lm.lua with 4 workers of batch 32 that average every 50 steps, 0.8 million windows over all workers together: outer Nesterov
              steps (rate, momentum) = (1, 0), (1, 0.5), (0.7, 0.5), (0.4, 0.9), (0.7, 0.9) against an all-reduce at each step, test loss in nats
    coded     the same with (1, 0.5), in a star: changes sent as float32, int8, int4 and int2 with error feedback; and int2 with (0.7, 0.9) with and without
    lenet     models/lenet.lua for 5 epochs: 4 workers that average every 5 steps against one worker
    scaling   ResNet-20 with allreduce, 64 images a worker: 2 workers of 1 thread against 1 worker of 1 thread, and PyTorch's DistributedDataParallel
              over gloo in turns with them (bench.py says how PyTorch is found; without it the row has our figures alone)
    bits      allreduce with shards = 4: the parameters after 100 steps of LeNet with 1, 2 and 4 workers, byte by byte, and once more
    float64   allreduce in float64 on the reference kernels: the parameters after 100 steps of LeNet with 1, 2 and 4 workers, 16 examples a step;
              the kernels are plain loops: about a minute

Each row ends with its bar and whether it was met; the exit status is 1 when one was not. PERIGEE_DATA must hold the real MNIST.
"""
import argparse
import hashlib
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench import find_torch, results

from experiment_kit import MLP, ROOT, Rows, float64_tensors, tensors, train

PEER = pathlib.Path(__file__).with_name("peer_ddp.py")


def sweep(rows, seeds):
    print("| H | test accuracy by seed, % | mean | loss against H = 1, points | bar | bytes sent | x H / bytes of H = 1 |\n|---|---|---|---|---|---|---|")
    base, examples = None, MLP["epochs"] * 60_000
    for every, bar in ((1, None), (5, 0.2), (10, None), (50, 0.4), (250, 0.8)):
        ends = [train({**MLP, "seed": seed, "averaging": {"type": "periodic", "every": every}}, "--workers", 4)[0] for seed in seeds]
        accuracy = [100 * end["test"]["accuracy"] for end in ends]
        mean, sent = statistics.mean(accuracy), statistics.mean(end["bytes_sent"] for end in ends)
        base = base or (mean, sent, sent / (examples / (4 * MLP["data"]["batch"])))
        loss, ratio = base[0] - mean, sent * every / base[1]
        exact = abs(sent - base[1] / every) <= 0.01 * base[1] / every + base[2]
        rows.line(f"| {every} | {', '.join(f'{a:.2f}' for a in accuracy)} | {mean:.2f} | {loss:+.2f} | {bar or ''} | {sent:,.0f} | {ratio:.4f} |",
                  exact and (bar is None or loss <= bar))


def lenet(rows, seeds):
    script = ROOT / "models" / "lenet.lua"
    one = [100 * train(script, "--seed", seed, "--epochs", 5)[0]["test"]["accuracy"] for seed in seeds]
    rows.line(f"LeNet, 5 epochs, seeds {seeds}: one worker {', '.join(f'{a:.2f}' for a in one)}")
    for what, options in (("the same rate", []), ("twice the rate", ["--set", "optimizer.lr.from=4e-3"])):
        four = [100 * train(script, "--seed", seed, "--epochs", 5, "--workers", 4, *options)[0]["test"]["accuracy"] for seed in seeds]
        loss = statistics.mean(one) - statistics.mean(four)
        rows.line(f"4 workers, periodic every 5, {what}: {', '.join(f'{a:.2f}' for a in four)}; loss {loss:+.2f} points (bar 0.3)", loss <= 0.3)


def char_losses(seeds, averaging):
    """([test loss by seed], mean bytes that all workers sent) of the character model on 4 workers."""
    ends = [train(ROOT / "models" / "char_lm.lua", "--seed", seed, "--workers", 4, "--steps", 25_000, "--set", "data.batch=32",
                  "--set", f"averaging={json.dumps(averaging)}")[0] for seed in seeds]
    return [end["test"]["loss"] for end in ends], statistics.mean(end["bytes_sent"] for end in ends)


def coded(rows, seeds):
    """E4. In a star of 4 the root sends 3 sums for 3 that come up, or 9 payloads for 3: a half or a quarter of all bytes go up."""
    _, dense = char_losses(seeds, {"type": "allreduce", "topology": "star"})
    dense_up = dense / 2
    print("| codec | rate, momentum | test loss by seed, nats | mean | sent up, share of all-reduce |\n|---|---|---|---|---|")
    mean = {}
    share = {}

    def arm(name, codec, rate, momentum):
        policy = {"type": "diloco", "every": 50, "rate": rate, "momentum": momentum, "topology": "star"}
        found, sent = char_losses(seeds, policy if codec is None else {**policy, "codec": codec})
        mean[name], share[name] = statistics.mean(found), dense_up / (sent / (2 if codec is None else 4))
        rows.line(f"| {name} | {rate}, {momentum} | {', '.join(f'{x:.3f}' for x in found)} | {mean[name]:.3f} | 1/{share[name]:.0f} |")

    arm("fp32", None, 1, 0.5)
    arm("int8", "int8", 1, 0.5)
    arm("int4", {"type": "int4", "feedback": True}, 1, 0.5)
    arm("int2", {"type": "int2", "feedback": True}, 1, 0.5)
    # Our own scale, the mean, loses so little by itself that feedback has nothing to repair; the reference's is the largest.
    arm("int2 largest, steep", {"type": "int2", "scale": "largest", "feedback": True}, 0.7, 0.9)
    arm("int2 largest, steep, no feedback", {"type": "int2", "scale": "largest", "feedback": False}, 0.7, 0.9)
    for name, most in (("int8", 0.02), ("int4", 0.02), ("int2", 0.03)):
        worse = mean[name] - mean["fp32"]
        rows.line(f"{name} is {worse:+.3f} nats from fp32 (bar {most})", worse <= most)
    rows.line(f"int2 sends up 1/{share['int2']:.0f} of all-reduce's bytes (bar 1/750)", share["int2"] >= 750)
    gained = mean["int2 largest, steep, no feedback"] - mean["int2 largest, steep"]
    rows.line(f"at 0.7, 0.9 feedback gains {gained:.3f} nats for int2 (bar 0.1)", gained >= 0.1)


def outer(rows, seeds):
    print("| rate, momentum | test loss by seed, nats | mean | above all-reduce | bytes sent, share of all-reduce |\n|---|---|---|---|---|")
    base, sent = char_losses(seeds, {"type": "allreduce"})
    rows.line(f"| all-reduce | {', '.join(f'{x:.3f}' for x in base)} | {statistics.mean(base):.3f} | | |")
    mean = {}
    for arm in ((1, 0), (1, 0.5), (0.7, 0.5), (0.4, 0.9), (0.7, 0.9)):
        found, own = char_losses(seeds, {"type": "diloco", "every": 50, "rate": arm[0], "momentum": arm[1]})
        mean[arm] = statistics.mean(found)
        rows.line(f"| {arm[0]}, {arm[1]} | {', '.join(f'{x:.3f}' for x in found)} | {mean[arm]:.3f} | {mean[arm] - statistics.mean(base):+.3f} | "
                  f"1/{sent / own:.1f} |")
    best, gained = min(mean.values()) - statistics.mean(base), mean[1, 0] - mean[1, 0.5]
    rows.line(f"the best arm is {best:+.3f} nats from all-reduce (bar 0.06)", best <= 0.06)
    rows.line(f"momentum 0.5 at rate 1 gains {gained:.3f} nats on plain averaging (bar 0.05)", gained >= 0.05)


def rate(steps):
    """Examples per second: the median of the step events after the first quarter."""
    kept = [s["examples_per_s"] for s in steps[len(steps) // 4:]]
    return statistics.median(kept) if kept else float("nan")


class Peer:
    """PyTorch's DistributedDataParallel, with the setting that is fastest for one process."""

    def __init__(self, python):
        self.python = python
        self.setting = max(("nchw fused eager", "nchw foreach eager", "nhwc fused eager", "nhwc foreach eager"),
                           key=lambda setting: self.rate(1, 30, setting))

    def rate(self, workers, steps, setting=None):
        """Images per second of all processes together."""
        with tempfile.TemporaryDirectory() as meeting:
            ranks = [subprocess.Popen([self.python, PEER, str(rank), str(workers), f"{meeting}/file", str(steps), "64", setting or self.setting],
                                      stdout=subprocess.PIPE, text=True) for rank in range(workers)]
            texts = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            sys.exit(f"{PEER.name} failed in {self.python}")
        return float(texts[0])


def listed(rates):
    return ", ".join(f"{r:,.0f}" for r in rates)


def scaling(rows, _):
    script, steps = ROOT / "models" / "resnet20.lua", 120
    common = ["--steps", steps, "--set", 'averaging={"type":"allreduce"}']
    python = find_torch()
    peer = Peer(python) if python else None
    ours, theirs = {1: [], 2: []}, {1: [], 2: []}
    for _turn in range(3):  # in turns, so that a busy machine is busy for all
        for workers in (1, 2):
            several = ["--workers", workers, "--min-workers", workers] if workers > 1 else []
            ours[workers].append(rate(train(script, *common, *several)[1]))
            if peer:
                theirs[workers].append(peer.rate(workers, steps))
    ratio = statistics.median(two / one for one, two in zip(ours[1], ours[2]))
    rows.line(f"ResNet-20, allreduce, images/s: 1 worker {listed(ours[1])}; 2 workers {listed(ours[2])}; ratio {ratio:.2f} (bar 1.8)", ratio >= 1.8)
    if not peer:
        rows.line("PyTorch was not found: no peer beside it")
        return
    peer_ratio = statistics.median(two / one for one, two in zip(theirs[1], theirs[2]))
    against = {workers: statistics.median(a / b for a, b in zip(ours[workers], theirs[workers])) for workers in (1, 2)}
    rows.line(f"PyTorch DDP over gloo ({peer.setting}), images/s: 1 process {listed(theirs[1])}; 2 processes {listed(theirs[2])}; "
              f"ratio {peer_ratio:.2f}; ours / theirs {against[1]:.2f} with one, {against[2]:.2f} with two")


def float64(rows, _):
    script = ROOT / "models" / "lenet.lua"
    common = ["--device", "ref", "--steps", 100, "--set", "precision=float64", "--set", "data.global_batch=16", "--set", "data.batch=16",
              "--set", 'averaging={"type":"allreduce"}', "--set", "data.test=null"]
    runs = {}
    for workers in (1, 2, 4):
        runs[workers] = float64_tensors(train(script, "--workers", workers, "--min-workers", workers, *common)[2])
    for workers in (2, 4):
        worst = 0.0
        for name, wanted in runs[1].items():
            largest = max(map(abs, wanted))
            worst = max(worst, max(abs(a - b) for a, b in zip(wanted, runs[workers][name])) / largest)
        rows.line(f"allreduce, float64 on ref, LeNet, 100 steps of 16 examples: {workers} workers against 1, largest difference of a tensor's element over "
                  f"the tensor's largest: {worst:.1e} (bar 1e-12)", worst <= 1e-12 and len(runs[1]) > 0)


def bits(rows, _):
    script = ROOT / "models" / "lenet.lua"
    digests = {}
    for workers in (1, 2, 4, 4):
        averaging = '{"type":"allreduce","shards":4}'
        model = train(script, "--workers", workers, "--set", f"averaging={averaging}", "--set", "data.global_batch=128", "--steps", 100)[2]
        digests.setdefault(hashlib.sha256(tensors(model)).hexdigest()[:16], []).append(workers)
    rows.line(f"allreduce, shards = 4, LeNet, 100 steps: parameters by workers {digests} (bar: one digest)", len(digests) == 1)


def row_files():
    return [importlib.import_module(file.stem) for file in sorted(pathlib.Path(__file__).parent.glob("rows_*.py"))]


def known_rows():
    known = {"sweep": sweep, "outer": outer, "coded": coded, "lenet": lenet, "scaling": scaling, "bits": bits, "float64": float64}
    for more in row_files():
        known.update(more.ROWS)
    return known


def main():
    known = known_rows()
    help_text = "\n".join([__doc__, *(more.__doc__ for more in row_files())])
    parser = argparse.ArgumentParser(description=help_text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*known, []], metavar="ROW", help="of " + ", ".join(known) + "; all when none is named")
    parser.add_argument("--seeds", default="1,2,3")
    results.add_option(parser)
    args = parser.parse_args()
    report = results.Report(args.results, "./perigee bench averaging")
    report.check(*(f"experiments.py {name}" for name in args.rows or known))
    shared = ROOT.parent / "shared" / "data"
    if "PERIGEE_DATA" not in os.environ and shared.is_dir():
        os.environ["PERIGEE_DATA"] = str(shared)
    rows = Rows()
    for name in args.rows or known:
        print(f"== {name}", flush=True)
        with report.section(f"experiments.py {name}"):
            known[name](rows, [int(seed) for seed in args.seeds.split(",")])
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
