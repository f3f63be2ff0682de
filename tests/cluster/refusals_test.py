#!/usr/bin/env python3
"""What an operator reads where processes of a cluster refuse each other: agents, runs, workers and the programs that ask, with wrong secrets, addresses and
counts. Each text says where, what, and a remedy; those that are a change of the command are followed, and then it works."""
import contextlib
import json
import os
import socket
import struct
import subprocess
import threading

from harness import DEADLINE, Cluster, main, program, write_secret

REPORT = 132  # cluster/protocol/frame.h


def said(cluster, *arguments, code):
    status, out, err = cluster.run(*arguments)
    assert status == code, (arguments, status, out, err)
    return out + err


def has(text, *parts):
    for part in parts:
        assert part in text, f"'{part}' is not in: {text}"


def other_key(cluster):
    file = cluster.folder / "other.key"
    if not file.exists():
        write_secret(file)
    return str(file)


def an_agent_says_why_it_refuses():
    with Cluster() as cluster:
        agent = cluster.agent("--slots", "1")
        status = ("status", agent.address)
        has(said(cluster, *status, "--secret", other_key(cluster), code=6), agent.address, "it does not accept this secret",
            "use the --secret file that it was started with")
        has(said(cluster, *status, code=5), agent.address, "was it started with a secret? Then give the same file with --secret")
        said(cluster, *status, "--secret", cluster.secret(), code=0)  # the remedy of both
        train = ("train", "job.json", "--steps", "4", "--agents", agent.address)
        has(said(cluster, *train, "--secret", other_key(cluster), code=6), "agent " + agent.address,
            "start the agent and the launcher with the same --secret file")
        has(said(cluster, *train, "--secret", cluster.secret(), "--workers", "2", code=5),
            "2 workers were asked for, but only 1 of the agent's 1 slots are free", "start it with a larger --slots, or ask for fewer")
        said(cluster, *train, "--secret", cluster.secret(), "--workers", "1", code=0)  # fewer
        has(said(cluster, "attach", agent.address, "--secret", cluster.secret(), "-e", "run", code=2), agent.address,
            "a coordinator was expected; there answers the agent", "`perigee status " + agent.address + "` tells where its jobs' coordinators are")
        said(cluster, "agent", "--drain", agent.address, "--secret", cluster.secret(), code=0)


def a_run_says_why_it_refuses():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0", "--secret", cluster.secret())
        train.wait_event("step")
        address = cluster.coordinator_address(train)
        join = ("worker", "--join", address)
        has(said(cluster, *join, "--secret", other_key(cluster), code=6), address, "secret")
        attach = ("attach", address, "-e", "run.state")
        has(said(cluster, *attach, "--secret", other_key(cluster), code=6), address,
            "it does not accept this secret; use the --secret file that it was started with")
        said(cluster, *attach, "--secret", cluster.secret(), code=0)  # the remedy
        has(said(cluster, "agent", "--drain", address, "--secret", cluster.secret(), code=2), address, "is no agent, and has no workers to end",
            "got the coordinator of a run", "the address of a `perigee agent`")
        for line, text in (("run:kick(4711)", "there is no worker 4711; there are 1 to 1: "), ("run.averaging.every = 0", "got 0, expected"),
                           ("run.optimizer.lr = 'fast'", "is no value of an option; got \"fast\", expected a number, a boolean or a schedule")):
            has(said(cluster, "attach", address, "--secret", cluster.secret(), "-e", line, code=1), text)
        said(cluster, "attach", address, "--secret", cluster.secret(), "-e", "run:stop()", code=0)
        assert train.wait() == 130, train.tail()


def a_key_that_does_not_come_is_told():
    with Cluster() as cluster:
        has(said(cluster, "worker", "--join", "127.0.0.1:1", "--key-fd", "77", code=6), "--key-fd", "there is no key behind this descriptor",
            os.strerror(9), "a worker that is started by hand takes --secret FILE")


def a_record_that_was_changed_is_refused():
    with Cluster() as cluster:
        cluster.write_job(averaging={"type": "async_local", "every": 2}, epochs=1)
        train = cluster.train("--workers", "1", "--threads", "1", "--record", "--out", "run")
        assert train.wait() == 0, train.tail()
        file = next(path for path in (cluster.folder / "run").iterdir() if path.name.startswith("record"))
        lines = file.read_text().splitlines()

        def replayed(change, code=3):
            changed = [json.loads(line) for line in lines]
            change(changed)
            (cluster.folder / "changed").write_text("".join(json.dumps(line) + "\n" for line in changed))
            return said(cluster, "replay", "changed", code=code)

        def first_share(changed):
            return next(line for line in changed if "merged" in line)["merged"][0]

        has(replayed(lambda changed: first_share(changed).update(isa="sse9"), code=2), "was made with other instructions than this machine has",
            "PERIGEE_ISA=sse9 makes a machine use these that has them")
        has(replayed(lambda changed: changed[0]["job"].update(averaging="allreduce")), "is not of an asynchronous policy; got allreduce",
            "one with a server, such as async_local")

        def far(changed):
            first_share(changed)["ranges"][0][1] = 1 << 30
        has(replayed(far), "record: round 0", "names examples that the job has not got", "the record, or the data of its job, was changed since")

        def huge(changed):  # numbers beyond all floats
            data = changed[0]["job"]["data"]
            data["train"] = {"type": "map", "source": data["train"], "transforms": [{"type": "scale", "factor": 1e38}]}
        has(replayed(huge), "record: round 0", "cannot be trained again", "the record, or the data of its job, was changed since")


