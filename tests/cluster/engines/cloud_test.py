#!/usr/bin/env python3
"""`perigee cloud` with moto's EC2 and S3, which verify signatures. A machine is what its user data start: a process group here, with metadata of its
own (IMDSv2), keys of a role, and a `shutdown` that ends it. Nothing of this runs on AWS."""
import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "stores")]
import harness  # noqa: E402
import servers  # noqa: E402
from harness import Cluster  # noqa: E402

cloud = None


class Metadata:
    """The service at 169.254.169.254 of one machine, as its second version answers: nothing without a token."""

    def __init__(self, index, keys):
        self.notice = ""  # of the end of a spot machine
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, status, text=""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_PUT(self):
                wanted = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
                self.answer(200 if wanted else 400, "a-token" if wanted else "")

            def do_GET(self):
                if self.headers.get("X-aws-ec2-metadata-token") != "a-token":
                    return self.answer(401)
                facts = {"ami-launch-index": str(index), "local-ipv4": "127.0.0.1", "iam/security-credentials/": "perigee",
                         "iam/security-credentials/perigee": json.dumps(keys, indent=1), "spot/instance-action": outer.notice}
                text = facts.get(self.path.removeprefix("/latest/meta-data/"), "")
                return self.answer(200 if text else 404, text)

        self.server = servers.QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Machine:
    def __init__(self, cloud, instance):
        self.id, self.index = instance.id, instance.ami_launch_index
        self.folder = cloud.folder / self.id
        self.folder.mkdir()
        self.user_data = base64.b64decode(instance.describe_attribute(Attribute="userData")["UserData"]["Value"]).decode()
        (self.folder / "start").write_text(self.user_data.replace("/var/lib/perigee", str(self.folder / "work")))
        self.metadata = Metadata(self.index, cloud.role_keys)
        self.off = self.folder / "off"
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "perigee").symlink_to(harness.program())
        (tools / "shutdown").write_text(f'#!/bin/sh\n[ "$2" = now ] && touch {self.off}\necho "$*" >> {self.folder}/shutdowns\n')
        (tools / "apt-get").write_text(f'#!/bin/sh\n[ "$1" = update ] || sha256sum "${{4}}" > {self.folder}/installed\n')
        for name in ("shutdown", "apt-get"):
            (tools / name).chmod(0o755)
        env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        env |= {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(self.folder), "AWS_ENDPOINT_URL": cloud.store or cloud.moto.url,
                "PERIGEE_STORE_TRIES": "1" if cloud.store else "6", "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.url, "XDG_CACHE_HOME": str(self.folder / "cache")}
        self.process = subprocess.Popen(["bash", self.folder / "start"], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, start_new_session=True,
                                        stdout=open(self.folder / "console", "w"), stderr=subprocess.STDOUT)

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.metadata.stop()


class Cloud:
    """EC2 that does something: starts what moto has as pending or running, and kills what it has as terminated."""

    def __init__(self, folder):
        import boto3

        self.folder = folder
        self.moto = servers.Moto(folder)
        key, secret = self.moto.keys
        more = {"endpoint_url": self.moto.url, "region_name": "us-east-1", "aws_access_key_id": key, "aws_secret_access_key": secret}
        self.ec2 = boto3.resource("ec2", **more)
        self.s3 = boto3.client("s3", **more)
        session = self.moto.session()
        self.role_keys = {"Code": "Success", "AccessKeyId": session["AccessKeyId"], "SecretAccessKey": session["SecretAccessKey"],
                          "Token": session["SessionToken"], "Expiration": "2099-01-01T00:00:00Z"}
        self.image = next(iter(self.ec2.images.all())).id
        self.machines, self.quit = {}, False
        self.store = None  # where machines find S3, if not at moto's own address
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.quit:
            for instance in list(self.ec2.instances.all()):
                machine = self.machines.get(instance.id)
                if machine is None and instance.state["Name"] in ("pending", "running"):
                    self.machines[instance.id] = Machine(self, instance)
                elif machine is not None and machine.process.returncode is None:
                    if instance.state["Name"] in ("shutting-down", "terminated"):
                        machine.end()
                    elif machine.off.exists():
                        instance.terminate()
            time.sleep(0.3)

    def alive(self):
        return [i for i in self.ec2.instances.all() if i.state["Name"] not in ("terminated", "shutting-down")]

    def stop(self):
        self.quit = True
        self.thread.join()
        for machine in self.machines.values():
            machine.end()
        self.moto.stop()


class Case(Cluster):
    """A caller with a script, and which machines are its own."""

    def __enter__(self):
        self.before = set(cloud.machines)
        self.proxy = servers.FaultProxy(cloud.moto.url)
        return self

    def __exit__(self, *error):
        super().__exit__(*error)
        self.proxy.stop()
        for instance in cloud.alive():
            instance.terminate()

    def env(self, **more):
        plain = {k: v for k, v in cloud.moto.env().items() if not k.startswith("AWS_EC2")}
        return {**plain, "AWS_ENDPOINT_URL_EC2": self.proxy.url, "AWS_ENDPOINT_URL_PRICING": self.proxy.url, "AWS_REGION": "us-east-1", **more}

    def cloud(self, *arguments, **more):
        return self.start("cloud", *arguments, env=self.env(**more))

    def up(self, *arguments, machines=2, options=(), **more):
        return self.cloud("up", "aws", "--yes", "--image", cloud.image, "--store", "s3://bucket/runs", "--machines", machines, *options, "--", "train",
                          *arguments, **more)

    def mine(self):
        return [m for id, m in sorted(cloud.machines.items()) if id not in self.before]

    def at(self, index):
        """The machine with this number, once it is there."""
        found = []
        harness.wait_until(f"machine {index}", lambda: found.extend(m for m in self.mine() if m.index == index) or found)
        return found[0]

    def run_folder(self, process):
        line = next(line for line in process.lines if "its folder is" in line)
        return line.split("its folder is ")[1]

    def none_left(self):
        assert not cloud.alive(), [i.id for i in cloud.alive()]

    def key(self, folder, name):
        try:
            return cloud.s3.get_object(Bucket="bucket", Key=f"{folder.removeprefix('s3://bucket/')}/{name}")["Body"].read()
        except cloud.s3.exceptions.NoSuchKey:
            return None


def says_line(process, text, deadline=harness.DEADLINE):
    harness.wait_until(f"the line {text!r}\n{process.tail()}", lambda: any(text in line for line in process.lines) or not process.running(), deadline)
    assert any(text in line for line in process.lines), process.tail()


def two_machines_train():
    with Case() as case:
        job = case.write_job(epochs=3)
        status, out, err = case.run("train", job, "--workers", "2", "--threads", "1", "--out", "local", "--log", "plain")
        assert status == 0, err
        process = case.up(job, "--threads", "1", "--log", "plain", options=("--package", package(case)))
        assert process.wait() == 0, process.tail()
        case.none_left()
        folder, machines = case.run_folder(process), case.mine()
        assert len(machines) == 2 and "all machines have ended" in process.tail()
        assert any("epoch 3" in line for line in process.lines), process.tail()
        (case.folder / "remote.safetensors").write_bytes(case.key(folder, "run/model.safetensors"))
        content = lambda path: (lambda c: c[8 + int.from_bytes(c[:8], "little"):])(path.read_bytes())
        assert content(case.folder / "remote.safetensors") == content(case.folder / "local" / "model.safetensors"), "the bits of --workers 2"
        assert case.key(folder, "secret") is None
        for machine in machines:
            assert "--aws-sigv4" in machine.user_data and not any(key in machine.user_data for key in cloud.moto.keys)
            assert (machine.folder / "installed").read_text().split()[0] == digest_of(case.folder / "perigee.deb")
            assert (machine.folder / "shutdowns").read_text().split("\n")[0] == "-P +1440"
        instance = next(i for i in cloud.ec2.instances.all() if i.id == machines[0].id)
        assert {t["Key"] for t in instance.tags} >= {"perigee-run", "perigee-until", "Name"}


def package(case):
    (case.folder / "perigee.deb").write_bytes(os.urandom(300_000))
    return "perigee.deb"


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def a_store_that_fails_loses_no_output():
    """The first pieces of output are refused, twice each; all lines come, in order."""
    with Case() as case:
        store, seen = servers.FaultProxy(cloud.moto.url), {}

        def fault(method, path, headers):
            if method != "PUT" or "/log/" not in path:
                return None
            seen[path] = seen.get(path, 0) + 1
            return ("status", 500, "<Error><Code>InternalError</Code></Error>") if seen[path] <= 2 and len(seen) <= 2 else None

        store.fault, cloud.store = fault, store.url
        try:
            process = case.up(case.write_job(epochs=800), "--log", "plain", machines=1)
            assert process.wait() == 0, process.tail()
        finally:
            cloud.store = None
            store.stop()
        case.none_left()
        pieces = sorted(path.rsplit("/", 1)[1] for path in seen)
        assert len(pieces) > 1 and pieces == [f"{n:08}" for n in range(1, len(pieces) + 1)] and seen[min(seen)] == 3, seen
        assert any(line.startswith("epoch 1:") for line in process.lines) and any(line.startswith("model ") for line in process.lines), process.tail()


def an_error_of_the_script_is_told():
    with Case() as case:
        (case.folder / "bad.lua").write_text("local pg = require 'perigee'\nreturn pg.experiment { nonsense = 1 }\n")
        process = case.up("bad.lua", "--log", "plain")
        assert process.wait() == 4, process.tail()
        assert any("nonsense" in line for line in process.lines), process.tail()
        case.none_left()


def ctrl_c_leaves_a_checkpoint_and_no_machine():
    with Case() as case:
        process = case.up(case.write_job(epochs=5000), "--log", "plain")
        says_line(process, "epoch 3")
        process.signal(signal.SIGINT)
        assert process.wait() == 130, process.tail()
        case.none_left()
        folder = case.run_folder(process)
        again = case.up("job.json", "--resume", folder + "/run", "--set", "epochs=1", "--log", "plain", machines=1)
        assert again.wait() == 0, again.tail()
        case.none_left()


def a_killed_caller_leaves_no_machine():
    with Case() as case:
        process = case.up(case.write_job(epochs=30), "--log", "plain")
        says_line(process, "epoch 2")
        folder = case.run_folder(process)
        process.kill()
        harness.wait_until("the end of all machines", lambda: not cloud.alive())
        assert case.key(folder, "result").startswith(b"0\n")


def a_lost_answer_starts_nothing_twice():
    """EC2 does an order with a known token once, and answers it again; moto knows no tokens, so that is done here."""
    with Case() as case:
        for lost, code in ((1, 0), (20, 7)):
            case.write_job(epochs=1 if lost == 1 else 50000)  # which only the caller ends
            before, orders = len(case.mine()), []

            def choose(words):
                if words.get("Action") != "RunInstances":
                    return None
                orders.append(words["ClientToken"])
                if len(orders) <= lost:
                    return "lost" if len(orders) == 1 else "reset"
                return ("status", 200, "<RunInstancesResponse></RunInstancesResponse>")

            answer_with(case, choose)
            process = case.up("job.json", "--log", "plain")
            assert process.wait() == code, process.tail()
            case.none_left()
            assert code == 0 or "cannot be reached" in process.stderr(), process.tail()
            assert len(orders) > 1 and len(set(orders)) == 1 and len(case.mine()) == before + 2, (orders, len(case.mine()))


def refused_orders():
    with Case() as case:
        def lacking(types):
            return lambda words: words.get("Action") == "RunInstances" and words["InstanceType"] in types and \
                error_answer("InsufficientInstanceCapacity", "We currently do not have sufficient capacity.")

        case.write_job(epochs=1)
        answer_with(case, lacking(["c7i.large"]))
        process = case.up("job.json", "--log", "plain", machines=1, options=("--type", "c7i.large,c6i.large"))
        assert process.wait() == 0, process.tail()
        assert [i.instance_type for i in cloud.ec2.instances.all() if i.id == case.mine()[0].id] == ["c6i.large"]
        answer_with(case, lacking(["c7i.large", "c6i.large"]))
        process = case.up("job.json", machines=1, options=("--type", "c7i.large,c6i.large"))
        assert process.wait() == 7 and "no such machines for this account now" in process.stderr() and "--type" in process.stderr(), process.tail()
        answer_with(case, lambda words: None)
        process = case.up("job.json", machines=1, AWS_ACCESS_KEY_ID=cloud.moto.poor_keys[0], AWS_SECRET_ACCESS_KEY=cloud.moto.poor_keys[1],
                          options=("--region", "eu-west-1"))
        assert process.wait() == 6 and "access is denied" in process.stderr(), process.tail()
        answer_with(case, lambda words: error_answer("UnauthorizedOperation", "You are not authorized.") if words.get("Action") == "RunInstances" else None)
        process = case.up("job.json", machines=1)
        assert process.wait() == 6 and "prints the permissions that are needed" in process.stderr(), process.tail()
        answer_with(case, lambda words: None)
        process = case.up("job.json", machines=1, options=("--subnet", "subnet-nothere"))
        assert process.wait() == 2 and "refuses RunInstances" in process.stderr() and "check the options it names" in process.stderr(), process.tail()
        case.none_left()


def a_machine_brings_no_files_from_elsewhere():
    """The order in the store names a file that would lie outside of the run's folder."""
    with Case() as case:
        order = {"words": ["train", "job.json"], "files": ["../job.json"], "machines": 1, "port": 7700}
        cloud.s3.put_object(Bucket="bucket", Key="runs/odd/run.json", Body=json.dumps(order).encode())
        metadata = Metadata(0, cloud.role_keys)
        try:
            machine = case.start("cloud", "machine", "s3://bucket/runs/odd",
                                 env={"AWS_ENDPOINT_URL": cloud.moto.url, "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url, "HOME": str(case.folder)})
            assert machine.wait() == 3, machine.tail()
        finally:
            metadata.stop()
        told = case.key("s3://bucket/runs/odd", "result").decode()
        assert told == "3\nperigee: s3://bucket/runs/odd/run.json: names a file outside of the run; got '../job.json'\n", told


def error_answer(code, message):
    return ("status", 400, f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors></Response>")


def answer_with(case, choose):
    """What EC2 and the price list say to a request's words, instead of moto."""
    base = getattr(case.proxy.server.RequestHandlerClass, "plain", case.proxy.server.RequestHandlerClass)

    class Handler(base):
        plain = base

        def serve(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.rfile = io.BytesIO(body)
            words = dict(urllib.parse.parse_qsl(body.decode(errors="replace")))
            words["target"] = self.headers.get("X-Amz-Target") or ""
            fault = choose(words)
            case.proxy.fault = lambda *_: fault or None
            return base.serve(self)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    case.proxy.server.RequestHandlerClass = Handler


def spot_notices():
    """A worker that is taken back leaves, and the run goes on; the coordinator leaves a checkpoint."""
    with Case() as case:
        process = case.up(case.write_job(epochs=400), "--log", "plain", machines=3, options=("--spot",))
        says_line(process, "epoch 3")
        begun = time.monotonic()
        case.at(2).metadata.notice = '{"action": "terminate", "time": "2026-01-01T00:00:00Z"}'
        harness.wait_until("machine 2 to leave", lambda: case.at(2).process.returncode is not None)
        assert time.monotonic() - begun < 110
        assert process.running(), process.tail()
        case.at(0).metadata.notice = '{"action": "terminate", "time": "2026-01-01T00:00:00Z"}'
        assert process.wait() == 143, process.tail()
        case.none_left()
        folder = case.run_folder(process)
        again = case.up("job.json", "--resume", folder + "/run", "--set", "epochs=1", "--log", "plain", machines=1)
        assert again.wait() == 0, again.tail()


def lists_and_prices():
    with Case() as case:
        entry = {"terms": {"OnDemand": {"X": {"priceDimensions": {"Y": {"unit": "Hrs", "pricePerUnit": {"USD": "0.0892500000"}}}}}}}
        answer_with(case, lambda words: ("status", 200, json.dumps({"PriceList": [json.dumps(entry)]})) if "GetProducts" in words["target"] else
                    ("status", 200, "<R><item><spotPrice>0.031</spotPrice></item><item><spotPrice>0.035</spotPrice></item></R>")
                    if words.get("Action") == "DescribeSpotPriceHistory" else None)
        case.write_job(epochs=5000)
        dry = ("cloud", "up", "aws", "--dry-run", "--machines", "4", "--store", "s3://bucket/runs")
        for options, text in (((), "0.357 USD an hour, at most 8.57 in 24 hours"), (("--spot", "--hours", "2"), "(spot) in us-east-1: 0.140 USD an hour, at most 0.28 in 2")):
            process = case.start(*dry, *options, "--", "train", "job.json", env=case.env())
            assert process.wait() == 0 and any(text in line for line in process.lines) and "shutdown -P" in process.tail(), process.tail()
        assert not case.mine() and not cloud.alive()
        process = case.start(*[w for w in dry if w != "--dry-run"], "--", "train", "job.json", env=case.env())
        assert process.wait() == 2 and "--yes" in process.stderr(), process.tail()
        process = case.up("job.json", "--log", "plain", machines=1)
        says_line(process, "epoch 1")
        listed = case.cloud("ls", "aws", "--json")
        assert listed.wait() == 0
        (machine,) = json.loads("\n".join(listed.lines))
        assert machine["id"] == case.mine()[0].id and machine["run"].startswith("job-") and machine["until"].startswith("20"), machine
        wrong = case.cloud("down", "another-run")
        assert wrong.wait() == 0 and cloud.alive()
        down = case.cloud("down", machine["run"])
        assert down.wait() == 0 and machine["id"] in down.tail()
        assert process.wait() == 5 and "left no result" in process.stderr() and "--resume" in process.stderr(), process.tail()
        case.none_left()
        policy = case.cloud("policy", "aws", "--store", "s3://bucket/runs")
        assert policy.wait() == 0
        parts = "\n".join(policy.lines).split("\n\n")
        for part in (parts[1], parts[2][parts[2].index("{"):] if "{" in parts[2] else parts[3]):
            assert json.loads(part[:part.rindex("}") + 1])["Statement"]
        for words, text in ((("up", "aws", "--", "train", "job.json"), "--store"), (("up", "aws", "--store", "s3://b/x"), "what to train"), (("down",), "names no run"),
                            (("ls", "azure"), "names no cloud"), (("machine", "s3://bucket/x"), "no machine of EC2")):
            process = case.cloud(*words, AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:9")
            assert process.wait() == 2 and text in process.stderr(), (words, process.tail())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perigee-cloud-") as name:
        try:
            cloud = Cloud(pathlib.Path(name))
        except servers.Missing as missing:
            print(f"1..0 # SKIP {missing}")
            sys.exit(0)
        try:
            harness.main([two_machines_train, a_store_that_fails_loses_no_output, an_error_of_the_script_is_told, ctrl_c_leaves_a_checkpoint_and_no_machine, a_killed_caller_leaves_no_machine,
                          a_lost_answer_starts_nothing_twice, refused_orders, a_machine_brings_no_files_from_elsewhere, spot_notices, lists_and_prices])
        finally:
            cloud.stop()
