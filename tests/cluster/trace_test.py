#!/usr/bin/env python3
"""`--trace FILE`: what the timeline of real runs holds, held against the Trace Event Format, the table of where the time went, and
the order in which things can only have happened."""
import json
import os
import signal
from collections import defaultdict

import harness
from harness import Cluster

ROUNDING_US = 0.01


def events_of(text, whole=True):
    """The events, each checked for what the format asks; `whole`: the array is closed."""
    if whole:
        events = json.loads(text)
    else:  # killed: what is there are whole lines, at most the last one is cut
        lines = text.split("\n")
        assert lines[0] == "[", lines[0]
        events = [json.loads(line.rstrip(",")) for line in lines[1:-1]]
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int), event
        assert event["ph"] in "MXi", event
        if event["ph"] != "M":
            assert event["ts"] >= 0, event
        if event["ph"] == "X":
            assert event["dur"] >= 0, event
        if event["ph"] == "i":
            assert event["s"] in "gpt", event
    rows = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    for row in rows.values():  # flat: spans of one thread follow each other
        end = 0
        for event in sorted(row, key=lambda e: (e["ts"], e["dur"])):
            assert event["ts"] >= end - ROUNDING_US, (event, end)
            end = event["ts"] + event["dur"]
    return events


def trace_of(folder, name="trace.json"):
    return events_of((folder / name).read_text())


def spans(events, name, pid=None):
    return [e for e in events if e["ph"] == "X" and e["name"] == name and pid in (None, e["pid"])]


def processes(events):
    return {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}


def check_sums(events, time, phases):
    """The table and the timeline have the same measuring points; spans under a microsecond are in the table alone."""
    jumps, offset = 0, {}  # a better estimate of a clock costs a span of each row at most as much as it moves
    for event in events:
        if event["name"] == "clock_offset":
            now = event["args"]["offset_us"]
            jumps += abs(now - offset.setdefault(event["args"]["worker"], now)) * 1e-6
            offset[event["args"]["worker"]] = now
    for key, names in phases.items():
        found = [e for name in names for e in spans(events, name)]
        seconds = sum(e["dur"] for e in found) * 1e-6
        assert abs(seconds - time[key]) <= 0.03 * time[key] + 0.005 + jumps, (key, seconds, time)


CLUSTER = {"load_s": ["load"], "encode_s": ["encode"], "wait_s": ["wait"], "transfer_s": ["transfer"], "apply_s": ["apply"]}


def three_workers_on_one_clock():
    for averaging in ({"type": "periodic", "every": 4}, {"type": "allreduce"}):
        with Cluster() as cluster:
            cluster.write_job(averaging=averaging)
            train = cluster.train("--workers", "3", "--trace", "trace.json")
            assert train.wait() == 0, train.tail()
            end = train.of_kind("end")[-1]
            assert end["trace"] == "trace.json", end
            events = trace_of(cluster.folder)
            pids = processes(events)
            workers = {name: pid for name, pid in pids.items() if name != "coordinator"}
            assert len(workers) == 3 and pids["coordinator"] == 0, pids
            for pid in workers.values():
                rows = {e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == pid}
                assert {"trainer", "loop"} <= rows, rows
                assert spans(events, "open", pid) and spans(events, "compute", pid) and spans(events, "forming", pid), pid
                assert spans(events, "evaluate", pid), pid
            assert not [e for e in events if "no room" in e["name"] or e["name"] == "dropped"]
            local = ["compute", "update"] if averaging["type"] == "periodic" else ["compute"]
            check_sums(events, end["time"], {**CLUSTER, "compute_s": local})
            check_rounds(events, end["steps"])
            check_order(events, workers)
            assert spans(events, "evaluation", 0) and spans(events, "forming", 0)


def check_rounds(events, steps):
    rounds = spans(events, "round", 0)
    assert [e["args"]["round"] for e in rounds] == list(range(steps)), [e["args"]["round"] for e in rounds]
    for event in rounds:
        assert sum(event["args"]["shares"].values()) == event["args"]["examples"], event
    assert len([e for e in events if e["name"] == "commit" and e["ph"] == "i"]) == steps


