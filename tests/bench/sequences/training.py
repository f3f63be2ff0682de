#!/usr/bin/env python3
"""Training of recurrent nets and transformers beside PyTorch, in turns, by CPU time.

    ninja -C build tests/bench/train_bench repl/perigee tests/bench/peak
    python3 tests/bench/sequences/training.py --python PYTHON_WITH_TORCH [ROW...] [--turns 3] [--threads 1] [--scaling]

Prints a row for each network: tokens a second of CPU time of both (the median turn), the ratio, and our share of what the core's
multiply-adds allow. Both train on the same numbers: batches of 32, AdamW, cross entropy, no dropout. PyTorch has the best of fused and
foreach updates. The documents of `encoder` have 16 to 128 words and are in no order; only these words count. Padding does not.
--scaling prints instead how much faster two threads are than one, by wall time on two idle cores.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BATCH = 32
LETTERS, WORDS, FEW_WORDS = 65, 30522, 10000

RECURRENT = """network = pg.sequential {{ pg.embedding {{ {letters}, 64 }}, pg.{layer}, pg.dense {{ {letters}, over = "steps" }} }}"""
# row: (steps of an example, the job's network, multiply-adds of a token forward)
ROWS = {
    "lstm": (64, RECURRENT.format(letters=LETTERS, layer="lstm { 256 }"), 4 * 256 * (64 + 256) + 256 * LETTERS),
    "gru": (64, RECURRENT.format(letters=LETTERS, layer="gru { 256 }"), 3 * 256 * (64 + 256) + 256 * LETTERS),
    "rnn": (64, RECURRENT.format(letters=LETTERS, layer="rnn { 256 }"), 256 * (64 + 256) + 256 * LETTERS),
    "lstm2": (64, RECURRENT.format(letters=LETTERS, layer="lstm { 512, layers = 2 }"), 4 * 512 * (64 + 3 * 512) + 512 * LETTERS),
    "bilstm": (100, f"""network = pg.sequential {{ pg.embedding {{ {FEW_WORDS}, 128 }}, pg.lstm {{ 128, layers = 2, bidirectional = "concat" }},
        pg.global_pool {{ "average" }}, pg.dense {{ 2 }} }}""", 2 * 4 * 128 * (128 + 128) + 2 * 4 * 128 * (256 + 128)),
    "gpt": (64, f"""network = pg.sequential {{ pg.embedding {{ {LETTERS}, 128, name = "letters" }}, pg.positions {{}},
        pg.transformer {{ layers = 4, heads = 4, causal = true, activation = {{ type = "gelu", approximate = "tanh" }} }},
        pg.dense {{ {LETTERS}, over = "steps", tied = "letters", bias = false }} }}""", 4 * (12 * 128 * 128 + 64 * 128) + 128 * LETTERS),
    "encoder": (128, f"""network = pg.sequential {{ pg.embedding {{ {WORDS}, 256 }}, pg.positions {{}},
        pg.transformer {{ layers = 4, heads = 4, activation = {{ type = "gelu", approximate = "tanh" }} }},
        pg.global_pool {{ "average" }}, pg.dense {{ 2 }} }}""", 4 * (12 * 256 * 256 + 2 * 72 * 256)),
}
JOB = """local pg = require "perigee"
return pg.experiment {{ {network}, loss = "cross_entropy", optimizer = pg.adamw {{ lr = 1e-3 }},
  data = {{ train = {data}, batch = {batch} }}, epochs = 1000000, seed = 1 }}
