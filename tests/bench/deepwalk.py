#!/usr/bin/env python3
"""Groups of a stochastic block model from the vectors of its nodes, beside gensim on the same walks.

    python3 tests/bench/deepwalk.py --python PYTHON_WITH_GENSIM_AND_SCIKIT_LEARN

600 nodes in 6 groups, edges with chance 0.06 within a group and 0.01 between groups; 10 walks of 40 from each node. Logistic regression on half
of the nodes' vectors says the group of the other half: micro-F1, three seeds. Perigee also with walks of its own (DeepWalk).
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "repl" / "perigee"
GROUPS, NODES = 6, 600

PEER = """
import json, sys
import numpy
from gensim.models import KeyedVectors, Word2Vec
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
folder, seed = sys.argv[1], int(sys.argv[2])
walks = [line.split() for line in open(folder + "/sentences.txt")]
Word2Vec(walks, vector_size=64, window=5, negative=5, sg=1, sample=0, min_count=1, epochs=3, seed=seed, workers=1).wv.save_word2vec_format(folder + "/gensim.txt")
order = numpy.random.default_rng(seed).permutation(600)
scores = {}
for name in ("walks", "graph", "gensim"):
    vectors = KeyedVectors.load_word2vec_format(f"{folder}/{name}.txt")
    x, y = numpy.array([vectors[str(i)] for i in range(600)]), numpy.arange(600) // 100
    x /= numpy.linalg.norm(x, axis=1, keepdims=True)
    model = LogisticRegression(max_iter=2000).fit(x[order[:300]], y[order[:300]])
    scores[name] = f1_score(y[order[300:]], model.predict(x[order[300:]]), average="micro")
print(json.dumps(scores))
"""


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{result.stderr}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    for seed in (1, 2, 3):
        draw = random.Random(seed)
        edges = [(a, b) for a in range(NODES) for b in range(a) if draw.random() < (0.06 if a // 100 == b // 100 else 0.01)]
        near = {node: [] for node in range(NODES)}
        for a, b in edges:
            near[a].append(b)
            near[b].append(a)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "edges.txt").write_text("".join(f"{a} {b}\n" for a, b in edges))
            with open(folder / "sentences.txt", "w") as out:
                for _ in range(10):
                    for node in draw.sample(range(NODES), NODES):
                        walk = [node]
                        while len(walk) < 40 and near[walk[-1]]:
                            walk.append(draw.choice(near[walk[-1]]))
                        out.write(" ".join(map(str, walk)) + "\n")
            common = ["--size", "64", "--epochs", "3", "--threads", "1", "--seed", seed, "--sample", "0"]
            run([PROGRAM, "vectors", "train", folder / "sentences.txt", "--out", folder / "walks.vec", "--unit", "blank", "--min-count", "1", *common])
            run([PROGRAM, "vectors", "train", folder / "edges.txt", "--out", folder / "graph.vec", "--graph", "true", *common])
            for kind in ("walks", "graph"):
                (folder / f"{kind}.vec").rename(folder / f"{kind}.txt")
            print(seed, json.loads(run([args.python, "-c", PEER, folder, seed])), flush=True)


if __name__ == "__main__":
    main()
