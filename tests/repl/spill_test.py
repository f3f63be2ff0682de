#!/usr/bin/env python3
"""Tables that are larger than the memory that their steps may have: spill_test.py PROGRAM. The same bytes as in memory for each verb, memory that does
not grow with the rows, nothing left behind by a process that is killed, an error when the disk is full. Prints TAP."""
import csv
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ALL = ["min", "max", "range", "sum", "product", "mean", "median", "stdev", "variance", "population_stdev", "population_variance", "count", "rows",
       "distinct", "first", "last", "append", "prepend"]
AGGREGATES = {op: ["x"] for op in ALL}
BY_TIME = {"sequence": ["key"], "by": ["when"]}
CASES = {
    "sort": [{"sort": ["x"]}],
    "sort, the largest first": [{"sort": ["x"], "descending": True}],
    "sort of texts and more": [{"sort": ["color", "x", "text"], "descending": [True, False, True]}],
    "sort of what is all the same": [{"derive": {"same": "1"}}, {"sort": ["same"]}],
    "rank": [{"rank": ["text", "key"], "descending": True, "new": "place"}],
    "distinct": [{"distinct": ["key", "color"]}],
    "distinct of few": [{"distinct": ["color"]}],
    "distinct of all columns": [{"select": ["key", "text", "color"]}, {"distinct": "*"}],
    "head": [{"head": 9000, "from": 1234}],
    "sample": [{"sample": 0.3}],
    "sample of a number": [{"sample": 5000, "seed": 7}],
    "group of many": [{"group": ["key"], **AGGREGATES}],
    "group of few": [{"group": ["color"], **AGGREGATES}],
    "group of texts": [{"group": ["color", "text"], "other": "first", "mean": ["x"], "max": ["text", "when"]}],
    "group of all": [{"group": [], **AGGREGATES}],
    "join, inner": [{"join": "right.csv", "on": ["key"], "how": "inner"}],
    "join, left": [{"join": "right.csv", "on": ["key"], "how": "left"}],
    "join, right": [{"join": "right.csv", "on": ["key"], "how": "right"}],
    "join, outer": [{"join": "right.csv", "on": ["key", "color"], "how": "outer"}],
    "join, outer, of a small table": [{"join": "small.csv", "on": ["color"], "how": "outer"}],
    "join of categories": [{"category": "color"}, {"join": "right.csv", "on": ["color", "key"], "how": "outer"}, {"sort": ["color", "id"]}],
    "sequence": [BY_TIME, {"moving": "x", "rows": 3}, {"offset": "x", "by": 1, "new": True}, {"flatten": True}],
    "sequences, split, each a row": [{"sequence": ["color"], "by": ["when", "x"]}, {"split": "when", "gap": "5 hours"}, {"group": [], "stdev": ["x"], "rows": ["x"]}],
    "sequences, slid": [{"sequence": ["key", "color"]}, {"difference": "x", "lag": 2}, {"lags": ["id"], "by": [1, 2]}, {"smooth": "x", "span": 5}, {"slide": 4}],
    "sequences, resampled": [{"drop": ["text"]}, BY_TIME, {"resample": "when", "every": "1 day", "fill": "previous"}, {"trim": 1}, {"length": 8}],
    "sequences, windows": [BY_TIME, {"windows": "when", "size": "2 days"}, {"group": ["key"], "sum": ["x"]}],
    "sequences, by time": [BY_TIME, {"impute": "x", "by": "previous"}, {"by_time": "when", "parts": [0.5, 0.2, 0.3], "part": 1, "before": 2}],
    "normalize": [{"normalize": ["x", "id"]}],
    "impute": [{"impute": ["x"], "by": "median"}, {"impute": ["text"], "by": "mode"}],
    "category": [{"category": ["color"]}, {"one_hot": ["color"]}, {"index": ["text"]}],
    "bucket": [{"bucket": ["x"], "count": 7}, {"bucket": ["id"], "count": 5, "by": "width"}],
    "lags": [{"lags": ["x", "color"], "by": [1, 3, -2]}],
    "lags, trimmed": [{"lags": ["id", "text"], "by": [2, -1], "edge": "trim"}],
    "lags from far": [{"lags": ["id"], "by": [9000, -5000]}, {"lags": ["x"], "by": 30000}],
    "lags of more rows than there are": [{"lags": ["id"], "by": [30000], "edge": "trim"}],
    "moving": [{"moving": "x", "rows": 7}, {"moving": "id", "rows": 400, "op": "sum", "edge": "missing"}, {"moving": "color", "rows": 2, "op": "last"}],
    "moving medians": [{"head": 9000}, {"moving": "x", "rows": 5, "op": "median"}],
    "offset": [{"offset": ["x", "text"], "by": -3, "new": True, "value": "7"}, {"offset": ["id"], "by": 2, "edge": "trim"}],
    "difference": [{"difference": "id", "lag": 3}, {"difference": "when", "new": "later", "first": 0}],
    "by time": [{"by_time": "when", "parts": [0.5, 0.2, 0.3], "part": 1, "before": 20}],
    "by time, the first": [{"by_time": "id", "parts": [0.25], "part": 0}],
    "by time, the last": [{"by_time": "when", "parts": [0.9, 0.1], "part": 1, "before": 5000}],
    "by time, of no rows": [{"filter": "id >= 0"}, {"by_time": "when", "parts": [0.99999, 0.00001], "part": 1}],
    "align": [{"align": "times.csv", "by": "when", "on": ["key"]}],
    "align, next": [{"align": "times.csv", "by": "when", "on": ["color"], "match": "next", "within": "2 hours"}],
    "align, nearest": [{"align": "times.csv", "by": "when", "on": ["color", "key"], "match": "nearest"}],
    "align, no keys": [{"align": "times.csv", "by": "when", "match": "nearest"}],
    "align, no keys, next": [{"align": "times.csv", "by": "when", "right_by": "then", "match": "next"}],
    "align, no keys, previous": [{"category": "color"}, {"align": "times.csv", "by": "when", "right_by": "then"}],
    "align, few rows to a piece": [{"align": "wide.csv", "by": "when"}, {"drop": ["note"]}],
    "align, few rows to a piece, next": [{"align": "wide.csv", "by": "when", "match": "next"}, {"drop": ["note"]}],
    "align, few rows to a piece, nearest": [{"align": "wide.csv", "by": "when", "on": ["color"], "match": "nearest"}, {"drop": ["note"]}],
    # 16 and 289 meet in one part of the keys on two levels, which are then not cut again but sorted by time; 289 is there in the first days alone.
    "align, keys that a piece lacks": [{"derive": {"pair": "if(id % 3 = 0, 289, 16)"}}, {"align": "pairs.csv", "by": "when", "on": ["pair"]}, {"drop": ["note"]}],
    "align, keys that a piece lacks, nearest": [{"derive": {"pair": "if(id % 3 = 0, 289, 16)"}},
                                                {"align": "pairs.csv", "by": "when", "on": ["pair"], "match": "nearest"}, {"drop": ["note"]}],
    "midpoint": [{"derive": {"at": "concat(',', x % 90, id % 180)"}}, {"filter": "not is_missing(x) and not is_infinite(x)"}, {"group": ["color"], "midpoint": ["at"]}],
    "several": [{"filter": "x > 0"}, {"sort": ["text"]}, {"derive": {"z": "x * 2 + id"}}, {"group": ["text"], "sum": ["z"], "first": ["id"]}, {"sort": ["sum(z)"]},
                {"rank": ["first(id)"]}],
}


