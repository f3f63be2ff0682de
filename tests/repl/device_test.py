"""Trains with `perigee train --device cuda:0` where the shim's module (tests/cuda/shim) stands in for a GPU: the program's way from its options to the
device and back, and what a user is told when something is wrong. FAKES has an NCCL that adds up on the host.
device_test.py PROGRAM MODULE FAKES"""

import array
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

PROGRAM, MODULE, FAKES = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
JOB = {
    "name": "small",
    "network": [
        {"type": "conv2d", "out": 4, "kernel": 5, "stride": 2, "activation": "relu"},
        {"type": "maxpool", "kernel": 2},
        {"type": "dense", "out": 10},
    ],
    "loss": "cross_entropy",
    "optimizer": {"type": "adam", "lr": 0.01},
    "data": {"train": {"type": "digits", "size": 80}, "test": {"type": "digits", "size": 32}, "batch": 8},
    "epochs": 2,
    "checkpoint": {"every_steps": 5},
    "seed": 3,
}


def perigee(*arguments, expect=0, stand_ins=True, **environment):
    environment = {**os.environ, "PERIGEE_CUDA_MODULE": MODULE, **environment}
    if stand_ins:
        environment["PERIGEE_SHIM_STAND_INS"] = "1"
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == expect, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for name, t in header.items() if name != "__metadata__"}


def same_model(a, b, tolerance=0.0):
    left, right = (tensors(next(pathlib.Path(folder).glob("*.safetensors"))) for folder in (a, b))
    assert left.keys() == right.keys() and left, left.keys()
    for name, values in left.items():
        if tolerance == 0:
            assert values == right[name], f"{name} differs"
        apart = max(abs(x - y) for x, y in zip(array.array("f", values), array.array("f", right[name])))
        assert apart <= tolerance, f"{name} differs by {apart}"


def has(text, *parts):
    for part in parts:
        assert part in text, f"'{part}' is not in: {text}"


def trains_like_the_reference(job):
    perigee("train", job, "--device", "cuda:0", "--out", "device", "--log", "plain")
    perigee("train", job, "--device", "ref", "--threads", "1", "--out", "ref", "--log", "plain")
    same_model("device", "ref")
    has(perigee("train", job, "--set", "device=auto", "--out", "auto", "--log", "plain"), "batch 8, cuda:0")
    same_model("auto", "ref")


# The module's own kernels, thread by thread on the host: plain gradient descent, which makes no small difference large.
def trains_with_our_kernels(job):
    few = ("--steps", "3", "--set", 'optimizer={"type": "sgd", "lr": 0.05}', "--log", "plain")
    perigee("train", job, "--device", "cuda:0", *few, "--out", "ours", stand_ins=False)
    perigee("train", job, "--device", "ref", *few, "--out", "theirs")
    same_model("ours", "theirs", tolerance=1e-5)


def survives_a_fault_of_the_device(job):
    text = perigee("train", job, "--device", "cuda:0", "--out", "spoiled", "--log", "plain", expect=7, PERIGEE_SHIM_FAULT="launch:120", PERIGEE_CUDA_BRANCHES="1")
    has(text, "cuda:0", "illegal memory access", "PERIGEE_CUDA_BLOCKING=1")
    perigee("train", "--resume", "spoiled", "--device", "cuda:0", "--log", "plain")
    same_model("spoiled", "ref")


def says_what_is_wrong(job):
    hangs = perigee("train", job, "--device", "cuda", "--out", "hangs", "--log", "plain", expect=7, PERIGEE_SHIM_FAULT="hang:120", PERIGEE_CUDA_TIMEOUT="1")
    has(hangs, "cuda:0", "timed out", "the GPU hangs", "PERIGEE_CUDA_TIMEOUT")
    has(perigee("train", job, "--device", "cuda:7", expect=2, PERIGEE_SHIM_DEVICES="2"), "cuda:7", "cuda:0 to cuda:1")
    has(perigee("train", job, "--device", "cuda", expect=2, PERIGEE_SHIM_DRIVER="old"), "driver version is insufficient", "perigee doctor")
    has(perigee("train", job, "--device", "cuda", expect=7, PERIGEE_SHIM_DRIVER="image"), "the GPU could not run", "no kernel image", "op '")
    has(perigee("train", job, "--device", "cuda", expect=7, PERIGEE_SHIM_MEMORY_MB="0"), "out of memory", "nvidia-smi shows those")
    has(perigee("doctor", PERIGEE_SHIM_DEVICES="2"), "1: shim 1, sm_90")
    has(perigee("doctor", expect=7, PERIGEE_SHIM_DRIVER="old"), "for CUDA 11.0", "update the NVIDIA driver")
    # The file that is there and of no use is told, not the older name that is not there.
    pathlib.Path("broken").mkdir()
    pathlib.Path("broken/libcublasLt.so.13").touch()
    has(perigee("doctor", LD_LIBRARY_PATH=str(pathlib.Path("broken").resolve())), "broken/libcublasLt.so.13: file too short")
    has(perigee("describe", job, "--set", "device=cuda"), "memory on the GPU, planned", "activations ", "taken of cuda:0: ")
    has(perigee("describe", job, "--set", "device=cuda", PERIGEE_SHIM_DEVICES="0"), "no CUDA-capable device", "a CPU's")


