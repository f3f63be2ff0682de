"""The row `latency` of bench.py: one prediction of LeNet at a time on one core, beside PyTorch.

By hand, in an interpreter with torch: `python3 tests/bench/latency.py SECONDS` prints PyTorch's figures, at its best of eager, traced
and optimised-for-inference, in both memory formats.
"""
import json
import sys
import time


def percentiles(times):
    times = sorted(times)
    return {"p50_us": 1e6 * times[len(times) // 2], "p99_us": 1e6 * times[int(0.99 * (len(times) - 1))]}


def peer(seconds):
    import torch
    from torch_peer import lenet
    torch.set_num_threads(1)
    torch.manual_seed(1)
    best = None
    with torch.inference_mode():
        for layout in (torch.contiguous_format, torch.channels_last):
            net = torch.nn.Sequential(lenet(), torch.nn.Softmax(1)).eval().to(memory_format=layout)
            images = [torch.randn(1, 1, 28, 28).contiguous(memory_format=layout) for _ in range(64)]
            traced = torch.jit.freeze(torch.jit.trace(net, images[0]))
            for name, run in (("eager", net), ("traced", traced), ("optimised", torch.jit.optimize_for_inference(traced))):
                times, end = [], time.perf_counter() + seconds
                for i in range(200):
                    run(images[i % 64])
                while time.perf_counter() < end:
                    start = time.perf_counter()
                    run(images[len(times) % 64])
                    times.append(time.perf_counter() - start)
                found = {**percentiles(times), "version": torch.__version__, "setting": f"{name} {str(layout)[6:]}"}
                if best is None or found["p50_us"] < best["p50_us"]:
                    best = found
    print(json.dumps(best))


def bench(bench, torches, peak, args):
    """`bench` is the module bench.py."""
    jobs = bench.Jobs()
    job = jobs.path("lenet")
    floor_us = 2 * bench.MODELS["lenet"][4] / (peak["gflops_1"] * 1e3)

    def measure(command, env=None):
        done = bench.run([*command, args.seconds], 1, env)
        result = bench.last_json(done.stdout)
        if done.returncode or not result:
            raise RuntimeError(done.stderr.strip()[-300:])
        return result

    ours, theirs = [], []
    for _ in range(args.turns):
        ours.append(measure([bench.BUILD / "tests" / "bench" / "predict_bench", job]))
        theirs += [measure([torch.python, __file__], bench.torch_environment(1)) for torch in torches]
    best = min(ours, key=lambda o: o["p50_us"])
    print("| one prediction of LeNet on one core | p50 µs | p99 µs | bar |\n|---|---|---|---|")
    print(f"| Perigee, best of {args.turns} turns (floor: {floor_us:.1f} µs of multiply-adds at the FMA peak) | {best['p50_us']:.1f} | {best['p99_us']:.1f} "
          f"| under 30 {'met' if best['p50_us'] < 30 else 'MISSED'} |")
    if theirs:
        peer_best = min(theirs, key=lambda t: t["p50_us"])
        print(f"| PyTorch {peer_best['version']}, {peer_best['setting']} | {peer_best['p50_us']:.1f} | {peer_best['p99_us']:.1f} | |", flush=True)


if __name__ == "__main__":
    peer(float(sys.argv[1]) if len(sys.argv) > 1 else 2)