def lines(rows, keys, seed=5):
    draw = random.Random(seed)
    yield "id,key,x,text,color,when\n"
    for i in range(rows):
        x = "" if draw.random() < .03 else "inf" if draw.random() < .0002 else repr(round(draw.gauss(0, 1e3), draw.choice([0, 3, 9])))
        key = "" if draw.random() < .02 else draw.randrange(keys)
        text = draw.choice(["", '"a,b"', "zed", "żółć", f"n{draw.randrange(500)}", f"n{draw.randrange(5000)}"])
        yield f"{i},{key},{x},{text},{draw.choice(['red', 'blue', 'green'])},2020-01-{draw.randrange(1, 29):02d} {draw.randrange(24):02d}:00:00\n"


def convert(table, steps, memory, threads=2, out="out.csv", **more):
    pathlib.Path("steps.json").write_text(json.dumps(steps))
    command = [PROGRAM, "data", "convert", table, out, "--steps", "steps.json", "--threads", str(threads)] + (["--memory", memory] if memory else [])
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **more)


def test_the_same_bytes():
    with open("table.csv", "w") as file:
        file.writelines(lines(20000, 1500))
    with open("right.csv", "w") as file:
        file.write("key,y,color,note\n")
        draw = random.Random(6)
        file.writelines(f"{'' if i % 99 == 0 else draw.randrange(2000)},{draw.random()},{draw.choice(['red', 'blue', 'pink'])},w{i}\n" for i in range(8000))
    with open("times.csv", "w") as file:
        file.write("when,then,key,color,y,note\n")
        draw = random.Random(7)
        moment = lambda: "" if draw.random() < .01 else f"2020-01-{draw.randrange(1, 29):02d} {draw.randrange(24):02d}:{draw.choice([0, 0, 20, 40]):02d}:00"
        file.writelines(f"{moment()},{moment()},{draw.randrange(1500)},{draw.choice(['red', 'blue', 'pink'])},{draw.random()},w{i}\n" for i in range(9000))
    with open("wide.csv", "w") as file:  # the neighbours of many rows of the table lie in other pieces
        file.write("when,color,y,note\n")
        draw = random.Random(8)
        file.writelines(f"2020-01-{draw.randrange(1, 29):02d} {draw.randrange(24):02d}:{draw.randrange(60):02d}:00,{draw.choice(['red', 'blue'])},"
                        f"{i},{str(i) * 300}\n" for i in range(1500))
    with open("pairs.csv", "w") as file:
        file.write("when,pair,y,note\n")
        draw = random.Random(9)
        days = [draw.randrange(1, 29) for _ in range(1500)]
        file.writelines(f"2020-01-{day:02d} {draw.randrange(24):02d}:{draw.randrange(60):02d}:00,{289 if day < 5 and i % 3 == 0 else 16},{i},{str(i) * 300}\n"
                        for i, day in enumerate(days))
    pathlib.Path("small.csv").write_text("color,z\nblue,1\npink,2\nred,3\n")
    for name, steps in CASES.items():
        results = {}
        for memory, threads in (("8GiB", 1), ("1MiB", 1), ("1MiB", 3), ("2500kB", 2)):
            done = convert("table.csv", steps, memory, threads)
            assert done.returncode == 0, (name, memory, done.stderr)
            results[memory, threads] = pathlib.Path("out.csv").read_bytes()
        assert len(set(results.values())) == 1, (name, {key: len(value) for key, value in results.items()})
    assert not any(pathlib.Path("scratch").iterdir())


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_python_agrees():
    """Sums, orders and partners that Python finds."""
    rows = rows_of("table.csv")
    assert convert("table.csv", [{"sort": ["text", "x"]}], "1MiB").returncode == 0
    # "" in quotes is a text, and nothing is missing: the table has none of the first.
    wanted = sorted(rows, key=lambda row: (row["text"] == "", row["text"].encode(), row["x"] == "", float(row["x"] or 0)))
    assert [row["id"] for row in rows_of("out.csv")] == [row["id"] for row in wanted]
    assert convert("table.csv", [{"group": ["key"], "sum": ["id"], "max": ["x"]}], "1MiB").returncode == 0
    sums, most = {}, {}
    for row in rows:
        sums[row["key"]] = sums.get(row["key"], 0) + int(row["id"])
        if row["x"]:
            most[row["key"]] = max(most.get(row["key"], -1e300), float(row["x"]))
    found = rows_of("out.csv")
    assert [row["key"] for row in found] == list(sums) and [int(row["sum(id)"]) for row in found] == list(sums.values())
    assert all(float(row["max(x)"]) == most[row["key"]] for row in found)
    assert convert("table.csv", [{"join": "right.csv", "on": ["key"], "how": "left"}, {"select": ["id", "note"]}], "1MiB").returncode == 0
    partners = {}
    for row in rows_of("right.csv"):
        partners.setdefault(row["key"], []).append(row["note"])
    wanted = [(row["id"], note) for row in rows for note in (partners.get(row["key"]) if row["key"] else None) or [""]]
    assert [(row["id"], row["note"]) for row in rows_of("out.csv")] == wanted


