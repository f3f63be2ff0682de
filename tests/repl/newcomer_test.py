#!/usr/bin/env python3
"""What a newcomer meets and is no error: warnings, lines of long runs, help, scripts on standard input: newcomer_test.py PROGRAM. Prints TAP."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
JOB = """local pg = require "perigee"
return pg.experiment {{ network = pg.sequential {{ pg.dense {{ 4 }}, pg.dense {{ {outputs} }} }}, loss = "{loss}", optimizer = pg.adam {{ lr = 0.01 }},
  epochs = {epochs}, seed = 1, threads = 1, data = {{ train = {train}, batch = 8{more} }} }}
"""


def run(*arguments, given="", code=0):
    done = subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def table(name, header, rows, label):
    pathlib.Path(name).write_text(header + "\n" + "".join(f"{i % 7},{i / 3:.2f},{label(i)}\n" for i in range(rows)))


def train(out, train, outputs=3, loss="cross_entropy", epochs=1, more="", name="job.lua"):
    pathlib.Path(name).write_text(JOB.format(train=train, outputs=outputs, loss=loss, epochs=epochs, more=more))
    return run("train", name, "--out", out)


def columns_of_one_name_are_told_apart():
    table("twice.csv", "a,a,y", 30, lambda i: "rgb"[i % 3])
    for source in ("csv", "table"):
        _, error = train(f"twice-{source}", f'pg.data.{source} {{ "twice.csv", target = "y" }}')
        assert error.count("several columns are called 'a'") == 1 and "as in 'a_1'" in error, error
    _, error = train("kept-a", 'pg.data.csv { "twice.csv", target = "y", features = { "a_1" } }')
    out, error = run("predict", "kept-a", "twice.csv")
    assert out.count("\n") == 30 and "several columns" not in error, (out, error)
    out, _ = run("-e", 'pg.table "twice.csv"')
    assert "a_1" in out, out


def numbers_with_decimal_commas_are_read():
    rows = [(i / 4, i % 5 + 0.5, i % 3) for i in range(30)]
    pathlib.Path("comma.csv").write_text("a;b;y\n" + "".join(f"{a};{b};{y}\n".replace(".", ",") for a, b, y in rows))
    pathlib.Path("point.csv").write_text("a;b;y\n" + "".join(f"{a};{b};{y}\n" for a, b, y in rows))
    options = 'delimiter = ";", target = "y"'
    train("comma", f'pg.data.csv {{ "comma.csv", {options}, decimal = "," }}')
    train("point", f'pg.data.csv {{ "point.csv", {options} }}')
    run("-e", 'a, b = pg.load_model "comma", pg.load_model "point" for name, x in pairs(a:parameters()) do assert(x:all_equal(b:parameters()[name]), name) end')
    assert run("predict", "comma", "comma.csv")[0].replace("comma", "") == run("predict", "point", "point.csv")[0].replace("point", ""), "as in training"


def outputs_and_classes_that_do_not_match_are_told():
    table("three.csv", "a,b,y", 30, lambda i: "rgb"[i % 3])
    table("one.csv", "a,b,y", 30, lambda i: "red")
    _, error = train("five", 'pg.data.csv { "three.csv", target = "y" }', outputs=5)
    assert "job.lua:2: loss: the network has 5 outputs, and the data have 3 classes ('b', 'g', 'r'): give layer 'dense2' 3 outputs" in error, error
    _, error = train("fit", 'pg.data.csv { "three.csv", target = "y" }')
    assert "outputs" not in error, error
    _, error = train("single", 'pg.data.csv { "one.csv", target = "y" }')
    assert "all examples are of one class, 'red'" in error, error


def a_class_without_pictures_is_told():
    for name in ("photos/a", "photos/b", "photos/empty"):
        pathlib.Path(name).mkdir(parents=True)
    run("-e", "for _, n in ipairs { 'a/1', 'a/2', 'b/1' } do pg.save('photos/' .. n .. '.png', pg.zeros(4, 4, { dtype = 'u8' })) end")
    _, error = run("-e", 'print(#pg.data.images { "photos", size = 4 })')
    assert "photos/empty: this folder has no pictures" in error, error
    _, error = run("-e", 'print(#pg.data.images { "photos", size = 4, classes = { "a", "b", "empty" } })')
    assert not error, error


def a_finished_run_says_so_when_it_is_resumed():
    train("done", 'pg.data.csv { "three.csv", target = "y" }', epochs=2)
    _, error = run("train", "--resume", "done")
    assert "nothing is left to train: the run has made all 8 steps of its 2 epochs; it trains on with --epochs 4" in error, error
    out, error = run("train", "--resume", "done", "--epochs", "4")
    assert "nothing is left" not in error and "epoch 4" in out, (out, error)


def long_runs_have_few_lines_in_a_file():
    out, _ = train("long", 'pg.data.csv { "three.csv", target = "y" }', epochs=200,
                   more=', validation = pg.data.csv { "three.csv", target = "y" }')
    numbers = [int(line.split("epoch ")[1].split(":")[0]) for line in out.splitlines() if line.startswith("epoch ")]
    losses = [json.loads(line)["validation"]["loss"] for line in pathlib.Path("long/log.jsonl").read_text().splitlines() if '"event":"epoch"' in line]
    best = losses.index(min(losses)) + 1
    assert f"least validation loss: epoch {best}:" in out or f"\nepoch {best}:" in out, (best, out)
    assert numbers[:10] == list(range(1, 11)) and numbers[-1] == 200 and 25 <= len(numbers) <= 45, numbers
    assert "not every epoch has a line; long/log.jsonl has all" in out, out
    everything = pathlib.Path("long/log.jsonl").read_text()
    assert sum('"event":"epoch"' in line for line in everything.splitlines()) == 200
    out, _ = train("short", 'pg.data.csv { "three.csv", target = "y" }', epochs=10)
    assert sum(line.startswith("epoch ") for line in out.splitlines()) == 10 and "not every" not in out, out


def the_last_and_the_best_epoch_are_shown():
    # 103 is no epoch that has a line of its own; with a rate that grows, the best one lies early.
    out, _ = train("odd", 'pg.data.csv { "three.csv", target = "y" }', epochs=103, name="odd.lua",
                   more=', validation = pg.data.csv { "three.csv", target = "y" }')
    shown = [line for line in out.splitlines() if "epoch " in line and ": train" in line]
    assert shown[-1].startswith("epoch 103: "), shown[-3:]


def a_file_on_standard_input_is_run():
    pathlib.Path("lines.lua").write_text("local x = pg.ones(3)\nlocal function twice(a)\n  return a * 2\nend\nprint(twice(x):sum():item())\n")
    with open("lines.lua", encoding="utf-8") as file:
        done = subprocess.run([PROGRAM], stdin=file, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "6\n"), done
    out, error = run(given="x = 1\nprint(x)\n\ny = nosuch.field\nprint 'after'\n", code=1)
    assert out == "1\n" and "nosuch" in error and "begins in line 4 of standard input" in error, (out, error)
    assert "Usage:" in subprocess.run([PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout


def help_tells_sources_and_values():
    out, _ = run("repl", given="?pg.data\n")
    assert "csv " in out and "images " in out and "example: pg.data.csv {" in out and "source:split" in out, out
    out, _ = run("repl", given="?pg.data.text\n")
    assert 'example: pg.data.text { "shakespeare.txt", context = 64' in out, out
    run("-e", 'help = require "perigee.help" for name, text in pairs(help.source_examples) do assert(rawget(pg.data, name), name) assert(text:find(name, 1, true)) end')
    out, _ = run("repl", given='m = pg.load_model "fit"\n?m\ns = pg.data.csv { "three.csv", target = "y" }\n?s\n?m.predict\n')
    assert "m is a trained model" in out and "methods: apply, generate, parameters, predict" in out, out
    assert "s is a source of data" in out and "field y: i64[], a class of 3" in out and "methods: balanced, batch" in out, out
    assert "predict(self, records, options)" in out, "methods keep their help"


CHECKS = [columns_of_one_name_are_told_apart, numbers_with_decimal_commas_are_read, outputs_and_classes_that_do_not_match_are_told,
          a_class_without_pictures_is_told, a_finished_run_says_so_when_it_is_resumed, long_runs_have_few_lines_in_a_file, the_last_and_the_best_epoch_are_shown,
          a_file_on_standard_input_is_run, help_tells_sources_and_values]


def main():
    failures = 0
    with tempfile.TemporaryDirectory(prefix="perigee-newcomer-") as folder:
        os.chdir(folder)
        for number, check in enumerate(CHECKS, 1):
            try:
                check()
                print(f"ok {number} {check.__name__}", flush=True)
            except AssertionError as error:
                failures += 1
                print(f"not ok {number} {check.__name__}\n# " + str(error).replace("\n", "\n# "), flush=True)
        os.chdir("/")
    print(f"1..{len(CHECKS)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
