#!/usr/bin/env python3
"""How fast objects of stores are read, beside curl: stores.py [--megabytes 256] [--objects 8] [--turns 5].

The same objects on moto (S3, signed requests) and on nginx, read into memory by one process of Perigee, and by one of curl into files that lie in
memory; they take turns. With the cache of blocks off, empty, and warm beside a local file; and MNIST and an image folder in training, with a warm cache
beside local files. Prints the median of the turns' ratios; the bar of 0.80 (warm: 0.95) is what the project demands of throughput.
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
    pairs = []
    for turn in range(turns):  # each goes first in every second turn
        first, second = (theirs, ours) if turn % 2 else (ours, theirs)
        each = first(), second()
        pairs.append(each[::-1] if turn % 2 else each)
    ratio, cpu = (statistics.median(b[i] / a[i] for a, b in pairs) for i in range(2))
    mine, other = (statistics.median(pair[i][0] for pair in pairs) for i in range(2))
    least, most = (choose(b[1] / a[1] for a, b in pairs) for choose in (min, max))
    print(f"| {name} | {mine:.2f} s | {other:.2f} s | {ratio:.2f} | {cpu:.3f} [{least:.2f}-{most:.2f}] | {bar} |", flush=True)


def training(folder, env, name, data, network, epochs=2, threads=0):
    """(seconds, processor seconds) of a run of `perigee train` alone: a store's server is a process of its own."""
    job = folder / f"{name}.lua"
    job.write_text(f"""local pg = require "perigee"
return pg.experiment {{ name = "{name}", loss = "cross_entropy", optimizer = pg.sgd {{ lr = 0.01 }}, epochs = {epochs}, seed = 3,
  network = pg.sequential {network}, data = {{ train = {data}, batch = 50 }} }}
""")

    def run():
        more = ("--threads", threads) if threads else ()
        status, output = kit.perigee(env, "train", job, "--log", "plain", "--out", folder / "run", *more, cwd=folder, timeout=1200)
        assert status == 0, output
        shutil.rmtree(folder / "run")

    return spent(run)


def later_epochs(run):
    """One epoch of those that have nothing to look up: six epochs less two, by four."""
    few, many = run(2), run(6)
    return tuple((b - a) / 4 for a, b in zip(few, many))


def images(folder, env, turns):
    """2,000 pictures of 64 x 64, from a bucket whose blocks are cached and from the folder."""
    pictures = folder / "pictures"
    for number in range(2000):
        path = pictures / "ab"[number % 2] / f"{number:04}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + 12288, 0, 54, 40, 64, 64, 1, 24, 0, 12288, 2835, 2835, 0, 0)
        path.write_bytes(head + kit.random_bytes(12288, number))
    with kit.Tool(env) as tool:
        for path in sorted(pictures.rglob("*.bmp")):
            tool("put", f"s3://bucket/{path.relative_to(folder)}", path)
    network = '{ pg.conv2d { 8, kernel = 3, activation = "relu" }, pg.maxpool { 2 }, pg.flatten {}, pg.dense { 2 } }'
    source = 'pg.data.images {{ "{}", size = {{ 64, 64 }} }}'
    train = lambda where, epochs=2, threads=0: training(folder, env, "pictures", source.format(where), network, epochs, threads)
    there, here = "s3://bucket/pictures", pictures
    train(there)
    row("2,000 images, warm cache; local folder: two epochs", 0.95, turns, lambda: train(there), lambda: train(here))
    later = lambda where: later_epochs(lambda epochs: train(where, epochs, 1))
    row("an epoch after the first two, one thread", 0.95, turns, lambda: later(there), lambda: later(here))


def mnist(folder, env, turns, addresses):
    """One epoch of the real thing, of which every process reads four files and unpacks them."""
    data = os.environ.get("PERIGEE_DATA")
    if not data:
        return print("| MNIST: PERIGEE_DATA is not set | | | | | |")
    network = '{ pg.conv2d { 8, kernel = 5, activation = "relu" }, pg.maxpool { 2 }, pg.flatten {}, pg.dense { 10 } }'
    train = lambda where: training(folder, {**env, "PERIGEE_DATA": where}, "mnist", "pg.data.mnist().train", network, 1, 1)
    for kind, address in addresses.items():
        train(address)
        row(f"MNIST from {kind}, warm cache; local: one epoch, one thread", 0.95, turns, lambda: train(address), lambda: train(data))


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
    for kind, urls, plain, signed in () if arguments.training else (("nginx", [f"{web.url}/{n}" for n in names], [f"{web.url}/{n}" for n in names], None),
                                      ("moto", [f"s3://bucket/{n}" for n in names], [f"{moto.url}/bucket/{n}" for n in names], keys)):
        without = {**env, "PERIGEE_STORE_CACHE_MB": "0"}
        peer = lambda: curl(plain, size, signed, folder / "curl")
        row(f"{kind}, no cache; curl", 0.8, arguments.turns, lambda: perigee(without, urls, size), peer)
        row(f"{kind}, empty cache; curl", 0.8, arguments.turns, lambda: perigee(env, urls, size, cache), peer)
        row(f"{kind}, warm cache; local files", 0.95, arguments.turns, lambda: perigee(env, urls, size), lambda: perigee(env, local, size))
    data = pathlib.Path(os.environ.get("PERIGEE_DATA", "/none")) / "mnist"
    shutil.copytree(data, files / "mnist") if data.is_dir() else None
    with kit.Tool(env) as tool:
        for path in sorted(data.glob("*.gz")):
            assert tool("put", f"s3://bucket/mnist/{path.name}", path) == {"written": True}
    mnist(folder, env, arguments.turns, {"nginx": web.url, "moto": "s3://bucket"})
    images(folder, env, arguments.turns)
    moto.stop()
    web.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("megabytes", 256), ("objects", 8), ("turns", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--training", action="store_true", help="only the rows of training")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perigee-stores-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        try:
            bench(pathlib.Path(folder), arguments)
        finally:
            for process in servers.STARTED:
                process.stop()


if __name__ == "__main__":
    main()
