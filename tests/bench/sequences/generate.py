#!/usr/bin/env python3
"""Generation with batch 1 beside PyTorch, on one thread, in turns, by CPU time; then many sessions of one model.

    ninja -C build tests/bench/generate_bench
    python3 tests/bench/sequences/generate.py --python PYTHON_WITH_TORCH

Texts of 200 characters, one after another, drawn from the softmax of the scores. PyTorch keeps keys and values too.
Prints tokens a second of CPU time: median [least-most] of all repeats.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHARACTERS, TOKENS = 65, 200


def gpt_of(torch):
    """4 blocks of 128 features with 4 heads and room for 512 steps: the function of a step, given its caches and its number."""
    nn, functional = torch.nn, torch.nn.functional
    table, places, last = nn.Embedding(CHARACTERS, 128), nn.Embedding(512, 128), nn.LayerNorm(128)
    blocks = [[nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128), nn.LayerNorm(128), nn.Linear(128, 512), nn.Linear(512, 128)]
              for _ in range(4)]

    def heads(x):
        return x.view(1, 1, 4, 32).transpose(1, 2)

    def attend(q, k, v):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) * 32 ** -0.5, -1) @ v

    def gelu(x):
        return functional.gelu(x, approximate="tanh")

    def step(token, caches, i):
        x = table(token) + places(torch.tensor([i]))
        for (norm1, qkv, out, norm2, up, down), (keys, values) in zip(blocks, caches):
            q, k, v = (heads(part) for part in qkv(norm1(x)).split(128, 2))
            keys[:, :, i:i + 1], values[:, :, i:i + 1] = k, v
            seen = attend(q, keys[:, :, :i + 1], values[:, :, :i + 1])
            x = x + out(seen.transpose(1, 2).reshape(1, 1, 128))
            x = x + down(gelu(up(norm2(x))))
        return functional.linear(last(x), table.weight)

    def begin():
        return [(torch.zeros(1, 4, 512, 32), torch.zeros(1, 4, 512, 32)) for _ in range(4)]

    return begin, lambda token, caches, i: (step(token, caches, i), caches)


def lstm_of(torch):
    nn = torch.nn
    table, layer, out = nn.Embedding(CHARACTERS, 64), nn.LSTM(64, 256, batch_first=True), nn.Linear(256, CHARACTERS)

    def step(token, state, _):
        y, state = layer(table(token), state)
        return out(y), state

    return lambda: None, step


def peer(model):
    """Runs in the interpreter that has torch."""
    import time

    import torch

    torch.set_num_threads(1)
    begin, step = {"gpt": gpt_of, "lstm": lstm_of}[model](torch)

    def text():
        with torch.inference_mode():
            token, state = torch.zeros(1, 1, dtype=torch.long), begin()
            for i in range(TOKENS):
                scores, state = step(token, state, i)
                token = torch.multinomial(torch.softmax(scores[:, -1], -1), 1)

    text()
    found = []
    for _ in range(5):
        start = time.process_time()
        text()
        found.append(TOKENS / (time.process_time() - start))
    print(json.dumps({"version": torch.__version__, "tokens_per_cpu_s": found}))


def run(command):
    environment = dict(os.environ, OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="1")
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def spread(numbers):
    return f"{statistics.median(numbers):,.0f} [{min(numbers):,.0f}-{max(numbers):,.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=10000)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return peer(options.peer)
    bench = ROOT / "build/tests/bench/generate_bench"
    print("| generation, batch 1 | Perigee | PyTorch | which | ratio |\n|---|---|---|---|---|")
    for model in ("gpt", "lstm"):
        ours, theirs, which = [], [], ""
        for _ in range(options.turns):
            ours += run([bench, model, "tokens"])["tokens_per_cpu_s"]
            result = run([options.python, __file__, "--peer", model])
            theirs += result["tokens_per_cpu_s"]
            which = result["version"]
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(f"| {model} | {spread(ours)} | {spread(theirs)} | {which} | {ratio:.1f} |", flush=True)
    print("\n| sessions | state, bytes | resident, bytes | mean of a step, us | p99, us |\n|---|---|---|---|---|")
    for model in ("gpt", "lstm"):
        r = run([bench, model, "sessions", str(options.sessions)])
        print(f"| {r['sessions']:,} of {model} | {r['state_bytes']:,} | {r['resident_bytes']:,.0f} | {r['mean_us']} | {r['p99_us']} |", flush=True)


if __name__ == "__main__":
    main()
