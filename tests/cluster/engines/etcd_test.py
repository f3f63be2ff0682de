#!/usr/bin/env python3
"""--lease, --join, jobs and the registry of runs in a real etcd: three members on this machine, of Debian's package, which is unpacked when it is
first needed. Members, coordinators and the whole of etcd are killed and stopped."""
import http.server
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "stores")]
import harness  # noqa: E402
import servers  # noqa: E402
from harness import Cluster  # noqa: E402

etcd = None


class Etcd:
    """Three members."""

    def __init__(self, folder):
        program = servers.debian_packages(["etcd-server", "etcd-client"]) / "usr/bin"
        self.control, self.folder = program / "etcdctl", folder
        ports = [(servers.free_port(), servers.free_port()) for _ in range(3)]
        self.hosts = [f"127.0.0.1:{client}" for client, _ in ports]
        cluster = ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
        self.commands = [[program / "etcd", "--name", f"m{i}", "--data-dir", folder / f"m{i}", "--initial-cluster", cluster,
                          "--initial-cluster-state", "new", "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls",
                          f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls",
                          f"http://127.0.0.1:{peer}", "--log-level", "error"] for i, (client, peer) in enumerate(ports)]
        self.members = [servers.Process() for _ in ports]
        for number in range(3):
            self.begin(number)
        servers.wait_for("etcd", lambda: self.call("endpoint", "health").returncode == 0, 60)

    def begin(self, number):
        self.members[number].start(self.commands[number], self.folder / f"m{number}.log", env={**os.environ, "ETCD_UNSUPPORTED_ARCH": ""})

    def call(self, *words, text=None):
        return subprocess.run([self.control, "--endpoints", ",".join(self.hosts), *words], env={**os.environ, "ETCDCTL_API": "3"}, input=text,
                              capture_output=True, text=True, timeout=30)

    def address(self, name):
        return "etcd://" + ",".join(self.hosts) + name

    def leader(self):
        for status in json.loads(self.call("endpoint", "status", "-w", "json").stdout):
            if status["Status"]["header"]["member_id"] == status["Status"]["leader"]:
                return self.hosts.index(status["Endpoint"])
        raise LookupError("no leader")

    def signal(self, number):
        for member in self.members:
            os.killpg(member.process.pid, number)

    def stop(self):
        for member in self.members:
            member.stop()


def start(cluster, name, *arguments, epochs=300, standby=True, **job):
    """Two agents with a worker each, the second with a standby; or one agent."""
    cluster.write_job(epochs=epochs, **job)
    agents = [cluster.agent("--slots", "2", "--name", each) for each in ("a", "b")]
    more = ("--standby", agents[1].address) if standby else ()
    train = cluster.train("--agents", ",".join(a.address for a in agents), "--secret", cluster.secret(), "--threads", "1", "--lease", etcd.address(name),
                          *more, *arguments)
    if standby:
        train.wait_event("standby_ready")
    train.wait_event("epoch", count=3)
    return agents, train


def registry_join_and_jobs():
    with Cluster() as cluster:
        cluster.write_job(epochs=3)
        assert etcd.call("put", "/jobs/small", text=(cluster.folder / "job.json").read_text()).returncode == 0
        status, out, err = cluster.run("train", etcd.address("/jobs/small"), "--epochs", "1", "--log", "json")
        assert status == 0 and '"end"' in out, err
        status, out, err = cluster.run("train", etcd.address("/jobs/none"))
        assert status == 2 and "etcd has no such key" in err and "etcdctl put /jobs/none" in err, err
        worker = cluster.start("worker", "early", "--join", etcd.address("/registry/one"), "--secret", cluster.secret(), "--threads", "1")
        train = cluster.train("--listen", "127.0.0.1:0", "--secret", cluster.secret(), "--lease", etcd.address("/registry/one"), "--set", "epochs=2000")
        train.wait_event("epoch", count=2)
        status, out, err = cluster.run("status", etcd.address("/registry"), "--json")
        runs = json.loads(out)
        assert len(runs) == 1 and runs[0]["name"] == "/registry/one" and runs[0]["run"] == "small" and runs[0]["generation"] > 0, runs
        status, out, err = cluster.run("status", runs[0]["address"], "--secret", cluster.secret(), "--json")
        assert status == 0 and json.loads(out)["workers"][0]["name"] == "early", (out, err)
        status, out, err = cluster.run("train", "job.json", "--listen", "127.0.0.1:0", "--lease", etcd.address("/registry/one"))
        assert status == 2 and "another run has this name" in err and "choose another name" in err, err
        train.signal(signal.SIGTERM)
        assert train.wait() == 143, train.tail()
        worker.wait()
        assert cluster.run("status", etcd.address("/registry"), "--json")[1].strip() == "[]", "the key is given back"


