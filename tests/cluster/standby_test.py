#!/usr/bin/env python3
"""A standby in real processes: the launcher is killed or stopped, and the run goes on where the standby is."""
import json
import os
import pathlib
import signal
import subprocess

import harness
from harness import Cluster, wait_until

EPOCHS = 200


def start(cluster, *arguments, epochs=EPOCHS, agent_arguments=(), **job):
    """Two agents with a worker each; the second one also has the standby."""
    cluster.write_job(epochs=epochs, **job)
    agents = [cluster.agent("--slots", "2", "--name", name, *agent_arguments) for name in ("a", "b")]
    train = cluster.train("--agents", ",".join(a.address for a in agents), "--secret", cluster.secret(), "--threads", "1",
                          "--standby", agents[1].address, *arguments)
    ready = train.wait_event("standby_ready")
    train.wait_event("epoch", count=3)
    return agents, train, ready["address"]


def wait_said(agent, words):
    return agent.wait_event("said", lambda e: e["worker"] == "b/standby" and words in e["line"])["line"]


def workers_started(agents):
    return [len([e for e in agent.of_kind("worker_started") if "standby" not in e["worker"]]) for agent in agents]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def run_folders(cluster):
    return sorted((cluster.folder / "runs").iterdir(), key=lambda folder: folder.stat().st_ctime)


def standby_folder(cluster, train):
    others = [f for f in run_folders(cluster) if f.resolve() != train.folder().resolve()]
    assert len(others) == 1, others
    return others[0]


def end_of_standby(cluster, agent, folder):
    """The "end" event in the log of the standby's own run folder."""
    ended = agent.wait_event("worker_ended", lambda e: e["worker"] == "b/standby")
    assert ended.get("code") == 0, (ended, agent.tail())
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return events, [e for e in events if e["event"] == "end"][-1]


def records_of_first(cluster, first, second):
    """What the launcher that was lost has as counted, its successor has, too."""
    one, other = cluster.ledger(first), cluster.ledger(second)
    assert one["duplicates"] == 0 and one["gaps"] == 0, one
    assert one["rounds"] <= other["rounds"], (one, other)


def a_killed_launcher_is_replaced_by_its_standby():
    for averaging, epochs in ((harness.JOB["averaging"], EPOCHS), ({"type": "allreduce"}, 60)):
        with Cluster() as cluster:
            agents, train, address = start(cluster, averaging=averaging, epochs=epochs)
            status, out, err = cluster.run("status", address, "--secret", cluster.secret(), "--json")
            assert status == 0 and json.loads(out)["role"] == "standby", (out, err)
            before = workers_started(agents)
            train.signal(signal.SIGKILL)
            train.wait()
            line = wait_said(agents[1], "took over")
            assert workers_started(agents) == before, "they go on with what they hold"
            assert address in line and "was lost" in line, line
            folder = standby_folder(cluster, train)
            events, end = end_of_standby(cluster, agents[1], folder)
            assert end["test"]["accuracy"] > 0.7, end
            took_over = [e for e in events if e["event"] == "took_over"]
            assert len(took_over) == 1 and took_over[0]["generation"] >= 1_000_000, took_over
            cluster.check_ledger(folder, epochs=epochs)
            records_of_first(cluster, train.folder(), folder)
            for file in ("model.safetensors", "report.json", "ledger", "job.json", "log.jsonl"):
                assert (folder / file).is_file(), file
            assert list((folder / "checkpoints").iterdir()), "no checkpoint"
            status, out, err = cluster.run("eval", folder, "--log", "json")
            assert status == 0 and abs(json.loads(out)["test"]["accuracy"] - end["test"]["accuracy"]) < 1e-9, (out, err)


def a_stopped_launcher_is_fenced_when_it_comes_back():
    with Cluster() as cluster:
        agents, train, address = start(cluster)
        before = workers_started(agents)
        train.signal(signal.SIGSTOP)
        wait_said(agents[1], "took over")
        train.signal(signal.SIGCONT)
        assert train.wait() == 5, train.tail()
        assert "another coordinator has taken over" in train.stderr() and address in train.stderr(), train.tail()
        assert workers_started(agents) == before, "its end does not end the workers"
        folder = standby_folder(cluster, train)
        _, end = end_of_standby(cluster, agents[1], folder)
        assert end["test"]["accuracy"] > 0.7, end
        cluster.check_ledger(folder, epochs=EPOCHS)
        records_of_first(cluster, train.folder(), folder)