# Runs that succeed, but not as a user with a GPU expects.
def says_what_is_not_used(job):
    few = ("--steps", "2", "--threads", "1", "--log", "plain")
    for name, environment, said in (("old_gpu", {"PERIGEE_SHIM_CAPABILITY": "75"}, "shim 0, sm_75: the CUDA module has kernels for sm_80"),
                                    ("old_driver", {"PERIGEE_SHIM_DRIVER": "old"}, "driver version is insufficient")):
        has(perigee("train", job, "--set", "device=auto", *few, "--out", name, **environment), "batch 8, 1 thread", "auto takes the CPU", said)
        has(perigee("doctor", expect=7, **environment), "problem  ")
    for name, environment in (("no_gpu", {"PERIGEE_SHIM_DEVICES": "0"}), ("no_module", {"PERIGEE_CUDA_MODULE": "/none.so"})):
        assert "warning" not in perigee("train", job, "--set", "device=auto", *few, "--out", name, **environment)
        has(perigee("doctor", **environment), "nothing is wrong")
    # A library of that name in which nothing is.
    pathlib.Path("libraries").mkdir()
    shutil.copy(pathlib.Path(FAKES) / "libnccl.so.2", "libraries/libcublasLt.so.13")
    without = {"PERIGEE_CUDA_LIBRARIES": str(pathlib.Path("libraries").resolve())}
    has(perigee("doctor", **without), "cublasLtGetVersion is not in it", "PERIGEE_CUDA_LIBRARIES=FOLDER")
    told = perigee("train", job, "--device", "cuda", *few, "--out", "slow", **without)
    assert told.count("warning: cuda:0: matrix products may be slow without cuBLASLt: cublasLtGetVersion is not in it") == 1, told


def events_of(text, kind):
    return [event for event in map(json.loads, (line for line in text.splitlines() if line.startswith("{"))) if event["event"] == kind]


# Each example of each epoch counted once, none given up.
def all_is_counted(folder, planned):
    found = json.loads(perigee("ledger", folder, "--json"))
    expected = {"planned": planned, "counted": planned, "skipped": 0, "duplicates": 0, "missing": 0, "gaps": 0, "inexact": 0}
    assert {key: found[key] for key in expected} == expected, found


# The prompt's predictions have the bits of the device's own forward pass, and the host's numbers but for rounding.
def predicts_where_it_trains(job):
    pathlib.Path("predict.lua").write_text(f'''
        pg.seed(1)
        local x = pg.rand(300, 1, 28, 28)
        local run = pg.start("{job}", {{ out = "beside", set = {{ "device=cuda:0" }} }})
        run:predict(x)
        assert(run:wait(60).state == "finished")
        pg.save("x.npy", x)
        pg.save("p.npy", run:predict(x))
    ''', encoding="utf-8")
    perigee("repl", "predict.lua", "-e", "0")
    got = array.array("f", pathlib.Path("p.npy").read_bytes()[-300 * 10 * 4:])

    def predicted(device):
        lines = [line for line in perigee("predict", "beside", "x.npy", "--json", "--device", device).splitlines() if line.startswith("{")]
        return array.array("f", [p for line in lines for p in json.loads(line)["probabilities"]])

    assert got == predicted("cuda:0")
    assert max(abs(x - y) for x, y in zip(got, predicted("cpu"), strict=True)) < 1e-6


