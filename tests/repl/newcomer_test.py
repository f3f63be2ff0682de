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


def dates_become_years():
    for name, form in (("iso", "2023-{:02d}-15"), ("german", "15.{:02d}.2023"), ("american", "{:02d}/15/2023")):
        rows = "".join(f"{form.format(i % 12 + 1) if i % 7 else ''},{i % 5},{i / 10}\n" for i in range(60))
        pathlib.Path(f"{name}.csv").write_text("when,b,y\n" + rows)
        source = f'pg.data.csv {{ "{name}.csv", target = "y", missing = "mean", dates = {{ "when" }} }}'
        out, error = run("-e", f's = {source} print(s[2].x[1] > 2023.12 and s[2].x[1] < 2023.13, #s[1].x, s[1].x[1] > 2023 and s[1].x[1] < 2024)')
        assert (out, error) == ("true\t2\ttrue\n", ""), (name, out, error)
    # The bits of what is foretold do not depend on how a date is written.
    for name in ("iso", "german"):
        train(f"of-{name}", f'pg.data.csv {{ "{name}.csv", target = "y", missing = "mean", dates = {{ "when" }} }}', outputs=1, loss="mse")
    assert run("predict", "of-iso", "iso.csv")[0].replace("iso", "") == run("predict", "of-german", "german.csv")[0].replace("german", "")


def columns_of_many_texts_are_told():
    names = "".join(f"2021-{i % 12 + 1:02d}-{i // 12 + 1:02d},n{i},{i}\n" for i in range(80))
    pathlib.Path("many.csv").write_text("when,name,y\n" + names)
    _, error = run("-e", 'print(#pg.data.csv { "many.csv", task = "regress" })')
    assert "column 'when' has dates, and each of the 80 different ones becomes a feature of its own; dates = { \"when\" } makes numbers of them" in error, error
    assert "column 'name' has 80 different texts in 80 rows" in error and 'drop = { "name" } leaves it out' in error, error
    _, error = run("-e", 'print(#pg.data.csv { "many.csv", task = "regress", dates = { "when" }, drop = { "name" } })')
    assert error == "", error
    _, error = run("-e", 'print(#pg.data.csv { "many.csv", task = "regress", dates = { "when" }, categorical = { "name" } })')
    assert error == "", error
    pathlib.Path("few.csv").write_text("when,y\n" + "".join(f"2021-0{i % 3 + 1}-15,{i}\n" for i in range(90)))
    _, error = run("-e", 'print(#pg.data.csv { "few.csv", task = "regress" })')
    assert "column 'when' has dates, and each of the 3 different ones" in error, error


def a_regression_worse_than_the_mean_is_told():
    pathlib.Path("noise.csv").write_text("a,b,y\n" + "".join(f"{i * 37 % 11},{i * 53 % 13},{i * i * 7919 % 101 / 10}\n" for i in range(40)))
    source = 'pg.data.csv { "noise.csv", target = "y", task = "regress" }'
    data = f", test = {source}:take(20, 20)"
    _, error = train("useless", f"{source}:take(20)", outputs=1, loss="mse", epochs=10, more=data)
    assert "is worse than their mean" in error and "early_stopping" in error, error
    _, error = train("early", f"{source}:take(20)", outputs=1, loss="mse", epochs=2, more=data)
    assert "is worse than their mean" not in error, error


def records_that_are_piped_in_need_a_name():
    train("piped", 'pg.data.csv { "three.csv", target = "y" }')
    _, error = run("predict", "piped", given="a,b\n1,2\n", code=2)
    assert "what is piped in is read where the file is called -: perigee predict MODEL -" in error, error
    assert run("predict", "piped", "-", given="a,b\n1,2\n")[0].startswith("-[0]: "), "the remedy"


def an_options_name_alone_has_help():
    out, _ = run("repl", given="?label_smoothing\n?class_weight\n")
    assert "option of pg.loss.cross_entropy: number" in out and "option of pg.loss.binary_cross_entropy" in out, out
    out, error = run("repl", given="?nothing_has_it\n", code=1)
    assert "there is no help for 'nothing_has_it'" in error, error


def weights_in_the_loss_are_steered():
    pathlib.Path("heads.lua").write_text("""local pg = require "perigee"
local x = pg.input "x"
local code = pg.dense { 4, activation = "sigmoid" } (x)
local thin = pg.sparsity { target = 0.1, weight = pg.fixed { 1 }, name = "thin" } (code)
return pg.experiment { network = pg.graph { inputs = { x }, outputs = { a = pg.dense { 1 } (code), b = pg.dense { 1 } (thin) } },
  loss = { a = { type = "mse", target = "a" }, b = { type = "mse", target = "b", weight = pg.fixed { 1 } } }, optimizer = pg.sgd { lr = 0.001 },
  epochs = 1000000, seed = 1, threads = 1, data = { train = pg.data.arrays { x = pg.randn(64, 3), a = pg.randn(64, 1), b = pg.randn(64, 1) }, batch = 16 } }
""")
    given = """run = pg.start("heads.lua", { out = "steered" }) while run.state == "opening" do end
print(run.loss, run.terms)
run.loss.b.weight = 0.25 run.terms.thin.weight = pg.ramp { schedule = 1, length = 5 }
print(run.loss.b.weight, run.terms.thin.weight.type)
run:stop() run:wait()
"""
    out, _ = run("repl", given=given)
    assert 'b.weight  { type = "fixed", value = 1 }' in out and 'thin.weight  { type = "fixed", value = 1 }' in out and "0.25\tramp" in out, out
    changes = [json.loads(line) for line in pathlib.Path("steered/log.jsonl").read_text().splitlines() if '"event":"set"' in line]
    assert [each["option"] for each in changes] == ["loss.b.weight", "terms.thin.weight"], changes
    # A resumed run goes on with them.
    run("train", "--resume", "steered", "--steps", str(changes[-1]["step"] + 200))
    again = [json.loads(line) for line in pathlib.Path("steered/log.jsonl").read_text().splitlines() if '"resumed":true' in line and '"event":"set"' in line]
    assert [(each["option"]) for each in again] == ["loss.b.weight", "terms.thin.weight"], again
    _, error = run("repl", given=given.replace("0.25", "-1").replace('"steered"', '"refused"'), code=1)
    assert "run.loss.b.weight" in error and "0 to" in error, error
    # Two workers, whose rounds go on with it.
    given = """run = pg.start("heads.lua", { workers = 2, out = "steered-by-two" }) while run.state == "opening" do run:wait(0.1) end
run.loss.b.weight = 0.25 run.terms.thin.weight = pg.ramp { schedule = 1, length = 5 }
print(run.loss.b.weight) at = run.progress.step or 0
while (run.progress.step or 0) < at + 50 do run:wait(0.1) end
run:stop() run:wait() print(run.state)
"""
    out, error = run("repl", given=given)
    assert "0.25" in out and "stopped" in out, (out, error)


CHECKS = [dates_become_years, columns_of_many_texts_are_told, a_regression_worse_than_the_mean_is_told, an_options_name_alone_has_help, weights_in_the_loss_are_steered,
          columns_of_one_name_are_told_apart, numbers_with_decimal_commas_are_read, outputs_and_classes_that_do_not_match_are_told,
          a_class_without_pictures_is_told, a_finished_run_says_so_when_it_is_resumed, long_runs_have_few_lines_in_a_file, the_last_and_the_best_epoch_are_shown,
          a_file_on_standard_input_is_run, help_tells_sources_and_values, records_that_are_piped_in_need_a_name]


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
