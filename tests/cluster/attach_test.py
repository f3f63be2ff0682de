#!/usr/bin/env python3
"""`perigee attach` on real runs: watching, steering, who may; and pg.start with worker processes."""
import json
import os
import subprocess

import harness
from harness import Cluster, wait_until


def begin(cluster, *arguments, **changes):
    """A run that would go on for hours, with its address; the steering client stops it."""
    cluster.write_job(epochs=100000, checkpoint={"every_steps": 1000000}, **changes)
    train = cluster.train("--workers", "2", "--threads", "1", "--listen", "127.0.0.1:0", *arguments)
    train.wait_event("step", lambda event: event["workers"] == 2)
    return train, cluster.coordinator_address(train)


def attach(cluster, address, *lines, secret=True, status=0):
    """What the lines print; json.text makes JSON of a value."""
    key = ["--secret", cluster.secret()] if secret else []
    code, out, err = cluster.run("attach", address, *key, *[word for line in lines for word in ("-e", line)])
    assert code == status, (code, out, err)
    return (out + err).splitlines()


def rounds(train):
    return [event for event in train.of_kind("step")]


def a_run_is_watched_and_steered():
    with Cluster() as cluster:
        train, address = begin(cluster, "--secret", cluster.secret())
        state, workers, every = attach(cluster, address, "run.state", "#run.workers", "run.averaging.every")
        assert state in ('"training"', '"evaluating"', '"forming"') and workers == "2" and every == "4", (state, workers, every)

        # All replicas change at once: rounds of the new length are committed, which they are only if both hold the same bits.
        attach(cluster, address, "run.averaging.every = 16", "run.lr = 0.0005")
        train.wait_event("step", lambda event: event.get("every") == 16 and event["learning_rate"] == 0.0005)
        longer = attach(cluster, address, "a = run.progress", "repeat run:wait(0.02) b = run.progress until b.step >= a.step + 8",
                        "(b.examples - a.examples) / (b.step - a.step)")
        assert float(longer[0]) > 2 * 4 * 16, longer

        # A pause holds however many ask; it makes no rounds and costs no worker its place.
        attach(cluster, address, "run:pause()", 'repeat run:wait(0.05) until run.state == "paused"')
        first = attach(cluster, address, "run.progress.step")
        second = attach(cluster, address, "run:wait(1)  -- prints", "run.progress.step")
        assert first == second[-1:], (first, second)
        assert not train.of_kind("worker_lost"), train.of_kind("worker_lost")
        attach(cluster, address, "run:resume()", 'repeat run:wait(0.05) until run.progress.step > ' + first[0])

        # A kicked worker's place is taken by a new one, and its examples are not lost.
        attach(cluster, address, "workers = run.workers", "run:kick(2)")
        kicked = train.wait_event("worker_kicked")
        assert "started again" in kicked["done"], kicked
        train.wait_event("worker_joined", count=3)
        wait_until("two workers train again", lambda: attach(cluster, address, "#run.workers") == ["2"])

        attach(cluster, address, "run:checkpoint()")
        wait_until("the checkpoint", lambda: list((train.folder() / "checkpoints").glob("step-*.safetensors")))
        plotted = attach(cluster, address, "run:wait(1)", 'run:plot "loss"')
        assert any("step" in line for line in plotted), plotted
        over = attach(cluster, address, 'run:on("over", function(event) print("told " .. event.state) end)', "run:stop()", "run:wait(60).state")
        assert "told stopped" in over and over[-1] == '"stopped"', over
        assert train.wait() == 130, train.tail()
        assert train.of_kind("end")[-1]["stopped"] == "interrupted"
        cluster.check_ledger(train.folder())
        kinds = [event["event"] for event in train.events]
        for kind in ("every", "set", "paused", "resumed", "worker_kicked"):
            assert kinds.count(kind) == 1, (kind, kinds.count(kind))


def gradients_take_a_new_rate_together():
    with Cluster() as cluster:
        train, address = begin(cluster, "--secret", cluster.secret(), averaging="allreduce")
        attach(cluster, address, "run.lr = pg.cosine { from = 0.002, to = 0.002 }")
        train.wait_event("step", lambda event: event["learning_rate"] == 0.002)
        refused = attach(cluster, address, "run.averaging.every = 8", status=1)
        assert any("sends gradients" in line for line in refused), refused
        refused = attach(cluster, address, "run.lr = -1", status=1)
        assert any("out of range" in line for line in refused), refused
        value, = attach(cluster, address, "run.optimizer.weight_decay = 0.25", "run.optimizer.weight_decay")
        assert value == "0.25", value
        refused = attach(cluster, address, "run.batch = 8", status=1)
        assert any("cannot change in a run of several workers" in line for line in refused), refused
        attach(cluster, address, "run:stop()", "run:wait(60)")
        train.wait()
        assert not train.of_kind("hash_mismatch") and not train.of_kind("worker_lost")
        cluster.check_ledger(train.folder())


