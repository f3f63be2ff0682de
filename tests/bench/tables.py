#!/usr/bin/env python3
"""Steps of tables and their files beside polars and DuckDB: tables.py [table_bench] [TURNS]. Turns alternate; figures are of one thread's CPU time, the best
of all turns: million rows a second of 2 million rows, and MB of CSV a second. What is not installed is left out."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "ARROW_NUM_THREADS"):
    os.environ[name] = "1"

try:
    import numpy
    import polars
except ImportError:
    polars = None
try:
    import duckdb
except ImportError:
    duckdb = None

ROWS = 2_000_000
BENCH = sys.argv[1] if len(sys.argv) > 1 else "build/tests/bench/table_bench"
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 3


def seconds(work):
    best = 1e9
    for _ in range(2):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def columns():
    """As table_bench makes them, but for the numbers themselves."""
    draw = numpy.random.default_rng(1).integers(0, 2**31, ROWS)
    frame = polars.DataFrame({"x": draw % 2000001 / 1e6 - 1, "y": draw % 1999 / 7, "key": draw % 1000,
                              "city": numpy.array(["Rome", "Oslo", "Bern", "Lima", "Cairo"])[draw % 5], "time": draw * 1000})
    frame = frame.with_columns(polars.col("time").cast(polars.Datetime("ms")))
    return frame.with_columns(polars.col("time").dt.strftime("%Y-%m-%d %H:%M:%S").alias("text"))


def of_polars(frame, files):
    col = polars.col
    other = polars.DataFrame({"key": range(1000), "w": [i / 3 for i in range(1000)]})
    works = {
        "derive": lambda: frame.with_columns((col("x") * 2 + col("y")).alias("z")),
        "filter": lambda: frame.select("x", "city").filter((col("x") > 0) & (col("city") == "Rome")),
        "group by 1000 keys": lambda: frame.group_by("key").agg(col("x").mean(), col("x").std().alias("s"), col("x").count().alias("n")),
        "group by 5 texts": lambda: frame.group_by("city").agg(col("x").mean()),
        "left join of 1000 rows": lambda: frame.select("key", "x").join(other, on="key", how="left"),
        "sort by a number": lambda: frame.select("x").sort("x"),
        "one-hot of 5 texts": lambda: frame.select("city").to_dummies("city"),
        "parse a time": lambda: frame.select(col("text").str.to_datetime("%Y-%m-%d %H:%M:%S")),
        "hour and weekday": lambda: frame.select(col("time").dt.hour().alias("h"), col("time").dt.weekday()),
        "rolling mean of 10": lambda: frame.select(col("x").rolling_mean(10)),
        "standardize two": lambda: frame.select((col("x") - col("x").mean()) / col("x").std(), (col("y") - col("y").mean()) / col("y").std()),
    }
    found = {name: ROWS / seconds(work) / 1e6 for name, work in works.items()}
    for file in files:
        read = polars.read_csv if file.endswith(".csv") else polars.read_parquet
        found[file] = seconds(lambda: read(file))
    return found


def of_duckdb(frame, files):
    base = duckdb.connect()
    base.execute("set threads = 1")
    base.register("given", frame.to_arrow())
    base.execute("create table t as select * from given")
    base.execute("create table o as select range as key, range / 3 as w from range(1000)")
    works = {
        "filter": "select x, city from t where x > 0 and city = 'Rome'", "group by 1000 keys": "select key, avg(x), stddev(x), count(x) from t group by key",
        "group by 5 texts": "select city, avg(x) from t group by city", "left join of 1000 rows": "select t.key, x, w from t left join o on t.key = o.key",
        "sort by a number": "select x from t order by x", "hour and weekday": "select hour(time), dayofweek(time) from t",
    }
    found = {name: ROWS / seconds(lambda: base.execute(f"create or replace temp table r as {query}")) / 1e6 for name, query in works.items()}
    for file in files:
        found[file] = seconds(lambda: base.execute(f"create or replace temp table r as select * from '{file}'"))
    return found


def write_files(folder):
    """20 floats a row as CSV, and the same as Parquet, plain and zstd."""
    draw = random.Random(1)
    csv = folder / "floats.csv"
    with csv.open("w") as file:
        file.write(",".join(f"c{i}" for i in range(20)) + "\n")
        for _ in range(120_000):
            file.write(",".join(f"{draw.gauss(0, 1):.16g}" for _ in range(20)) + "\n")
    files = [str(csv)]
    if polars is not None:
        table = polars.read_csv(csv)
        for codec in ("uncompressed", "zstd"):
            files.append(str(folder / f"floats.{codec}.parquet"))
            table.write_parquet(files[-1], compression=codec, statistics=False)
    return files, csv.stat().st_size / 1e6


def main():
    with tempfile.TemporaryDirectory() as folder:
        files, megabytes = write_files(pathlib.Path(folder))
        frame = columns() if polars is not None else None
        best = {}
        for _ in range(TURNS):
            turn = {"perigee": json.loads(subprocess.run([BENCH, str(ROWS), *files], capture_output=True, text=True, check=True).stdout)}
            if polars is not None:
                turn["polars"] = of_polars(frame, files)
            if duckdb is not None and polars is not None:
                turn["duckdb"] = of_duckdb(frame, files)
            for who, figures in turn.items():
                for name, figure in figures.items():
                    value = megabytes / figure if name in files else figure
                    name = pathlib.Path(name).name
                    best.setdefault(name, {})[who] = max(value, best.get(name, {}).get(who, 0))
    print(f"{'million rows/s; files: MB of CSV/s':36}{'perigee':>10}{'polars':>10}{'duckdb':>10}")
    for name, figures in best.items():
        print(f"{name:36}" + "".join(f"{figures[who]:10.1f}" if who in figures else f"{'-':>10}" for who in ("perigee", "polars", "duckdb")))


main()