def a_killed_leader_of_etcd_costs_nothing():
    with Cluster() as cluster:
        _, train = start(cluster, "/leader", standby=False)
        number = etcd.leader()
        etcd.members[number].stop()
        seen = len(train.of_kind("epoch"))
        train.wait_event("epoch", count=seen + 3)
        etcd.begin(number)
        assert train.wait() == 0, train.tail()
        assert not {e["event"] for e in train.events} & {"worker_lost", "worker_stuck"}, train.tail()
        cluster.check_ledger(train.folder(), epochs=300)


def a_stopped_coordinator_loses_the_run():
    """Stopped for ten seconds: the standby has the run within eight, and the one that wakes commits nothing."""
    with Cluster() as cluster:
        agents, train = start(cluster, "/stopped", epochs=400)
        train.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        agents[1].wait_event("said", lambda e: e["worker"] == "b/standby" and "took over" in e["line"])
        took = time.monotonic() - stopped
        before = (train.folder() / "ledger").read_bytes()
        time.sleep(max(0, 10 - took))
        train.signal(signal.SIGCONT)
        assert train.wait() == 5, train.tail()
        assert "another coordinator has taken over" in train.stderr(), train.tail()
        after = (train.folder() / "ledger").read_bytes()
        assert after[:len(before)] == before
        (cluster.folder / "before").mkdir()
        (cluster.folder / "before" / "ledger").write_bytes(before)
        assert cluster.ledger(cluster.folder / "before")["rounds"] == cluster.ledger(train.folder())["rounds"], "a stale commit"
        ended = agents[1].wait_event("worker_ended", lambda e: e["worker"] == "b/standby")
        assert ended.get("code") == 0, (ended, agents[1].tail())
        others = [f for f in (cluster.folder / "runs").iterdir() if f.resolve() != train.folder().resolve()]
        assert len(others) == 1, others
        cluster.check_ledger(others[0], epochs=400)
        print(f"# taken over {took:.1f} s after the coordinator was stopped", flush=True)
        busy = os.getloadavg()[0] > 1.5 * os.cpu_count()
        assert took <= (20 if busy else 8), took