"""


def vocabulary(row):
    return {"bilstm": FEW_WORDS, "encoder": WORDS}.get(row, LETTERS)


def make_data(row, folder):
    """Runs in the interpreter that has torch and numpy. Writes what both train on."""
    import numpy
    random = numpy.random.default_rng(1)
    steps, examples = ROWS[row][0], 2048
    x = random.integers(0, vocabulary(row), (examples, steps))
    if row == "encoder":
        lengths, y = random.integers(16, steps + 1, examples), random.integers(0, 2, examples)
        with open(folder / "documents.csv", "w") as file:
            file.write("text,label\n" + "".join(f"{' '.join(f'w{word}' for word in x[i, :lengths[i]])},{'no' if y[i] else 'yes'}\n" for i in range(examples)))
        numpy.savez(folder / "data.npz", x=x, y=y, n=lengths)
    else:
        numpy.savez(folder / "data.npz", x=x, y=random.integers(0, 2, examples) if row == "bilstm" else random.integers(0, LETTERS, (examples, steps)))


def peer(row, folder, threads, steps, update):
    """Runs in the interpreter that has torch. Prints tokens a second of CPU time."""
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    class Recurrent(nn.Module):
        def __init__(self, kind, letters, embedded, units, layers=1, both=False, classes=None):
            super().__init__()
            self.embedding = nn.Embedding(letters, embedded)
            self.layers = kind(embedded, units, layers, bidirectional=both, batch_first=True)
            self.last, self.pools = nn.Linear(units * (2 if both else 1), classes or letters), classes is not None

        def forward(self, x, _):
            states = self.layers(self.embedding(x))[0]
            return self.last(states.mean(1) if self.pools else states)

    class Block(nn.Module):
        def __init__(self, features, heads, causal):
            super().__init__()
            self.first, self.second = nn.LayerNorm(features), nn.LayerNorm(features)
            self.inward, self.outward = nn.Linear(features, 3 * features), nn.Linear(features, features)
            self.wide, self.narrow = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
            self.heads, self.causal = heads, causal

        def forward(self, x, mask):
            n, t, c = x.shape
            q, k, v = (part.view(n, t, self.heads, c // self.heads).transpose(1, 2) for part in self.inward(self.first(x)).split(c, 2))
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
            x = x + self.outward(mixed.transpose(1, 2).reshape(n, t, c))
            return x + self.narrow(functional.gelu(self.wide(self.second(x)), approximate="tanh"))

    class Transformer(nn.Module):
        def __init__(self, letters, features, steps, classes=None):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(letters, features), nn.Embedding(steps, features)
            self.blocks = nn.ModuleList([Block(features, 4, classes is None) for _ in range(4)])
            self.norm, self.last = nn.LayerNorm(features), nn.Linear(features, classes or letters, bias=classes is not None)
            if classes is None:
                self.last.weight = self.embedding.weight

        def forward(self, x, there):
            y = self.embedding(x) + self.positions(torch.arange(x.shape[1]))
            for block in self.blocks:
                y = block(y, None if there is None else there[:, None, None, :])
            y = self.norm(y)
            if there is not None:
                y = (y * there[:, :, None]).sum(1) / there.sum(1, keepdim=True)
            return self.last(y)

    data = numpy.load(folder / "data.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    lengths = torch.from_numpy(data["n"]) if "n" in data else None
    model = {"lstm": lambda: Recurrent(nn.LSTM, LETTERS, 64, 256), "gru": lambda: Recurrent(nn.GRU, LETTERS, 64, 256),
             "rnn": lambda: Recurrent(nn.RNN, LETTERS, 64, 256), "lstm2": lambda: Recurrent(nn.LSTM, LETTERS, 64, 512, 2),
             "bilstm": lambda: Recurrent(nn.LSTM, FEW_WORDS, 128, 128, 2, True, 2), "gpt": lambda: Transformer(LETTERS, 128, 64),
             "encoder": lambda: Transformer(WORDS, 256, 128, 2)}[row]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **{update: True})

    def step(number):
        begin = number * BATCH % (len(x) - BATCH + 1)
        rows, wanted, there = x[begin:begin + BATCH], y[begin:begin + BATCH], None
        tokens = rows.numel()
        if lengths is not None:
            most = int(lengths[begin:begin + BATCH].max())
            there = torch.arange(most)[None] < lengths[begin:begin + BATCH, None]
            rows, tokens = rows[:, :most], int(there.sum())
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(rows, there).flatten(0, -2), wanted.flatten()).backward()
        optimizer.step()
        return tokens

    for number in range(3):
        step(number)
    start, tokens = time.process_time(), sum(step(number) for number in range(steps))
    print(json.dumps({"tokens_per_s": tokens / (time.process_time() - start)}))


def run(command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, OMP_WAIT_POLICY="PASSIVE")).stdout


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall_seconds(command):
    before = time.monotonic()
    run(command)
    return time.monotonic() - before


def ours(row, folder, threads, steps, seconds=cpu_seconds):
    """Tokens a second. The difference of a long and a short run: what starting and opening cost is in both."""
    bench = [ROOT / "build/tests/bench/train_bench", folder / "job.json", "--batch", BATCH, "--threads", threads]
    short = seconds([*bench, "--steps", 8])
    spent = seconds([*bench, "--steps", steps + 8]) - short
    return steps * BATCH * (72 if row == "encoder" else ROWS[row][0]) / spent  # words of the mean document


def write_job(row, folder, python):
    run([python, __file__, row, "--make", folder])
    data = f'pg.data.documents {{ "{folder}/documents.csv", length = 128 }}' if row == "encoder" else f'pg.data.npz {{ "{folder}/data.npz" }}'
    (folder / "job.lua").write_text(JOB.format(network=ROWS[row][1], data=data, batch=BATCH))
    (folder / "job.json").write_text(run([ROOT / "build/repl/perigee", "describe", folder / "job.lua", "--json"]))


def print_scaling(rows, args):
    print("| | one thread, tokens/s | two | ratio |\n|---|---|---|---|")
    for row in rows:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_job(row, folder, args.python)
            for threads in (1, 2):
                ours(row, folder, threads, args.steps)  # measures kernels, whose times are kept
            one, two = [], []
            for _ in range(args.turns):
                one.append(ours(row, folder, 1, args.steps, wall_seconds))
                two.append(ours(row, folder, 2, args.steps, wall_seconds))
            ratios = [b / a for a, b in zip(one, two)]
            print(f"| {row} | {statistics.median(one):,.0f} | {statistics.median(two):,.0f} | {statistics.median(ratios):.2f} "
                  f"[{min(ratios):.2f}-{max(ratios):.2f}] |", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has torch and numpy")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--scaling", action="store_true", help="two threads beside one, without the peer")
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        return make_data(args.rows[0], args.make)
    if args.peer:
        return peer(args.rows[0], pathlib.Path(args.peer[0]), args.threads, args.steps, args.peer[1])
    if args.scaling:
        return print_scaling(args.rows, args)
    print("| | Perigee, tokens/s | PyTorch | ratio | share of the multiply-adds |\n|---|---|---|---|---|")
    for row in args.rows:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_job(row, folder, args.python)
            ours(row, folder, args.threads, args.steps)  # measures kernels, whose times are kept
            mine, theirs, ratios, shares = [], [], [], []
            for _ in range(args.turns):
                peak = json.loads(run([ROOT / "build/tests/bench/peak"]).splitlines()[-1])["gflops_1"] * 1e9
                mine.append(ours(row, folder, args.threads, args.steps))
                theirs.append(max(json.loads(run([args.python, __file__, row, "--threads", args.threads, "--steps", args.steps, "--peer", folder, update]))
                                  ["tokens_per_s"] for update in ("fused", "foreach")))
                ratios.append(mine[-1] / theirs[-1])
                shares.append(6 * ROWS[row][2] * mine[-1] / peak)
            print(f"| {row} | {statistics.median(mine):,.0f} | {statistics.median(theirs):,.0f} | {statistics.median(ratios):.2f} "
                  f"[{min(ratios):.2f}-{max(ratios):.2f}] | {100 * statistics.median(shares):.0f} % |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
