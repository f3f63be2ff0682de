#!/usr/bin/env python3
"""`perigee train` in a cluster as a user meets it: real processes, sockets, signals and files."""
import json
import os
import signal
import struct

import harness
from harness import Cluster, wait_until


def end_of(train):
    assert train.wait() == 0, train.tail()
    return train.of_kind("end")[-1]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


# mean - rate * momentum * velocity, with velocity = momentum * velocity + delta
OWN_STEP = {"type": "custom", "every": 4, "momentum": 0.5, "rate": 0.1, "state": {"velocity": 0}, "outer": {
    "program": [{"op": "mul", "in": ["momentum", "velocity"], "out": "t1"}, {"op": "add", "in": ["t1", "delta"], "out": "t2"},
                {"op": "mul", "in": ["rate", "t2"], "out": "t3"}, {"op": "sub", "in": ["mean", "t3"], "out": "t4"}],
    "outputs": {"global": "t4", "velocity": "t2"}}}


def two_workers_train_by_each_policy():
    for averaging in ({"type": "allreduce"}, {"type": "periodic", "every": 4}, {"type": "bmuf", "every": 4}, OWN_STEP):
        with Cluster() as cluster:
            cluster.write_job(averaging=averaging)
            train = cluster.train("--workers", "2")
            end = end_of(train)
            assert end["test"]["accuracy"] > 0.5, end
            assert end["workers"] == 2, end
            epochs = train.of_kind("epoch")
            assert [e["epoch"] for e in epochs] == [1, 2], epochs
            assert all("test" in e and "loss" in e for e in epochs), epochs
            folder = train.folder()
            for file in ("model.safetensors", "report.json", "details.json", "report.html", "curves.svg", "ledger", "job.json", "log.jsonl"):
                assert (folder / file).is_file(), file
            cluster.check_ledger(folder, epochs=2)
            status, out, err = cluster.run("eval", folder, "--log", "json")
            assert status == 0, err
            assert abs(json.loads(out)["test"]["accuracy"] - end["test"]["accuracy"]) < 1e-9, (out, end)


