#!/usr/bin/env python3
"""What a launcher concluded from epochs that became void goes with them: every worker is killed in a real run that stops early."""
import os
import signal

import harness
from harness import Cluster

TRIES = 3  # the run may be over before the blow


def stopped_early(cluster, blow):
    """The epochs that were told, and why the run stopped. Nothing is learnt: only the first epoch is an improvement."""
    data = {**harness.JOB["data"], "validation": {"type": "digits", "part": "test", "size": 256}}
    cluster.write_job(epochs=6, optimizer={"type": "sgd", "lr": 1e-30}, averaging={"type": "periodic", "every": 4, "guard": False},
                      checkpoint=False, data=data, early_stopping={"metric": "validation.loss", "patience": 2})
    train = cluster.train("--workers", "2", "--threads", "1")
    if blow:
        train.wait_event("epoch")
        for pid in train.worker_pids():
            os.kill(pid, signal.SIGKILL)
    assert train.wait() == 0, train.tail()
    return [epoch["epoch"] for epoch in train.of_kind("epoch")], train.of_kind("end")[0]["stopped"]


def an_epoch_that_is_trained_again_is_judged_once():
    with Cluster() as cluster:
        epochs, why = stopped_early(cluster, False)
        assert epochs == [1, 2, 3] and "after epoch 1" in why, (epochs, why)
        for _ in range(TRIES):
            epochs, why = stopped_early(cluster, True)
            assert epochs[-1] == 3 and "after epoch 1" in why, (epochs, why)
            if len(epochs) > 3:
                return
        raise AssertionError(f"no epoch became void in {TRIES} runs")


if __name__ == "__main__":
    harness.main([an_epoch_that_is_trained_again_is_judged_once])
