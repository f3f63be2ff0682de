#!/usr/bin/env python3
"""`perigee train` with keys that change how it trains, on one machine and on several workers, and on one job several times (--folds, --seeds)
or not at all (--dry-run); pg.find_rate. training_test.py PROGRAM. Prints TAP."""
import json
import os
import pathlib
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
# The figure improves once, against nothing, and never again by so much: the rate falls after each further epoch.
PLATEAU = {"metric": "train.loss", "patience": 1, "min_improvement": 100, "factor": 0.5}
JOB = {
    "network": [{"type": "conv2d", "out": 2, "kernel": 5, "stride": 2, "name": "conv"}, {"type": "batchnorm", "name": "bn", "trainable": False},
                {"type": "dense", "out": 10}],
    "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.08}, "epochs": 4, "seed": 3, "threads": 1, "reduce_on_plateau": PLATEAU,
    "averaging": {"type": "periodic", "every": 2}, "data": {"batch": 8, "train": {"type": "digits", "size": 96}},
}


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def write(name, **changes):
    pathlib.Path(name).write_text(json.dumps({**JOB, **changes}))


SMALL = {
    "network": [{"type": "flatten"}, {"type": "dense", "out": 10}], "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.1}, "epochs": 2,
    "seed": 3, "threads": 1,
    "data": {"batch": 16, "train": {"type": "map", "transforms": [{"type": "shift", "pixels": 1}], "source": {"type": "digits", "size": 103}}},
}
TESTED = {"batch": 16, "train": {"type": "digits", "size": 64}, "test": {"type": "digits", "size": 50, "seed": 9}}


def write_small(name, **changes):
    pathlib.Path(name).write_text(json.dumps({**SMALL, **changes}))


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def tree():
    return sorted(str(path) for path in pathlib.Path(".").rglob("*"))


def folds_are_tested_on_what_they_were_not_trained_on():
    write_small("job.json")
    text = run("train", "job.json", "--folds", "3", "--out", "folds", "--log", "plain")
    summary = read("folds/summary.json")
    losses = [each["figures"]["test.loss"] for each in summary["runs"]]
    assert [each["run"] for each in summary["runs"]] == ["fold-1", "fold-2", "fold-3"], summary
    assert len(set(losses)) == 3, losses
    loss = summary["figures"]["test.loss"]
    assert abs(loss["mean"] - statistics.mean(losses)) < 1e-12 and abs(loss["deviation"] - statistics.stdev(losses)) < 1e-12, loss
    assert re.search(r"\nmean +[\d.]+ +[\d.]+ %", text) and re.search(r"\ndeviation +[\d.e-]+ +[\d.]+ %", text), text
    assert len(re.findall(r"^fold-\d, run \d of 3: test.loss [\d.]+, test.accuracy [\d.]+ %", text, re.M)) == 3, text
    # Progress has a line every five seconds.
    more = [line for line in text.splitlines() if not re.match(r"fold-\d, run|epoch \d+ step|mean|deviation| +test\.|runs are in", line)]
    assert not more, f"a run has one line; more are {more}"
    data = read("folds/fold-2/job.json")["data"]
    assert data["train"]["type"] == "map" and data["train"]["source"]["part"] == "train" and data["train"]["source"]["stratified"], data
    still = {"type": "scale", "factor": 1, "field": "x"}  # nothing random is left
    assert data["test"]["transforms"] == [still] and data["test"]["source"]["part"] == "test" and data["test"]["source"]["fold"] == 1, data
    assert pathlib.Path("folds/fold-3/model.safetensors").exists()
    run("report", "folds")
    assert all(f"fold-{k}" in pathlib.Path("folds/report.html").read_text() for k in (1, 2, 3))
    run("train", "job.json", "--folds", "3", "--no-stratify", "--out", "chance", "--log", "json")
    assert "stratified" not in read("chance/fold-1/job.json")["data"]["train"]["source"]


