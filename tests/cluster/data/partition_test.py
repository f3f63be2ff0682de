#!/usr/bin/env python3
"""data.at = "partitions": workers hold parts of the data and serve them to each other. Real processes, started as a cluster's own
scheduler starts them."""
import json
import pathlib
import re
import signal
import struct
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
from harness import Cluster, wait_until  # noqa: E402

ROWS, WIDTH = 512, 4  # of each partition
PARTS = 4


def npy(values, dtype, shape):
    code = {"<f4": "f", "<i8": "q"}[dtype]
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{code}", *values)


def write_part(path, index, order=1):
    """Rows of a partition, or in another order what a shuffle would give."""
    rows = list(range(index * ROWS, (index + 1) * ROWS))[::order]
    x = [((row * 7919 + column * 104729) % 1000) / 500 - 1 for row in rows for column in range(WIDTH)]
    y = [int(x[i * WIDTH] + x[i * WIDTH + 1] > 0) for i in range(ROWS)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy(x, "<f4", (ROWS, WIDTH)))
        archive.writestr("y.npy", npy(y, "<i8", (ROWS,)))


class Parts(Cluster):
    """Two parts a worker: names, sources, and the job that knows them by their hashes."""

    def __init__(self, test=True):
        super().__init__()
        self.described = []
        for index in range(PARTS):
            write_part(self.folder / f"part-{index}.npz", index)
            status, out, err = self.run("data", "partition", f"train/{index}", json.dumps(self.source(index)))
            assert status == 0, err
            self.described.append(json.loads(out))
        self.test = {"test": self.source(0)} if test else {}

    def source(self, index, file="part"):
        return {"type": "npz", "file": f"{file}-{index}.npz", "x": "x", "y": "y"}

    def job(self, name="job.json", **changes):
        data = {"train": {"type": "concat", "sources": self.described}, **self.test, "global_batch": 64, "at": "partitions"}
        network = [{"type": "dense", "out": 16, "activation": "relu"}, {"type": "dense", "out": 2}]
        return self.write_job(name, **{"data": data, "network": network, "averaging": {"type": "allreduce", "shards": 4}, "epochs": 3, **changes})

    def lead(self, *arguments, **changes):
        self.job(**changes)
        train = self.train("--listen", "127.0.0.1:0", "--secret", self.secret(), *arguments)
        train.wait_event("start")
        return train

    def holder(self, train, name, parts, file="part"):
        """A worker that holds these parts, in a folder where nothing else is."""
        words = [word for index in parts for word in ("--partition", f"train/{index}=" + json.dumps(self.source(index, file)))]
        return self.start("worker", name, "--join", self.coordinator_address(train), "--secret", self.secret(), "--threads", "1", *words)


def the_bits_of_a_run_that_reads_files():
    with Parts() as cluster:
        train = cluster.lead()
        holders = [cluster.holder(train, "a", [0, 1]), cluster.holder(train, "b", [2, 3])]
        assert train.wait() == 0, train.tail()
        assert [each.wait() for each in holders] == [0, 0], [each.tail() for each in holders]
        files = {"train": {"type": "concat", "sources": [cluster.source(index) for index in range(PARTS)]}, **cluster.test, "global_batch": 64}
        cluster.job("direct.json", data=files)
        direct = cluster.train("--workers", "2", "--threads", "1", job="direct.json")
        assert direct.wait() == 0, direct.tail()
        assert harness.parameters(train.folder()) == harness.parameters(direct.folder()), "other bits"
        assert train.of_kind("end")[-1]["test"] == direct.of_kind("end")[-1]["test"]
        found = cluster.ledger(train.folder())
        assert (found["duplicates"], found["missing"], found["counted"]) == (0, 0, 3 * PARTS * ROWS), found