# Each worker dies after so many kernels; another takes its place, until the work is done.
def workers_are_replaced(job):
    text = perigee("train", job, "--set", "devices=2", "--set", "averaging=periodic", "--set", "epochs=12", "--out", "workers", "--log", "json",
                   PERIGEE_SHIM_DEVICES="2", PERIGEE_SHIM_FAULT="launch:200", PERIGEE_CUDA_BRANCHES="1")
    has(text, "illegal memory access")
    failed = [event["cause"] for event in events_of(text, "worker_failed")]
    assert "op '" not in failed[0] and "op '" in failed[-1], failed  # the second to lose its GPU says which op was running
    assert len(events_of(text, "worker_failed")) >= 2 and len(events_of(text, "worker_joined")) >= 4, text
    assert [event["epochs"] for event in events_of(text, "end")] == [12], text
    all_is_counted("workers", 960)


# Four GPUs of one process, two of each of two processes that exchange gradients over sockets, four workers: the same examples in each step.
def gpus_train_together(job):
    plain = ("--set", 'optimizer={"type": "sgd", "lr": 0.05}', "--log", "plain")
    four = {"PERIGEE_SHIM_DEVICES": "4", "PERIGEE_SHIM_MEMORY": "open", "PERIGEE_CUDA_LIBRARIES": FAKES}
    perigee("train", job, "--workers", "4", "--device", "cpu", "--threads", "1", *plain, "--out", "four_workers")
    perigee("train", job, "--set", "data.batch=32", "--device", "ref", "--threads", "4", *plain, "--out", "four_threads")
    perigee("train", job, "--device", "cuda:0-3", *plain, "--out", "together", **four)
    perigee("train", job, "--set", "devices=4", "--set", "deterministic=true", *plain, "--out", "in_a_tree", **four)
    perigee("train", job, "--workers", "2", "--device", "cuda:0-3", *plain, "--out", "two_by_two", **four)
    for folder in ("four_threads", "together", "in_a_tree", "two_by_two"):
        same_model(folder, "four_workers", tolerance=2e-6)
    # GPUs that may not reach each other; a run that lost one of four goes on with two, by the same batches.
    perigee("train", job, "--set", "devices=4", "--set", "deterministic=true", *plain, "--out", "apart", PERIGEE_SHIM_PEERS="refused", **four)
    same_model("apart", "in_a_tree")
    longer = ("--device", "cuda:0-3", "--set", "data.global_batch=32", "--set", "epochs=10", *plain)
    perigee("train", job, *longer, "--out", "longer", **four)
    perigee("train", job, *longer, "--out", "fewer", expect=7, PERIGEE_SHIM_FAULT="launch@1:200", PERIGEE_CUDA_BRANCHES="1", **four)
    assert list(pathlib.Path("fewer", "checkpoints").glob("*.safetensors")), "the GPU was lost before the first checkpoint"
    perigee("train", "--resume", "fewer", "--device", "cuda:0,1", "--log", "plain", **four)
    same_model("fewer", "longer", tolerance=1e-5)
    described = perigee("describe", job, "--device", "cuda:0-3", **four)
    has(described, "memory on each of 4 GPUs, planned", *(f"taken of cuda:{gpu}: " for gpu in range(4)))
    # The optimiser's update is exchanged: the change is read where the numbers are, which is the device.
    updates = ("--workers", "2", "--set", 'averaging={"type": "custom", "what": "update"}', *plain)
    perigee("train", job, *updates, "--device", "cpu", "--threads", "1", "--out", "updates_of_cpus")
    perigee("train", job, *updates, "--device", "cuda", "--out", "updates_of_gpus", **four)
    same_model("updates_of_gpus", "updates_of_cpus", tolerance=2e-6)
    without = {**four, "PERIGEE_CUDA_LIBRARIES": "", "LD_LIBRARY_PATH": ""}  # Meson's leads to the fakes
    told = perigee("train", job, "--device", "cuda:0,1", *plain, "--out", "no_nccl", **without)
    has(told, "batch 16, cuda:0, cuda:1", "cuda:0,1", "copies between the GPUs: NCCL")
    too_many = perigee("train", job, "--set", "devices=3", expect=2, PERIGEE_SHIM_DEVICES="2")
    has(too_many, "devices: a worker is to train on more GPUs than there are", "at most 2")
    has(perigee("train", job, "--set", "device=cuda:x", expect=2), job + ": device: there is no such device", "'cuda:x'")
    has(perigee("train", job, "--device", "cuda:x", expect=2), "--device: there is no such device", "'cuda:x'")
    has(perigee("train", job, "--device", "cuda:0-2", "--workers", "2", expect=2, **four), "shared out evenly", "2 workers, 3 GPUs")
    hidden = perigee("train", job, "--device", "cuda:0,7", expect=2, CUDA_VISIBLE_DEVICES="2,7,8,9", **four)
    has(hidden, "there is no such device", "cuda:7", "CUDA_VISIBLE_DEVICES=2,7,8,9 hides the others")


