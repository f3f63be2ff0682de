#!/usr/bin/env python3
"""`perigee data`, and jobs on tables with steps: data_test.py PROGRAM. Prints TAP."""
import gzip
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
STEPS = [{"filter": "size > 0"}, {"impute": ["rooms"], "by": "median"}, {"derive": {"dense": "rooms / size"}}, {"join": "cities.csv", "on": "city", "how": "left"},
         {"normalize": ["size", "people"]}, {"derive": {"dear": "if(price > 190, 'yes', 'no')"}}, {"drop": ["price", "id"]}]
JOB = {"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 20, "seed": 1,
       "data": {"batch": 10, "train": {"type": "table", "file": "houses.csv", "steps": STEPS, "target": "dear"}}}


def perigee(*args, code=0):
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout if code in (0, 3) and done.stdout else done.stderr


def prepare():
    lines = [f"{i},{40 + i},{'' if i % 9 == 0 else i % 5 + 1},{'Rome' if i % 3 else 'Oslo'},{100 + 3 * i}" for i in range(60)]
    lines[7] = "7,-1,2,Rome,900"
    pathlib.Path("houses.csv").write_text("\n".join(["id,size,rooms,city,price", *lines]) + "\n")
    pathlib.Path("cities.csv").write_text("city,people\nRome,2.8\nOslo,0.7\n")


def test_analyse():
    text = perigee("data", "analyse", "houses.csv")
    assert "60 rows, 5 columns" in text and "'Rome' 40" in text, text
    found = json.loads(perigee("data", "analyse", "houses.csv", "--json", "--html", "page.html"))
    assert found == json.loads(perigee("data", "analyse", "houses.csv", "--json", "--threads", "3"))
    rooms = found["columns"][2]
    assert rooms["missing"] == 7 and rooms["max"] == 5, rooms
    page = pathlib.Path("page.html").read_text()
    html.parser.HTMLParser().feed(page)
    assert "houses.csv" in page and "<svg" in page and 'src="http' not in page and '<link rel="stylesheet' not in page, "the page loads nothing"


def test_quality():
    schema = json.loads(perigee("data", "schema", "houses.csv"))
    assert [column["type"] for column in schema["columns"]] == ["integer", "integer", "integer", "text", "integer"], schema
    pathlib.Path("schema.json").write_text(json.dumps(schema))
    assert " 0 values that do not meet" in perigee("data", "quality", "houses.csv", "--schema", "schema.json")
    schema["columns"][1]["min"] = 0
    pathlib.Path("schema.json").write_text(json.dumps(schema))
    text = perigee("data", "quality", "houses.csv", "--schema", "schema.json", code=3)
    assert "row 8, size: '-1' (below min)" in text, text
    assert "no schema to check against" in perigee("data", "quality", "houses.csv", code=2)


def test_convert():
    perigee("data", "convert", "houses.csv", "houses.jsonl")
    with gzip.open("houses.jsonl.gz", "wt") as file:
        file.write(pathlib.Path("houses.jsonl").read_text())
    perigee("data", "convert", "houses.jsonl.gz", "again.csv")
    assert pathlib.Path("again.csv").read_text() == pathlib.Path("houses.csv").read_text()
    pathlib.Path("steps.json").write_text(json.dumps([{"group": "city", "mean": "size", "rows": "id"}]))
    perigee("data", "convert", "houses.csv", "cities.jsonl", "--steps", "steps.json")
    rows = {row["city"]: row for row in map(json.loads, pathlib.Path("cities.jsonl").read_text().splitlines())}
    assert rows["Oslo"]["rows(id)"] == 20 and rows["Oslo"]["mean(size)"] == 68.5, rows
    assert "not written in this format" in perigee("data", "convert", "houses.csv", "houses.doc", code=2)
    assert "has fewer fields" in (pathlib.Path("bad.csv").write_text("a,b\n1,2\n3\n") and perigee("data", "convert", "bad.csv", "o.csv", code=3))
    assert not pathlib.Path("o.csv").exists() and not pathlib.Path("o.csv.part").exists()


def test_lines():
    """Python's own regular expressions are the truth."""
    pattern = r'(?<host>\S+) \S+ \S+ \[(?<when>[^\]]+)\] "(?<request>[^"]*)" (?<status>\d+) (?:(?<bytes>\d+)|-)'
    lines = [f'10.0.{i % 7}.{i % 5} - - [01/Jan/2024:10:{i % 60:02}:00] "GET /a{i % 9}, b HTTP/1.1" {(200, 404)[i % 2]} {"-" if i % 3 else i}'
             for i in range(500)]
    pathlib.Path("access.log").write_text("\n".join(lines))
    columns = [{"name": name, "type": kind} for name, kind in (("host", "text"), ("when", "text"), ("request", "text"), ("status", "integer"),
                                                               ("bytes", "integer"))]
    pathlib.Path("lines.json").write_text(json.dumps({"lines": pattern, "columns": columns}))
    perigee("data", "convert", "access.log", "access.jsonl", "--schema", "lines.json")
    found = [json.loads(line) for line in pathlib.Path("access.jsonl").read_text().splitlines()]
    wanted = [re.fullmatch(pattern.replace("(?<", "(?P<"), line).groupdict() for line in lines]
    assert [{name: None if value is None else str(value) for name, value in row.items()} for row in found] == wanted


