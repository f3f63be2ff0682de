#!/usr/bin/env python3
"""`perigee vectors` from end to end, and Ctrl-C: command_test.py PROGRAM"""
import json
import os
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


def books(run_folder):
    told = subprocess.run([PROGRAM, "ledger", str(run_folder)], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: line.split()[1].replace(',', '') for line in told.splitlines() if len(line.split()) > 1}


def continued(folder, text):
    """A run that is stopped and gone on with ends with the bits of one that was not."""
    common = ["--threads", 1, "--size", 16]
    run("train", text, "--out", folder / "whole.bin", "--run", folder / "whole", "--epochs", 150, *common)
    process = subprocess.Popen([PROGRAM, "vectors", "train", text, "--out", folder / "part.bin", "--run", folder / "part", "--epochs", "150",
                                *map(str, common)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while not (folder / "part" / "log.jsonl").exists() or '"step"' not in (folder / "part" / "log.jsonl").read_text():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130 and "from a part of the training" in told, (process.returncode, told)
    assert len(run("nearest", folder / "part", "sea1").splitlines()) == 10
    assert (folder / "part.bin").read_bytes() != (folder / "whole.bin").read_bytes()
    run("train", text, "--out", folder / "part.bin", "--resume", folder / "part", *common)
    assert (folder / "part.bin").read_bytes() == (folder / "whole.bin").read_bytes()
    # More epochs than were planned; the learning rate then falls over all of them.
    run("train", text, "--out", folder / "more.bin", "--resume", folder / "part", "--epochs", 151, *common)
    assert (folder / "more.bin").read_bytes() != (folder / "whole.bin").read_bytes()


def workers_of(process):
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children if b"worker" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()]


def distributed(folder, text):
    """Two workers, one of which is killed on the way: every part of the text counts once in each epoch."""
    epochs = 60
    process = subprocess.Popen([PROGRAM, "vectors", "train", text, "--out", folder / "two.bin", "--run", folder / "two", "--workers", "2",
                                "--threads", "1", "--size", "16", "--epochs", str(epochs), "--sample", "0"],
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    log = folder / "two" / "log.jsonl"
    while not log.exists() or '"event":"epoch"' not in log.read_text().replace(': ', ':'):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    victim = workers_of(process)[0]
    os.kill(victim, signal.SIGKILL)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, (process.returncode, told)
    assert "the learning rate begins with 0.05: 0.025 for each of 2 workers" in told, told
    account = books(folder / "two")
    assert account["missing"] == "0" and account["duplicates"] == "0" and account["skipped"] == "0", account
    assert int(account["counted"]) % epochs == 0 and int(account["epochs"]) == epochs and int(account["generations"]) > 1, account
    found = [line.split()[1] for line in run("nearest", folder / "two.bin", "sea1", "--count", 14).splitlines()]
    assert all(word.startswith("sea") for word in found), found


def by_server(folder, text):
    """A parameter server; changes of touched rows alone, to a server and among workers."""
    for name, policy in (("served", {"type": "easgd", "every": 4}), ("pushed", {"type": "async_local", "every": 4, "codec": "nonzero"}),
                         ("touched", {"type": "periodic", "every": 4, "codec": "nonzero"})):
        run("train", text, "--out", folder / f"{name}.bin", "--run", folder / name, "--workers", 2, "--threads", 1, "--size", 16, "--epochs", 40,
            "--averaging", json.dumps(policy), "--sample", 0)
        account = books(folder / name)
        assert account["missing"] == "0" and account["duplicates"] == "0", account
        found = [line.split()[1] for line in run("nearest", folder / f"{name}.bin", "sea1", "--count", 14).splitlines()]
        assert all(word.startswith("sea") for word in found), (name, found)


def as_job(folder, text):
    """The same job in a file, for `perigee train`."""
    run("job", text, "--out", folder / "job.json", "--threads", 1, "--size", 16, "--epochs", 3)
    run("train", text, "--out", folder / "direct.bin", "--run", folder / "direct", "--threads", 1, "--size", 16, "--epochs", 3)
    subprocess.run([PROGRAM, "train", str(folder / "job.json"), "--out", str(folder / "of_job")], check=True, capture_output=True)
    run("convert", folder / "of_job", folder / "of_job.bin")
    assert (folder / "of_job.bin").read_bytes() == (folder / "direct.bin").read_bytes()
    assert "the job has no place to go" in run("job", text, status=2)
    scaled = subprocess.run([PROGRAM, "vectors", "job", str(text), "--out", str(folder / "two.json"), "--workers", "2"], capture_output=True, text=True)
    assert scaled.returncode == 0 and "begins with 0.05: 0.025 for each of 2 workers" in scaled.stderr, scaled.stderr


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
        for by in ("tree", "graph"):
            assert run("nearest", words, "sea1", "land2", "--by", by, "--count", 5) == run("nearest", words, "sea1", "land2", "--count", 5), by
        interrupted(folder, text)
        continued(folder, text)
        as_job(folder, text)
        distributed(folder, text)
        by_server(folder, text)
    print("perigee vectors: passed")


main()
