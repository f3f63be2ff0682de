#!/usr/bin/env python3
"""gensim reads what `perigee vectors` writes as .kv, and the other way round: gensim_test.py PROGRAM

Needs gensim (pip install gensim); without it the test is skipped."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import gensim.models
    import numpy
except ImportError:
    print("gensim is not there: skipped")
    sys.exit(77)

PROGRAM = sys.argv[1]


def convert(source, target):
    subprocess.run([PROGRAM, "vectors", "convert", str(source), str(target)], check=True)


def lines(path):
    return path.read_text().splitlines()


def from_gensim(folder):
    """Small arrays lie in the pickle, large ones beside it; both are read, with every type of number."""
    words = ["king", "queen", "naïve"]
    for kind, separately in (("f4", []), ("f4", ["vectors"]), ("f8", []), ("f2", ["vectors"])):
        kept = gensim.models.KeyedVectors(4, dtype=numpy.dtype(kind))
        kept.add_vectors(words, numpy.arange(12, dtype=kind).reshape(3, 4))
        kept.set_vecattr("king", "count", 70)
        kept.save(str(folder / "a.kv"), separately=separately)
        convert(folder / "a.kv", folder / "a.txt")
        assert lines(folder / "a.txt")[1:] == ["king 0 1 2 3", "queen 4 5 6 7", "naïve 8 9 10 11"], (kind, separately)


def from_models(folder):
    sentences = [["a", "b", "c", "d"] * 5] * 20
    model = gensim.models.Word2Vec(sentences, vector_size=6, min_count=1)
    model.wv.save(str(folder / "w.kv"))
    convert(folder / "w.kv", folder / "w.bin")
    again = gensim.models.KeyedVectors.load_word2vec_format(str(folder / "w.bin"), binary=True)
    assert again.index_to_key == model.wv.index_to_key and (again.vectors == model.wv.vectors).all()
    model.save(str(folder / "whole.model"))
    told = subprocess.run([PROGRAM, "vectors", "convert", str(folder / "whole.model"), str(folder / "x.bin")], capture_output=True, text=True)
    assert told.returncode != 0 and "save its vectors" in told.stderr, told.stderr


def to_gensim(folder):
    words = folder / "m.txt"
    words.write_text("3 4\nking 0 1 2 3\nqueen 4 5 6 7\nnaïve 8 9 10 11\n")
    convert(words, folder / "m.kv")
    kept = gensim.models.KeyedVectors.load(str(folder / "m.kv"))
    assert kept.index_to_key == ["king", "queen", "naïve"] and kept.key_to_index["queen"] == 1
    assert kept.vectors.dtype == numpy.float32 and (kept.vectors == numpy.arange(12).reshape(3, 4)).all()
    assert kept.most_similar("king", topn=1)[0][0] == "queen"
    kept.set_vecattr("king", "count", 9)
    kept.add_vectors(["new"], numpy.ones((1, 4), dtype="f4"))
    kept.save(str(folder / "n.kv"))
    convert(folder / "n.kv", folder / "n.txt")
    assert lines(folder / "n.txt")[4] == "new 1 1 1 1"
    convert(folder / "m.kv", folder / "again.txt")
    assert (folder / "again.txt").read_text() == words.read_text()


def main():
    with tempfile.TemporaryDirectory() as name:
        for test in (from_gensim, from_models, to_gensim):
            test(pathlib.Path(name))
    print("gensim's .kv: passed")


main()
