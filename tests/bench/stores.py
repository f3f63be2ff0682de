#!/usr/bin/env python3
"""How fast objects of stores are read, beside curl: stores.py [--megabytes 256] [--objects 8] [--turns 5].

The same objects on moto (S3, signed requests) and on nginx, read into memory by one process of Perigee, and by one of curl into files that lie in
memory; they take turns. With the cache of blocks off, empty, and warm beside a local file; and an image folder in training, with a warm cache beside
the local folder. Prints the median of the turns' ratios; the bar of 0.80 (warm: 0.95) is what the project demands of throughput.
"""
import argparse
import os
import pathlib
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stores"))
import kit  # noqa: E402
import servers  # noqa: E402


def spent(run):
    """(seconds, processor seconds of the processes that it ran)."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run()
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def perigee(env, urls, size, empty=None):
    def run():
        answer = kit.one(env, "load", *urls)
        assert answer.get("size") == size, answer

    if empty:
        shutil.rmtree(empty, ignore_errors=True)
    return spent(run)


def curl(urls, size, keys, folder):
    """One process for all objects, on one connection."""
    command = ["curl", "-sS", "--fail"]
    if keys:
        command += ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(keys), "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    for number, url in enumerate(urls):
        command += ["-o", f"{folder}/{number}", url]
    done = spent(lambda: subprocess.run(command, check=True))
    assert sum(p.stat().st_size for p in pathlib.Path(folder).iterdir()) == size
    return done


def row(name, bar, turns, ours, theirs):
    """Ratios of theirs to ours, so that more is better for Perigee; both in each turn, one after the other."""
    pairs = [(ours(), theirs()) for _ in range(turns)]
    ratio, cpu = (statistics.median(b[i] / a[i] for a, b in pairs) for i in range(2))
    mine, other = (statistics.median(pair[i][0] for pair in pairs) for i in range(2))
    print(f"| {name} | {mine:.2f} s | {other:.2f} s | {ratio:.2f} | {cpu:.2f} | {bar} |", flush=True)


def images(folder, env, turns):
    """Two epochs over 2,000 pictures of 64 x 64, from a bucket whose blocks are cached and from the folder."""
    pictures = folder / "pictures"
    for number in range(2000):
        path = pictures / "ab"[number % 2] / f"{number:04}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + 12288, 0, 54, 40, 64, 64, 1, 24, 0, 12288, 2835, 2835, 0, 0)
        path.write_bytes(head + kit.random_bytes(12288, number))
    with kit.Tool(env) as tool:
        for path in sorted(pictures.rglob("*.bmp")):
            tool("put", f"s3://bucket/{path.relative_to(folder)}", path)
    jobs = []
    for name, data in (("there", "s3://bucket/pictures"), ("local", pictures)):
        jobs.append(folder / f"{name}.lua")
        jobs[-1].write_text(f"""local pg = require "perigee"
return pg.experiment {{ name = "{name}", loss = "cross_entropy", optimizer = pg.sgd {{ lr = 0.01 }}, epochs = 2, seed = 3,
  network = pg.sequential {{ pg.conv2d {{ 8, kernel = 3, activation = "relu" }}, pg.maxpool {{ 2 }}, pg.flatten {{}}, pg.dense {{ 2 }} }},
  data = {{ train = pg.data.images {{ "{data}", size = {{ 64, 64 }} }}, batch = 50 }} }}
""")

    def train(job):
        def run():
            status, output = kit.perigee(env, "train", job, "--log", "plain", "--out", folder / "run", cwd=folder)
            assert status == 0, output
            shutil.rmtree(folder / "run")

        return spent(run)

    train(jobs[0])
    row("2,000 images, warm cache; local folder: training", 0.95, turns, lambda: train(jobs[0]), lambda: train(jobs[1]))


def bench(folder, arguments):
    size, each = arguments.megabytes << 20, (arguments.megabytes << 20) // arguments.objects
    files = folder / "files"
    files.mkdir()
    for number in range(arguments.objects):
        (files / f"{number}.bin").write_bytes(kit.random_bytes(each, number))
    names = sorted(p.name for p in files.iterdir())
    local = [str(files / name) for name in names]
    (folder / "curl").mkdir()
    cache = folder / "cache"
    print(f"{arguments.objects} objects of {each >> 20} MiB, {arguments.turns} turns; load {os.getloadavg()[0]:.0f} at the start\n\n"
          "| | Perigee | peer | throughput | CPU time | bar |\n|---|---|---|---|---|---|", flush=True)
    moto = servers.Moto(folder)
    keys, env = moto.keys, kit.environment(folder, **moto.env())
    with kit.Tool(env) as tool:
        for name in names:
            assert tool("put", f"s3://bucket/{name}", files / name) == {"written": True}
    web = servers.Nginx(folder, files)
    for kind, urls, plain, signed in (("nginx", [f"{web.url}/{n}" for n in names], [f"{web.url}/{n}" for n in names], None),
                                      ("moto", [f"s3://bucket/{n}" for n in names], [f"{moto.url}/bucket/{n}" for n in names], keys)):
        without = {**env, "PERIGEE_STORE_CACHE_MB": "0"}
        peer = lambda: curl(plain, size, signed, folder / "curl")
        row(f"{kind}, no cache; curl", 0.8, arguments.turns, lambda: perigee(without, urls, size), peer)
        row(f"{kind}, empty cache; curl", 0.8, arguments.turns, lambda: perigee(env, urls, size, cache), peer)
        row(f"{kind}, warm cache; local files", 0.95, arguments.turns, lambda: perigee(env, urls, size), lambda: perigee(env, local, size))
    images(folder, env, arguments.turns)
    moto.stop()
    web.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("megabytes", 256), ("objects", 8), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perigee-stores-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        try:
            bench(pathlib.Path(folder), arguments)
        finally:
            for process in servers.STARTED:
                process.stop()


if __name__ == "__main__":
    main()
