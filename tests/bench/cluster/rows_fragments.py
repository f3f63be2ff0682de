"""
    streaming models/char_lm.lua with 4 workers of batch 32, 0.8 million windows: Streaming DiLoCo in 4 fragments of int4, each every 50 steps,
              workers training on meanwhile and keeping half of their parameters, or all work since, against DiLoCo (1, 0.5) every 50 steps and an all-reduce at each step: test loss in nats, bytes, and
              the bytes of the largest round
    layers    models/lenet.lua, 2 epochs, 4 workers: dense layers every 20 steps as int4 and the others every 5, against all every 5: accuracy, bytes
"""
import json
import re
import statistics
import subprocess

from experiment_kit import PROGRAM, ROOT, train

CHAR = ROOT / "models" / "char_lm.lua"
LENET = ROOT / "models" / "lenet.lua"


def described(script, averaging):
    """What `describe` says of the policy: its last lines."""
    done = subprocess.run([PROGRAM, "describe", script, "--set", f"averaging={json.dumps(averaging)}"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def largest_round(script, averaging):
    """Bytes that the busiest of four workers in a star sends in the largest round, as `describe` computes them."""
    star = re.search(r"\bstar ([0-9.]+) (\w+)", described(script, averaging))
    unit = {"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "KiB": 1024, "MiB": 1 << 20}[star.group(2)]
    return float(star.group(1)) * unit


def streaming(rows, seeds):
    base = {"topology": "star"}
    diloco = {**base, "type": "diloco", "every": 50, "rate": 1, "momentum": 0.5}
    fragments = {**base, "type": "streaming", "every": 50, "fragments": 4, "rate": 1, "momentum": 0.5}
    arms = {
        "all-reduce": {**base, "type": "allreduce"},
        "diloco 1, 0.5": diloco,
        "diloco 1, 0.5, int4": {**diloco, "codec": "int4"},
        "streaming 1, 0.5": fragments,
        "streaming 1, 0.5, int4": {**fragments, "codec": "int4"},
        "the same, all work stays": {**fragments, "codec": "int4", "keep": -1},
        "the same, results after 3 steps": {**fragments, "codec": "int4", "keep": -1, "late": 3},
        "the same, nothing stays": {**fragments, "codec": "int4", "keep": 0},
        "streaming 1, 0.5, int4, no overlap": {**fragments, "codec": "int4", "overlap": False, "keep": 0},
        "streaming 0.4, 0.9, int4, all work": {**fragments, "codec": "int4", "rate": 0.4, "momentum": 0.9, "keep": -1},
    }
    print("| policy | test loss by seed, nats | mean | sent, MB | largest round, busiest worker, kB |\n|---|---|---|---|---|")
    mean, most = {}, {}
    for name, averaging in arms.items():
        ends = [train(CHAR, "--seed", seed, "--workers", 4, "--steps", 25_000, "--set", "data.batch=32",
                      "--set", f"averaging={json.dumps(averaging)}")[0] for seed in seeds]
        losses = [end["test"]["loss"] for end in ends]
        mean[name], most[name] = statistics.mean(losses), largest_round(CHAR, averaging)
        sent = statistics.mean(end["bytes_sent"] for end in ends)
        rows.line(f"| {name} | {', '.join(f'{x:.3f}' for x in losses)} | {mean[name]:.3f} | {sent / 1e6:.2f} | {most[name] / 1e3:.1f} |")
    for name, bar in (("the same, all work stays", 0.03), ("streaming 1, 0.5, int4", 0.05)):
        worse = mean[name] - mean["diloco 1, 0.5"]
        rows.line(f"{name}: {worse:+.3f} nats from diloco (bar {bar})", worse <= bar)
    ratio = most["diloco 1, 0.5"] / most["streaming 1, 0.5"]
    rows.line(f"its largest round is 1/{ratio:.2f} of diloco's (bar 1/3.9), with int4 1/{most['diloco 1, 0.5'] / most['streaming 1, 0.5, int4']:.1f}",
              ratio >= 3.9)


def layers(rows, seeds):
    every = {"type": "periodic", "every": 5}
    mixed = {"dense*": {"type": "periodic", "every": 20, "codec": "int4"}, "*": every}
    print("| policy | test accuracy by seed, % | mean | sent, MB |\n|---|---|---|---|")
    mean, sent = {}, {}
    for name, averaging in (("all every 5", every), ("dense every 20 as int4", mixed), ("all every 20", {**every, "every": 20})):
        ends = [train(LENET, "--seed", seed, "--epochs", 2, "--workers", 4, "--set", f"averaging={json.dumps(averaging)}")[0] for seed in seeds]
        accuracy = [100 * end["test"]["accuracy"] for end in ends]
        mean[name], sent[name] = statistics.mean(accuracy), statistics.mean(end["bytes_sent"] for end in ends)
        rows.line(f"| {name} | {', '.join(f'{a:.2f}' for a in accuracy)} | {mean[name]:.2f} | {sent[name] / 1e6:.1f} |")
    print(described(LENET, mixed)[described(LENET, mixed).index("fragment "):], end="")
    loss = mean["all every 5"] - mean["dense every 20 as int4"]
    rows.line(f"dense layers rarer and harder: {loss:+.2f} points, 1/{sent['all every 5'] / sent['dense every 20 as int4']:.2f} of the bytes "
              "(bars 0.3 points, 1/2)", loss <= 0.3 and 2 * sent["dense every 20 as int4"] <= sent["all every 5"])


ROWS = {"streaming": streaming, "layers": layers}