def tensors_of(path):
    """Names and bytes of a .safetensors file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    return {name: content[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for name, t in header.items() if name != "__metadata__"}


def a_resumed_run_has_its_outer_state():
    with Cluster() as cluster:
        cluster.write_job(epochs=20, averaging={"type": "diloco", "every": 4, "momentum": 0.5})
        train = cluster.train("--workers", "2")
        train.wait_event("epoch")
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        checkpoint = cluster.folder / train.of_kind("end")[-1]["checkpoint"]
        tensors = tensors_of(checkpoint)
        velocity = [name for name in tensors if name.startswith("outer/velocity/")]
        assert len(velocity) == 4 and any(any(tensors[name]) for name in velocity), sorted(tensors)
        rounds = cluster.ledger(train.folder())["rounds"]
        again = cluster.resume(train.folder(), "--workers", "2")
        end_of(again)
        # The ledger's hashes are of parameters and outer state: only what came after the checkpoint is trained again.
        assert cluster.check_ledger(again.folder(), epochs=20)["voided"] == rounds - int(checkpoint.stem.split("-")[1])
        assert not [name for name in tensors_of(again.folder() / "model.safetensors") if name.startswith("outer/")]


def real_mnist_trains():
    if not harness.has_mnist():
        raise harness.Skip("MNIST is not in PERIGEE_DATA")
    with Cluster() as cluster:
        cluster.write_job(data={"train": {"type": "mnist"}, "test": {"type": "mnist", "part": "test"}, "batch": 64}, epochs=1)
        end = end_of(cluster.train("--workers", "2"))
        assert end["test"]["accuracy"] > 0.9, end


def agents_run_the_workers():
    with Cluster() as cluster:
        agents = [cluster.agent("--slots", "2", "--name", name) for name in ("a", "b")]
        train = cluster.train("--agents", ",".join(a.address for a in agents), "--secret", cluster.secret(), "--threads", "1")
        end_of(train)
        cluster.check_ledger(train.folder(), epochs=2)
        names = {e["worker"] for e in train.of_kind("worker_joined")}
        assert names == {"a/0", "b/0"}, names
        status, out, err = cluster.run("status", agents[0].address, "--secret", cluster.secret(), "--json")
        assert status == 0 and json.loads(out)["role"] == "agent", err
        for agent in agents:
            agent.signal(signal.SIGTERM)
            assert agent.wait() == 143, agent.tail()


def all_workers_are_there_when_it_begins():
    with Cluster() as cluster:
        for averaging in ({"type": "allreduce"}, {"type": "periodic", "every": 4}):
            cluster.write_job(averaging=averaging, epochs=1)
            train = cluster.train("--workers", "3")
            end_of(train)
            steps = train.of_kind("step")
            assert steps[0]["workers"] == 3 and steps[0]["step"] == 1, steps[0]
            assert all(s["learning_rate"] > 0 for s in steps), steps
            hosts = {w["host"] for e in train.of_kind("workers") for w in e["workers"]}
            assert not any("#" in host for host in hosts), hosts  # the machine's identity is not for people


def a_worker_that_joins_knows_its_learning_rate():
    with Cluster() as cluster:
        cluster.write_job(epochs=400, averaging={"type": "allreduce"})
        train = cluster.train("--workers", "2")
        train.wait_event("step", lambda e: e["workers"] == 2)
        os.kill(train.worker_pids()[1], signal.SIGKILL)
        train.wait_event("worker_joined", count=3)
        count = len(train.of_kind("step"))
        train.wait_event("step", lambda e: e["workers"] == 2, count=count + 1)
        train.signal(signal.SIGTERM)
        train.wait()
        assert all(s["learning_rate"] > 0 for s in train.of_kind("step")), train.tail()


def a_wrong_secret_is_refused():
    with Cluster() as cluster:
        agent = cluster.agent()
        other = cluster.folder / "other.key"
        other.touch(0o600)
        other.write_text(os.urandom(32).hex() + "\n")
        train = cluster.train("--agents", agent.address, "--secret", other)
        assert train.wait() == 6, train.tail()
        assert cluster.run("status", agent.address, "--secret", other)[0] == 6
        assert agent.running()


def a_worker_joins_while_it_trains():
    with Cluster() as cluster:
        cluster.write_job(epochs=400)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0", "--secret", cluster.secret())
        train.wait_event("step")
        worker = cluster.start("worker", "late", "--join", cluster.coordinator_address(train), "--secret", cluster.secret())
        train.wait_event("worker_joined", lambda e: e["worker"] == "late")
        train.wait_event("step", lambda e: e["workers"] == 2)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143, worker.tail()
        train.wait_event("step", lambda e: e["workers"] == 1 and e["step"] > 0)
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        cluster.check_ledger(train.folder())


def without_a_secret_a_run_on_loopback_is_open_to_this_machine():
    with Cluster() as cluster:
        cluster.write_job(epochs=400)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0")
        train.wait_event("step")
        address = cluster.coordinator_address(train)
        worker = cluster.start("worker", "late", "--join", address)
        train.wait_event("worker_joined", lambda e: e["worker"] == "late")
        train.wait_event("step", lambda e: e["workers"] == 2)
        assert cluster.run("status", address)[0] == 0
        for process in (worker, train):
            process.signal(signal.SIGTERM)
            assert process.wait() == 143, process.tail()


def who_forgets_the_secret_is_reminded():
    with Cluster() as cluster:
        agent = cluster.agent()
        status, _, err = cluster.run("status", agent.address)
        assert status == 5 and "--secret" in err, err


def a_killed_worker_is_started_again():
    with Cluster() as cluster:
        cluster.write_job(epochs=60)
        train = cluster.train("--workers", "2")
        train.wait_event("step", lambda e: e["workers"] == 2)
        victim = train.worker_pids()[1]
        os.kill(victim, signal.SIGKILL)
        lost = train.wait_event("worker_lost")
        assert "signal 9" in lost["cause"] and "started again" in lost["done"], lost
        train.wait_event("worker_joined", count=3)
        end_of(train)
        assert len(train.of_kind("worker_lost")) == 1, "one line for one fault"
        cluster.check_ledger(train.folder(), epochs=60)


def sigterm_leaves_a_checkpoint_that_resumes():
    with Cluster() as cluster:
        cluster.write_job(epochs=60)
        train = cluster.train("--workers", "2")
        train.wait_event("epoch")
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        end = train.of_kind("end")[-1]
        assert end["stopped"] == "interrupted" and (cluster.folder / end["checkpoint"]).is_file(), end
        again = cluster.resume(train.folder(), "--workers", "2", "--epochs", "60")
        start = again.wait_event("start")
        assert start["step"] > 0, start
        end_of(again)
        cluster.check_ledger(again.folder(), epochs=60)


def phases_look_like_one_run():
    encoder = {"type": "dense", "out": 16, "activation": "tanh", "name": "encoder"}
    coder = {"network": ["flatten", encoder, {"type": "dense", "out": 784, "name": "decoder"}, {"type": "reshape", "shape": [1, 28, 28]}],
             "loss": "mse", "target": "x", "epochs": 2}
    classes = {"network": ["flatten", encoder, {"type": "dense", "out": 10, "name": "classes"}], "loss": "cross_entropy", "epochs": 3}
    with Cluster() as cluster:
        cluster.write_job(phases=[coder, classes], network=classes["network"])
        train = cluster.train("--workers", "2")
        while train.wait_event("epoch")["epoch"] < 4:
            pass
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        folder = train.folder()
        assert [p["phase"] for p in train.of_kind("phase")] == [1, 2], train.of_kind("phase")
        assert (folder / "phase-1/model.safetensors").is_file() and not (folder / "model.safetensors").exists()
        again = cluster.resume(folder, "--workers", "2")
        end = end_of(again)
        assert end["epochs"] == 5 and end["test"]["accuracy"] > 0.5, end
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        assert [e["epoch"] for e in log if e["event"] == "epoch"] == [1, 2, 3, 4, 5], log
        progress = [e["progress"] for e in again.of_kind("step")]
        assert progress == sorted(progress) and abs(progress[-1] - 1) < 1e-6, progress
        first, last = tensors_of(folder / "phase-1/model.safetensors"), tensors_of(folder / "model.safetensors")
        assert "decoder.weight" in first and "decoder.weight" not in last and "classes.weight" in last
        for file in ("report.json", "report.html", "curves.svg", "job.json"):
            assert (folder / file).is_file(), file


def a_resumed_run_must_hold_what_is_trained():
    with Cluster() as cluster:
        cluster.write_job(epochs=3)
        train = cluster.train("--workers", "2")
        end_of(train)
        for changes, cause, remedy in ((("--epochs", "1"), "has trained more than the job asks for; got 6144 examples", "'epochs' of at least 3"),
                                       (("--set", "steps=4"), "trained more than the job", "more 'steps'"),
                                       (("--set", "data.train.size=1024"), "had another size; got 1024 examples, expected 2048", "these data again")):
            status, _, err = cluster.run("train", "--log", "json", "--resume", train.folder(), "--workers", "2", *changes)
            assert status == 2 and cause in err and remedy in err and str(train.folder()) in err, err
        end_of(cluster.resume(train.folder(), "--workers", "2", "--epochs", "3"))
        end_of(cluster.resume(train.folder(), "--workers", "2", "--epochs", "4"))
        cluster.check_ledger(train.folder(), epochs=4)


def a_run_that_went_back_does_not_resume_what_it_left():
    with Cluster() as cluster:
        cluster.write_job(epochs=60, checkpoint={"keep": 100})
        train = cluster.train("--workers", "2")
        train.wait_event("epoch", count=30)
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        checkpoints = train.folder() / "checkpoints"
        early, *_, late = sorted(checkpoints.glob("step-*"))
        again = cluster.resume(early, "--workers", "2")
        again.wait_event("rounds_voided")
        again.signal(signal.SIGKILL)  # many epochs before it comes to the rounds that it left
        again.wait()
        late = late if late.exists() else checkpoints / f"void-{late.name}"
        status, _, err = cluster.run("train", "--log", "json", "--resume", late, "--workers", "2")
        assert status == 4 and "became void; the run went on without it" in err and "continue from an older checkpoint of this run" in err, err
        last = cluster.resume(train.folder(), "--workers", "2")
        end_of(last)
        found = cluster.check_ledger(train.folder(), epochs=60)
        assert found["gaps"] == 0, found


def a_killed_launcher_takes_its_workers_along_and_resumes():
    with Cluster() as cluster:
        cluster.write_job(epochs=60)
        train = cluster.train("--workers", "2")
        train.wait_event("epoch", count=3)
        pids = train.worker_pids()
        train.signal(signal.SIGKILL)
        train.wait()
        wait_until("the workers' end", lambda: not any(b"worker" in command_line(pid) for pid in pids))
        again = cluster.resume(train.folder(), "--workers", "2")
        assert again.wait_event("start")["step"] > 0
        end_of(again)
        cluster.check_ledger(again.folder(), epochs=60)


def a_run_stops_with_the_process_that_it_is_told():
    with Cluster() as cluster:
        cluster.write_job(epochs=5000)
        train = cluster.train("--workers", "2", command=["sh", "-c", '"$0" "$@" --parent $$; true'])
        train.wait_event("epoch")
        train.signal(signal.SIGKILL)  # of the shell
        end = train.wait_event("end")
        assert end["stopped"] == "interrupted" and (cluster.folder / end["checkpoint"]).is_file(), end
        train.wait()


def workers_under_an_agent_outlive_their_launcher():
    with Cluster() as cluster:
        cluster.write_job(epochs=200)
        agent = cluster.agent("--slots", "2")
        arguments = ["--agents", agent.address, "--workers", "2", "--secret", cluster.secret(), "--threads", "1"]
        train = cluster.train(*arguments)
        train.wait_event("epoch", count=3)
        train.signal(signal.SIGKILL)
        train.wait()
        again = cluster.resume(train.folder(), *arguments)
        again.wait_event("coordinator_recovered")
        end_of(again)
        found = cluster.check_ledger(again.folder(), epochs=200)
        assert found["voided"] == 0, found  # the truth is in the replicas
        assert len(agent.of_kind("worker_started")) == 2, "the same workers all along"


def workers_end_with_their_agent():
    with Cluster() as cluster:
        cluster.write_job(epochs=200)
        agents = [cluster.agent("--slots", "1", "--name", name) for name in ("a", "b")]
        train = cluster.train("--agents", ",".join(a.address for a in agents), "--secret", cluster.secret(), "--threads", "1")
        train.wait_event("step", lambda e: e["workers"] == 2)
        orphan = agents[0].worker_pids()[0]
        agents[0].signal(signal.SIGKILL)
        agents[0].wait()
        try:
            wait_until("the worker's end", lambda: b"worker" not in command_line(orphan))
        except AssertionError:
            os.kill(orphan, signal.SIGKILL)
            raise
        lost = train.wait_event("worker_lost")
        assert lost["worker"] == "a/0", lost
        assert agents[1].worker_pids(), "the other agent's worker trains on"
        end_of(train)
        cluster.check_ledger(train.folder(), epochs=200)


def eval_and_predict_share_the_work():
    with Cluster() as cluster:
        train = cluster.train()
        assert train.wait() == 0, train.tail()
        folder = train.folder()
        alone, shared = (json.loads(cluster.run("eval", folder, "--log", "json", *more)[1]) for more in ([], ["--workers", "3"]))
        assert abs(alone["report"].pop("loss") - shared["report"].pop("loss")) < 1e-12
        assert alone["report"] == shared["report"]
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (10, 1, 28, 28), }"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        for name in "abc":
            (cluster.folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + os.urandom(7840))
        for files, workers in (("abc", 2), ("ab", 4), ("a", 3), ("a", 16)):
            files = [f"{name}.npy" for name in files]
            alone = cluster.run("predict", folder, *files, "--json")
            shared = cluster.run("predict", folder, *files, "--json", "--workers", workers)
            assert alone[0] == 0 and len(alone[1].splitlines()) == 10 * len(files), alone
            assert shared == alone, (shared, alone)
        assert cluster.run("predict", folder, "none.npy", "--workers", "2")[0] == 2


def an_agent_opens_data_only_under_its_root():
    with Cluster() as cluster:
        root = cluster.folder / "root"
        root.mkdir()
        rows = "a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(256))
        (root / "in.csv").write_text(rows)
        (cluster.folder / "in.csv").write_text(rows)  # the launcher's own copy
        (cluster.folder / "out.csv").write_text(rows)
        (root / "link.csv").symlink_to(cluster.folder / "out.csv")
        (cluster.folder / "link.csv").write_text(rows)
        agent = cluster.agent("--data-root", root, "--slots", "1")
        network = [{"type": "dense", "out": 2}]

        def train(file):
            source = {"type": "csv", "file": file, "target": "y"}
            cluster.write_job(data={"train": source, "batch": 16}, network=network, epochs=1)
            return cluster.train("--agents", agent.address, "--secret", cluster.secret())

        inside = train("in.csv")
        assert inside.wait() == 0, inside.tail()
        for file in ("link.csv", str(cluster.folder / "out.csv")):
            outside = train(file)
            assert outside.wait() == 3, outside.tail()
            assert "leads out of the folder" in outside.stderr(), outside.tail()


def a_mean_by_examples_of_weighted_ones_is_told():
    with Cluster() as cluster:
        (cluster.folder / "in.csv").write_text("a,w,y\n" + "".join(f"{i % 7},{1 + i % 3},{i % 2}\n" for i in range(64)))
        for weight, codec in (("w", "int8"), ("w", None), (None, "int8")):
            source = {"type": "csv", "file": "in.csv", "target": "y", **({"weight": weight} if weight else {"drop": ["w"]})}
            cluster.write_job(data={"train": source, "batch": 16}, network=[{"type": "dense", "out": 2}], epochs=1,
                              averaging={"type": "periodic", "every": 2, **({"codec": codec} if codec else {})})
            train = cluster.train("--workers", "2")
            end_of(train)
            told = "averaging 'periodic' weighs each worker's part by its examples" in train.stderr()
            assert told == bool(weight and codec), (weight, codec, train.tail())


def a_run_that_learns_nothing_is_not_divergent():
    for averaging in ({"type": "gossip", "every": 4, "consensus": 8}, {"type": "diloco", "every": 8}):
        with Cluster() as cluster:
            cluster.write_job(epochs=30, averaging=averaging, optimizer={"type": "sgd", "lr": 1e-30}, checkpoint={"every_epochs": 0},
                              data={"train": {"type": "digits", "size": 1024}, "batch": 8})
            train = cluster.train("--workers", "2", "--threads", "1")
            assert train.wait() == 0, train.tail()
            assert train.of_kind("epoch")[-1]["loss"] > 2, "it has learnt nothing"


def a_plain_run_of_shards_has_the_bits_of_any_number_of_workers():
    with Cluster() as cluster:
        cluster.write_job(epochs=1, averaging={"type": "allreduce", "shards": 4},
                          data={**harness.JOB["data"], "batch": 64, "global_batch": 64})
        models = []
        for workers in ((), ("--workers", "1"), ("--workers", "2")):
            train = cluster.train("--threads", "1", *workers)
            end = end_of(train)
            models.append(tensors_of(cluster.folder / end["model"]))
        assert models[0] == models[1] == models[2], [name for name in models[0] if len({m[name] for m in models}) > 1]


def describe_says_whether_the_averaging_fits_a_link():
    with Cluster() as cluster:
        cluster.write_job(network=[{"type": "dense", "out": 400, "activation": "relu"}, {"type": "dense", "out": 10}])
        link = ("describe", "job.json", "--step-time", "1ms", "--bandwidth")
        status, out, err = cluster.run(*link, "2Mbit")
        assert status == 0 and "warning: averaging 'periodic' does not fit the link" in out and "codec = \"int4\" } would leave" in out, (out, err)
        status, out, err = cluster.run(*link, "2Mbit", "--format", "json")
        told = json.loads(out)["link"]
        assert told["training_share"] < 0.01 and "pg.averaging." in told["warning"] and not told["measured"], told
        status, out, err = cluster.run(*link, "10Gbit")
        assert status == 0 and "link: 4 ms of training" in out and "warning" not in out, (out, err)


def mistakes_are_explained():
    with Cluster() as cluster:
        status, _, err = cluster.run("train", "job.json", "--listen", "0.0.0.0:0")
        assert status == 2 and "secret" in err, err
        status, _, err = cluster.run("train", "job.json", "--min-workers", "2")
        assert status == 2 and "--workers" in err, err
        status, _, err = cluster.run("train", "job.json", "--workers", "1", "--min-workers", "3")
        assert status == 2 and "3 of 1" in err and "--listen" in err, err
        cluster.write_job("broken.json", network=[{"type": "dens", "out": 3}])
        status, _, err = cluster.run("train", "broken.json", "--workers", "2")
        assert status == 4 and "dense" in err, err
        (cluster.folder / "text.txt").write_text("she sells sea shells " * 20)
        text = {"type": "text", "file": "text.txt", "context": 4, "streams": 4, "targets": "every"}
        runs = len(list((cluster.folder / "runs").iterdir()))
        for at in ("worker", "coordinator"):
            cluster.write_job("streams.json", network=[{"type": "embedding", "size": 9, "out": 4}, {"type": "gru", "units": 9, "state": "carry"}],
                              data={"train": text, "batch": 4, "at": at})
            status, _, err = cluster.run("train", "streams.json", "--workers", "2")
            assert status == 2 and "deals out the 4 streams to the workers" in err, err
            assert len(list((cluster.folder / "runs").iterdir())) == runs, "a worker was started"
        status, _, err = cluster.run("status", "127.0.0.1:1")
        assert status == 5 and "127.0.0.1:1" in err, err


if __name__ == "__main__":
    harness.main([
        two_workers_train_by_each_policy, a_resumed_run_has_its_outer_state, real_mnist_trains, agents_run_the_workers,
        all_workers_are_there_when_it_begins, a_worker_that_joins_knows_its_learning_rate, a_wrong_secret_is_refused,
        a_worker_joins_while_it_trains, without_a_secret_a_run_on_loopback_is_open_to_this_machine, who_forgets_the_secret_is_reminded,
        a_killed_worker_is_started_again, sigterm_leaves_a_checkpoint_that_resumes, a_resumed_run_must_hold_what_is_trained,
        a_run_that_went_back_does_not_resume_what_it_left,
        a_killed_launcher_takes_its_workers_along_and_resumes, a_run_stops_with_the_process_that_it_is_told, workers_under_an_agent_outlive_their_launcher,
        workers_end_with_their_agent, eval_and_predict_share_the_work, an_agent_opens_data_only_under_its_root, a_mean_by_examples_of_weighted_ones_is_told,
        a_run_that_learns_nothing_is_not_divergent, a_plain_run_of_shards_has_the_bits_of_any_number_of_workers, describe_says_whether_the_averaging_fits_a_link,
        mistakes_are_explained
    ])