def test_job():
    pathlib.Path("job.json").write_text(json.dumps(JOB))
    perigee("train", "job.json", "--out", "run")
    os.rename("cities.csv", "gone.csv")  # the model has what was joined
    try:
        pathlib.Path("new.csv").write_text("city,size,rooms,id\nRome,99,,1\nOslo,41,2,2\n")
        # price is no target but what it is made of: null says that it is not known.
        record = {"id": 1, "size": 99, "rooms": None, "city": "Rome", "price": None}
        pathlib.Path("new.json").write_text(json.dumps([record, record | {"size": 41, "rooms": 2, "city": "Oslo"}]))
        assert len(perigee("predict", "run", "new.json").splitlines()) == 2
        assert "columns of the schema are missing: 'price'" in perigee("predict", "run", "new.csv", code=3)
        pathlib.Path("new.csv").write_text("city,size,rooms,id,price\nRome,99,,1,\nOslo,41,2,2,\n")
        assert len(perigee("predict", "run", "new.csv").splitlines()) == 2
    finally:
        os.rename("gone.csv", "cities.csv")
    group = JOB | {"data": {"batch": 2, "train": {"type": "table", "file": "houses.csv", "steps": [{"group": ["city", "rooms"], "mean": "price"}]}}, "loss": "mse", "network": [{"type": "dense", "out": 1}]}
    pathlib.Path("group.json").write_text(json.dumps(group | {"data": group["data"] | {"train": group["data"]["train"] | {"missing": "skip"}}}))
    perigee("train", "group.json", "--out", "grouped", "--epochs", "1")
    assert "makes other rows" in perigee("predict", "grouped", "houses.csv", code=3)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*")) if path.suffix == ".pgr"}


def test_prepared_job():
    pathlib.Path("job.json").write_text(json.dumps(JOB | {"data": JOB["data"] | {"test": JOB["data"]["train"]}}))
    assert "train: 59 records" in perigee("data", "prepare", "job.json", "out", "--compress", "3")
    made = json.loads(pathlib.Path("out/job.json").read_text())
    assert made["data"]["train"] == {"type": "records", "folder": "train"}, made["data"]
    perigee("train", "job.json", "--out", "raw")
    perigee("train", "out/job.json", "--out", "prepared")
    # The model has the steps and what they measured: rows of the file are foretold as by the model of the file itself.
    rows = [line for line in pathlib.Path("houses.csv").read_text().splitlines() if ",-1," not in line]
    pathlib.Path("rows.csv").write_text("\n".join(rows) + "\n")
    assert perigee("predict", "raw", "rows.csv") == perigee("predict", "prepared", "rows.csv")
    assert perigee("eval", "prepared").splitlines()[-1] == perigee("eval", "raw").splitlines()[-1]
    assert "the job names no training data" in (pathlib.Path("none.json").write_text(json.dumps(JOB | {"data": {"test": JOB["data"]["train"]}}))
                                                and perigee("data", "prepare", "none.json", "no", code=2))


def test_killed_and_resumed():
    source = json.dumps({"type": "digits", "size": 30000, "endless": False})
    perigee("data", "prepare", source, "whole", "--threads", "1", "--shard-records", "2500")
    killed = 0
    for _ in range(40):
        process = subprocess.Popen([PROGRAM, "data", "prepare", source, "killed", "--threads", "3", "--shard-records", "2500"], stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=0.1 + killed * 0.02)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
    perigee("data", "prepare", source, "killed", "--threads", "2", "--shard-records", "2500")
    assert killed > 0 and files_of("whole") == files_of("killed") and len(files_of("whole")) == 12, killed
    lock = subprocess.Popen(["flock", "whole/plan.lock", "sleep", "20"])
    try:
        for _ in range(100):
            if "another process prepares records here" in subprocess.run([PROGRAM, "data", "prepare", source, "whole", "--shard-records", "2500"],
                                                                         capture_output=True, text=True, check=False).stderr:
                break
        else:
            raise AssertionError("two prepare one folder")
    finally:
        lock.kill()


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for number, test in enumerate(tests, 1):
            try:
                test()
                print(f"ok {number} - {test.__name__}")
            except Exception as error:  # the next test may still say something
                failed += 1
                print(f"not ok {number} - {test.__name__}\n# {type(error).__name__}: {str(error)[:2000]}")
        os.chdir("/")
    sys.exit(failed > 0)


main()
