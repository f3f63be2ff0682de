#!/usr/bin/env python3
"""What tests/gpu/run.sh asks of the program on a machine with a GPU, one check a call: checks.py NAME [ARGUMENT...].

The last line that a check prints is its remark in the table; exit status 0: it holds, 1: it does not, 77: not measured. $PERIGEE_PROGRAM is
the program, $PERIGEE_TRAIN_BENCH the one that measures, $PERIGEE_GPU_OUT a folder to write to. $PERIGEE_GPU_BRIEF makes what is trained
small, where a GPU is only imitated.
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

PROGRAM = os.environ["PERIGEE_PROGRAM"]
OUT = pathlib.Path(os.environ["PERIGEE_GPU_OUT"])
BRIEF = "PERIGEE_GPU_BRIEF" in os.environ
# Libraries that came with the program are not for anybody else's.
OWN = {"LD_LIBRARY_PATH": os.environ["PERIGEE_GPU_LIBRARIES"]} if "PERIGEE_GPU_LIBRARIES" in os.environ else {}
# LeNet without its second pooling, on digits that are drawn: no data set is needed.
NETWORK = [{"type": "conv2d", "out": 20, "kernel": 5, "activation": "relu"}, {"type": "maxpool", "kernel": 2},
           {"type": "conv2d", "out": 50, "kernel": 5, "stride": 2, "activation": "relu"}, {"type": "batchnorm"},
           {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}]


REFUSED = []  # what libraries would not do after all


class NotMeasured(Exception):
    pass


def job(name, **more):
    """The path of a job's file."""
    examples, batch, epochs = (64, 8, 1) if BRIEF else (8000, 64, 3)
    network = [{**NETWORK[0], "out": 4, "stride": 2}, *NETWORK[1:2], *NETWORK[3:]] if BRIEF else NETWORK
    text = {"network": network, "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.001}, "epochs": epochs, "seed": 1,
            "data": {"train": {"type": "digits", "size": examples}, "test": {"type": "digits", "size": examples // 4}, "batch": batch},
            **more}
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(text))
    return path


def perigee(*arguments, timeout=100, **environment):
    """(exit status, what it printed)"""
    done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env={**os.environ, **OWN, **environment})
    print(done.stdout)
    return done.returncode, done.stdout


def events(text, name):
    return [line for line in map(json.loads, (line for line in text.splitlines() if line.startswith("{"))) if line.get("event") == name]


def train(name, path, device, *more, **environment):
    """The last event, and the folder. AssertionError with the reason where it does not train."""
    folder = OUT / name
    status, text = perigee("train", path, "--device", device, "--log", "json", "--out", folder, *more, **environment)
    REFUSED.extend(re.findall(r"^warning: (.* runs on another kernel.*)$", text, re.M))
    assert status == 0, f"{name}: status {status}: {last_line(text)}"
    return events(text, "end")[-1], folder


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def tensors(folder):
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    begin = 8 + size
    places = {name: t["data_offsets"] for name, t in header.items() if name != "__metadata__"}
    return {name: data[begin + first:begin + last] for name, (first, last) in places.items()}


def accuracy(script, bar, *more):
    """LeNet on MNIST, as a user trains it."""
    if BRIEF:
        script, bar, more = job("lenet_brief"), 0, ()
    end, _ = train("lenet", script, "cuda:0", *more)
    reached = end["test"]["accuracy"]
    assert reached >= float(bar), f"accuracy {reached:.4f}, below {bar}"
    print(f"accuracy {reached:.4f} on the test part; at least {bar} is wanted")


def precision(name):
    """Trained in this precision the loss on the test part comes close to that of float32 on the CPU; and no library refuses a call that it
    was chosen for by its time."""
    path = job(name, precision=name)
    status, text = perigee("describe", path)
    if status != 0 and "unknown value" in text:
        raise NotMeasured(last_line(text))
    there, _ = train(name, path, "cuda:0")
    here, _ = train(f"{name}_on_cpu", job(f"{name}_on_cpu"), "cpu")
    got, wanted = there["test"]["loss"], here["test"]["loss"]
    assert got == got and got <= 1.1 * wanted + 0.03, f"test loss {got:.4f} where float32 on the CPU has {wanted:.4f}"
    assert not REFUSED, "; ".join(REFUSED)
    print(f"test loss {got:.4f}; float32 on the CPU has {wanted:.4f}")


def deterministic():
    path = job("deterministic", deterministic=True)
    models = []
    for turn in ("first", "second"):
        _, folder = train(f"deterministic_{turn}", path, "cuda:0")
        models.append(tensors(folder))
    different = [name for name in models[0] if models[0][name] != models[1].get(name)]
    assert not different, f"two runs differ in {', '.join(different)}"
    print(f"two runs have the same bits in {len(models[0])} tensors")


