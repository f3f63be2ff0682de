#!/usr/bin/env python3
"""Losses, metrics and schedules as Lua functions, in the program: functions_test.py PROGRAM. Prints TAP.

A job with such functions trains in one process, from its own JSON to the same file, and in several processes, and its model file says how it is
judged without the script."""
import json
import pathlib
import subprocess
import sys
import tempfile

program = str(pathlib.Path(sys.argv[1]).resolve())
SCRIPT = """
local pg = require "perigee"
pg.seed(1)
local data = pg.data.arrays { x = pg.randn(64, 4):totable(), y = pg.randint(0, 2, { 64 }):totable() }
return pg.experiment {
  name = "own", network = pg.sequential { pg.dense { 8, activation = "tanh" }, pg.lambda(function(x) return x[{ {}, { 1, 6 } }] * { 1, 2, 3, 4, 5, 6 } end),
    pg.dense { 3 } },
  loss = function(outputs, targets) return pg.cross_entropy(outputs, targets) + 0.01 * (outputs ^ 2):mean(2) end,
  optimizer = pg.sgd { lr = function(now) return 0.1 * 0.9 ^ now.epoch end },
  metrics = { "classification", sure = function(outputs, targets) return outputs:max(2):gt(0.5) end },
  data = { train = data, test = data, batch = 8 }, epochs = 3, seed = 4, threads = 1,
}
"""
temporary = tempfile.TemporaryDirectory(prefix="perigee-functions-")
folder = pathlib.Path(temporary.name)
script = folder / "own.lua"
script.write_text(SCRIPT, encoding="utf-8")


def run(*arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, cwd=folder, timeout=120)
    return done.returncode, done.stdout + done.stderr


SAME = """
local a, b = pg.load "one/model.safetensors", pg.load "again/model.safetensors"
for name, x in pairs(a) do assert(x:all_equal(b[name]), name) end
return "the same"
"""
checks = []
one = run("train", script, "--out", "one")
checks.append(("it trains in one process", one[0] == 0, one))
described = run("describe", script, "--json")
(folder / "own.json").write_text(described[1], encoding="utf-8")
again = run("train", "own.json", "--out", "again")
checks.append(("its JSON trains to the same numbers", "the same" in run("-e", SAME)[1], again))
report = json.loads((folder / "one" / "report.json").read_text(encoding="utf-8")) if one[0] == 0 else {}
checks.append(("the report has the figure", '"sure"' in json.dumps(report), report))
several = run("train", script, "--workers", "2", "--out", "two")
checks.append(("two processes train it", several[0] == 0, several))
ledger = run("ledger", "two")
checks.append(("each example counted once", ledger[0] == 0, ledger))
judged = run("eval", "one")
checks.append(("a model is judged without the script", judged[0] == 0 and "sure" in judged[1], judged))

print(f"1..{len(checks)}")
for number, (name, good, shown) in enumerate(checks, 1):
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not good:
        print("# " + str(shown).replace("\\n", "\n# "))
sys.exit(0 if all(good for _, good, _ in checks) else 1)
