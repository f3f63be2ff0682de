#!/usr/bin/env python3
"""Word vectors beside gensim, on the same words, in turns: words a second of CPU time, and how far the vectors agree with people.

    ninja -C build repl/perigee
    python3 tests/bench/word_vectors.py --python PYTHON_WITH_GENSIM [--part speed|quality|documents] [--seeds 1 2 3] [--threads 1]

The corpus is $PERIGEE_DATA/text/corpus_gutenberg (24 books, 3.0 million words of a to z). Skip-gram, 100 numbers, window 5, 5 noise words,
min_count 5, sample 1e-3, lr 0.025, the defaults of both. CPU time is user + sys of the training alone: of Perigee's process, less that of one with a
single epoch (so that starting, counting and writing cancel out); of gensim's, as it tells itself, without reading the text. `quality`: Spearman's rank correlation on WordSim-353, SimLex-999 and
MEN, and analogies, over words that both know. `documents`: 2,000 reviews of films, vectors of documents (DBOW), and logistic regression on them
in ten folds.
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
    parser.add_argument("--part", choices=["speed", "quality", "documents"], default="speed")
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
        else:
            quality(args, folder, corpus)


if __name__ == "__main__":
    main()
