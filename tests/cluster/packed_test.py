#!/usr/bin/env python3
"""Several texts in each row of a batch, trained by several workers: each row once in an epoch, whatever happens."""
import random
import signal

import harness
from harness import Cluster

EPOCHS, TEXTS = 3, 300
ONE_THREAD = ("--threads", "1")


def job():
    source = {"type": "packed", "length": 32, "next": "y",
              "source": {"type": "documents", "file": "texts.csv", "length": 20, "max_vocabulary": 32}}
    return {
        "network": [{"type": "embedding", "size": 32, "out": 8}, "positions", {"type": "transformer", "heads": 2, "causal": True},
                    {"type": "dense", "out": 32, "over": "steps"}],
        "optimizer": {"type": "adam", "lr": 0.01}, "epochs": EPOCHS, "loss": {"type": "cross_entropy", "ignore": -1},
        # The same steps for any number of workers.
        "data": {"train": source, "batch": 8, "global_batch": 16}, "averaging": {"type": "allreduce", "shards": 4},
    }


def cluster_with_texts():
    cluster = Cluster()
    draw = random.Random(1)
    lengths = [draw.randint(1, 20) for _ in range(TEXTS)]
    texts = [" ".join(f"w{draw.randint(0, 29)}" for _ in range(length)) for length in lengths]
    (cluster.folder / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    cluster.write_job(**job())
    return cluster, (sum(lengths) + 31) // 32


def check(cluster, rows, folder):
    found = cluster.ledger(folder)
    assert (found["duplicates"], found["missing"]) == (0, 0), found
    # The best fit may need one row more than there are full ones.
    assert rows * EPOCHS <= found["counted"] <= (rows + 1) * EPOCHS and found["counted"] % EPOCHS == 0, (found, rows)


def undisturbed(workers):
    cluster, rows = cluster_with_texts()
    with cluster:
        train = cluster.train("--workers", workers, *ONE_THREAD)
        assert train.wait() == 0, train.tail()
        check(cluster, rows, train.folder())
        return harness.parameters(train.folder())


def the_number_of_workers_does_not_matter():
    assert undisturbed("1") == undisturbed("2")


def a_run_resumes_with_other_workers():
    cluster, rows = cluster_with_texts()
    with cluster:
        train = cluster.train("--workers", "2", *ONE_THREAD)
        train.wait_event("step", lambda event: event.get("step", 0) >= 15)
        train.signal(signal.SIGINT)
        train.wait()
        again = cluster.resume(train.folder(), "--workers", "3", *ONE_THREAD)
        assert again.wait() == 0, again.tail()
        check(cluster, rows, again.folder())
        parameters = harness.parameters(again.folder())
    assert parameters == undisturbed("2")


harness.main([the_number_of_workers_does_not_matter, a_run_resumes_with_other_workers])