def peak_mib(table, steps, memory):
    """Of a process: os.wait4 says it of each child, unlike what all have had."""
    pathlib.Path("steps.json").write_text(json.dumps(steps))
    command = [PROGRAM, "data", "convert", table, "out.csv", "--steps", "steps.json", "--threads", "2", "--memory", memory]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0, text
    return usage.ru_maxrss / 1024


def test_memory_does_not_grow():
    """Four times the rows take no more memory; without the limit they do, so that the measure can be trusted."""
    for name, rows in (("few.csv", 60000), ("many.csv", 240000)):
        with open(name, "w") as file:
            file.write("id,key,x,text\n")
            draw = random.Random(1)
            file.writelines(f"{i},{draw.randrange(rows)},{draw.random()},text-{draw.randrange(rows)}-of-some-length-{i % 10}\n" for i in range(rows))
    cases = [[{"sort": ["x"]}], [{"rank": ["text"]}], [{"distinct": ["text"]}], [{"group": ["key"], "mean": ["x"], "max": ["text"]}],
             [{"join": "TABLE", "on": ["key"], "how": "outer"}], [{"sequence": ["key"], "by": ["x"]}, {"group": ["key"], "rows": ["x"]}],
             [{"bucket": ["x"]}, {"impute": ["id"], "by": "median"}]]
    for steps in cases:
        peaks = []
        for name in ("few.csv", "many.csv"):
            here = json.loads(json.dumps(steps).replace("TABLE", name))
            peaks.append(peak_mib(name, here, "6MiB"))
        assert peaks[1] < peaks[0] + 8 and peaks[1] < 64, (steps, peaks)
    free = [peak_mib(name, [{"sort": ["x"]}], "8GiB") for name in ("few.csv", "many.csv")]
    assert free[1] > free[0] + 12, free


