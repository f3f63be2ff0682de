#!/usr/bin/env python3
"""`perigee vectors` from end to end, and Ctrl-C: command_test.py PROGRAM"""
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]


def run(*arguments, status=0):
    result = subprocess.run([PROGRAM, "vectors", *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == status, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stdout if status == 0 else result.stderr


def topics(path, lines):
    draw = random.Random(1)
    with open(path, "w") as out:
        for _ in range(lines):
            topic = draw.choice(["sea", "land"])
            out.write(" ".join(f"{topic}{draw.randrange(15)}" for _ in range(8)) + "\n")


def interrupted(folder, text):
    """Vectors are there after Ctrl-C, from a training that would last for hours."""
    out = folder / "stopped.bin"
    process = subprocess.Popen([PROGRAM, "vectors", "train", text, "--out", out, "--epochs", "100000", "--threads", "2"],
                               stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, told)
    assert "the vectors so far are written" in told and "from a part of the training" in told, told
    assert "%" in told and "left" in told, told
    assert len(run("nearest", out, "sea1").splitlines()) == 10


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, words = folder / "corpus.txt", folder / "words.bin"
        topics(text, 3000)
        run("train", text, "--out", words, "--size", 16, "--threads", 1, "--sample", 0, "--epochs", 8, "--hierarchical", "true")
        found = [line.split()[1] for line in run("nearest", words, "sea1", "--count", 14).splitlines()]
        assert len(found) == 14 and all(word.startswith("sea") for word in found), found
        assert json.loads(run("nearest", words, "sea1", "sea2", "--minus", "land1", "--json"))[0]["name"].startswith("sea")
        assert run("analogy", words, "land1", "land2", "sea1").split()[1].startswith("sea")
        same = float(run("similarity", words, "sea1", "sea2"))
        assert same > float(run("similarity", words, "sea1", "land2"))
        for out in ("words.txt", "again.bin"):
            run("convert", words, folder / out)
            assert abs(float(run("similarity", folder / out, "sea1", "sea2")) - same) < 1e-5
        (folder / "pairs.tsv").write_text("sea1\tsea2\t9\nsea1\tland2\t1\nland1\tland2\t8\n")
        scores = json.loads(run("evaluate", words, folder / "pairs.tsv", "--json"))[str(folder / "pairs.tsv")]
        assert scores["pairs"] == 3 and scores["spearman"] > 0.4, scores
        documents = folder / "documents.txt"
        run("train", text, "--out", words, "--documents", documents, "--model", "dbow", "--epochs", 1)
        assert documents.read_text().startswith("1 100\n")
        assert "--out FILE" in run("train", text, status=2)
        assert "--model dbow or --model dm" in run("train", text, "--out", words, "--documents", documents, status=2)
        assert "the command has another number of arguments" in run("analogy", words, "a", status=2)
        assert "the name does not say how vectors are written" in run("convert", words, folder / "x.npz", status=2)
        assert "there is no vector of 'see1'; did you mean 'sea1'" in run("nearest", words, "see1", status=3)
        interrupted(folder, text)
    print("perigee vectors: passed")


main()