def a_prompt_says_what_did_not_reach_its_run():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0", "--secret", cluster.secret())
        train.wait_event("step")
        address = cluster.coordinator_address(train)
        attach = ("attach", address, "--secret", cluster.secret())
        has(said(cluster, *attach, "-e", 'run.optimizer.lr = ("x"):rep(5000)', code=1), "this is too long to be told; expected at most 4 KB of JSON",
            "set a few options at a time")
        said(cluster, *attach, "-e", "run.optimizer.lr = 0.01", code=0)
        train.kill()


def hangs_up_at(word, port):
    """The port of a relay before 127.0.0.1:port whose connections end when a client's bytes have this word."""
    server = socket.create_server(("127.0.0.1", 0))

    def carry(source, target, watched):
        with contextlib.suppress(OSError):
            while (data := source.recv(65536)) and not (watched and word in data):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve():
        with contextlib.suppress(OSError):
            while client := server.accept()[0]:
                there = socket.create_connection(("127.0.0.1", port))
                for pair in ((client, there, True), (there, client, False)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


def a_connection_that_breaks_leaves_a_question_open():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0")
        train.wait_event("step")
        port = int(cluster.coordinator_address(train).rpartition(":")[2])
        has(said(cluster, "attach", f"127.0.0.1:{hangs_up_at(b'pause', port)}", "-e", "run:pause()", code=1),
            "run: the connection broke: whether it was heard is not known", "look at the run, and ask again where nothing changed")
        train.kill()


def a_run_folder_says_what_it_does_not_answer():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train()
        train.wait_event("step")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(train.folder() / "control.sock"))
            client.sendall(b"[1, 2]\n")
            has(client.recv(65536).decode(), "is not one", "an object of one member")
        train.kill()
        # A process that ends while it owes an answer.
        (cluster.folder / "gone").mkdir()
        (cluster.folder / "gone" / "log.jsonl").write_text('{"event":"start"}\n')
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(cluster.folder / "gone" / "control.sock"))
            server.listen()

            def serve():
                with contextlib.suppress(OSError):
                    while client := server.accept()[0]:
                        client.recv(65536)
                        client.close()

            threading.Thread(target=serve, daemon=True).start()
            has(said(cluster, "attach", "gone", "-e", "run:pause()", code=1), "gone: the run ended before it answered")


def a_standby_with_another_key_says_so():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000)
        train = cluster.train("--workers", "1", "--listen", "127.0.0.1:0", "--secret", cluster.secret())
        train.wait_event("step")
        address = cluster.coordinator_address(train)
        ours, its = os.pipe()
        os.write(its, f"{'5' * 64}\n{'5' * 64}".encode())
        os.close(its)
        done = subprocess.run([program(), "worker", "x", "--standby", "--join", address, "--key-fd", str(ours)], pass_fds=[ours], capture_output=True,
                              text=True, timeout=DEADLINE, check=False)
        os.close(ours)
        assert done.returncode == 6, done
        has(done.stderr, address, "the coordinator does not accept this key", "start its agent with the --secret file of the run")
        train.kill()


def an_agent_that_talks_nonsense_is_named():
    """Another program, or another version, answers with a report that is none."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        with server.accept()[0] as client:
            asked = b""
            while len(asked) < 40:
                asked += client.recv(65536)
            magic, protocol, _, _, _ = struct.unpack_from("<IHHII", asked)
            client.sendall(struct.pack("<IHHIIQQq", magic, protocol, REPORT, 3, 0, 0, 0, -1) + b"abc")
            client.recv(1)

    threading.Thread(target=answer, daemon=True).start()
    with Cluster() as cluster:
        address = "127.0.0.1:" + str(server.getsockname()[1])
        has(said(cluster, "status", address, code=5), address, "its answer makes no sense", "another version may run there: install the same on both")
    server.close()


if __name__ == "__main__":
    main([an_agent_says_why_it_refuses, a_run_says_why_it_refuses, a_key_that_does_not_come_is_told, a_record_that_was_changed_is_refused,
          a_prompt_says_what_did_not_reach_its_run, a_connection_that_breaks_leaves_a_question_open,
          a_run_folder_says_what_it_does_not_answer, a_standby_with_another_key_says_so, an_agent_that_talks_nonsense_is_named])