def who_has_no_secret_may_watch_a_run_without_one():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train("--listen", "127.0.0.1:0", "--min-workers", "2")
        train.wait_event("start")
        wait_until("its address", lambda: (train.folder() / "cluster.json").exists())
        address = cluster.coordinator_address(train)
        for _ in range(2):
            cluster.start("worker", "--join", address, "--threads", "1")
        train.wait_event("step", lambda event: event["workers"] == 2)
        state, = attach(cluster, address, "run.progress.workers", secret=False)
        assert state == "2", state
        for line in ("run:pause()", "run:kick(1)", "run.averaging.every = 8", "run.lr = 0.1", "run:checkpoint()", "run:stop()"):
            refused = attach(cluster, address, line, secret=False, status=1)
            assert any("watched, not steered" in text for text in refused) and any("--secret" in text for text in refused), refused
        steps = len(rounds(train))
        train.wait_event("step", count=steps + 1)
        train.kill()


def a_wrong_secret_or_none_does_not_get_in():
    with Cluster() as cluster:
        train, address = begin(cluster, "--secret", cluster.secret())
        wrong = cluster.folder / "wrong.key"
        harness.write_secret(wrong)
        status, out, err = cluster.run("attach", address, "--secret", wrong, "-e", "run.state")
        assert status == 6 and "secret" in err and not out, (status, out, err)
        status, out, err = cluster.run("attach", address, "-e", "run.state")
        assert status in (5, 6) and not out, (status, out, err)
        train.kill()


def what_is_no_run_is_told():
    with Cluster() as cluster:
        status, _, err = cluster.run("attach", "127.0.0.1:1", "-e", "run.state")
        assert status == 5 and "127.0.0.1:1" in err, err
        agent = cluster.agent("--slots", "1")
        status, _, err = cluster.run("attach", agent.address, "--secret", cluster.secret(), "-e", "run.state")
        assert status == 2 and "agent" in err, (status, err)


def what_the_coordinator_does_not_hold_is_told():
    with Cluster() as cluster:
        train, address = begin(cluster, "--secret", cluster.secret())
        for line in ("run.network", "run:predict(pg.zeros(1, 784))", 'run:eval "test"', 'run:save "x.safetensors"'):
            refused = attach(cluster, address, line, status=1)
            assert any("parameters" in text and "workers" in text for text in refused), refused
        refused = attach(cluster, address, "run:kick(9)", status=1)
        assert any("there is no worker 9" in text for text in refused), refused
        train.kill()


def a_launcher_that_is_killed_is_told():
    with Cluster() as cluster:
        train, address = begin(cluster, "--secret", cluster.secret())
        prompt = subprocess.Popen([harness.program(), "attach", address, "--secret", cluster.secret()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, cwd=cluster.folder)
        prompt.stdin.write("print(run.progress.workers)\n")
        prompt.stdin.flush()
        assert prompt.stdout.readline().strip() == "2"
        train.kill()
        out, _ = prompt.communicate("print(run:wait(60).state)\n", timeout=harness.DEADLINE)
        assert out.strip().endswith("lost"), out


def a_prompt_hosts_workers_of_its_own():
    with Cluster() as cluster:
        cluster.write_job(epochs=3)
        lines = ['run = pg.start("job.json", { workers = 2, threads = 1, out = "here" })', 'epochs = 0',
                 'run:on("epoch", function() epochs = epochs + 1 end)', "run:wait(90).state", "epochs", "run.progress.workers ~= nil"]
        code, out, err = cluster.run(*[word for line in lines for word in ("-e", line)])
        assert code == 0 and out.splitlines()[-3:] == ['"finished"', "3", "true"], (code, out, err)
        cluster.check_ledger(cluster.folder / "here", epochs=3)
        # Leaving the prompt ends the run, with a checkpoint, and no process stays behind.
        cluster.write_job(epochs=100000)
        lines = ['run = pg.start("job.json", { workers = 2, threads = 1, out = "left" })', "repeat run:wait(0.1) until run.progress.step > 5",
                 "#run.workers", "run.averaging.every = 8", "run:pause()", 'repeat run:wait(0.05) until run.state == "paused"', "run:resume()"]
        code, out, err = cluster.run(*[word for line in lines for word in ("-e", line)])
        assert code == 0 and out.splitlines()[0] == "2", (code, out, err)
        assert list((cluster.folder / "left" / "checkpoints").glob("step-*.safetensors"))
        cluster.check_ledger(cluster.folder / "left")
        mine = subprocess.run(["pgrep", "-f", str(cluster.folder)], capture_output=True, text=True, check=False).stdout.split()
        assert not [pid for pid in mine if int(pid) != os.getpid()], mine
        code, out, err = cluster.run("-e", 'run = pg.start("job.json", { workers = 2, folder = false })')
        assert code == 1 and "folder" in err, (code, err)


if __name__ == "__main__":
    harness.main([
        a_run_is_watched_and_steered, gradients_take_a_new_rate_together, who_has_no_secret_may_watch_a_run_without_one,
        a_wrong_secret_or_none_does_not_get_in, what_is_no_run_is_told, what_the_coordinator_does_not_hold_is_told,
        a_launcher_that_is_killed_is_told, a_prompt_hosts_workers_of_its_own
    ])