def check_order(events, workers):
    """A round is committed after every worker has applied it, and applied after it was trained: on one clock, to within its error."""
    error = defaultdict(float)
    for event in events:
        if event["name"] == "clock_offset":
            assert abs(event["args"]["offset_us"]) <= 2 * event["args"]["error_us"], event  # it is one machine: one clock
            error[event["args"]["worker"]] = max(error[event["args"]["worker"]], event["args"]["error_us"])
    commits = {e["args"]["round"]: e["ts"] for e in events if e["name"] == "commit"}
    for name, pid in workers.items():
        assert name in error, "its clock was never told"
        applied = {e["args"]["round"]: e for e in spans(events, "apply", pid)}
        assert len(applied) > 10, len(applied)
        for number, event in applied.items():
            assert event["ts"] + event["dur"] <= commits[number] + 2 * error[name], (event, commits[number], error[name])
            trained = [e for e in spans(events, "compute", pid) if e["args"].get("round") == number]
            assert all(e["ts"] + e["dur"] <= event["ts"] + ROUNDING_US for e in trained), (number, trained, event)


def one_process():
    with Cluster() as cluster:
        cluster.write_job(log={"tensorboard": False})  # whose gradients are computed once more, at the last step
        train = cluster.train("--trace", "trace.json", "--threads", "2")
        assert train.wait() == 0, train.tail()
        end = train.of_kind("end")[-1]
        events = trace_of(cluster.folder)
        phases = {key: [key.removesuffix("_s")] for key in end["time"]}
        assert {"load_s", "compute_s", "update_s", "evaluate_s", "checkpoint_s"} <= set(phases), phases
        check_sums(events, end["time"], phases)
        steps = [e["args"]["step"] for e in spans(events, "compute")]
        assert steps == list(range(1, end["steps"] + 1)), steps[:10]
        assert end["time"]["compute_s"] > 0 and end["time"]["checkpoint_s"] > 0, end


def a_fault_is_marked_and_a_killed_run_can_be_read():
    with Cluster() as cluster:
        cluster.write_job(epochs=1000)
        train = cluster.train("--workers", "2", "--trace", "trace.json")
        train.wait_event("step", lambda e: e["workers"] == 2)
        os.kill(train.worker_pids()[0], signal.SIGKILL)
        train.wait_event("worker_joined", count=3)
        train.wait_event("workers", count=3)
        file = cluster.folder / "trace.json"
        harness.wait_until("the fault in the trace", lambda: '"name":"worker_lost"' in file.read_text())
        train.signal(signal.SIGKILL)
        train.wait()
        events = events_of(file.read_text(), whole=False)
        lost = [e for e in events if e["name"] == "worker_lost"]
        assert len(lost) == 1 and "signal 9" in lost[0]["args"]["cause"], lost
        named = {e["pid"] for e in events if e["name"] == "process_name"}
        assert len(named) == 4, ("the coordinator, two workers and the one that came for the dead one", named)


def an_agents_workers_are_in_it_and_a_wrong_file_is_refused():
    with Cluster() as cluster:
        agent = cluster.agent("--slots", "2", "--name", "a")
        train = cluster.train("--agents", agent.address, "--secret", cluster.secret(), "--threads", "1", "--trace", "trace.json")
        assert train.wait() == 0, train.tail()
        events = trace_of(cluster.folder)
        assert processes(events).keys() == {"coordinator", "a/0"}, processes(events)
        check_sums(events, train.of_kind("end")[-1]["time"], {**CLUSTER, "compute_s": ["compute", "update"]})
        for more in ([], ["--workers", "2"]):
            status, _, err = cluster.run("train", "job.json", "--trace", "none/trace.json", *more)
            assert status == 7 and "none/trace.json" in err, err


if __name__ == "__main__":
    harness.main([
        three_workers_on_one_clock, one_process, a_fault_is_marked_and_a_killed_run_can_be_read,
        an_agents_workers_are_in_it_and_a_wrong_file_is_refused
    ])
