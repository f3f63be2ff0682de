#!/usr/bin/env python3
"""Steps that several workers add up more than once: L-BFGS, and objectives that take turns. Real processes, killed and resumed, must end with the same
bits as an undisturbed run, however many they are."""
import os
import signal

import harness
from harness import Cluster
from program_test import end_of, tensors_of

ONE_THREAD = ("--threads", "1")  # of each worker: bits depend on it
SHARDS = {"type": "allreduce", "shards": 4}
DIGITS = {"type": "digits", "endless": False, "size": 320}
LAYERS = ["flatten", {"type": "dense", "out": 12, "activation": "tanh", "name": "body"}, {"type": "dense", "out": 10, "name": "head"}]
DATA = {"train": DIGITS, "test": DIGITS, "batch": 80, "global_batch": 320, "shuffle": False}


def lines(epochs, optimizer="lbfgs"):
    return {"network": LAYERS, "loss": "cross_entropy", "optimizer": {"type": optimizer}, "regularization": {"l2": 1e-4}, "averaging": SHARDS,
            "data": DATA, "epochs": epochs}


def objectives(epochs):
    turn = {"loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.02}}
    return {"network": LAYERS, "loss": None, "averaging": SHARDS, "data": {**DATA, "batch": 20, "global_batch": 80}, "epochs": epochs,
            "objectives": [{"name": "head", "updates": "head.*", **turn}, {"name": "body", "updates": "body.*", "every": 2, **turn}]}


def trained(cluster, job, *arguments):
    cluster.write_job(**job)
    train = cluster.train(*arguments, *ONE_THREAD)
    end = end_of(train)
    return end, tensors_of(train.folder() / "model.safetensors"), train


def check_ledger(cluster, train, job):
    found = cluster.ledger(train.folder())
    assert found["counted"] == job["epochs"] * DIGITS["size"] and not found["duplicates"] and not found["missing"], found


def any_number_of_workers_gives_the_same_bits():
    for job in (lines(12), lines(6, "cg"), objectives(4)):
        with Cluster() as cluster:
            single, bits, _ = trained(cluster, job, "--workers", "1")
            assert single["test"]["accuracy"] > 0.5, single
            for count in ("2", "4"):
                several, other, train = trained(cluster, job, "--workers", count)
                assert several["workers"] == int(count), several
                assert other == bits, (job.get("optimizer", "objectives"), count)
                check_ledger(cluster, train, job)


def disturbed(cluster, job, disturb):
    """The bits of an undisturbed run, and of one that was disturbed."""
    _, bits, _ = trained(cluster, job, "--workers", "2")
    cluster.write_job(**job)
    train = cluster.train("--workers", "2", *ONE_THREAD)
    train.wait_event("step", lambda e: e["workers"] == 2)
    last = disturb(train)
    end_of(last)
    check_ledger(cluster, last, job)
    assert tensors_of(last.folder() / "model.safetensors") == bits, last.tail()


def a_killed_worker_changes_nothing():
    def kill(train):
        os.kill(train.worker_pids()[1], signal.SIGKILL)
        train.wait_event("worker_lost")
        train.wait_event("worker_joined", count=3)
        return train
    for job in (lines(150), objectives(60)):
        with Cluster() as cluster:
            disturbed(cluster, job, kill)


def a_resumed_run_goes_on_with_the_history():
    for job in (lines(150), objectives(60)):
        with Cluster() as cluster:
            def stop(train):
                train.wait_event("epoch")
                train.signal(signal.SIGTERM)
                assert train.wait() == 143, train.tail()
                checkpoint = tensors_of(cluster.folder / train.of_kind("end")[-1]["checkpoint"])
                wanted = "optimizer/step1/" if "optimizer" in job else "optimizer/objective2/m/"
                assert any(name.startswith(wanted) and any(values) for name, values in checkpoint.items()), sorted(checkpoint)
                return cluster.resume(train.folder(), "--workers", "2", *ONE_THREAD)
            disturbed(cluster, job, stop)


def averages_of_parameters_take_objectives_and_refuse_line_searches():
    averaged = {"type": "periodic", "every": 4}
    with Cluster() as cluster:
        end, _, _ = trained(cluster, {**objectives(6), "averaging": averaged}, "--workers", "2")
        assert end["test"]["accuracy"] > 0.5, end
        cluster.write_job("lines.json", **{**lines(2), "averaging": averaged})
        status, _, err = cluster.run("train", "lines.json", "--workers", "2")
        assert status == 4 and "searches along lines, and so adds up gradients and losses" in err, err


if __name__ == "__main__":
    harness.main([any_number_of_workers_gives_the_same_bits, a_killed_worker_changes_nothing, a_resumed_run_goes_on_with_the_history,
                  averages_of_parameters_take_objectives_and_refuse_line_searches])