def transforms_are_fitted_to_rows_that_lie_elsewhere():
    """Each worker fits them to all rows, wherever they lie: the parameters, and what is stored with the model, are those of a run that reads files."""
    def around(sources, transforms):
        return {"type": "map", "source": {"type": "concat", "sources": sources}, "transforms": transforms}
    fits = [{"type": "standardize"}, {"type": "minmax", "over": "all"}]
    with Parts() as cluster:
        files = [cluster.source(index) for index in range(PARTS)]
        test = {"test": around(files[:1], fits)}
        cluster.job("direct.json", data={"train": around(files, fits), **test, "global_batch": 64})
        direct = cluster.train("--workers", "2", "--threads", "1", job="direct.json")
        assert direct.wait() == 0, direct.tail()
        for placement in ({"a": [0, 1], "b": [2, 3]}, {"a": [3, 0, 2], "b": [1]}):
            train = cluster.lead(data={"train": around(cluster.described, fits), **test, "global_batch": 64, "at": "partitions"})
            holders = [cluster.holder(train, name, parts) for name, parts in placement.items()]
            assert train.wait() == 0, train.tail()
            assert [each.wait() for each in holders] == [0, 0], [each.tail() for each in holders]
            assert harness.parameters(train.folder()) == harness.parameters(direct.folder()), "other bits"
            assert train.of_kind("end")[-1]["test"] == direct.of_kind("end")[-1]["test"]
            judged = [cluster.run("eval", run.folder(), "--threads", "1") for run in (train, direct)]
            assert [status for status, _, _ in judged] == [0, 0], judged
            numbers = [re.findall(r"\d+\.\d+", out) for _, out, _ in judged]
            assert numbers[0] == numbers[1] and numbers[0], judged


def a_killed_holder_is_waited_for():
    """Its rows are nowhere else: the run stands still until a worker holds them again, and not one is lost or taken twice."""
    with Parts() as cluster:
        train = cluster.lead(epochs=60)
        first, second = cluster.holder(train, "a", [0, 1]), cluster.holder(train, "b", [2, 3])
        for kill in range(3):
            train.wait_event("step", lambda e: e["workers"] == 2, count=5 * kill + 1)
            second.signal(signal.SIGKILL)
            second.wait()
            train.wait_event("worker_lost", count=kill + 1)
            steps = len(train.of_kind("step"))
            second = cluster.holder(train, f"b{kill}", [2, 3])
            train.wait_event("worker_joined", count=3 + kill)
            wait_until("steps after the return", lambda: len(train.of_kind("step")) > steps + 2 or not train.running())
        assert train.wait() == 0, train.tail()
        assert first.wait() == 0, first.tail()
        found = cluster.ledger(train.folder())
        assert (found["duplicates"], found["missing"], found["skipped"]) == (0, 0, 0), found
        assert found["counted"] == 60 * PARTS * ROWS, found


def other_rows_are_refused_by_name():
    with Parts(test=False) as cluster:
        train = cluster.lead(epochs=40)
        first, second = cluster.holder(train, "a", [0, 1]), cluster.holder(train, "b", [2, 3])
        train.wait_event("step", lambda e: e["workers"] == 2)
        second.signal(signal.SIGKILL)
        second.wait()
        for index in (2, 3):
            write_part(cluster.folder / f"shuffled-{index}.npz", index, order=-1)
        again = cluster.holder(train, "c", [2, 3], "shuffled")
        assert again.wait() == 3, again.tail()
        for text in ("the partition 'train/2' has other rows than when the run began", f"{ROWS} rows with hash", "sortWithinPartitions"):
            assert text in again.stderr(), again.stderr()
        refused = train.of_kind("worker_refused")[-1]
        assert "train/2" in refused["cause"] and "persist" in refused["advice"], refused
        stranger = cluster.start("worker", "d", "--join", cluster.coordinator_address(train), "--secret", cluster.secret(), "--partition",
                                 "rows=" + json.dumps(cluster.source(2)))
        assert stranger.wait() == 3 and "which this run's data do not have" in stranger.stderr(), stranger.tail()
        status, out, err = cluster.run("status", cluster.coordinator_address(train), "--secret", cluster.secret(), "--json")
        assert status == 0 and json.loads(out)["absent_partitions"] == [], (out, err)
        right = cluster.holder(train, "e", [2, 3])
        assert train.wait() == 0, train.tail()
        assert (first.wait(), right.wait()) == (0, 0)
        found = cluster.ledger(train.folder())
        assert (found["duplicates"], found["missing"], found["counted"]) == (0, 0, 40 * PARTS * ROWS), found


