#!/usr/bin/env python3
"""Word vectors beside gensim, on the same words, in turns: words a second of CPU time, and how far the vectors agree with people.

    ninja -C build repl/perigee
    python3 tests/bench/word_vectors.py --python PYTHON_WITH_GENSIM [--part speed|quality|documents|glove] [--seeds 1 2 3] [--threads 1]

The corpus is $PERIGEE_DATA/text/corpus_gutenberg (24 books, 3.0 million words of a to z). Skip-gram, 100 numbers, window 5, 5 noise words,
min_count 5, sample 1e-3, lr 0.025, the defaults of both. CPU time is user + sys of the training alone: of Perigee's process, less that of one with a
single epoch (so that starting, counting and writing cancel out); of gensim's, as it tells itself, without reading the text. `quality`: Spearman's rank correlation on WordSim-353, SimLex-999 and
MEN, and analogies, over words that both know. `documents`: 2,000 reviews of films, vectors of documents (DBOW), and logistic regression on them
in ten folds. `glove`: GloVe beside the published algorithm (Pennington et al. 2014), which numba compiles, with the scores of `quality`.
"""
import argparse
import json
import lzma
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("PERIGEE_DATA", "/usr/share/perigee/data"))
PROGRAM = ROOT / "build" / "repl" / "perigee"
TESTS = {"WordSim-353": "EN-WS-353-ALL.txt", "SimLex-999": "EN-SIMLEX-999.txt", "MEN": "EN-MEN-TR-3k.txt", "analogies": "questions-words.txt"}

GENSIM = """
import json, sys, time
from gensim.models import Word2Vec
corpus, out, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
epochs = options.pop("epochs")
sentences = [line.split() for line in open(corpus)]
model = Word2Vec(min_count=5, **options)
model.build_vocab(sentences)
begin = time.process_time()
model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
seconds = time.process_time() - begin
model.wv.save_word2vec_format(out, binary=True)
print(json.dumps({"seconds": seconds, "words": model.corpus_total_words * epochs}))
"""

GENSIM_DOCUMENTS = """
import json, sys
import numpy
from gensim.models.doc2vec import Doc2Vec, TaggedDocument
corpus, out, seed, dm, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
documents = [TaggedDocument(line.split(), [i]) for i, line in enumerate(open(corpus))]
model = Doc2Vec(documents, dm=dm, vector_size=100, window=5, negative=5, min_count=2, epochs=epochs, seed=seed, workers=1, sample=1e-3, dbow_words=0)
numpy.save(out, model.dv.vectors)
"""

# Words that stand at most 5 apart count 1 / distance; AdaGrad on weight (product + biases - logarithm)^2, pair by pair in a drawn order.
GLOVE = """
import collections, sys
import numba, numpy
corpus, out, seed, epochs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sentences = [line.split() for line in open(corpus)]
counts = collections.Counter(word for line in sentences for word in line)
words = [word for word, count in counts.most_common() if count >= 5]
number = {word: i for i, word in enumerate(words)}
text = [[number[word] for word in line if word in number] for line in sentences]
near = collections.Counter()
for line in text:
    for i, a in enumerate(line):
        for distance in range(1, min(i, 5) + 1):
            b = line[i - distance]
            near[a, b] += 1 / distance
            near[b, a] += 1 / distance
pairs = numpy.array(list(near), numpy.int64)
weights = numpy.array(list(near.values()))
random = numpy.random.default_rng(seed)
order = random.permutation(len(pairs))
size, rate = 100, 0.05
values = ((random.random((2 * len(words), size + 1)) - 0.5) / (size + 1)).astype(numpy.float32)
squares = numpy.ones_like(values)

@numba.njit
def epoch(pairs, weights, order, values, squares, contexts, size, rate):
    for k in order:
        a, b = pairs[k, 0], contexts + pairs[k, 1]
        error = values[a, size] + values[b, size] - numpy.log(weights[k])
        for i in range(size):
            error += values[a, i] * values[b, i]
        step = min(1.0, (weights[k] / 100) ** 0.75) * error * rate
        for i in range(size):
            da, db = step * values[b, i], step * values[a, i]
            values[a, i] -= da / numpy.sqrt(squares[a, i])
            values[b, i] -= db / numpy.sqrt(squares[b, i])
            squares[a, i] += da * da
            squares[b, i] += db * db
        values[a, size] -= step / numpy.sqrt(squares[a, size])
        values[b, size] -= step / numpy.sqrt(squares[b, size])
        squares[a, size] += step * step
        squares[b, size] += step * step

for _ in range(epochs):
    epoch(pairs, weights, order, values, squares, len(words), size, rate)
both = values[:len(words), :size] + values[len(words):, :size]
with open(out, "w") as file:
    file.write(f"{len(words)} {size}\\n")
    for word, row in zip(words, both):
        file.write(word + " " + " ".join(f"{x:.6g}" for x in row) + "\\n")
"""

SCORE = """
import sys
import numpy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
x = numpy.load(sys.argv[1])
y = numpy.arange(len(x)) >= len(x) // 2
folds = StratifiedKFold(10, shuffle=True, random_state=0)
print(cross_val_score(make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000)), x, y, cv=folds).mean())
"""


def run(command, **more):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{result.stderr}")
    return result.stdout


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_corpus(path):
    text = lzma.open(DATA / "text" / "corpus_gutenberg" / "gutenberg_24books.txt.xz", "rt", encoding="utf8").read()
    lines = [" ".join(words) for line in text.split("\n") if (words := re.findall("[a-z]+", line.lower()))]
    path.write_text("\n".join(lines) + "\n")
    return sum(line.count(" ") + 1 for line in lines)


