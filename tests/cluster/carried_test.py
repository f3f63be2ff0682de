#!/usr/bin/env python3
"""Networks that carry state from batch to batch, trained by several workers: the bits of one worker, whatever happens to them."""
import os
import signal

import harness
from harness import Cluster

STREAMS, WINDOW, STEPS = 8, 6, 25  # lanes, characters of a window, windows of a lane
EPOCHS = 3
ONE_THREAD = ("--threads", "1")  # of each worker: a worker alone would have more of them, whose sums have other bits


def job(**changes):
    text = {"type": "text", "file": "text.txt", "context": WINDOW, "targets": "every", "streams": STREAMS}
    made = {
        "network": [{"type": "embedding", "size": 8, "out": 6}, {"type": "lstm", "units": 7, "state": "carry"},
                    {"type": "gru", "units": 5, "state": "carry"}, {"type": "dense", "out": 8, "over": "steps"}],
        "optimizer": {"type": "adam", "lr": 0.01}, "epochs": EPOCHS, "loss": "cross_entropy",
        "data": {"train": text, "test": {**text, "file": "other.txt"}, "batch": STREAMS},
        "averaging": {"type": "allreduce", "shards": 4},
    }
    made.update(changes)
    return made


def cluster_with_text(**changes):
    cluster = Cluster()
    for name, factor in (("text.txt", 3), ("other.txt", 5)):
        letters = (chr(97 + (i * i * factor + i // 7) % 7) for i in range(STREAMS * WINDOW * STEPS + 1))
        (cluster.folder / name).write_text("".join(letters))
    cluster.write_job(**job(**changes))
    return cluster


def end_of(train):
    assert train.wait() == 0, train.tail()
    return train.of_kind("end")[-1]


def check_ledger(cluster, folder):
    found = cluster.ledger(folder)
    assert (found["duplicates"], found["missing"], found["counted"]) == (0, 0, EPOCHS * STREAMS * STEPS), found


def undisturbed(workers="1"):
    with cluster_with_text() as cluster:
        train = cluster.train("--workers", workers, *ONE_THREAD)
        end = end_of(train)
        check_ledger(cluster, train.folder())
        return harness.parameters(train.folder()), end["test"]["loss"]


def the_number_of_workers_does_not_matter():
    first = undisturbed()
    for workers in ("2", "4"):
        assert undisturbed(workers) == first, workers
    with cluster_with_text() as cluster:
        alone = end_of(cluster.train())  # sums in another order
        assert abs(alone["test"]["loss"] - first[1]) < 1e-4, (alone, first[1])
    changed = job()
    for layer in changed["network"]:
        layer.pop("state", None)
    with cluster_with_text(network=changed["network"]) as cluster:
        other = end_of(cluster.train("--workers", "2"))
        assert abs(other["test"]["loss"] - first[1]) > 1e-4, "what is carried changes nothing"


def a_run_resumes_in_the_middle_of_its_streams():
    parameters, loss = undisturbed()
    with cluster_with_text() as cluster:
        train = cluster.train("--workers", "2", *ONE_THREAD)
        train.wait_event("step", lambda event: event.get("step", 0) >= 7)
        train.signal(signal.SIGINT)
        train.wait()
        again = cluster.resume(train.folder(), "--workers", "4", *ONE_THREAD)
        end = end_of(again)
        check_ledger(cluster, again.folder())
        assert harness.parameters(again.folder()) == parameters
        assert end["test"]["loss"] == loss, (end, loss)


def a_killed_worker_changes_nothing():
    parameters, loss = undisturbed()
    with cluster_with_text() as cluster:
        train = cluster.train("--workers", "3", *ONE_THREAD)
        for seen in (3, 20):
            train.wait_event("step", lambda event: event.get("step", 0) >= seen)
            pids = train.worker_pids()
            if pids:
                os.kill(pids[-1], signal.SIGKILL)
        end = end_of(train)
        check_ledger(cluster, train.folder())
        assert harness.parameters(train.folder()) == parameters
        assert end["test"]["loss"] == loss, (end, loss)


def rows_travel_as_they_are_read():
    """Row-sparse updates beside a codec that leaves zeros out: the bits of sums without one."""
    network = job()["network"]
    network[0] = {"type": "embedding", "size": 500, "out": 32, "rows": "lazy"}
    ends = []
    for codec in ("fp32", "nonzero"):
        with cluster_with_text(network=network, averaging={"type": "allreduce", "codec": codec}) as cluster:
            train = cluster.train("--workers", "2")
            ends.append((end_of(train), harness.parameters(train.folder())))
    assert ends[0][1] == ends[1][1]
    sent = [end["bytes_sent"] for end, _ in ends]
    assert sent[1] < 0.5 * sent[0], sent


def averaged(every=1, shards=2, **changes):
    return {"averaging": {"type": "periodic", "every": every}, "data": {**job()["data"], "shards": shards}, **changes}


def each_worker_goes_on_with_its_streams():
    """An average after each step of plain gradient descent is a step with the mean gradient: all-reduce's, but for the order of sums."""
    plain = {"optimizer": {"type": "sgd", "lr": 0.5}}
    ends = {}
    for name, workers, changes in (("together", "2", plain), ("apart", "2", averaged(**plain)), ("apart, four shards", "2", averaged(shards=4, **plain)),
                                   ("seldom", "2", averaged(every=5, **plain))):
        with cluster_with_text(**changes) as cluster:
            train = cluster.train("--workers", workers, *ONE_THREAD)
            ends[name] = end_of(train)["test"]["loss"]
            check_ledger(cluster, train.folder())
    assert abs(ends["apart"] - ends["together"]) < 1e-5, ends
    assert abs(ends["seldom"] - ends["together"]) > 1e-5, ends
    # A step of each of a worker's shards is a step of its own: another course, near by.
    assert 1e-5 < abs(ends["apart, four shards"] - ends["together"]) < 0.5, ends


def streams_change_hands():
    """Workers are killed, and a resumed run has another number of them: no step of a stream is lost or read twice."""
    with cluster_with_text(**averaged(every=2, shards=4)) as cluster:
        train = cluster.train("--workers", "3", *ONE_THREAD)
        train.wait_event("step", lambda event: event.get("step", 0) >= 3)
        if pids := train.worker_pids():
            os.kill(pids[-1], signal.SIGKILL)
        train.wait_event("step", lambda event: event.get("step", 0) >= 12)
        train.signal(signal.SIGINT)
        train.wait()
        again = cluster.resume(train.folder(), "--workers", "2", *ONE_THREAD)
        end_of(again)
        check_ledger(cluster, again.folder())


def what_cannot_carry_on_is_refused():
    for changes, text in (({"averaging": {"type": "streaming", "every": 4}}, "has no result that all workers hold at the end of each round"),
                          ({"averaging": {"type": "periodic", "every": 4}}, "deals out the 8 streams to the workers of a policy of parameters"),
                          (averaged(shards=3), "a number that divides 8"),
                          (averaged(shards=1), "2 workers, data.shards = 1"),
                          ({"data": {**job()["data"], "at": "coordinator"}}, "along streams, which workers read themselves"),
                          ({"data": {**job()["data"], "global_batch": 16}}, "is not the number of streams, each of which is a row of every step")):
        with cluster_with_text(**changes) as cluster:
            status, _, err = cluster.run("train", "job.json", "--workers", "2")
            assert status != 0 and text in err, err


harness.main([the_number_of_workers_does_not_matter, a_run_resumes_in_the_middle_of_its_streams, a_killed_worker_changes_nothing,
              rows_travel_as_they_are_read, each_worker_goes_on_with_its_streams, streams_change_hands, what_cannot_carry_on_is_refused])