def attach(cluster, address, *lines):
    status, out, err = cluster.run("attach", address, "--secret", cluster.secret(), *[word for line in lines for word in ("-e", line)])
    assert status == 0, (status, out, err)
    return out.splitlines()


def a_steered_run_stays_steered_by_its_standby():
    with Cluster() as cluster:
        agents, train, address = start(cluster, epochs=100_000)
        first = cluster.coordinator_address(train)
        prompt = subprocess.Popen([harness.program(), "attach", first, "--secret", cluster.secret()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, cwd=cluster.folder)
        prompt.stdin.write("print(run.progress.workers)\n")
        prompt.stdin.flush()
        assert prompt.stdout.readline().strip() == "2"
        attach(cluster, first, "run.averaging.every = 16", "run.lr = 0.0005", "run:pause()", 'repeat run:wait(0.05) until run.state == "paused"')
        train.signal(signal.SIGKILL)
        train.wait()
        wait_said(agents[1], "took over")
        wait_until("the run paused again", lambda: attach(cluster, address, "run.state") == ['"paused"'])
        every, step = attach(cluster, address, "run.averaging.every", "run.progress.step")
        status, out, err = cluster.run("status", address, "--secret", cluster.secret(), "--json")
        assert every == "16" and json.loads(out)["settings"] == {"optimizer.lr": 0.0005}, (every, out, err)
        assert attach(cluster, address, "run:wait(1) -- prints", "run.progress.step")[-1] == step, "a pause holds"
        # Who was attached to the one that was is attached to its standby now.
        prompt.stdin.write(f"run:resume() repeat run:wait(0.05) until run.progress.step > {step} print('it goes on')\n")
        prompt.stdin.flush()
        said = prompt.stdout.readline()
        assert "it goes on" in said, said
        attach(cluster, address, "run:stop()", "run:wait(60)")
        prompt.communicate("", timeout=harness.DEADLINE)
        ended = agents[1].wait_event("worker_ended", lambda e: e["worker"] == "b/standby")
        assert ended.get("code") in (130, 143), ended


def a_standby_that_waits_names_the_machine_that_is_missing():
    with Cluster() as cluster:
        cluster.write_job(epochs=100_000)
        agents = [cluster.agent("--slots", "2", "--name", name) for name in ("a", "b", "c")]
        train = cluster.train("--agents", ",".join(a.address for a in agents), "--secret", cluster.secret(), "--threads", "1", "--standby",
                              agents[2].address)
        train.wait_event("standby_ready")
        train.wait_event("epoch", count=2)
        # With the launcher two of three workers are lost: nobody can tell that from a cut.
        for process in (train, agents[0], agents[1]):
            process.signal(signal.SIGKILL)
        line = agents[2].wait_event("said", lambda e: e["worker"] == "c/standby" and "missing" in e["line"])["line"]
        assert "a/" in line and "b/" in line and "c/" not in line, line


def a_killed_standby_is_one_line_and_comes_back():
    with Cluster() as cluster:
        agents, train, _ = start(cluster)
        pid = agents[1].wait_event("worker_started", lambda e: e["worker"] == "b/standby")["pid"]
        os.kill(pid, signal.SIGKILL)
        lost = train.wait_event("standby_lost")
        assert "signal 9" in lost["cause"] and "started again" in lost["done"], lost
        train.wait_event("standby_ready", count=2)
        assert train.wait() == 0, train.tail()
        assert len([e for e in train.of_kind("standby_lost") if "signal 9" in e["cause"]]) == 1, "one line for one fault"
        cluster.check_ledger(train.folder(), epochs=EPOCHS)
        wait_until("the standby's end", lambda: not pathlib.Path(f"/proc/{pid}").exists())


def a_standby_ends_with_its_agent_unless_it_has_taken_over():
    with Cluster() as cluster:
        agents, train, _ = start(cluster)
        following = agents[1].workers()["b/standby"]
        agents[1].signal(signal.SIGKILL)
        wait_until("the standby's end", lambda: b"standby" not in command_line(following))
        train.wait_event("standby_lost")
    with Cluster() as cluster:
        agents, train, _ = start(cluster)
        train.signal(signal.SIGKILL)
        train.wait()
        wait_said(agents[1], "took over")
        coordinating = agents[1].workers()["b/standby"]
        agents[1].signal(signal.SIGKILL)
        agents[1].wait()
        folder = standby_folder(cluster, train)
        try:
            wait_until("rounds of the worker that is left", lambda: '"workers":1,' in (folder / "log.jsonl").read_text())
        finally:
            if b"standby" in command_line(coordinating):
                os.kill(coordinating, signal.SIGKILL)


def a_standby_serves_data_from_under_its_data_root():
    rows = "a,b,y\n" + "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(harness.JOB["data"]["train"]["size"]))
    part = {"type": "csv", "file": "in.csv", "target": "y"}
    job = {"data": {"at": "coordinator", "train": part, "batch": 16}, "network": [{"type": "dense", "out": 2}]}
    with Cluster() as cluster:
        root = cluster.folder / "root"
        root.mkdir()
        (root / "in.csv").write_text(rows)
        (cluster.folder / "in.csv").write_text(rows)  # the launcher's own copy
        agents, train, _ = start(cluster, agent_arguments=("--data-root", root), **job)
        train.signal(signal.SIGKILL)
        train.wait()
        (cluster.folder / "in.csv").unlink()
        wait_said(agents[1], "took over")
        folder = standby_folder(cluster, train)
        end_of_standby(cluster, agents[1], folder)
        cluster.check_ledger(folder, epochs=EPOCHS)
    with Cluster() as cluster:
        root = cluster.folder / "root"
        root.mkdir()
        (cluster.folder / "in.csv").write_text(rows)
        (root / "in.csv").symlink_to(cluster.folder / "in.csv")
        cluster.write_job(epochs=EPOCHS, **job)
        agent = cluster.agent("--slots", "1", "--name", "b", "--data-root", root)
        cluster.train("--agents", agent.address, "--secret", cluster.secret(), "--threads", "1", "--standby", agent.address)
        ended = agent.wait_event("worker_ended", lambda e: e["worker"] == "b/standby")
        assert ended["code"] == 3 and "leads out of the folder" in ended["said"], ended


def a_run_that_ends_ends_its_standby():
    with Cluster() as cluster:
        agents, train, _ = start(cluster, epochs=10)
        assert train.wait() == 0, train.tail()
        ended = agents[1].wait_event("worker_ended", lambda e: e["worker"] == "b/standby")
        assert ended.get("code") in (0, 143), ended  # of itself, or asked by the agent
        assert len(run_folders(cluster)) == 1


def mistakes_are_explained():
    with Cluster() as cluster:
        status, _, err = cluster.run("train", "job.json", "--workers", "2", "--standby", "127.0.0.1:1", "--secret", cluster.secret())
        assert status == 2 and "--agents" in err, err
        status, _, err = cluster.run("train", "job.json", "--agents", "127.0.0.1:1", "--standby", "127.0.0.1:1")
        assert status == 2 and "--secret" in err, err
        status, _, err = cluster.run("train", "job.json", "--standby", "127.0.0.1:1")
        assert status == 2 and "--agents" in err, err


if __name__ == "__main__":
    harness.main([
        a_killed_launcher_is_replaced_by_its_standby, a_steered_run_stays_steered_by_its_standby,
        a_standby_that_waits_names_the_machine_that_is_missing, a_stopped_launcher_is_fenced_when_it_comes_back,
        a_killed_standby_is_one_line_and_comes_back, a_standby_ends_with_its_agent_unless_it_has_taken_over,
        a_standby_serves_data_from_under_its_data_root, a_run_that_ends_ends_its_standby, mistakes_are_explained
    ])