def forms():
    """A step's graph in line, on branches, without kernels that overlap, and no graph at all: the same bits; and no library refuses a call
    that it was chosen for."""
    first = [{**NETWORK[0], "out": 4, "stride": 2}, NETWORK[3]] if BRIEF else NETWORK[:4]
    network = [*first, {"type": "dense", "out": 64, "activation": "gelu"}, {"type": "dropout"},
               {"type": "dense", "out": 64, "activation": "tanh"}, {"type": "dense", "out": 10}]
    path = job("forms", deterministic=True, network=network, epochs=1)
    models = []
    for name, *form in (("in_line", "PERIGEE_CUDA_BRANCHES", "1"), ("on_branches", "PERIGEE_CUDA_BRANCHES", "4"),
                        ("no_overlap", "PERIGEE_CUDA_OVERLAP", "0"), ("op_by_op", "PERIGEE_CUDA_BLOCKING", "1")):
        # In a new folder: the table remembers what was refused before and does not try it again.
        _, folder = train(f"forms_{name}", path, "cuda:0", XDG_CACHE_HOME=str(OUT / "forms_cache"), **dict([form]))
        models.append((name, tensors(folder)))
    for name, model in models[1:]:
        different = [tensor for tensor in model if model[tensor] != models[0][1][tensor]]
        assert not different, f"{name} differs from {models[0][0]} in {', '.join(different)}"
    assert not REFUSED, "; ".join(REFUSED)
    print(f"in line, on branches, without overlap and op by op: the same bits in {len(models[0][1])} tensors; no library refused anything")


def checked():
    """Every kernel of a run beside the reference on the very operands."""
    path = job("checked", data={"train": {"type": "digits", "size": 24 if BRIEF else 192}, "batch": 8 if BRIEF else 64})
    end, _ = train("checked", path, "check:cuda,ref", "--epochs", "1")
    print(f"every kernel of {end['steps']} steps agrees with the reference")


def refused(arguments, *parts, status=None, **environment):
    code, text = perigee(*arguments, **environment)
    assert code != 0, f"{' '.join(map(str, arguments))} was taken"
    assert status is None or code == status, f"status {code} instead of {status}: {last_line(text)}"
    for part in parts:
        assert part in text, f"'{part}' is not said: {last_line(text)}"


def faults():
    """What a user is told when something is wrong."""
    path = job("faults")
    refused(("train", path, "--device", "cuda:77"), "there is no such device", "cuda:77", "cuda:0", status=2)
    refused(("train", path, "--device", "cuda:0"), "no-such-module.so", PERIGEE_CUDA_MODULE="/no-such-module.so")
    if "PERIGEE_SHIM_LIBRARIES" not in os.environ:  # of a real driver
        refused(("train", path, "--device", "cuda:0"), "no such device", CUDA_VISIBLE_DEVICES="")
    # Activations of most of a terabyte: what is largest is named before a byte is taken.
    huge = job("huge", data={"train": {"type": "digits", "size": 4096}, "batch": 4096},
               network=[{"type": "conv2d", "out": 65536, "kernel": 3, "padding": "same"}, {"type": "global_pool", "kind": "average"},
                        {"type": "dense", "out": 10}])
    refused(("train", huge, "--device", "cuda:0"), "memory", "fits", status=7)
    print("no such device, no module, no driver, no memory: said clearly")


def memory():
    """The peak that `describe` predicts and what training took."""
    width = 256 if BRIEF else 4096  # enough for figures with two decimals
    path = job("memory", network=[{"type": "dense", "out": width, "activation": "relu"}, {"type": "dense", "out": 10}], epochs=1000000,
               data={"train": {"type": "digits", "size": 64 if BRIEF else 8000}, "batch": 16 if BRIEF else 256})
    status, text = perigee("describe", path, "--device", "cuda:0")
    predicted = re.search(r"^ *together +([\d.]+) MiB", text, re.M)
    if status != 0 or predicted is None:
        raise NotMeasured(f"describe: {last_line(text)}")
    done = subprocess.run([os.environ["PERIGEE_TRAIN_BENCH"], path, "--device", "cuda:0", "--repeats", "1", "--seconds", "0.05"],
                          capture_output=True, text=True, timeout=100, env={**os.environ, **OWN})
    assert done.returncode == 0, last_line(done.stderr)
    told, taken = float(predicted[1]), json.loads(done.stdout)["held_mb"]
    assert abs(told / taken - 1) <= 0.05, f"{told:.2f} MiB were predicted, {taken:.2f} taken"
    print(f"{told:.2f} MiB predicted, {taken:.2f} taken: {100 * (told / taken - 1):+.1f} %")


def several():
    """Two GPUs learn what one does."""
    _, doctor = perigee("doctor")
    count = len(re.findall(r"^ *ok +GPU ", doctor, re.M))
    if count < 2:
        raise NotMeasured("no second GPU on this machine")
    end, _ = train("several", job("several", devices=2), "cuda")
    one, _ = train("several_one", job("several_one"), "cuda:0")
    two_loss, one_loss = end["test"]["loss"], one["test"]["loss"]
    assert two_loss <= 2 * one_loss + 0.1, f"test loss {two_loss:.4f} on two, {one_loss:.4f} on one"
    print(f"test loss {two_loss:.4f} on two GPUs, {one_loss:.4f} on one")


def libraries():
    _, doctor = perigee("doctor")
    found = dict(re.findall(r"^ *ok +(cuBLASLt|cuDNN|NVRTC|NCCL|CUDA driver) +(\S+),", doctor, re.M))
    missing = [name for name in ("cuBLASLt", "cuDNN", "NVRTC", "CUDA driver") if name not in found]
    assert not missing, f"not found: {', '.join(missing)}; PERIGEE_CUDA_LIBRARIES={os.environ.get('PERIGEE_CUDA_LIBRARIES', '')}"
    print(", ".join(f"{name} {version}" for name, version in found.items()))


CHECKS = {f.__name__: f for f in (accuracy, precision, deterministic, forms, checked, faults, memory, several, libraries)}


def main():
    try:
        CHECKS[sys.argv[1]](*sys.argv[2:])
        return 0
    except NotMeasured as why:
        print(why)
        return 77
    except (AssertionError, OSError, KeyError, IndexError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
