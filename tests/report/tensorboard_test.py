#!/usr/bin/env python3
"""What TensorBoard shows of a run: tensorboard_test.py PROGRAM. Prints TAP. The event files are read here by the rules of protobuf's wire format, and,
where PyPI's `tensorboard` is installed, by its own reader as well.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
JOB = {
    "name": "boards", "seed": 3, "epochs": 3, "optimizer": {"type": "adam", "lr": 0.01}, "loss": "cross_entropy",
    "network": [{"type": "conv2d", "out": 4, "kernel": 3, "activation": "relu"}, {"type": "dense", "out": 10, "name": "head"}],
    "data": {"batch": 32, "train": {"type": "digits", "size": 256}, "test": {"type": "digits", "part": "test", "size": 64}},
}
PARAMETERS = ["conv1.bias", "conv1.weight", "head.bias", "head.weight"]
checks = []


def check(name, good, shown=""):
    checks.append((name, bool(good), shown))


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    """{field: [values]} of a message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind, field = key & 7, key >> 3
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = struct.unpack("<d" if kind == 1 else "<f", data[at:at + size])[0], at + size
        found.setdefault(field, []).append(value)
    assert at == len(data)
    return found


def read(folder):
    """(values as (tag, step, message), nodes of the graph as {name: (kind, inputs)})"""
    values, graph = [], {}
    for path in sorted(pathlib.Path(folder, "tensorboard").iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = struct.unpack("<Q", data[at:at + 8])[0]
            event = fields(data[at + 12:at + 12 + size])
            at += 16 + size
            for value in fields(event[5][0])[1] if 5 in event else []:
                message = fields(value)
                values.append((message[1][0].decode(), event.get(2, [0])[0], message))
            for node in fields(event[4][0])[1] if 4 in event else []:
                node = fields(node)
                graph[node[1][0].decode()] = (node[2][0].decode(), [each.decode() for each in node.get(3, [])])
    return values, graph


def train(name, more=None, **changes):
    job = JOB | changes | {"log": more} if more is not None else JOB | changes
    pathlib.Path(f"{name}.json").write_text(json.dumps(job))
    done = subprocess.run([PROGRAM, "train", f"{name}.json", "--out", name, "--threads", "1", "--log", "json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def tensors(run):
    """The numbers of its model: what follows the head."""
    data = pathlib.Path(run, "model.safetensors").read_bytes()
    return data[8 + struct.unpack("<Q", data[:8])[0]:]


def check_histograms(values):
    steps = [8, 16, 24]
    for part in ("parameters", "gradients"):
        found = {}
        for tag, step, message in values:
            if tag.startswith(part + "/"):
                found.setdefault(tag[len(part) + 1:], []).append((step, fields(message[5][0])))
        check(f"{part}: each has a histogram after each epoch", sorted(found) == PARAMETERS and
              all([step for step, _ in each] == steps for each in found.values()), {name: [step for step, _ in each] for name, each in found.items()})
        wrong = []
        for name, each in found.items():
            for _, histogram in each:
                limits, counts = (struct.unpack(f"<{len(histogram[i][0]) // 8}d", histogram[i][0]) for i in (6, 7))
                low, high, number, total, squares = (histogram[i][0] for i in (1, 2, 3, 4, 5))
                elements = {"conv1.bias": 4, "conv1.weight": 36, "head.bias": 10}.get(name, number)
                good = number == elements == sum(counts) and list(limits) == sorted(set(limits)) and limits[-1] > high and abs(total) <= number * max(-low, high)
                good = good and squares <= number * max(low * low, high * high) * 1.0001 and (counts[0] == 0 or limits[0] > low)
                wrong += [] if good else [(name, number, sum(counts), low, high, limits[:3], limits[-1])]
        check(f"{part}: counts, limits and sums agree", not wrong, wrong[:3])
    moved = [fields(message[5][0])[4][0] for tag, _, message in values if tag == "parameters/head.weight"]
    check("the parameters move", len(set(moved)) == 3, moved)
    flat = [fields(message[5][0])[5][0] for tag, _, message in values if tag == "gradients/head.weight"]
    check("a mean gradient is neither nothing nor a sum", all(1e-9 < each < 10 for each in flat), flat)


def check_pictures(values):
    examples = [fields(message[4][0]) for tag, step, message in values if tag.startswith("examples/x/") and step == 0]
    check("eight training examples are shown", len(examples) == 8 and all(each[4][0].startswith(b"\x89PNG") for each in examples), len(examples))
    check("an image says how large it is", all((each[1][0], each[2][0]) == struct.unpack(">II", each[4][0][16:24])[::-1] == (28, 28) for each in examples))
    check("the confusion matrix is shown after each epoch", [step for tag, step, _ in values if tag == "confusion"] == [8, 16, 24])


def check_facts(values, graph):
    check("the layers are a graph", graph == {"x": ("input", []), "conv1": ("conv2d", ["x"]), "head": ("dense", ["conv1"])}, graph)
    start = next(message for tag, _, message in values if tag == "_hparams_/session_start_info")
    plugin = fields(fields(start[9][0])[1][0])
    entries = {fields(each)[1][0].decode(): fields(fields(each)[2][0]) for each in fields(fields(plugin[2][0])[3][0])[1]}
    check("the settings are compared by TensorBoard", plugin[1] == [b"hparams"] and entries["optimizer.lr"] == {2: [0.01]} and
          entries["loss"] == {3: [b"cross_entropy"]} and "network" not in " ".join(entries), entries)


def check_by_tensorboard():
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        checks.append(("TensorBoard reads the file # SKIP PyPI's tensorboard is not installed", True, ""))
        return
    reader = EventAccumulator("shown/tensorboard", size_guidance={"images": 0, "histograms": 0}).Reload()
    tags = reader.Tags()
    wanted = [f"{part}/{name}" for part in ("gradients", "parameters") for name in PARAMETERS]
    check("TensorBoard reads the histograms", sorted(tags["histograms"]) == wanted and len(reader.Histograms("gradients/head.weight")) == 3, tags)
    check("TensorBoard reads the images", len([tag for tag in tags["images"] if tag.startswith("examples/")]) == 8 and "confusion" in tags["images"], tags)
    check("TensorBoard reads the graph", [node.name for node in reader.Graph().node] == ["x", "conv1", "head"])
    check("TensorBoard reads the settings", reader.summary_metadata["_hparams_/session_start_info"].plugin_data.plugin_name == "hparams")


def main():
    with tempfile.TemporaryDirectory(prefix="perigee-boards-") as folder:
        os.chdir(folder)
        train("shown", {"histograms": 1})
        values, graph = read("shown")
        check_histograms(values)
        check_pictures(values)
        check_facts(values, graph)
        check_by_tensorboard()
        train("plain", {"histograms": 0, "images": 0})
        tags = {tag for tag, _, _ in read("plain")[0]}
        check("without them there are figures alone", not any(tag.split("/")[0] in ("parameters", "gradients", "examples", "confusion") for tag in tags), tags)
        train("none", {"tensorboard": False})
        check("tensorboard = false writes no event file", not pathlib.Path("none/tensorboard").exists())
        check("the model is the same with and without", tensors("shown") == tensors("plain") and len(tensors("plain")) > 1000)
        log = [[json.loads(line).get("loss") for line in pathlib.Path(name, "log.jsonl").read_text().splitlines()] for name in ("shown", "plain")]
        check("the run is the same with and without", log[0] == log[1] and any(log[0]), log)
        train("short", epochs=1)
        tags = {tag for tag, _, _ in read("short")[0]}
        check("a run that was too short for its share has its parameters at the end", "parameters/head.weight" in tags, tags)
    print(f"1..{len(checks)}")
    for number, (name, good, shown) in enumerate(checks, 1):
        print(f"{'ok' if good else 'not ok'} {number} {name}" + ("" if good else f"\n# {shown}"))
    return 0 if all(good for _, good, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