# The codec works where the worker trains; models and payloads are those of workers on the host.
def codecs_work_on_the_device(job):
    workers = ("--workers", "2", "--log", "plain")
    for name, averaging in (("threshold", {"type": "threshold", "tau": 1e-3}), ("int2", {"type": "allreduce", "codec": "int2"}),
                            ("periodic", {"type": "periodic", "every": 3, "codec": {"type": "int4", "feedback": True}})):
        setting = ("--set", "averaging=" + json.dumps(averaging))
        perigee("train", job, *workers, *setting, "--device", "ref", "--threads", "1", "--out", f"{name}_host")
        perigee("train", job, *workers, *setting, "--device", "cuda", "--out", f"{name}_device", PERIGEE_SHIM_DEVICES="2")
        same_model(f"{name}_device", f"{name}_host")
        has(perigee("describe", job, *setting, "--device", "cuda", "--workers"), "the codec works on the GPU")
    lowrank = ("--set", 'averaging={"type": "periodic", "codec": "lowrank"}')
    has(perigee("describe", job, *lowrank, "--device", "cuda", "--workers"), "the codec works on the host: lowrank has no kernels for CUDA")
    # Between GPUs of one process nothing is encoded; a request for a codec there is refused.
    two = {"PERIGEE_SHIM_DEVICES": "2", "PERIGEE_SHIM_MEMORY": "open", "PERIGEE_CUDA_LIBRARIES": FAKES}
    coded = ("--set", 'averaging={"type": "allreduce", "codec": "int4"}', "--device", "cuda:0,1")
    has(perigee("train", job, *coded, "--log", "plain", "--out", "two_coded", **two), "codec 'int4' is for what processes send each other", "--workers 2")
    has(perigee("describe", job, *coded, "--workers", **two), "codec 'int4': between processes only")


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


# A worker that has sent what its device encoded is killed; another takes its place, and each example is counted once.
def killed_workers_are_replaced(job):
    environment = {**os.environ, "PERIGEE_CUDA_MODULE": MODULE, "PERIGEE_SHIM_STAND_INS": "1", "PERIGEE_SHIM_DEVICES": "2"}
    arguments = ("--workers", "2", "--device", "cuda", "--set", 'averaging={"type": "threshold", "tau": 1e-3}', "--set", "epochs=40", "--log", "json")
    with subprocess.Popen([PROGRAM, "train", job, *arguments, "--out", "killed"], stdout=subprocess.PIPE, text=True, env=environment) as run:
        lines, killed = [], False
        for line in run.stdout:
            lines.append(line)
            if not killed and '"event":"epoch"' in line:
                os.kill(children_of(run.pid)[0], signal.SIGKILL)
                killed = True
        assert run.wait(timeout=120) == 0, "".join(lines[-20:])
    text = "".join(lines)
    (lost,) = events_of(text, "worker_lost")
    assert "signal 9" in lost["cause"], lost
    assert [event["worker"] for event in events_of(text, "worker_joined")][2:] == [lost["worker"]], text
    assert [event["epochs"] for event in events_of(text, "end")] == [40], text
    all_is_counted("killed", 40 * 80)


# A GPU of the first process is lost: the process ends with it and another takes its place and its GPUs.
def teams_are_replaced(job):
    text = perigee("train", job, "--workers", "2", "--device", "cuda:0-3", "--set", "epochs=20", "--out", "replaced", "--log", "json",
                   PERIGEE_SHIM_DEVICES="4", PERIGEE_SHIM_MEMORY="open", PERIGEE_CUDA_LIBRARIES=FAKES, PERIGEE_SHIM_FAULT="launch@1:200")
    has(text, "illegal memory access", "cuda:1")
    assert "cuda:3" not in text, text
    failed, joined = events_of(text, "worker_failed"), events_of(text, "worker_joined")
    assert len(joined) > 2 and {event["worker"] for event in joined[2:]} == {event["worker"] for event in failed}, text
    assert [event["epochs"] for event in events_of(text, "end")] == [20], text
    all_is_counted("replaced", 1600)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("job.json").write_text(json.dumps(JOB), encoding="utf-8")
        for check in (trains_like_the_reference, trains_with_our_kernels, survives_a_fault_of_the_device, says_what_is_wrong, says_what_is_not_used, predicts_where_it_trains, workers_are_replaced,
                      gpus_train_together, teams_are_replaced, codecs_work_on_the_device, killed_workers_are_replaced):
            check("job.json")
            print(f"ok {check.__name__}", flush=True)


main()