def seeds_are_those_of_single_runs():
    write_small("job.json", data=TESTED)
    events = [json.loads(line) for line in run("train", "job.json", "--seeds", "2", "--out", "seeds", "--log", "json").splitlines()]
    assert [event["run"] for event in events if event["event"] == "repeat"] == ["seed-3", "seed-4"], events
    assert events[-1]["event"] == "summary" and events[-1] == read("seeds/summary.json"), events[-1]
    run("train", "job.json", "--seed", "4", "--out", "one", "--log", "json")
    assert pathlib.Path("seeds/seed-4/model.safetensors").read_bytes()[-4000:] == pathlib.Path("one/model.safetensors").read_bytes()[-4000:]
    run("train", "job.json", "--seeds", "4,9", "--folds", "2", "--out", "list", "--log", "json")
    names = [each["run"] for each in read("list/summary.json")["runs"]]
    assert names == ["fold-1-seed-4", "fold-2-seed-4", "fold-1-seed-9", "fold-2-seed-9"], names


def workers_make_several_runs():
    write_small("job.json", data=TESTED, averaging="allreduce")
    text = run("train", "job.json", "--folds", "2", "--workers", "2", "--out", "several", "--log", "plain")
    summary = read("several/summary.json")
    losses = [each["figures"]["test.loss"] for each in summary["runs"]]
    assert len(set(losses)) == 2 and abs(summary["figures"]["test.loss"]["mean"] - statistics.mean(losses)) < 1e-12, summary
    assert re.search(r"\nmean +[\d.]+", text) and re.search(r"\ndeviation +[\d.e-]+", text), text
    for fold in ("fold-1", "fold-2"):
        assert pathlib.Path("several", fold, "ledger").stat().st_size > 0 and pathlib.Path("several", fold, "model.safetensors").exists(), fold
        run("ledger", f"several/{fold}")
    run("train", "job.json", "--seeds", "2", "--workers", "2", "--out", "sown", "--log", "json")
    assert [each["run"] for each in read("sown/summary.json")["runs"]] == ["seed-3", "seed-4"]
    run("train", "job.json", "--seed", "4", "--workers", "2", "--out", "sown-one", "--log", "json")
    assert read("sown/seed-4/result.json")["figures"]["test.loss"] == figures("sown-one")["test"]["loss"], "as the run alone"
    write_small("job.json", data=TESTED, swa={}, averaging="easgd")
    before = tree()
    assert "swa" in run("train", "job.json", "--seeds", "2", "--workers", "2", code=2)
    assert tree() == before, "what is refused leaves no folder"


