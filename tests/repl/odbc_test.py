#!/usr/bin/env python3
"""Tables of a database by ODBC, against what sqlite3 of Python says: odbc_test.py PROGRAM. Prints TAP.

Debian's driver manager and its driver for SQLite are unpacked into the user's cache folder when they are first needed; skipped where they cannot
be had.
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "stores"))
from servers import Missing, debian_packages  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
PACKAGES = ["libodbc2", "libodbcinst2", "libltdl7", "libsqliteodbc", "libsqlite3-0"]
ROWS = [(i, i / 7 if i % 5 else None, f"name {i}" if i % 3 else None, f"2024-0{i % 9 + 1}-1{i % 10} 12:30:{i % 60:02d}", "ü" * (i % 11) + "x" * (3 * i))
        for i in range(3000)]


def environment():
    place = debian_packages(PACKAGES)
    libraries = place / "usr" / "lib" / "x86_64-linux-gnu"
    pathlib.Path("odbcinst.ini").write_text(f"[SQLite3]\nDriver={libraries}/odbc/libsqlite3odbc.so\nThreading=2\n")
    pathlib.Path("odbc.ini").write_text("[shop]\nDriver=SQLite3\nDatabase=" + os.path.abspath("shop.db") + "\n")
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries), "ODBCSYSINI": os.getcwd(), "ODBCINI": os.path.abspath("odbc.ini")}


def converted(source, env, expected=0):
    done = subprocess.run([PROGRAM, "data", "convert", source, "out.jsonl"], capture_output=True, timeout=120, check=False, env=env, text=True)
    assert done.returncode == expected, (done.returncode, done.stderr)
    return done.stderr if expected else [json.loads(line) for line in pathlib.Path("out.jsonl").read_text().splitlines()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print("1..5")
        missing = dict(os.environ, LD_LIBRARY_PATH="")
        with sqlite3.connect("shop.db") as database:
            database.execute('create table "or""ders" (id integer, price double, name text, at timestamp, note text)')
            database.executemany('insert into "or""ders" values (?, ?, ?, ?, ?)', ROWS)
            database.execute("create table odd (at timestamp)")  # SQLite keeps any text in it
            database.execute("insert into odd values ('tomorrow')")
        try:
            env = environment()
        except (Missing, OSError) as reason:
            for number in range(1, 6):
                print(f"ok {number} # SKIP {reason}")
            return os.chdir("/")
        checks = [lambda: whole_table(env), lambda: query(env), lambda: refusals(env), lambda: source(env), lambda: without_library(missing)]
        failed = 0
        for number, check in enumerate(checks, 1):
            try:
                check()
                print(f"ok {number}", flush=True)
            except Exception as error:  # the next one may still say something
                failed += 1
                print(f"not ok {number}\n# {type(error).__name__}: {str(error)[:2000]}", flush=True)
        os.chdir("/")
        sys.exit(failed > 0)


def whole_table(env):
    rows = converted('odbc:DSN=shop#or"ders', env)
    assert len(rows) == len(ROWS)
    for row, (number, price, name, at, note) in zip(rows, ROWS):
        assert (row["id"], row["name"], row["note"]) == (number, name, note), row
        # The driver for SQLite hands over 15 digits.
        assert row["price"] == price or abs(row["price"] - price) <= 1e-14 * price, (row, price)
        assert row["at"] == at.replace(" ", "T"), (row, at)


def query(env):
    text = 'SELECT id * 2 AS twice, price FROM "or""ders" WHERE id < 20 ORDER BY id DESC'
    rows = converted(f"odbc:Driver=SQLite3;Database={os.path.abspath('shop.db')}#{text}", env)
    assert [int(row["twice"]) for row in rows] == [2 * i for i in range(19, -1, -1)], rows
    done = subprocess.run([PROGRAM, "data", "analyse", 'odbc:DSN=shop#or"ders', "--json"], capture_output=True, timeout=120, env=env, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["rows"] == len(ROWS), done.stdout[:500]


def refusals(env):
    told = converted("odbc:DSN=shop;PWD=secret#nothing", env, 3)
    assert "the database refuses the query" in told and "no such table" in told, told
    assert "secret" not in told and "PWD=***" in told, told
    told = converted("odbc:DSN=shop;Pwd = {a;secret};AccessToken=secret#nothing", env, 3)
    assert "secret" not in told and "DSN=shop;Pwd =***;AccessToken=***" in told, told
    told = converted("odbc:DSN=shop#odd", env, 3)
    assert "column 'at', row 1: the value is not of the column's type; got 'tomorrow', expected a time; CAST(... AS TEXT) in a SELECT gives it as text" in told, told
    assert converted("odbc:DSN=shop#SELECT CAST(at AS TEXT) AS at FROM odd", env) == [{"at": "tomorrow"}]
    assert "the database cannot be reached by ODBC" in converted("odbc:DSN=none#t", env, 3)
    assert "there is no table behind the database" in converted("odbc:DSN=shop", env, 2)
    assert "the query gives no rows" in converted("odbc:DSN=shop#WITH a AS (SELECT 1) DELETE FROM \"or\"\"ders\" WHERE id < 0", env, 3)


def source(env):
    """A source of a job."""
    pathlib.Path("job.lua").write_text("""local pg = require "perigee"
train = pg.data.table { 'odbc:DSN=shop#SELECT price, id FROM "or""ders" WHERE price IS NOT NULL', steps = { { normalize = "*" } }, target = "id" }
print(#train)
""")
    done = subprocess.run([PROGRAM, "-e", "dofile 'job.lua'"], capture_output=True, timeout=120, env=env, text=True, check=False)
    assert done.returncode == 0 and "2400" in done.stdout, (done.stdout, done.stderr)


def without_library(env):
    done = subprocess.run([PROGRAM, "data", "convert", "odbc:DSN=shop#t", "out.csv"], capture_output=True, timeout=60, env=env, text=True, check=False)
    installed = done.returncode == 3
    assert installed or (done.returncode == 7 and "unixodbc" in done.stderr), (done.returncode, done.stderr)


main()
