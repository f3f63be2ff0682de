#!/usr/bin/env python3
"""`perigee train --record` and `perigee replay`: real processes are recorded and killed, and what they came to is trained again bit for bit."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
from unittest import mock

import harness
from harness import Cluster, wait_until
from program_test import tensors_of

# The average of what was held and what one worker has made of it, by a program of the job's own.
OWN = {"type": "custom", "synchrony": "server", "every": 2, "rate": 0.5, "outer": {
    "program": [{"op": "mul", "in": ["rate", "delta"], "out": "t1"}, {"op": "sub", "in": ["global", "t1"], "out": "t2"}],
    "outputs": {"global": "t2"}}}
POLICIES = {
    "easgd": {"type": "easgd", "every": 2},
    "downpour": "downpour",
    "staleness_aware": {"type": "staleness_aware", "codec": "int8"},
    "fasgd": "fasgd",
    "async_local": {"type": "async_local", "every": 2, "codec": {"type": "topk", "share": 0.1}},
    "custom": OWN,
    "merged": {**OWN, "merge_every": 2},
}
SGD = {"type": "sgd", "lr": {"type": "cosine", "from": 0.02}, "momentum": 0.5}  # momentum is each worker's own
LONG = {"epochs": 400}  # of a run that is interrupted


def recorded(cluster, *arguments, **changes):
    cluster.write_job(**{"optimizer": SGD, **changes})
    return cluster.train("--record", "--threads", "1", *arguments)


def check_replay(cluster, folder):
    status, out, err = cluster.run("replay", folder, "--out", "again.safetensors")
    assert status == 0 and "to the last bit" in out, out + err
    rounds = cluster.check_ledger(folder)["rounds"]
    assert f"{rounds:,} rounds" in out, (out, rounds)
    return cluster.folder / "again.safetensors"


def every_policy_is_trained_again():
    for name, averaging in POLICIES.items():
        policy = {"type": averaging} if isinstance(averaging, str) else averaging
        with Cluster() as cluster:  # how stale the changes are is up to the machine, and so is what the guard against divergence sees
            train = recorded(cluster, "--workers", "3", averaging={**policy, "guard": False})
            assert train.wait() == 0, (name, train.tail())
            again = check_replay(cluster, train.folder())
            assert tensors_of(again) == tensors_of(train.folder() / "model.safetensors"), name


def killed(train, name, steps):
    """kill -9 once so many steps were told; a worker by that name has begun again when this returns."""
    train.wait_event("step", count=steps)
    before = train.workers()[name]
    os.kill(before, signal.SIGKILL)
    train.wait_event("worker_lost", lambda e: e["worker"] == name)
    wait_until(f"{name} is started again", lambda: train.workers().get(name, before) != before)


def stop(train):
    train.signal(signal.SIGTERM)
    assert train.wait() == 143, train.tail()


def host(train):
    return next(iter(train.workers())).split("/")[0]


def killed_workers_and_servers_are_in_the_record():
    for averaging in ({"type": "staleness_aware", "codec": "int8"}, {"type": "easgd", "every": 2}):
        with Cluster() as cluster:
            train = recorded(cluster, "--workers", "3", averaging=averaging, checkpoint={"every_steps": 50}, **LONG)
            train.wait_event("step")
            killed(train, f"{host(train)}/1", 3)
            killed(train, f"{host(train)}/server/0", len(train.of_kind("step")) + 3)
            train.wait_event("server_restored")
            train.wait_event("step", count=len(train.of_kind("step")) + 3)
            stop(train)
            check_replay(cluster, train.folder())
            record = (train.folder() / "record.jsonl").read_text().splitlines()
            assert sum("restored" in json.loads(line) for line in record) == 2, "the second server says from where it went on"
            # The run goes on, recorded as it was begun; the record of what the checkpoint does not hold is void.
            again = cluster.resume(train.folder(), "--workers", "3", "--threads", "1")
            again.wait_event("step", count=3)
            stop(again)
            check_replay(cluster, again.folder())


def what_was_changed_is_noticed():
    with Cluster() as cluster:
        train = recorded(cluster, "--workers", "2", averaging="staleness_aware", epochs=1)
        assert train.wait() == 0, train.tail()
        record = train.folder() / "record.jsonl"
        lines = record.read_text().splitlines()
        at = len(lines) // 2

        def replay_with(change, bare=False):
            copy = cluster.folder / "changed"
            shutil.copytree(train.folder(), copy)
            changed = [json.loads(line) for line in lines]
            change(changed)
            (copy / "record.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
            found = cluster.run("replay", copy / "record.jsonl" if bare else copy)
            shutil.rmtree(copy)
            return found

        def one_share(changed):  # another batch of the same size
            share = next(line for line in changed[at:] if line["merged"][0]["ranges"][0][1] >= 16)["merged"][0]
            share["ranges"][0][1] -= 16

        def one_digit(changed):
            changed[at]["hash"] = changed[at]["hash"][:-1] + ("0" if changed[at]["hash"][-1] != "0" else "1")

        def order(changed):
            changed[at]["merged"], changed[at + 1]["merged"] = changed[at + 1]["merged"], changed[at]["merged"]

        status, out, err = replay_with(one_share)
        assert status == 1 and "differs" in out, out + err
        status, out, err = replay_with(one_digit, bare=True)
        assert status == 1 and f"round {json.loads(lines[at])['round']} of" in out, out + err
        status, out, err = replay_with(one_digit)
        assert status == 3 and "ledger" in err, out + err
        status, out, err = replay_with(order)
        assert status in (1, 3), out + err
        status, out, err = replay_with(lambda changed: changed.pop())
        assert status == 3 and "the run went on without --record" in err, out + err
        status, out, err = replay_with(lambda changed: changed.pop(at))
        assert status == 3 and "does not follow" in err, out + err


STREAMING = {
    "streaming": {"type": "streaming", "every": 8},
    "late": {"type": "streaming", "every": 8, "fragments": 2, "late": 1, "keep": 0.3},
    "coded": {"type": "streaming", "every": 6, "fragments": 3, "codec": "int8"},
    "overlap": {"type": "periodic", "every": 3, "overlap": True},
}


def rounds_that_overlap_training_are_trained_again():
    for name, averaging in STREAMING.items():
        with Cluster() as cluster:
            train = recorded(cluster, "--workers", "3", averaging={**averaging, "guard": False})
            assert train.wait() == 0, (name, train.tail())
            again = check_replay(cluster, train.folder())
            assert tensors_of(again) == tensors_of(train.folder() / "model.safetensors"), name


def check_changed_image(cluster, folder):
    """One digit of what a worker gave to another that began again: the giver's line and the taker's agree, and the parameters do not."""
    changed = cluster.folder / "changed"
    shutil.copytree(folder, changed)
    files = sorted((changed / "record").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    digest = ({line.get("imaged") for line in lines} & {line.get("image") for line in lines if "loaded" in line}).pop()
    for file in files:
        file.write_text(file.read_text().replace(digest, ("0" if digest[0] != "0" else "1") + digest[1:]))
    status, out, err = cluster.run("replay", changed)
    assert status == 3 and "comes out otherwise; the record, or the data of its job, was changed since" in err, out + err
    shutil.rmtree(changed)


def killed_workers_of_streaming_are_in_the_record():
    with Cluster() as cluster:
        averaging = {"type": "streaming", "every": 8, "guard": False}
        train = recorded(cluster, "--workers", "3", averaging=averaging, checkpoint={"every_steps": 50}, **LONG)
        train.wait_event("step")
        for worker, steps in ((1, 3), (0, 6)):
            killed(train, f"{host(train)}/{worker}", steps)
        train.wait_event("step", count=len(train.of_kind("step")) + 4)
        stop(train)
        check_replay(cluster, train.folder())
        check_changed_image(cluster, train.folder())
        again = cluster.resume(train.folder(), "--workers", "2", "--threads", "1")
        again.wait_event("step", count=4)
        stop(again)
        check_replay(cluster, again.folder())
        # One digit of one worker's batches, and a worker's file that is missing.
        files = sorted((again.folder() / "record").glob("*.jsonl"))
        lines = files[0].read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith('{"train"') and any(r[1] >= 16 for r in json.loads(line)["ranges"][:1]))
        changed = json.loads(lines[at])
        changed["ranges"][0][1] -= 16
        files[0].write_text("\n".join([*lines[:at], json.dumps(changed), *lines[at + 1:]]) + "\n")
        status, out, err = cluster.run("replay", again.folder())
        assert status == 1 and "differs" in out, out + err
        files[0].unlink()
        status, out, err = cluster.run("replay", again.folder())
        assert status == 3 and ("lacks" in err or "waits for what no other worker's record has" in err), out + err


def kernels_that_others_measured_meanwhile_do_not_count():
    with Cluster() as cluster, tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
        train = recorded(cluster, "--workers", "2", averaging="staleness_aware", checkpoint={"every_steps": 50}, **LONG)
        train.wait_event("step", count=3)
        stop(train)
        tables = list(pathlib.Path(cache).glob("perigee/tuning-*.json"))
        assert tables, "no table of measured kernels"
        for table in tables:  # another process has measured more, and found other kernels faster
            choices = json.loads(table.read_text())
            table.write_text(json.dumps({**{key: "reference" for key in choices}, "another call": "a kernel"}))
        again = cluster.resume(train.folder(), "--workers", "2", "--threads", "1")
        again.wait_event("step", count=3)
        stop(again)
        check_replay(cluster, again.folder())


def only_runs_that_depend_on_time_are_recorded():
    with Cluster() as cluster:
        status, _, err = cluster.run("train", "job.json", "--workers", "2", "--record")
        assert status == 2 and "and those that train while a round is on its way" in err, err
        status, _, err = cluster.run("replay", cluster.folder)
        assert status == 2 and "perigee train --record" in err, err


if __name__ == "__main__":
    harness.main([every_policy_is_trained_again, killed_workers_and_servers_are_in_the_record, what_was_changed_is_noticed,
                  rounds_that_overlap_training_are_trained_again, killed_workers_of_streaming_are_in_the_record,
                  kernels_that_others_measured_meanwhile_do_not_count, only_runs_that_depend_on_time_are_recorded])