def a_coordinator_that_comes_back_learns_who_holds_what():
    with Parts() as cluster:
        train = cluster.lead(epochs=60)
        holders = [cluster.holder(train, "a", [0, 1]), cluster.holder(train, "b", [2, 3])]
        address = cluster.coordinator_address(train)
        train.wait_event("epoch", count=2)
        train.signal(signal.SIGKILL)
        train.wait()
        again = cluster.resume(train.folder(), "--listen", address, "--secret", cluster.secret())
        again.wait_event("coordinator_recovered")
        third = cluster.start("worker", "c", "--join", address, "--secret", cluster.secret(), "--threads", "1")  # holds nothing
        assert again.wait() == 0, again.tail()
        assert [each.wait() for each in (*holders, third)] == [0, 0, 0]
        found = cluster.ledger(again.folder())
        assert (found["duplicates"], found["missing"], found["counted"]) == (0, 0, 60 * PARTS * ROWS), found


def mistakes_are_explained():
    with Parts() as cluster:
        def refused(text, *arguments):
            status, _, err = cluster.run(*arguments)
            assert status != 0 and text in err, (status, err)

        cluster.job(data={"train": cluster.source(0), "batch": 32, "at": "partitions"})
        refused("no source of this job is a partition that a worker holds", "train", "job.json", "--workers", "2")
        cluster.job()
        refused("needs workers that hold the partitions, and none can join this run", "train", "job.json", "--workers", "2")
        cluster.job(averaging=None)
        refused("lies with a worker, and this process has to read its examples", "train", "job.json")
        standard = {"type": "map", "source": {"type": "concat", "sources": cluster.described}, "transforms": [{"type": "standardize"}]}
        cluster.job(data={"train": standard, "batch": 32, "at": "partitions"})
        refused("needs workers that hold the partitions, and none can join this run", "train", "job.json", "--workers", "2")
        cluster.job(data={"train": standard, "batch": 32}, averaging=None)
        refused("give weights of classes as numbers, and train with --listen", "train", "job.json")
        twice = {"type": "concat", "sources": [cluster.described[0], {**cluster.described[1], "name": "train/0"}]}
        cluster.job(data={"train": twice, "batch": 32, "at": "partitions"})
        refused("another partition has the same name", "train", "job.json", "--workers", "2")
        cluster.job(data={"train": {**cluster.described[0], "name": ""}, "batch": 32, "at": "partitions"})
        refused("must be a name", "train", "job.json", "--workers", "2")
        refused("must say what the partition is called", "worker", "--join", "127.0.0.1:1", "--partition", "part-0.npz")
        one = "p=" + json.dumps(cluster.source(0))
        refused("is given twice, or too often", "worker", "--join", "127.0.0.1:1", "--partition", one, "--partition", one)
        refused("its examples are other ones in each epoch", "data", "partition", "p", json.dumps({"type": "digits", "size": 32}))
        cluster.job(data={"train": {**cluster.described[0], "source": cluster.source(1)}, "batch": 32})
        refused("has other rows than the partition", "train", "job.json")


if __name__ == "__main__":
    harness.main([
        the_bits_of_a_run_that_reads_files, transforms_are_fitted_to_rows_that_lie_elsewhere, a_killed_holder_is_waited_for, other_rows_are_refused_by_name,
        a_coordinator_that_comes_back_learns_who_holds_what, mistakes_are_explained
    ])