def interrupted(folder):
    """Trains in 2 folds and interrupts the second one; None when it was too fast."""
    begun = subprocess.Popen([PROGRAM, "train", "job.json", "--folds", "2", "--out", folder, "--log", "plain"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + 60
    while not pathlib.Path(folder, "fold-2/log.jsonl").exists() and begun.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    begun.send_signal(signal.SIGINT)
    text = begun.communicate(timeout=60)[0]
    if begun.returncode == 0:
        return None
    assert begun.returncode == 130, (begun.returncode, text)
    return text


def an_interrupted_repetition_goes_on():
    write_small("job.json", epochs=400)
    run("train", "job.json", "--folds", "2", "--out", "whole", "--log", "json")
    text = interrupted("cut")
    if text is not None:
        assert "not finished: fold-2" in text and "continue with: perigee train job.json --folds 2 --resume cut" in text, text
        assert re.search(r"^fold-1, run 1 of 2: test\.loss [\d.]+", text, re.M), text
        summary = read("cut/summary.json")
        assert summary["stopped"] == "interrupted" and summary["missing"] == ["fold-2"], summary
    first, goes_on = os.stat("cut/fold-1/model.safetensors").st_mtime_ns, text is not None and any(pathlib.Path("cut/fold-2/checkpoints").glob("*"))
    run("train", "--resume", "cut", "--log", "json")
    assert os.stat("cut/fold-1/model.safetensors").st_mtime_ns == first, "a finished run is taken over"
    starts = [line for line in pathlib.Path("cut/fold-2/log.jsonl").read_text().splitlines() if json.loads(line)["event"] == "start"]
    assert len(starts) == (2 if goes_on else 1), "a run that was begun goes on"
    runs = [[each["figures"]["test.loss"] for each in read(f"{folder}/summary.json")["runs"]] for folder in ("whole", "cut")]
    assert runs[0] == runs[1], runs


def a_dry_run_makes_no_folder():
    write_small("job.json", data=TESTED, epochs=5)
    before = tree()
    text = run("train", "job.json", "--dry-run")
    for words in ("memory [\\d.]+ [KM]iB", "a step takes [\\d.e-]+ ms", "on the first 50: +loss", "would train 20 steps \\(5 epochs\\)", "there is no run folder"):
        assert re.search(words, text), (words, text)
    result = json.loads(run("train", "job.json", "--dry-run", "--folds", "3", "--log", "json"))
    assert result["event"] == "dry_run" and result["runs"] == 3 and result["examples"] in (42, 43) and result["run_s"] > 0, result
    assert tree() == before
    run("train", "job.json", "--steps", "1", "--out", "one", "--log", "json")
    first = [json.loads(line) for line in pathlib.Path("one/log.jsonl").read_text().splitlines()]
    assert "already holds a run" in run("train", "job.json", "--dry-run", "--out", "one", code=2)
    told = json.loads(run("train", "job.json", "--dry-run", "--log", "json"))
    assert told["loss"] == [event["loss"] for event in first if event["event"] == "step"][0], told
    write_small("wrong.json", metrics=["rocc"])
    assert "did you mean 'roc'" in run("train", "wrong.json", "--dry-run", code=4)
    write_small("wrong.json", checkpoint={"every_epoch": 1})
    assert "did you mean 'every_epochs'" in run("train", "wrong.json", "--dry-run", code=4)


def a_dry_run_tells_how_long_a_run_is():
    # An epoch of 103 examples ends with a step of 7.
    for number, changes in enumerate(({}, {"steps": 9}, {"epochs": 5, "steps": 11}, {"epochs": None, "steps": 30})):
        write_small("job.json", **changes)
        run("train", "job.json", "--out", str(number), "--log", "json")
        told, made = json.loads(run("train", "job.json", "--dry-run", "--log", "json"))["steps"], figures(str(number))["steps"]
        assert told == made, (changes, told, made)
    write_small("job.json")
    result = json.loads(run("train", "job.json", "--dry-run", "--seeds", "4", "--log", "json"))
    assert abs(result["run_s"] - 4 * result["steps"] * result["step_s"]) < 1e-9, result
    write_small("job.json", data={**TESTED, "test": {"type": "digits", "size": 300, "seed": 9}})
    result = json.loads(run("train", "job.json", "--dry-run", "--seeds", "4", "--log", "json"))
    assert (result["test"]["examples"], result["test"]["judged"]) == (300, 256), result
    assert 4 * result["steps"] * result["step_s"] < result["run_s"] < 100, result  # four runs, and what judging takes


def a_run_without_a_page_has_it_later():
    write_small("job.json", data=TESTED, report=False)
    run("train", "job.json", "--out", "run", "--log", "json")
    assert not pathlib.Path("run/report.html").exists() and pathlib.Path("run/curves.svg").exists()
    run("report", "run")
    late = pathlib.Path("run/report.html").read_text()
    write_small("job.json", data=TESTED)
    run("train", "job.json", "--out", "other", "--log", "json")
    assert late.count("<svg") == pathlib.Path("other/report.html").read_text().count("<svg") > 0


def the_rate_that_is_found_is_where_the_mean_falls_fastest():
    """As Lightning's lr_find: means that forget, as if they had begun in full; the least of their differences, without the first tenth."""
    pathlib.Path("find.lua").write_text("""local pg = require "perigee"
local found = pg.find_rate(pg.experiment {
  network = pg.sequential { pg.flatten {}, pg.dense { 10 } }, loss = "cross_entropy", optimizer = "sgd", seed = 3, threads = 1,
  data = { batch = 20, train = pg.data.digits { size = 200 }.train },
}, { from = 1e-5, to = 10, steps = 100 })
local losses = {}
for step, loss in ipairs(found.losses) do losses[step] = ("%.17g"):format(loss) end
print(table.concat(losses, " "))
print(("%.17g"):format(found.suggestion))
""")
    lines = subprocess.run([PROGRAM, "repl", "find.lua"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100).stdout.splitlines()
    losses, mean, smooth = [float(word) for word in lines[0].split()], 0.0, []
    for step, loss in enumerate(losses):
        mean = 0.95 * mean + 0.05 * loss
        smooth.append(mean / (1 - 0.95 ** (step + 1)))
    least = smooth.index(min(smooth))
    slopes = {step: (smooth[step + 1] - smooth[step - 1]) / 2 for step in range(10, min(least, len(smooth) - 2) + 1)}
    best = min(slopes, key=slopes.get)
    assert abs(float(lines[1]) / (1e-5 * 1e6 ** (best / 99)) - 1) < 1e-6, (lines[1], best, least)


def rates(folder):
    """The rate that each epoch ended with."""
    events = [json.loads(line) for line in pathlib.Path(folder, "log.jsonl").read_text().splitlines()]
    last = {event["epoch"]: event["learning_rate"] for event in events if event["event"] == "step"}
    return [last[epoch] for epoch in sorted(last)]


def the_rate_falls_and_the_display_says_so():
    write("job.json")
    text = run("train", "job.json", "--out", "run", "--log", "plain")
    assert rates("run") == [0.08, 0.08, 0.04, 0.02], rates("run")
    assert "the learning rate falls to 0.5 of what the job says" in text, text


def workers_are_told_the_rate():
    write("job.json")
    run("train", "job.json", "--workers", "2", "--out", "cluster", "--log", "json")
    assert rates("cluster") == [0.08, 0.08, 0.04, 0.02], rates("cluster")
    run("train", "job.json", "--resume", "cluster", "--epochs", "6", "--log", "json")  # goes on alone or not: the run knows
    assert rates("cluster")[-1] < 0.02, rates("cluster")


def what_workers_cannot_have_is_refused():
    write("job.json", optimizer={"type": "sgd", "lr": 0.08, "bias_lr": 0.1})
    assert "does not go with a learning rate of biases in a cluster" in run("train", "job.json", "--workers", "2", code=4)
    write("job.json", optimizer={"type": "noop"})
    assert "needs an optimiser with a learning rate" in run("train", "job.json", "--workers", "2", code=4)
    points = {str(step): 0.1 / (1 + step) for step in range(200)}
    write("job.json", optimizer={"type": "sgd", "lr": {"type": "map", "values": points, "by": "step"}})
    assert "schedule is too long to be told to workers" in run("train", "job.json", "--workers", "2", code=4)


PLAIN = {"reduce_on_plateau": None, "network": JOB["network"][:1] + JOB["network"][2:]}


def figures(folder):
    events = [json.loads(line) for line in pathlib.Path(folder, "log.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "end"][-1]


def workers_accumulate():
    """A step of a policy of gradients is that of the large batch, and local steps are counted by updates."""
    for name, averaging in (("sum", "allreduce"), ("local", {"type": "periodic", "every": 2})):
        write("parts.json", accumulate=3, averaging=averaging, **PLAIN)
        write("large.json", averaging=averaging, **{**PLAIN, "data": {**JOB["data"], "batch": 24}})
        for job in ("parts", "large"):
            run("train", f"{job}.json", "--workers", "2", "--out", f"{job}-{name}", "--log", "json")
        parts, large = figures(f"parts-{name}"), figures(f"large-{name}")
        assert parts["steps"] == large["steps"] and parts["steps"] in (4, 8), (parts, large)
        a, b = (struct.unpack("<1024f", pathlib.Path(f"{job}-{name}/model.safetensors").read_bytes()[-4096:]) for job in ("parts", "large"))
        assert max(abs(x - y) for x, y in zip(a, b)) < 1e-4 and max(map(abs, a)) > 1e-2, name
    normed = [JOB["network"][0], {"type": "batchnorm"}, JOB["network"][2]]
    write("job.json", accumulate=3, reduce_on_plateau=None, network=normed)
    run("train", "job.json", "--workers", "2", "--out", "normed", "--log", "json")
    write("job.json", accumulate=3, reduce_on_plateau=None, network=normed, averaging="allreduce")
    assert "takes a step in parts" in run("train", "job.json", "--workers", "2", code=4)


def an_average_is_what_a_run_leaves():
    for key in ("ema", "swa"):
        write("job.json", **{**PLAIN, key: {}, "data": {**JOB["data"], "test": {"type": "digits", "size": 64, "part": "test"}}})
        run("train", "job.json", "--out", key, "--log", "json")
        judged = json.loads(run("eval", key, "--log", "json").splitlines()[-1])
        assert abs(judged["test"]["loss"] - figures(key)["test"]["loss"]) < 1e-6, key


def numbers_in(path, prefix=""):
    """The tensors of float32 in a model file whose names begin so; without a prefix those of the model."""
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, about in json.loads(raw[8:8 + size]).items():
        of_model = not name.startswith(("__metadata__", "optimizer/", "training/", "outer/"))
        if (name.startswith(prefix) if prefix else of_model) and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            tensors[name[len(prefix):]] = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + size + begin:8 + size + end])
    return tensors


def average_of(results, examples, share_of):
    """The average of results of rounds of so many examples: average += share * (numbers - average), by the examples before and after each."""
    average, count = {}, 0
    for index, numbers in enumerate(results):
        share = share_of(index * examples, (index + 1) * examples, count)
        if not share:
            continue
        count += 1
        for name, now in numbers.items():
            average[name] = [old + share * (new - old) for old, new in zip(average.get(name, now), now)]
    return average


def workers_average_the_results_of_rounds():
    """The truth is worked out here, from runs without an average that end after each of the rounds."""
    size, batch = JOB["data"]["train"]["size"], JOB["data"]["batch"]
    shares = {"ema": lambda before, after, count: 0.25 if count else 1,
              "swa": lambda before, after, count: 1 / (count + 1) if before >= size and after // size > before // size else 0}
    batches, results = 2, []  # of a round
    job = {**PLAIN, "averaging": "allreduce", "epochs": 3}
    write("job.json", **job)
    for steps in range(batches, 3 * size // batch + 1, batches):
        run("train", "job.json", "--workers", "2", "--steps", str(steps), "--out", f"plain-{steps}", "--log", "json")
        results.append(numbers_in(f"plain-{steps}/model.safetensors"))

    def averaged(folder, **options):
        write("job.json", **{**job, **options})
        run("train", "job.json", "--workers", "2", "--out", folder, "--log", "json")
        last = sorted(pathlib.Path(folder, "checkpoints").glob("step-*.safetensors"))[-1]
        return numbers_in(f"{folder}/model.safetensors"), numbers_in(last, "training/")

    for key, options in (("ema", {"decay": 0.75}), ("swa", {"from_epoch": 2})):
        got, trained = averaged(key, **{key: options})
        expected = average_of(results, batches * batch, shares[key])
        assert got.keys() == expected.keys() and got, (got.keys(), expected.keys())
        for tensor, values in expected.items():
            assert max(abs(a - b) for a, b in zip(got[tensor], values)) < 1e-5, (key, tensor)
        assert trained == results[-1], "what trains has the bits of the run without an average"
    # How long rounds of local steps are depends on the workers' pace. A decay of 0 makes the average the last result.
    local = {"averaging": {"type": "periodic", "every": 2}}
    got, trained = averaged("last", ema={"decay": 0}, **local)
    assert got == {name: trained[name] for name in got} and got
    got, trained = averaged("local", ema={"decay": 0.75}, **local)
    assert all(got[name] != trained[name] for name in ("conv.weight", "dense1.weight")), got.keys()
    write("job.json", **{**PLAIN, "ema": {}, "averaging": "easgd"})
    assert "averages the results of rounds, which all workers have" in run("train", "job.json", "--workers", "2", code=2)


def mixed_examples_train():
    one_hot = {"type": "map", "transforms": [{"type": "one_hot"}], "source": {"type": "digits", "size": 64, "part": "test"}}
    for kind in ("mixup", "cutmix"):
        data = {"batch": 8, "train": {"type": kind, "source": JOB["data"]["train"]}, "test": one_hot}
        write("job.json", **{**PLAIN, "data": data, "metrics": ["classification"], "optimizer": {"type": "adam", "lr": 0.01}, "epochs": 8})
        run("train", "job.json", "--out", kind, "--log", "json")
        assert figures(kind)["test"]["accuracy"] > 0.4, figures(kind)
        write("job.json", **{**PLAIN, "data": {**data, "test": one_hot["source"]}})
        assert "one_hot" in run("train", "job.json", code=3), kind


def a_scripts_data_are_found_by_all_that_read():
    os.makedirs("sub/shared")
    pathlib.Path("sub/rows.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    pathlib.Path("sub/shared/more.csv").write_text("a,y\n1,0\n2,1\n3,0\n4,1\n")
    script = """local pg = require "perigee"
for line in io.lines(pg.data_path "NAME") do assert(#line == 3) end
return pg.experiment { network = pg.dense { 2 }, data = { train = pg.data.csv { pg.data_path "NAME" } }, loss = "cross_entropy", optimizer = "sgd" }
"""
    pathlib.Path("sub/job.lua").write_text(script.replace("NAME", "rows.csv"))
    pathlib.Path("sub/shared.lua").write_text(script.replace("NAME", "more.csv"))
    for shared, name, folder in (("", "job", "."), ("", "job", "sub"), ("sub/shared", "shared", "."), ("shared", "shared", "sub")):
        os.environ["PERIGEE_DATA"] = shared
        file = f"sub/{name}.lua" if folder == "." else f"{name}.lua"
        os.chdir(folder)
        try:
            run("train", file, "--steps", "1", "--log", "json")
        finally:
            if folder != ".":
                os.chdir("..")
    os.environ.pop("PERIGEE_DATA")


def padding_is_not_measured():
    padded = {"type": "arrays", "x": [[[1, 3, 99]], [[5, 99, 99]]], "y": [0, 1], "n": [2, 1]}
    data = {"batch": 2, "train": {"type": "map", "source": padded, "transforms": [{"type": "standardize"}]}, "lengths": {"x": "n"}}
    network = [{"type": "global_pool"}, {"type": "dense", "out": 2}]
    for workers in ((), ("--workers", "2")):
        write("job.json", reduce_on_plateau=None, network=network, data=data)
        folder = "padded" + "-".join(workers)
        run("train", "job.json", "--out", folder, "--log", "json", *workers)
        model = pathlib.Path(folder, "model.safetensors").read_bytes()
        size = struct.unpack("<Q", model[:8])[0]
        fitted = json.loads(json.loads(model[8:8 + size])["__metadata__"]["fitted"])
        assert fitted["transforms"][0]["mean"] == [3], fitted


def classes_are_balanced():
    pathlib.Path("rare.csv").write_text("a,y\n" + "".join(f"{i % 7 / 7},{int(i % 16 == 0)}\n" for i in range(64)))
    source = {"type": "csv", "file": "rare.csv", "target": "y"}
    for at in ("worker", "coordinator"):
        loss = {"type": "cross_entropy", "class_weight": "balanced"}
        write("job.json", reduce_on_plateau=None, network=[{"type": "dense", "out": 2}], loss=loss, data={"batch": 8, "train": source, "at": at})
        run("train", "job.json", "--workers", "2", "--out", at, "--log", "json")
        assert json.loads(pathlib.Path(at, "job.json").read_text())["loss"]["weights"] == [64 / 120, 8], at
    write("job.json", reduce_on_plateau=None, network=[{"type": "dense", "out": 2}], data={"batch": 8, "train": {"type": "balanced", "source": source}})
    run("train", "job.json", "--workers", "2", "--log", "json")


def main():
    os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", tempfile.mkdtemp(prefix="perigee-cache-"))
    tests = [the_rate_falls_and_the_display_says_so, workers_are_told_the_rate, what_workers_cannot_have_is_refused,
             folds_are_tested_on_what_they_were_not_trained_on, seeds_are_those_of_single_runs, workers_make_several_runs, an_interrupted_repetition_goes_on,
             a_dry_run_makes_no_folder, a_dry_run_tells_how_long_a_run_is, a_run_without_a_page_has_it_later, the_rate_that_is_found_is_where_the_mean_falls_fastest,
             workers_accumulate, workers_average_the_results_of_rounds, an_average_is_what_a_run_leaves, mixed_examples_train, classes_are_balanced, padding_is_not_measured, a_scripts_data_are_found_by_all_that_read]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        with tempfile.TemporaryDirectory(prefix="perigee-training-") as folder:
            os.chdir(folder)
            try:
                test()
                print(f"ok {number} - {test.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"not ok {number} - {test.__name__}\n# {error}")
            os.chdir("/")
    return failed != 0


sys.exit(main())