def prepare(source, out, memory):
    pathlib.Path("source.json").write_text(json.dumps(source))
    process = subprocess.Popen([PROGRAM, "data", "prepare", "source.json", out, "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PERIGEE_TABLE_MEMORY": memory})
    text = process.stderr.read()
    _, process.returncode, usage = os.wait4(process.pid, 0)
    assert process.returncode == 0, text
    return usage.ru_maxrss / 1024, {path.name: path.read_bytes() for path in pathlib.Path(out).iterdir()}


SOURCE = {"type": "table", "steps": [{"sort": ["x"]}, {"normalize": ["x"]}, {"derive": {"far": "if(abs(x) > 1, 'yes', 'no')"}}, {"drop": ["text"]}], "target": "far"}


def test_examples_do_not_grow():
    """What a network is trained on lies in a file, too."""
    peaks = [prepare({**SOURCE, "file": name}, f"records-{name}", "4MiB")[0] for name in ("few.csv", "many.csv")]
    assert peaks[1] < peaks[0] + 12, peaks
    assert not any(pathlib.Path("scratch").iterdir())


def test_the_same_examples():
    """Rows with gaps among them, which are refused, left out or filled in."""
    finite, far = {"filter": "is_missing(x) or abs(x) < 99999"}, {"derive": {"far": "if(x > 1, 'yes', 'no')"}}
    for options, steps in (({}, [{"impute": ["x", "key"]}, *SOURCE["steps"][:3]]), ({"missing": "skip"}, [{"sort": ["x"]}, far]),
                           ({"missing": "mean", "weight": "id"}, [far])):
        source = {**SOURCE, **options, "file": "table.csv", "steps": [{"drop": ["when", "text"]}, finite, *steps]}
        found = [prepare(source, f"records-{len(options)}-{memory}", memory)[1] for memory in ("8GiB", "1MiB")]
        assert found[0] == found[1] and found[0], options