def ours(corpus, out, options):
    flags = [f"--{key.replace('_', '-')}={json.dumps(value)}".replace('"', "") for key, value in options.items()]
    return [PROGRAM, "vectors", "train", corpus, "--out", out, "--unit", "blank", *flags]


def speed(args, folder, corpus, words):
    figures = {"Perigee": [], "gensim": []}
    for repeat in range(args.repeats):
        options = {"epochs": args.epochs, "threads": args.threads, "seed": repeat + 1}
        whole = cpu_seconds(ours(corpus, folder / "p.bin", options))
        rest = cpu_seconds(ours(corpus, folder / "p.bin", {**options, "epochs": 1}))
        figures["Perigee"].append(words * (args.epochs - 1) / (whole - rest))
        told = json.loads(run([args.python, "-c", GENSIM, corpus, folder / "g.bin", json.dumps(
            {"sg": 1, "workers": args.threads, "epochs": args.epochs - 1, "seed": repeat + 1})]))
        figures["gensim"].append(told["words"] / told["seconds"])
        print({name: round(values[-1]) for name, values in figures.items()}, flush=True)
    for name, values in figures.items():
        print(f"{name}: {statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}] words a CPU second, {args.threads} threads")
    print(f"{statistics.median(figures['Perigee']) / statistics.median(figures['gensim']):.2f} times gensim")


def scores_of(vectors):
    files = [DATA / "text" / "wordeval" / name for name in TESTS.values()]
    told = json.loads(run([PROGRAM, "vectors", "evaluate", vectors, *files, "--json"]))
    return [one.get("spearman", one.get("accuracy")) for one in told.values()]


def quality(args, folder, corpus):
    rows = {}
    for seed in args.seeds:
        options = {"epochs": 5, "threads": args.threads, "seed": seed, "model": args.model}
        if args.deterministic:
            options["deterministic"] = True
        run(ours(corpus, folder / "p.bin", options))
        rows.setdefault("Perigee", []).append(scores_of(folder / "p.bin"))
        if not args.alone:
            run([args.python, "-c", GENSIM, corpus, folder / "g.bin",
                 json.dumps({"sg": int(args.model == "skip_gram"), "workers": args.threads, "epochs": 5, "seed": seed})])
            rows.setdefault("gensim", []).append(scores_of(folder / "g.bin"))
        print(seed, {name: [round(value, 4) for value in values[-1]] for name, values in rows.items()}, flush=True)
    for name, values in rows.items():
        print(f"{name}: " + ", ".join(f"{test} {statistics.mean(column):.4f}" for test, column in zip(TESTS, zip(*values))))


def glove(args, folder, corpus):
    rows = {"Perigee": [], "the published algorithm": []}
    for seed in args.seeds:
        run(ours(corpus, folder / "p.txt", {"model": "glove", "epochs": args.epochs, "threads": args.threads, "seed": seed}))
        run([args.python, "-c", GLOVE, corpus, folder / "g.txt", seed, args.epochs])
        for name, file in zip(rows, ("p.txt", "g.txt")):
            rows[name].append(scores_of(folder / file))
            print(seed, name, [round(value, 4) for value in rows[name][-1]], flush=True)
    for name, values in rows.items():
        print(f"{name}: " + ", ".join(f"{test} {statistics.mean(column):.4f}" for test, column in zip(TESTS, zip(*values))))


def documents(args, folder):
    reviews = folder / "reviews.txt"
    with tarfile.open(DATA / "docs" / "review_polarity.tar.gz") as archive:
        files = sorted((m for m in archive.getmembers() if m.name.endswith(".txt")), key=lambda m: m.name)
        texts = [" ".join(archive.extractfile(m).read().decode("latin-1").split()) for m in files]
    reviews.write_text("\n".join(texts) + "\n")
    script = folder / "documents.lua"
    script.write_text(f"""
      local pg = require "perigee"
      local documents = {{}}
      for line in io.lines "{reviews}" do
        local words = {{}}
        for word in line:gmatch "%S+" do words[#words + 1] = word end
        documents[#documents + 1] = words
      end
      local vectors = pg.word_vectors {{ sequences = documents, model = "{args.documents_model}", min_count = 2, epochs = {args.epochs},
        threads = {args.threads}, seed = tonumber(os.getenv "SEED") }}
      pg.save("{folder}/p.npy", vectors.documents:matrix())
    """)
    for seed in args.seeds:
        run([PROGRAM, "-e", f'dofile "{script}"'], env={**os.environ, "SEED": str(seed)})
        run([args.python, "-c", GENSIM_DOCUMENTS, reviews, folder / "g.npy", seed, int(args.documents_model == "dm"), args.epochs])
        print(seed, {name: round(float(run([args.python, "-c", SCORE, folder / f"{name[0].lower()}.npy"])), 4) for name in ("Perigee", "gensim")}, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has gensim (and scikit-learn for documents)")
    parser.add_argument("--part", choices=["speed", "quality", "documents", "glove"], default="speed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--model", choices=["skip_gram", "cbow"], default="skip_gram")
    parser.add_argument("--documents-model", choices=["dbow", "dm"], default="dbow")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--alone", action="store_true", help="quality: without gensim")
    args = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if args.part == "documents":
            return documents(args, folder)
        corpus = folder / "corpus.txt"
        words = write_corpus(corpus)
        if args.part == "speed":
            speed(args, folder, corpus, words)
        elif args.part == "glove":
            glove(args, folder, corpus)
        else:
            quality(args, folder, corpus)


if __name__ == "__main__":
    main()
