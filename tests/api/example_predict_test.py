#!/usr/bin/env python3
"""The C programs that predict a table say what `perigee predict` says: example_predict_test.py PROGRAM. Prints TAP."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = {"network": [{"type": "dense", "out": 1}], "loss": "mse", "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 2, "seed": 3,
       "data": {"batch": 20, "train": {"type": "map", "transforms": [{"type": "standardize"}],
                                       "source": {"type": "csv", "file": "houses.csv", "target": "price", "drop": ["id"]}}}}


def run(*arguments, code=0, cwd=None):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, cwd=cwd)
    assert done.returncode == code, (arguments, done)
    return done


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        example, library = folder / "example", PROGRAM.parent
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}/src/api", str(ROOT / "tests/api/example_predict.c"), "-o", str(example),
            f"-L{library}", "-lperigee", f"-Wl,-rpath,{library}")
        rows = [f"{1000 + i},{40 + i},{'Rome' if i % 3 else 'Oslo'},{100 + 3 * i}" for i in range(60)]
        (folder / "houses.csv").write_text("\n".join(["id,size,city,price", *rows]) + "\n")
        (folder / "new.csv").write_text("city,size\nRome,80\nOslo,55\n")
        (folder / "short.csv").write_text("city\nRome\n")
        (folder / "job.json").write_text(json.dumps(JOB))
        run(str(PROGRAM), "train", str(folder / "job.json"), "--out", str(folder / "run"), "--log", "json")
        told = run(str(PROGRAM), "predict", str(folder / "run"), str(folder / "new.csv")).stdout.splitlines()
        expected = [float(line.rsplit(" ", 1)[1]) for line in told]
        model = str(folder / "run" / "model.safetensors")
        got = [float(line) for line in run(str(example), model, str(folder / "new.csv")).stdout.splitlines()]
        assert len(got) == 2 and all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(got, expected)), (got, expected)
        assert "'size'" in run(str(example), model, str(folder / "short.csv"), code=1).stderr
        run(str(example), code=2)
        # the classes by their names
        (folder / "towns.json").write_text(json.dumps(JOB | {
            "network": [{"type": "dense", "out": 2}], "loss": "cross_entropy",
            "data": {"batch": 20, "train": {"type": "csv", "file": "houses.csv", "target": "city", "drop": ["id"]}}}))
        run(str(PROGRAM), "train", str(folder / "towns.json"), "--out", str(folder / "towns"), "--log", "json")
        (folder / "town.csv").write_text("price,size\n120,50\n")
        line = run(str(example), str(folder / "towns" / "model.safetensors"), str(folder / "town.csv")).stdout.split()
        told = json.loads(run(str(PROGRAM), "predict", str(folder / "towns"), str(folder / "town.csv"), "--json").stdout)
        assert line[::2] == ["Oslo", "Rome"], line
        assert all(abs(float(a) - b) <= 1e-5 for a, b in zip(line[1::2], told["probabilities"])), (line, told)
        # as the front page says, on the page's table
        page = (ROOT / "README.md").read_text()
        for file in ("houses.csv", "houses.lua"):
            (folder / file).write_text(re.search(rf"<!-- file: {file} -->\n```\w+\n(.*?)```", page, re.S)[1])
        compile_it, use_it = re.search(r"^    (cc tests/api/.*)\n    (\./foretell .*)$", page, re.M).groups()
        run("bash", "-c", re.sub(r"(\$PWD/)?build/repl", str(library), compile_it).replace("foretell", str(folder / "foretell")),
            cwd=ROOT)
        run(str(PROGRAM), "train", "houses.lua", "--out", "runs/houses", "--log", "json", cwd=folder)
        told = run(str(PROGRAM), "predict", "runs/houses", "houses.csv", cwd=folder).stdout.splitlines()
        got = [float(line) for line in run(*use_it.split(), cwd=folder).stdout.splitlines()]
        assert len(got) == 5 and all(abs(a - float(b.rsplit(" ", 1)[1])) <= 1e-4 * abs(a) for a, b in zip(got, told)), (got, told)
    print("ok 1 the rows of a table\n1..1")


if __name__ == "__main__":
    main()
