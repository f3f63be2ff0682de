#!/usr/bin/env python3
"""`perigee predict` and `eval` on what users have: predict_test.py PROGRAM. Prints TAP."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
# A regression on a table and a classifier of small pictures, each trained for a moment.
HOUSES = {
    "network": [{"type": "dense", "out": 4, "activation": "tanh", "name": "hidden"}, {"type": "dense", "out": 1}], "loss": "mse",
    "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 1, "seed": 3,
    "data": {"batch": 20, "train": {"type": "map", "transforms": [{"type": "standardize"}],
                                    "source": {"type": "csv", "file": "houses.csv", "target": "price", "drop": ["id"]}}},
}
PICTURES = {
    "network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "epochs": 1, "seed": 3,
    "data": {"batch": 4, "train": {"type": "images", "folder": "pictures", "size": 4, "channels": 1}},
}

# Pulses of two heights, of which only the order is told; the last step of the first signal is not there.
SIGNALS = {"x": [[[1, 1, 0, 2, 2, 0, 1, 1]], [[2, 2, 0, 1, 1, 0, 0, 0]]] * 8, "n": [7, 8] * 8}
READER = {
    "network": [{"type": "conv1d", "out": 6, "kernel": 3, "padding": "same", "activation": "tanh"}, {"type": "conv1d", "out": 3, "kernel": 1}],
    "loss": "ctc", "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 20, "seed": 3,
    "data": {"batch": 4, "lengths": {"x": "n"},
             "train": {"type": "arrays", "class_names": ["<none>", "a", "b"], "y": [[1, 2, 1], [2, 1, -1]] * 8, **SIGNALS}},
}


# Rows of several sentences, in which four words go on in a circle: what comes next, and whether a sentence has an even number of words.
SENTENCES = {"type": "packed", "length": 16, "source": {"type": "documents", "file": "sentences.csv", "length": 6}}
ROWS = {
    "network": [{"type": "embedding", "size": 6, "out": 16}, "positions", {"type": "transformer", "layers": 1, "heads": 2, "causal": True},
                {"type": "dense", "out": 6, "over": "steps"}],
    "loss": {"type": "cross_entropy", "ignore": -1}, "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 40, "seed": 1,
    "data": {"batch": 4, "train": SENTENCES},
}
CIRCLE = ["one", "two", "three", "four"]


def png(path, value, sides=0, columns=4):
    """A grey picture of 4 rows, whose 4 middle columns have that value."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    around = bytes([sides] * ((columns - 4) // 2))
    rows = b"".join(b"\0" + around + bytes([value] * 4) + around for _ in range(4))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", columns.to_bytes(4, "big") + b"\0\0\0\4\10\0\0\0\0") + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def prepare():
    lines = [f"{1000 + i},{40 + i},{'Rome' if i % 3 else 'Oslo'},{100 + 3 * i}" for i in range(60)]
    pathlib.Path("houses.csv").write_text("\n".join(["id,size,city,price", *lines]) + "\n")
    for i in range(8):
        png(pathlib.Path(f"pictures/{'dark' if i % 2 else 'bright'}/{i}.png"), 40 if i % 2 else 220)
    sentences = [" ".join(CIRCLE[(i // 4 + t) % 4] for t in range(2 + i % 4)) + (",even" if i % 2 == 0 else ",odd") for i in range(128)]
    pathlib.Path("sentences.csv").write_text("\n".join(["text,label", *sentences]) + "\n")
    goes_on = ROWS | {"data": {"batch": 4, "train": SENTENCES | {"next": "y"}}}
    for name, job in (("houses", HOUSES), ("classifier", PICTURES), ("reader", READER), ("rows", ROWS), ("goes_on", goes_on)):
        pathlib.Path(f"{name}.json").write_text(json.dumps(job))
        run("train", f"{name}.json", "--out", name, "--log", "json")


def run(*arguments, given=None, code=0):
    done = subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def results(*arguments, **options):
    return [json.loads(line) for line in run("predict", *arguments, "--json", **options)[0].splitlines()]


def columns_go_by_name():
    expected = results("houses", "houses.csv")[7]["values"]
    pathlib.Path("row.csv").write_text("more,city,size\n1,Rome,47\n")
    assert results("houses", "row.csv")[0]["values"] == expected
    assert results("houses", "-", given="city,size\nRome,47\n")[0] == {"file": "-", "index": 0, "values": expected}
    assert results("houses", "-", given='{"city": "Rome", "size": 47}\n{"city": "Oslo", "size": 47}\n')[0]["values"] == expected
    pathlib.Path("row.jsonl").write_text('{"size": 47, "city": "Rome"}\n')
    assert results("houses", "row.jsonl")[0]["values"] == expected


def a_standardized_target_is_foretold_in_its_unit():
    source = HOUSES["data"]["train"]["source"]
    job = HOUSES | {"data": {"batch": 20, "train": {"type": "map", "source": source, "transforms": [{"type": "standardize", "field": "y"}]}}}
    pathlib.Path("unit.json").write_text(json.dumps(job))
    run("train", "unit.json", "--out", "unit")
    lines = pathlib.Path("houses.csv").read_text().splitlines()
    prices = [float(line.split(",")[lines[0].split(",").index("price")]) for line in lines[1:]]
    mean = sum(prices) / len(prices)
    deviation = (sum((price - mean) ** 2 for price in prices) / len(prices)) ** 0.5
    # Only the raw call shows the network's own output for the same features.
    out, _ = run("-e", 'm = pg.load_model "unit" s = pg.data.csv { "houses.csv", target = "price", drop = { "id" } } print(m(s[8].x:reshape(1, -1)):item())')
    expected = float(out) * deviation + mean
    found = results("unit", "houses.csv")[7]["values"][0]
    assert abs(found - expected) < 1e-4 * max(abs(expected), deviation) and abs(found - float(out)) > 0.1 * deviation, (found, expected, out)


def missing_columns_are_all_named():
    _, error = run("predict", "houses", "-", given="price\n7\n", code=3)
    assert "standard input: 2 columns are missing: 'size', 'city'" in error, error
    _, error = run("predict", "houses", "-", given="size,city\n", code=3)
    assert "a header line and no rows" in error, error


def unknown_categories_are_counted_at_the_end():
    for name in ("a", "b"):
        pathlib.Path(f"{name}.csv").write_text("city,size\nBerlin,47\nRome,47\n")
    out, error = run("predict", "houses", "a.csv", "b.csv")
    assert len(out.splitlines()) == 4, out
    assert error.count("warning") == 1 and "column 'city': 2 values are not among" in error and "'Berlin'" in error, error


def each_output_has_the_class_names_of_its_label():
    """Written in Lua, predicted by the program and by Lua."""
    pathlib.Path("heads.lua").write_text("""local pg = require "perigee"
local x = pg.input "x"
return pg.experiment { network = pg.graph { inputs = { x }, outputs = { kind = pg.dense { 3 } (x), size = pg.dense { 2 } (x) } },
  loss = { kind = { type = "cross_entropy", target = "y" }, size = { type = "cross_entropy", target = "s" } }, optimizer = pg.adam { lr = 0.1 },
  epochs = 100, seed = 3, data = { batch = 4, train = pg.data.arrays { x = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }, y = { 0, 1, 2, 1 }, s = { 0, 0, 1, 1 },
    class_names = { y = { "cat", "dog", "emu" }, s = { "small", "large" } } } } }
""")
    run("train", "heads.lua", "--out", "heads")
    record = '{"x": [1, 0]}'
    outputs = results("heads", "-", given=record)[0]["outputs"]
    assert (outputs["kind"]["label"], outputs["size"]["label"]) == ("emu", "large"), outputs
    assert "large" in run("predict", "heads", "-", given=record)[0]
    out, _ = run("-e", 'r = pg.load_model "heads":predict { x = { 1, 0 } } print(r.outputs.kind.label, r.outputs.size.label)')
    assert out.split() == ["emu", "large"], out
    out, _ = run("eval", "heads", "--part", "train")
    assert "emu" in out and "size.accuracy" in out, out


def a_broken_file_ends_no_batch():
    pathlib.Path("broken").mkdir(exist_ok=True)
    png(pathlib.Path("broken/1.png"), 40)
    png(pathlib.Path("broken/3.png"), 220)
    pathlib.Path("broken/2.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    for arguments in (["broken/1.png", "broken/2.png", "broken/3.png"], ["broken"]):
        for more in ([], ["--workers", "2"], ["--workers", "8"]):
            out, error = run("predict", "classifier", *arguments, *more, code=3)
            assert [line.split(":")[0] for line in out.splitlines()] == ["broken/1.png", "broken/3.png"], out
            assert error.count("broken/2.png") == 1, error
    out, error = run("predict", "classifier", "broken/1.png", "none.png", code=2)
    assert "none.png: there is no such file" in error and "broken/1.png: " in out, (out, error)
    run("predict", "classifier", "broken/2.png", code=3)


def folders_are_their_files():
    out, _ = run("predict", "classifier", "pictures/dark")
    assert [line.split(":")[0] for line in out.splitlines()] == [f"pictures/dark/{i}.png" for i in (1, 3, 5, 7)], out
    assert "bright" in out and "[0]" not in out, out
    _, error = run("predict", "classifier", "pictures", code=2)
    assert "pictures: this folder has no files that the model takes; got 2 folders" in error and "pictures/*" in error, error


def pictures_are_fitted_as_in_training():
    png(pathlib.Path("middle.png"), 220)
    png(pathlib.Path("wide.png"), 220, sides=10, columns=12)
    for fit in ("crop", "random"):  # nothing is drawn for who asks
        job = json.loads(json.dumps(PICTURES))
        job["data"]["train"]["fit"] = fit
        pathlib.Path(f"{fit}.json").write_text(json.dumps(job))
        run("train", f"{fit}.json", "--out", fit, "--log", "json")
        expected, wide = results(fit, "middle.png")[0], results(fit, "wide.png")[0]
        assert wide["probabilities"] == expected["probabilities"], (fit, wide, expected)
    squashed = results("classifier", "wide.png")[0]
    assert squashed["probabilities"] != results("classifier", "middle.png")[0]["probabilities"], squashed


def results_go_to_a_file():
    expected = [each["values"][0] for each in results("houses", "houses.csv")]
    out, note = run("predict", "houses", "houses.csv", "--out", "out.csv")
    assert note == "60 rows written to out.csv\n", note
    lines = pathlib.Path("out.csv").read_text().splitlines()
    assert not out and lines[0] == "file,index,price" and len(lines) == 61 and float(lines[8].split(",")[2]) == expected[7], lines[:9]
    run("predict", "houses", "houses.csv", "--out", "out.jsonl", "--workers", "3")
    assert [json.loads(line)["values"][0] for line in pathlib.Path("out.jsonl").read_text().splitlines()] == expected
    run("predict", "houses", "houses.csv", "--out", "out.npy")
    assert b"'shape': (60, 1)" in pathlib.Path("out.npy").read_bytes()[:128]
    run("predict", "classifier", "pictures/dark", "--out", "classes.csv")
    lines = pathlib.Path("classes.csv").read_text().splitlines()
    assert lines[0] == "file,index,label,p_bright,p_dark" and len(lines) == 5, lines
    for bad in ("out.txt", "pictures"):
        run("predict", "houses", "houses.csv", "--out", bad, code=2)
    before = pathlib.Path("out.csv").read_bytes()
    run("predict", "houses", "none.csv", "--out", "out.csv", code=2)
    assert pathlib.Path("out.csv").read_bytes() == before and not list(pathlib.Path(".").glob("out.csv?*")), "nothing is lost"


def inner_layers_by_name():
    first = results("houses", "houses.csv", "--layer", "hidden")[0]
    assert len(first["layers"]["hidden"]) == 4 and len(first["values"]) == 1, first
    run("predict", "houses", "houses.csv", "--layer", "hidden", "--out", "hidden.npy")
    assert b"'shape': (60, 4)" in pathlib.Path("hidden.npy").read_bytes()[:128]
    out, _ = run("predict", "houses", "houses.csv", "--layer", "hidden")
    assert "; hidden " in out.splitlines()[0], out
    _, error = run("predict", "houses", "houses.csv", "--layer", "hiden", code=2)
    assert "did you mean 'hidden'?" in error, error


def eval_reads_other_data_by_the_job():
    def rmse(*arguments, **options):
        out, error = run("eval", "houses", *arguments, "--log", "json", **options)
        return json.loads(out)["test"]["rmse"], error
    expected = rmse("--part", "train")[0]
    table = pathlib.Path("houses.csv").read_text()
    turned = "\n".join(",".join(line.split(",")[:0:-1]) for line in table.splitlines()) + "\n"
    pathlib.Path("turned.csv").write_text(turned)
    for data in ('{"type": "csv", "file": "turned.csv"}', "turned.csv", "houses.csv"):
        assert abs(rmse("--data", data)[0] - expected) < 1e-6 * expected, data
    assert abs(rmse("--data", "-", given=turned)[0] - expected) < 1e-6 * expected
    error = rmse("--data", "-", given=turned.replace("Oslo", "Berlin"))[1]
    assert "column 'city': 20 values are not among" in error, error
    _, error = run("eval", "houses", "--data", "-", given="size,city\n1,Rome\n", code=3)
    assert "the column 'price' is missing" in error, error
    assert "there is no such file" in run("eval", "houses", "--data", "none.csv", code=2)[1]


def a_bad_row_ends_nothing_but_itself():
    """A number that is none, a gap and a value too few: told with line and column; the others keep their places."""
    rows = ["size,city,id", "47,Rome,1", "big,Oslo,2", ",Rome,3", "47,Rome,4"]
    pathlib.Path("bad.csv").write_text("\n".join(rows) + "\n")
    expected = results("houses", "-", given="size,city\n47,Rome\n")[0]["values"]
    out, error = run("predict", "houses", "bad.csv", "--json", code=3)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["index"] for line in lines] == [0, 1, 2, 3] and lines[0]["values"] == lines[3]["values"] == expected, lines
    assert lines[1]["error"] == "bad.csv:3: column 'size': this is no number; got 'big', expected a number", lines[1]
    assert "bad.csv:4: column 'size': the value is missing; got ''; write one, or train again with missing = \"mean\"" in lines[2]["error"], lines[2]
    assert all(f"perigee: {lines[i]['error']}" in error for i in (1, 2)), error
    assert len(run("predict", "houses", "bad.csv", code=3)[0].splitlines()) == 2
    for workers in ([], ["--workers", "3"]):
        run("predict", "houses", "bad.csv", "--out", "bad.jsonl", *workers, code=3)
        assert [json.loads(line) for line in pathlib.Path("bad.jsonl").read_text().splitlines()] == lines, workers
        run("predict", "houses", "bad.csv", "--out", "foretold.csv", *workers, code=3)
        table = pathlib.Path("foretold.csv").read_text().splitlines()
        assert table[0] == "file,index,price" and table[2:4] == ["bad.csv,1,", "bad.csv,2,"] and len(table) == 5, table
    run("predict", "houses", "bad.csv", "--out", "bad.npy", code=3)
    numbers = struct.unpack("<4f", pathlib.Path("bad.npy").read_bytes()[-16:])
    assert numbers[0] == numbers[3] and numbers[1] != numbers[1] and numbers[2] != numbers[2], numbers
    pathlib.Path("worse.csv").write_text("size,city\nbig,Rome\n")
    assert "worse.csv:2: column 'size': this is no number" in run("predict", "houses", "worse.csv", code=3)[1]
    error = run("-e", 'pg.load_model("houses"):predict "bad.csv"', code=1)[1]
    assert "column 'size': this is no number" in error and "bad.csv:3" in error, error
    # The advice is followed: such a model fills in what is missing.
    job = json.loads(json.dumps(HOUSES))
    job["data"]["train"]["source"]["missing"] = "mean"
    pathlib.Path("fills.json").write_text(json.dumps(job))
    run("train", "fills.json", "--out", "fills", "--log", "json")
    assert [line["index"] for line in results("fills", "bad.csv", code=3) if "values" in line] == [0, 2, 3]
    # A table that the job prepares by steps.
    source = {"type": "table", "file": "houses.csv", "target": "price", "drop": ["id"], "steps": [{"derive": {"twice": "2 * size"}}]}
    pathlib.Path("steps.json").write_text(json.dumps(HOUSES | {"data": {"batch": 20, "train": source}}))
    run("train", "steps.json", "--out", "steps", "--log", "json")
    pathlib.Path("typed.csv").write_text("\n".join(["id,size,city", "1,47,Rome", "2,big,Oslo", "3,47,Rome"]) + "\n")
    lines = results("steps", "typed.csv", code=3)
    assert [line["index"] for line in lines] == [0, 1, 2] and lines[0]["values"] == lines[2]["values"], lines
    assert lines[1]["error"].startswith("typed.csv:3: the value does not fit the column 'size'; got 'big', expected an integer"), lines[1]


def bad_rows_of_a_table_with_steps_are_told():
    """As many as there are, of text and of JSON; what nothing reads may be anything."""
    source = {"type": "table", "file": "houses.csv", "target": "price", "drop": ["id"], "steps": [{"derive": {"twice": "2 * size"}}]}
    pathlib.Path("stepped.json").write_text(json.dumps(HOUSES | {"data": {"batch": 20, "train": source}}))
    run("train", "stepped.json", "--out", "stepped", "--log", "json")
    expected = results("stepped", "-", given="id,size,city\n1,47,Rome\n")[0]["values"]
    rows = [f"{i},big,Rome" for i in range(150)] + ["150,47,Rome"]
    pathlib.Path("many.csv").write_text("\n".join(["id,size,city", *rows]) + "\n")
    out, error = run("predict", "stepped", "many.csv", "--json", code=3)
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 151 and all("error" in line for line in lines[:150]) and lines[150]["values"] == expected, lines[-1:]
    assert lines[149]["error"].startswith("many.csv:151: the value does not fit"), lines[149]
    assert error.count("does not fit") == 20 and "many.csv: 130 more rows cannot be read" in error, error
    records = [{"id": 1, "size": 47, "city": "Rome"}, {"id": 2, "size": "big", "city": "Rome"}, {"id": 3, "city": "Rome"},
               {"id": "four", "size": 47, "city": "Rome", "price": "soon"}]
    pathlib.Path("typed.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    lines = results("stepped", "typed.jsonl", code=3)
    assert [line["index"] for line in lines] == [0, 1, 2, 3] and lines[0]["values"] == lines[3]["values"] == expected, lines
    assert "the value does not fit the column 'size'; got 'big', expected an integer" in lines[1]["error"], lines[1]
    assert "the record lacks 'size'; null says that a value is not known" in lines[2]["error"], lines[2]
    pathlib.Path("unread.csv").write_text("id,size,city,price\n1,47,Rome,soon\nfour,47,Rome,7\n")
    assert [line["values"] for line in results("stepped", "unread.csv")] == [expected] * 2


def a_loaded_model_predicts_as_the_program():
    pathlib.Path("one.csv").write_text("size,city\n47,Rome\n")
    expected = results("houses", "one.csv")[0]["values"][0]
    for records in ('{ size = 47, city = "Rome" }', '"one.csv"'):
        code = f'r = pg.load_model("houses"):predict({records}); print((r[1] or r).values[1])'
        assert abs(float(run("-e", code)[0]) - expected) < 1e-4, records
    assert "takes the name of a file, or columns by name; got" in run("-e", 'pg.load_model("houses"):predict(7)', code=1)[1]
    assert "the column 'size' is missing" in run("-e", 'pg.load_model("houses"):predict { city = "Rome" }', code=1)[1]


def a_model_of_ctc_answers_with_labels():
    pathlib.Path("signals.json").write_text(json.dumps([{"x": SIGNALS["x"][i], "n": SIGNALS["n"][i]} for i in (0, 1)]))
    first, second = results("reader", "signals.json")
    assert (first["labels"], first["text"], second["text"]) == ([1, 2, 1], "aba", "ba"), (first, second)
    assert len(first["values"]) == 24 and first["log_probability"] < 0 and "alternatives" not in first
    searched = results("reader", "signals.json", "--beams", "8")[0]
    assert searched["text"] == "aba" and len(searched["alternatives"]) == 7 and searched["log_probability"] > first["log_probability"], searched
    assert searched["log_probability"] > searched["alternatives"][0]["log_probability"]
    lines = run("predict", "reader", "signals.json", "--beams", "8", "--top", "2")[0].splitlines()
    assert lines[0].startswith("signals.json[0]: aba (log p -") and lines[0].count("log p") == 2, lines
    for more in ([], ["--workers", "2"]):
        run("predict", "reader", "signals.json", "--out", "labels.csv", *more)
        table = [line.split(",") for line in pathlib.Path("labels.csv").read_text().splitlines()]
        assert table[0] == ["file", "index", "labels", "log_probability"] and table[1][:3] == ["signals.json", "0", "aba"], table
    code = 'for _, r in ipairs(pg.load_model("reader"):predict("signals.json", { beams = 4 })) do print(r.text, #r.labels, r.labels[1], #r.alternatives) end'
    assert run("-e", code)[0].split() == ["aba", "3", "1", "3", "ba", "2", "2", "3"]
    assert "texts are made by perigee generate" in run("predict", "houses", "houses.csv", "--beams", "2", code=2)[1]


def models_of_packed_rows_read_texts():
    for count in (2, 3, 4, 5):
        words = [CIRCLE[t % 4] for t in range(count)]
        pathlib.Path("said.txt").write_text(" ".join(words))
        values = results("rows", "said.txt")[0]["values"]  # a score of each class, first of all steps of "even"
        assert (values[count - 1] > 0.9) == (count % 2 == 0), (count, values)
        assert values[count - 1] > 0.9 or values[16 + count - 1] > 0.9, values
    # A row that is given as it is has the same answer.
    model = pathlib.Path("rows/model.safetensors").read_bytes()
    known = json.loads(json.loads(model[8:8 + int.from_bytes(model[:8], "little")])["__metadata__"]["fitted"])["vocabulary"]
    lists = [[1 + known.index(word) for word in words], [1] * 5]
    x, s = ("{" + ", ".join(str(n) for n in each + [0] * 11) + "}" for each in lists)
    code = f'r = pg.load_model("rows"):predict {{ x = {x}, n = 5, s = {s} }}; print(table.concat((r[1] or r).values, " "))'
    for got, expected in zip(run("-e", code)[0].split(), values):
        assert abs(float(got) - expected) < 1e-5, (got, expected)


def models_of_packed_rows_go_on_with_texts():
    said = lambda *more: run("generate", "goes_on", "--prompt", *more)[0]
    for start in range(4):
        after = "".join(" " + CIRCLE[(start + t) % 4] for t in (2, 3, 4))
        prompt = CIRCLE[start] + " " + CIRCLE[(start + 1) % 4]
        assert said(prompt, "--tokens", "3", "--temperature", "0") == after + "\n", start
        assert said(prompt, "--tokens", "3", "--beams", "3") == after + "\n", start
    # No sentence was so long: the last six words count, as many as the source cuts sentences to.
    assert said(" ".join(CIRCLE * 3), "--tokens", "5", "--temperature", "0") == " one two three four one\n"
    code = 'print(pg.load_model("goes_on"):generate { prompt = "four", tokens = 2, temperature = 0 })'
    assert run("-e", code)[0].strip() == "one two"
    error = run("generate", "rows", "--prompt", "one", code=2)[1]
    assert "or on 'packed' documents with 'next' as the target" in error, error


CHECKS = [columns_go_by_name, a_standardized_target_is_foretold_in_its_unit, a_loaded_model_predicts_as_the_program, missing_columns_are_all_named, unknown_categories_are_counted_at_the_end,
          each_output_has_the_class_names_of_its_label, a_broken_file_ends_no_batch, a_bad_row_ends_nothing_but_itself, bad_rows_of_a_table_with_steps_are_told, folders_are_their_files, pictures_are_fitted_as_in_training, results_go_to_a_file, inner_layers_by_name,
          models_of_packed_rows_read_texts, models_of_packed_rows_go_on_with_texts, a_model_of_ctc_answers_with_labels, eval_reads_other_data_by_the_job]


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="perigee-predict-") as folder:
        os.chdir(folder)
        prepare()
        for number, check in enumerate(CHECKS, 1):
            try:
                check()
                print(f"ok {number} {check.__name__}")
            except AssertionError as problem:
                failed += 1
                print(f"not ok {number} {check.__name__}\n# {problem!r}")
        os.chdir("/")
    print(f"1..{len(CHECKS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