def test_killed():
    """What was written has no name: nothing is there while it runs, nor after it was killed."""
    pathlib.Path("steps.json").write_text(json.dumps([{"sort": ["text"]}]))
    process = subprocess.Popen([PROGRAM, "data", "convert", "many.csv", "killed.csv", "--steps", "steps.json", "--memory", "1MiB"], stderr=subprocess.DEVNULL)
    folder = f"/proc/{process.pid}/fd"
    seen = False
    while process.poll() is None and not seen:
        for number in os.listdir(folder):
            try:
                target, size = os.readlink(f"{folder}/{number}"), os.stat(f"{folder}/{number}").st_size
            except FileNotFoundError:
                continue
            seen |= "scratch" in target and size > 100000
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert seen, "it ended before it was killed"
    assert not any(pathlib.Path("scratch").iterdir()) and not pathlib.Path("killed.csv").exists()


def test_full_disk():
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    done = convert("many.csv", [{"sort": ["text"]}], "1MiB", preexec_fn=limit, restore_signals=False)
    assert done.returncode != 0 and "cannot be written: File too large" in done.stderr, done.stderr
    assert "scratch" in done.stderr and "MiB written" in done.stderr, done.stderr
    assert "set TMPDIR to a folder with more room, or give more memory: PERIGEE_TABLE_MEMORY=8GiB" in done.stderr, done.stderr
    done = convert("many.csv", [{"sort": ["text"]}], "1MiB", env={**os.environ, "TMPDIR": "there-is-none"})
    assert done.returncode != 0 and "no scratch file can be made for a table that is larger than its memory" in done.stderr, done.stderr
    assert convert("many.csv", [{"sort": ["text"]}], "8GiB", env={**os.environ, "TMPDIR": "there-is-none"}).returncode == 0


def test_amounts():
    for memory in ("lots", "1", "3 parsecs", "-4GiB"):
        done = convert("table.csv", [{"sort": ["id"]}], memory)
        assert done.returncode == 2 and "this is no amount of memory for tables" in done.stderr, done.stderr
    done = convert("table.csv", [{"sort": ["id"]}], "", env={**os.environ, "PERIGEE_TABLE_MEMORY": "many"})
    assert done.returncode == 2 and "PERIGEE_TABLE_MEMORY" in done.stderr, done.stderr
    done = convert("table.csv", [{"sort": ["id"]}], "", env={**os.environ, "PERIGEE_TABLE_MEMORY": "1MiB", "TMPDIR": "there-is-none"})
    assert done.returncode != 0 and "no scratch file" in done.stderr, done.stderr


# Memory first: a child's peak counts from that of this process, which is small yet.
TESTS = [test_memory_does_not_grow, test_examples_do_not_grow, test_killed, test_full_disk, test_the_same_bytes, test_python_agrees, test_the_same_examples, test_amounts]


def main():
    print(f"1..{len(TESTS)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("scratch").mkdir()
        os.environ["TMPDIR"] = str(pathlib.Path("scratch").resolve())
        for number, test in enumerate(TESTS, 1):
            try:
                test()
                print(f"ok {number} {test.__name__}", flush=True)
            except Exception as error:
                failed = True
                print(f"not ok {number} {test.__name__}\n# {type(error).__name__}: {str(error)[:2000]}", flush=True)
        os.chdir("/")
    sys.exit(failed)


if __name__ == "__main__":
    main()
