#!/usr/bin/env python3
"""Where the workers' examples come from: read by each worker, or sent by the coordinator. Real processes."""
import json
import os
import signal
import struct

import harness
from harness import Cluster

IMAGES = {"type": "map", "source": {"type": "digits", "size": 512}, "transforms": [{"type": "standardize"}, {"type": "shift"}]}
TEST = {"type": "map", "source": {"type": "digits", "part": "test", "size": 256}, "transforms": [{"type": "standardize"}]}


def tensors(folder):
    """The bytes of the model's tensors: its header holds the job, which says where the data are."""
    content = (folder / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    return {name: content[8 + size + about["data_offsets"][0]:8 + size + about["data_offsets"][1]]
            for name, about in header.items() if name != "__metadata__"}


def both_ways(cluster, *arguments, data, **job):
    """The same job with the data at the workers and at the coordinator: the tensors and the last event of each."""
    # One private table of measured kernels for both: it decides in which order examples are summed.
    env = {"XDG_CACHE_HOME": str(cluster.folder / "cache")}
    found = []
    for at in ("worker", "coordinator"):
        cluster.write_job(data={**data, "at": at}, averaging={"type": "allreduce", "shards": 4}, **job)
        train = cluster.train(*arguments, env=env)
        assert train.wait() == 0, train.tail()
        found.append((tensors(train.folder()), train.of_kind("end")[-1]))
    return found


def assert_same(found):
    (here, end_here), (sent, end_sent) = found
    assert here.keys() == sent.keys() and len(here) > 1
    for name in here:
        assert here[name] == sent[name], f"{name} differs"
    assert end_here["test"] == end_sent["test"], (end_here, end_sent)


def the_parameters_are_the_same_bits():
    with Cluster() as cluster:
        assert_same(both_ways(cluster, "--workers", "2", data={"train": IMAGES, "test": TEST, "batch": 32}))


def text_gives_the_same_bits():
    with Cluster() as cluster:
        (cluster.folder / "input.txt").write_text("the quick brown fox jumps over the lazy dog; " * 40)
        text = {"type": "text", "file": "input.txt", "context": 6, "parts": {"train": 0.8, "test": 0.2}}
        assert_same(both_ways(cluster, "--workers", "3", epochs=1, data={"train": text, "test": {**text, "part": "test"}, "batch": 64},
                              network=[{"type": "embedding", "size": 29, "out": 8}, {"type": "flatten"}, {"type": "dense", "out": 29}]))


def weights_of_a_table_reach_the_workers():
    with Cluster() as cluster:
        (cluster.folder / "in.csv").write_text("a,b,w,y\n" + "".join(f"{i % 7},{i % 5},{1 + i % 4},{i % 2}\n" for i in range(256)))
        table = {"type": "csv", "file": "in.csv", "target": "y", "weight": "w"}
        network = [{"type": "dense", "out": 2}]
        weighted = both_ways(cluster, "--workers", "2", epochs=1, data={"train": table, "test": table, "batch": 32}, network=network)
        assert_same(weighted)
        plain = {"type": "csv", "file": "in.csv", "target": "y", "drop": ["w"]}
        alike = both_ways(cluster, "--workers", "2", epochs=1, data={"train": plain, "batch": 32}, network=network)
        assert alike[1][0]["dense1.weight"] != weighted[1][0]["dense1.weight"], "the weights count"


def mnist_reaches_a_machine_that_has_none():
    if not harness.has_mnist():
        raise harness.Skip("MNIST is not in PERIGEE_DATA")
    with Cluster() as cluster:
        nothing = cluster.folder / "nothing"
        nothing.mkdir()
        # Neither the data's folder nor a cache: a process that opened MNIST there would get a stand-in, and be refused.
        agent = cluster.agent("--data-root", nothing, "--slots", "2", env={"PERIGEE_DATA": "", "XDG_CACHE_HOME": str(nothing), "HOME": ""})
        few = {"type": "take", "count": 3000, "source": {"type": "mnist", "stand_in": False}}
        test = {"type": "take", "count": 500, "source": {"type": "mnist", "part": "test", "stand_in": False}}
        data = {"train": few, "test": test, "batch": 50}
        assert_same(both_ways(cluster, "--workers", "2", epochs=1, data=data))
        cluster.write_job(data={**data, "at": "coordinator"}, epochs=1)
        train = cluster.train("--agents", agent.address, "--workers", "2", "--secret", cluster.secret(), "--threads", "1")
        assert train.wait() == 0, train.tail()
        assert train.of_kind("end")[-1]["test"]["accuracy"] > 0.3, train.tail()
        assert list(nothing.rglob("*mnist*")) == []


def workers_ask_a_coordinator_that_comes_back():
    with Cluster() as cluster:
        cluster.write_job(data={"train": {"type": "digits", "size": 2048}, "batch": 16, "at": "coordinator"}, epochs=40)
        agent = cluster.agent("--slots", "2")
        arguments = ["--agents", agent.address, "--workers", "2", "--secret", cluster.secret(), "--threads", "1"]
        train = cluster.train(*arguments)
        train.wait_event("epoch", count=2)
        train.signal(signal.SIGKILL)
        train.wait()
        again = cluster.resume(train.folder(), *arguments)
        again.wait_event("coordinator_recovered")
        assert again.wait() == 0, again.tail()
        cluster.check_ledger(again.folder(), epochs=40)
        assert len(agent.of_kind("worker_started")) == 2, "the same workers all along"


def a_killed_worker_costs_nobody_his_examples():
    with Cluster() as cluster:
        cluster.write_job(data={"train": {"type": "digits", "size": 2048}, "batch": 16, "at": "coordinator"}, epochs=40)
        train = cluster.train("--workers", "2")
        train.wait_event("step", lambda e: e["workers"] == 2)
        os.kill(train.worker_pids()[0], signal.SIGKILL)
        train.wait_event("worker_joined", count=3)
        assert train.wait() == 0, train.tail()
        cluster.check_ledger(train.folder(), epochs=40)


def prepared_records_give_the_same_bits():
    with Cluster() as cluster:
        source = {"type": "map", "source": {"type": "digits", "size": 1024, "endless": False}, "transforms": [{"type": "standardize"}]}
        for compress in ("0", "3"):
            folder = "records" + compress
            code, _, errors = cluster.run("data", "prepare", json.dumps(source), folder, "--shard-records", "300", "--compress", compress)
            assert code == 0, errors
            data = {"train": {"type": "map", "source": {"type": "records", "folder": folder}, "transforms": [{"type": "shift"}]}, "batch": 32}
            assert_same(both_ways(cluster, "--workers", "2", epochs=1, data={**data, "test": {"type": "records", "folder": folder}}))


def killed_workers_leave_the_ledger_of_records_exact():
    with Cluster() as cluster:
        source = {"type": "digits", "size": 2048, "endless": False}
        code, _, errors = cluster.run("data", "prepare", json.dumps(source), "records", "--shard-records", "300", "--compress", "1")
        assert code == 0, errors
        cluster.write_job(data={"train": {"type": "records", "folder": "records"}, "batch": 16}, epochs=40)
        train = cluster.train("--workers", "4")
        train.wait_event("step", lambda e: e["workers"] == 4)
        for kill in range(4):  # an agent gives a worker up that crashes often in a short while: each of them once
            os.kill(train.worker_pids()[kill], signal.SIGKILL)
            train.wait_event("worker_joined", count=5 + kill)
        assert train.wait() == 0, train.tail()
        cluster.check_ledger(train.folder(), epochs=40)


def copies_that_differ_are_refused_by_name():
    with Cluster() as cluster:
        root = cluster.folder / "root"
        root.mkdir()
        rows = ["a,b,y", *(f"{i % 17},{i % 5},{i % 2}" for i in range(2000))]
        (cluster.folder / "in.csv").write_text("\n".join(rows) + "\n")
        rows[1501] = "9,9,1"  # no sample falls on it
        (root / "in.csv").write_text("\n".join(rows) + "\n")
        agent = cluster.agent("--data-root", root, "--slots", "1")

        def train(verify):
            source = {"type": "csv", "file": "in.csv", "target": "y"}
            cluster.write_job(data={"train": source, "batch": 50, "verify": verify}, network=[{"type": "dense", "out": 2}], epochs=1)
            return cluster.train("--agents", agent.address, "--secret", cluster.secret())

        sample, full = train("sample"), None
        assert sample.wait() == 0, sample.tail()
        full = train("full")
        assert full.wait() == 3, full.tail()
        refused = full.of_kind("worker_refused")[0]
        assert "another data set" in refused["cause"] and "train = " in refused["cause"] and str(root) in refused["cause"], refused


def mistakes_are_explained():
    with Cluster() as cluster:
        for key, value, hint in (("at", "coordinater", "coordinator"), ("verify", "ful", "full")):
            cluster.write_job(data={"train": IMAGES, "batch": 32, key: value})
            for more in ([], ["--workers", "2"]):
                status, _, err = cluster.run("train", "job.json", *more)
                assert status == 4 and key in err and f"'{hint}'" in err, err
        cluster.write_job(data={"train": IMAGES, "batch": 32, "at": "coordinator", "verify": "full"}, epochs=1)
        status, _, err = cluster.run("train", "job.json")
        assert status == 0, err  # one process reads its data itself


if __name__ == "__main__":
    harness.main([
        the_parameters_are_the_same_bits, text_gives_the_same_bits, weights_of_a_table_reach_the_workers, mnist_reaches_a_machine_that_has_none,
        workers_ask_a_coordinator_that_comes_back, a_killed_worker_costs_nobody_his_examples, prepared_records_give_the_same_bits, killed_workers_leave_the_ledger_of_records_exact,
        copies_that_differ_are_refused_by_name,
        mistakes_are_explained
    ])
