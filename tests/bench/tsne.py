#!/usr/bin/env python3
"""t-SNE of 2,500 digits of MNIST, 50 principal components each, beside scikit-learn's (Barnes-Hut, random first places), in turns, by CPU time.

    python3 tests/bench/tsne.py --python PYTHON_WITH_SCIKIT_LEARN
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "repl" / "perigee"
DATA = pathlib.Path(os.environ.get("PERIGEE_DATA", "/usr/share/perigee/data"))

PREPARE = """
import gzip, pathlib, sys
import numpy
from sklearn.decomposition import PCA
path = next(p for p in pathlib.Path(sys.argv[1]).rglob("train-images*") if p.is_file())
bytes = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
x = numpy.frombuffer(bytes, numpy.uint8, offset=16).reshape(-1, 784)[:2500] / 255.0
numpy.save(sys.argv[2], PCA(50, random_state=0).fit_transform(x).astype("float32"))
"""

PEER = """
import sys, time
import numpy
from sklearn.manifold import TSNE
x = numpy.load(sys.argv[1])
begin = time.process_time()
model = TSNE(perplexity=30, init="random", random_state=int(sys.argv[2]), n_jobs=1).fit(x)
print(time.process_time() - begin, model.kl_divergence_)
"""


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{result.stderr}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as name:
        codes = pathlib.Path(name) / "codes.npy"
        run([args.python, "-c", PREPARE, DATA / "mnist", codes])
        for seed in args.seeds:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            script = f'local pg = require "perigee"; local _, d = pg.tsne(pg.load "{codes}", {{ seed = {seed}, threads = 1 }}); print(d)'
            ours = float(run([PROGRAM, "-e", script]).split()[0])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            peer, divergence = map(float, run([args.python, "-c", PEER, codes, seed]).split())
            print(f"seed {seed}: Perigee {seconds:.2f} s, divergence {ours:.4f}; scikit-learn {peer:.2f} s, {divergence:.4f}", flush=True)


if __name__ == "__main__":
    main()
