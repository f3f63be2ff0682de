"""The row `tensors` of bench.py: element-wise ops on ten numbers from a script beside PyTorch from Python, and a training loop written in Lua
(pg.compile) beside the built-in trainer.

By hand, in an interpreter with torch: `python3 tests/bench/tensors.py SECONDS` prints PyTorch's figures. Times of one thread are CPU times,
the best of 12 repeats; with two threads wall clock.
"""
import json
import sys
import time


def peer(seconds):
    import torch
    torch.set_num_threads(1)
    x, y = torch.ones(10), torch.ones(10)
    ops = [("x + y", lambda: x + y), ("x + 1", lambda: x + 1), ("exp(x)", lambda: x.exp()), ("log(x)", lambda: x.log()), ("tanh(x)", lambda: x.tanh()),
           ("sigmoid(x)", lambda: x.sigmoid()), ("sqrt(x)", lambda: x.sqrt()), ("x += y", lambda: x.add_(y))]
    for name, dtype in (("f32", torch.float32), ("f64", torch.float64), ("i64", torch.int64), ("i32", torch.int32)):
        many = (torch.rand(1000, 1000) * 100).to(dtype)
        ops += [(f"sum of 1e6 {name}", lambda many=many: many.sum()), (f"max of columns, 1e6 {name}", lambda many=many: many.amax(0)),
                (f"max of rows, 1e6 {name}", lambda many=many: many.amax(1))]
    for name, op in ops:
        count, best = 1, float("inf")

        def repeat(n):
            begin = time.process_time()
            for _ in range(n):
                op()
            return time.process_time() - begin

        while repeat(count) < seconds / 8:
            count *= 2
        for _ in range(12):
            best = min(best, repeat(count) / count)
        print(json.dumps({"name": name, "value": 1e9 * best}), flush=True)


def values(text):
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row["name"]: row["value"] for row in rows}


def bench(bench, torches, args):
    script = bench.ROOT / "tests" / "bench" / "tensors.lua"

    def ours(threads):
        code = f'THREADS, SECONDS = {threads}, {args.seconds} dofile "{script}"'
        done = bench.run([bench.PROGRAM, "-e", code], threads)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-500:])
        return values(done.stdout)

    one = ours(1)
    theirs = {}
    for torch in torches:
        done = bench.run([torch.python, __file__, args.seconds], 1, bench.torch_environment(1))
        for name, value in values(done.stdout).items():
            theirs[name] = min(value, theirs.get(name, value))
    for title, many, bar in (("ten numbers", False, "under 1000; 3"), ("reductions", True, "")):
        print(f"\n| {title} | Perigee, ns | PyTorch, ns | ratio | bar |\n|---|---|---|---|---|")
        for name, value in one.items():
            if name == "images" or many != ("1e6" in name):
                continue
            ratio = f"{theirs[name] / value:.1f}" if name in theirs else ""
            print(f"| `{name}` | {value:.0f} | {theirs.get(name, float('nan')):.0f} | {ratio} | {bar} |")
    jobs = bench.Jobs()
    print("\n| MLP, batch 64 | pg.compile, images/s | built-in trainer, images/s | ratio | bar |\n|---|---|---|---|---|")
    for threads in (1, 2):
        measured = bench.measure_perigee(jobs.path("mlp_sgd"), ("mlp_sgd", 64, threads), args)
        trainer = max(measured["images_per_cpu_s" if threads == 1 else "images_per_s"])
        loop = (one if threads == 1 else ours(2))["images"]
        print(f"| {threads} thread{'s' if threads > 1 else ''} | {loop:,.0f} | {trainer:,.0f} | {loop / trainer:.2f} | 0.9 |", flush=True)


if __name__ == "__main__":
    peer(float(sys.argv[1]))