def no_stale_commit_in_a_thousand_tries():
    """Two processes want the same hundred runs. The one that has most is stopped for longer than a lease lives; the other takes them over, and
    the one that wakes tries at once to commit for each. Commits that one generation could have made lie before those of the next."""
    tool = pathlib.Path(harness.program()).parents[1] / "tests" / "cluster" / "lease_tool"
    names, turns = range(100), 11
    processes = [subprocess.Popen([tool, etcd.address("/tries"), str(len(names))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                 for _ in range(2)]
    time.sleep(6)
    for turn in range(turns):
        stopped = processes[turn % 2]
        os.kill(stopped.pid, signal.SIGSTOP)
        time.sleep(8)
        os.kill(stopped.pid, signal.SIGCONT)
        time.sleep(1)
    output = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    tries = sum(int(line.split()[1]) for lines in output for line in lines if line.startswith("tries"))
    held = sorted(tuple(map(int, line.split())) for lines in output for line in lines if not line.startswith("tries"))
    takeovers = 0
    for (run, generation, _, last), (next_run, next_generation, first, _) in zip(held, held[1:]):
        if run == next_run:
            takeovers += 1
            assert generation < next_generation and last < first, f"run {run}: generation {generation} could commit beside {next_generation}"
    print(f"# {tries} tries to commit after a stop, {takeovers} takeovers, none stale", flush=True)
    assert tries >= 1000 and {run for run, *_ in held} == set(names), (tries, len(held))


def a_killed_coordinator_is_resumed_elsewhere():
    with Cluster() as cluster:
        cluster.write_job(epochs=200)
        worker = cluster.start("worker", "w", "--join", etcd.address("/again"), "--secret", cluster.secret(), "--threads", "1")
        arguments = ("--listen", "127.0.0.1:0", "--secret", cluster.secret(), "--lease", etcd.address("/again"))
        train = cluster.train(*arguments)
        train.wait_event("epoch", count=3)
        folder = train.folder()
        train.kill()
        again = cluster.start("train", "--resume", folder, *arguments, "--log", "json")
        more = cluster.start("worker", "w2", "--join", etcd.address("/again"), "--secret", cluster.secret(), "--threads", "1")
        assert again.wait() == 0, again.tail()
        cluster.check_ledger(folder, epochs=200)
        for process in (worker, more):
            process.kill()


def while_etcd_is_away_nothing_is_committed():
    with Cluster() as cluster:
        _, train = start(cluster, "/away", standby=False, epochs=400)
        ledger = train.folder() / "ledger"
        etcd.signal(signal.SIGSTOP)
        try:
            time.sleep(6)  # the lease has run out by now
            before = ledger.stat().st_size
            time.sleep(14)
            assert ledger.stat().st_size == before, "committed without a lease"
        finally:
            etcd.signal(signal.SIGCONT)
        seen = len(train.of_kind("epoch"))
        train.wait_event("epoch", count=seen + 2)
        assert train.wait() == 0, train.tail()
        assert not {e["event"] for e in train.events} & {"worker_lost", "worker_stuck"}, train.tail()
        assert "while it is away nothing is committed" in train.stderr() + "".join(map(str, train.events)), train.tail()
        cluster.check_ledger(train.folder(), epochs=400)


class Nonsense(http.server.BaseHTTPRequestHandler):
    """An etcd whose answers are drawn: no JSON, other types, too long, too slow, or the right form with wild values."""
    draw = random.Random(5)

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        draw = self.draw
        wild = lambda: draw.choice([None, True, -1, 1.5, "x", "", "9" * 40, "%%%", [], {}, [[]], [None], {"key": 1}, "AAAA", -2**63, 2**63 - 1])
        body = draw.choice([
            lambda: draw.randbytes(draw.randrange(200)), lambda: b"[" * draw.randrange(1, 300), lambda: b"",
            lambda: json.dumps({"kvs": wild(), "succeeded": wild(), "ID": wild(), "result": wild(), "header": wild()}).encode(),
            lambda: json.dumps({"kvs": [{"key": wild(), "value": wild(), "create_revision": wild(), "mod_revision": wild()}], "count": wild()}).encode(),
            lambda: json.dumps({"error": wild(), "code": wild(), "message": wild()}).encode(), lambda: b" " * (17 << 20),
            lambda: None])()
        try:
            self.send_response(draw.choice([200, 200, 200, 400, 401, 500, 503]))
            self.end_headers()
            if body is None:  # a byte now and then, for ever
                for _ in range(100):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
            else:
                self.wfile.write(body)
        except OSError:
            pass


def nonsense_is_one_error():
    server = servers.QuietServer(("127.0.0.1", 0), Nonsense)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"etcd://127.0.0.1:{server.server_address[1]}/x"
    try:
        with Cluster() as cluster:
            cluster.write_job(epochs=1)
            for number in range(20):
                words = [("status", address), ("train", address),
                         ("train", "job.json", "--workers", "1", "--lease", address, "--epochs", "1")][2 if number % 10 == 9 else number % 2]
                begun = time.monotonic()
                done = subprocess.Popen([harness.program(), *words, "--out", f"out{number}"] if words[0] == "train" else [harness.program(), *words],
                                        cwd=cluster.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    _, err = done.communicate(timeout=20)
                except subprocess.TimeoutExpired:  # a run that waits for a lease that never comes; it ends when it is asked to
                    assert words[0] == "train" and "--lease" in words, words
                    done.send_signal(signal.SIGINT)
                    _, err = done.communicate(timeout=30)
                assert 0 <= done.returncode <= 130 and err.count("perigee:") <= 1, (words, done.returncode, err)
                assert done.returncode in (0, 130) or "etcd" in err or "job" in err, (words, done.returncode, err)
                assert time.monotonic() - begun < 50
    finally:
        server.shutdown()
    with Cluster() as cluster:
        status, _, err = cluster.run("status", "etcd://127.0.0.1:9/x")
        assert status == 7 and "no member of etcd answers" in err, (status, err)
        for bad, text in (("etcd://127.0.0.1:99999/x", "port"), ("etcd://127.0.0.1", "names no key"), ("etcd:///x", "names no host")):
            status, _, err = cluster.run("status", bad)
            assert status == 2 and text in err, (bad, status, err)
        status, _, err = cluster.run("train", "job.json", "--workers", "1", "--lease", "zookeeper://x")
        assert status == 2 and "is no address of etcd" in err, err


def users_log_in():
    for words in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root"), ("user", "add", "stranger:other"), ("auth", "enable")):
        assert etcd.call(*words).returncode == 0, words
    try:
        with Cluster() as cluster:
            status, _, err = cluster.run("status", etcd.address("/registry"))
            assert status == 6 and "etcd refuses the request" in err and "PERIGEE_ETCD_USER=name:password" in err, (status, err)
            for user, code in (("root:secret", 0), ("root:wrong", 6), ("stranger:other", 6)):
                os.environ["PERIGEE_ETCD_USER"] = user
                status, out, err = cluster.run("status", etcd.address("/registry"), "--json")
                assert status == code and "secret" not in err, (user, status, out, err)
            os.environ["PERIGEE_ETCD_USER"] = "root:secret"
            cluster.write_job(epochs=2)
            status, _, err = cluster.run("train", "job.json", "--workers", "1", "--lease", etcd.address("/user"))
            assert status == 0, err
    finally:
        os.environ.pop("PERIGEE_ETCD_USER", None)
        assert etcd.call("--user", "root:secret", "auth", "disable").returncode == 0


def tls_with_certificates():
    """One member that wants a certificate of its clients."""
    with Cluster() as cluster:
        certificate, key = cluster.folder / "c.pem", cluster.folder / "k.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        port, peer = servers.free_port(), servers.free_port()
        member = servers.Process()
        member.start([etcd.commands[0][0], "--data-dir", cluster.folder / "m", "--listen-client-urls", f"https://127.0.0.1:{port}",
                      "--advertise-client-urls", f"https://127.0.0.1:{port}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                      "--cert-file", certificate, "--key-file", key, "--trusted-ca-file", certificate, "--client-cert-auth",
                      "--log-level", "error"], cluster.folder / "etcd.log")
        own = {"PERIGEE_ETCD_CA": str(certificate), "PERIGEE_ETCD_CERT": str(certificate), "PERIGEE_ETCD_KEY": str(key)}

        def status(**env):
            done = subprocess.run([harness.program(), "status", f"etcds://127.0.0.1:{port}/x", "--json"], env={**os.environ, **env},
                                  capture_output=True, text=True, timeout=60)
            return done.returncode, done.stdout, done.stderr

        try:
            servers.wait_for("etcd with TLS", lambda: status(**own)[0] == 0, 60)
            assert status(**own)[1].strip() == "[]"
            code, _, err = status()
            assert code == 7 and "certificate" in err, (code, err)
            code, _, err = status(PERIGEE_ETCD_CA=str(certificate))
            assert code == 7 and "no member of etcd answers" in err, (code, err)
        finally:
            member.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perigee-etcd-") as name:
        try:
            etcd = Etcd(pathlib.Path(name))
        except servers.Missing as missing:
            print(f"1..0 # SKIP {missing}")
            sys.exit(0)
        try:
            harness.main([registry_join_and_jobs, a_killed_leader_of_etcd_costs_nothing, a_stopped_coordinator_loses_the_run,
                          no_stale_commit_in_a_thousand_tries,
                          a_killed_coordinator_is_resumed_elsewhere, while_etcd_is_away_nothing_is_committed, nonsense_is_one_error, users_log_in,
                          tls_with_certificates])
        finally:
            etcd.stop()
