"""Real servers for the tests of stores, on loopback, each installed into the user's cache folder when it is first needed: moto (S3 with
verified signatures), Hadoop's NameNode and DataNode, OpenSSH's sftp; a web server with and without ranges; a proxy that makes faults.
"""
import contextlib
import glob
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse
import urllib.request

CACHE = pathlib.Path(os.environ.get("PERIGEE_TEST_SERVERS", pathlib.Path.home() / ".cache" / "perigee-test-servers"))


class Missing(Exception):
    """Something that a server needs cannot be had here."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, ready, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, LookupError):
            if ready():
                return
        time.sleep(0.2)
    raise Missing(f"{what} did not start within {seconds} s")


def call(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)
    if done.returncode:
        raise Missing(f"{command[0]} {command[1]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def debian_packages(names):
    """Unpacked, not installed: where they lie."""
    place = CACHE / "debian"
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        marker = place / f".{name}"
        if marker.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            call("chmod", "755", folder)
            call("apt-get", "download", name, cwd=folder)
            call("dpkg", "-x", glob.glob(folder + "/*.deb")[0], place)
        marker.touch()
    return place


STARTED = []  # every process, also of a server that did not come up


class Process:
    """A server as a process: ends with the test, whatever happens."""

    def start(self, command, log, **more):
        self.log = open(log, "ab")
        self.process = subprocess.Popen([str(c) for c in command], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        start_new_session=True, **more)
        STARTED.append(self)

    def stop(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            os.killpg(self.process.pid, how)
        self.process.wait()
        self.log.close()


class Moto(Process):
    """S3, STS, IAM and EC2. After the first calls every signature is verified."""
    BUCKET = "bucket"

    def __init__(self, folder):
        python = CACHE / "moto" / "bin" / "python"
        if not (CACHE / "moto" / ".whole").exists():
            call(sys.executable, "-m", "venv", CACHE / "moto")
            call(python, "-m", "pip", "install", "-q", "moto[server]==5.2.5")
            (CACHE / "moto" / ".whole").touch()
        self.python, self.port = python, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start([python, CACHE / "moto" / "bin" / "moto_server", "-H", "127.0.0.1", "-p", self.port], folder / "moto.log",
                   env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "10"})
        wait_for("moto", lambda: urllib.request.urlopen(self.url + "/moto-api/", timeout=1).status == 200, 60)
        setup = """
import boto3, json, sys
k = dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
iam, names = boto3.client("iam", **k), []
for name, allowed in (("full", ["s3:*", "sts:*", "ec2:*", "iam:PassRole"]), ("reader", ["s3:ListAllMyBuckets"])):
    iam.create_user(UserName=name)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": allowed, "Resource": "*"}]}
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
    names.append(iam.create_access_key(UserName=name)["AccessKey"])
    if name == "full":
        role = iam.create_role(RoleName="role", AssumeRolePolicyDocument=json.dumps(policy))["Role"]["Arn"]
        iam.put_role_policy(RoleName="role", PolicyName="p", PolicyDocument=json.dumps(policy))
iam.create_instance_profile(InstanceProfileName="perigee")
iam.add_role_to_instance_profile(InstanceProfileName="perigee", RoleName="role")
s3 = dict(k, aws_access_key_id=names[0]["AccessKeyId"], aws_secret_access_key=names[0]["SecretAccessKey"])
boto3.client("s3", **s3).create_bucket(Bucket="bucket")
print(json.dumps([[n["AccessKeyId"], n["SecretAccessKey"]] for n in names]))
"""
        (self.keys, self.poor_keys) = json.loads(call(python, "-c", setup, self.url))

    def env(self, url=None, keys=None):
        keys = keys or self.keys
        return {"AWS_ENDPOINT_URL": url or self.url, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1],
                "AWS_EC2_METADATA_DISABLED": "true"}

    def session(self):
        """Credentials of a role, with a session token."""
        script = "print(json.dumps(sts.assume_role(RoleArn='arn:aws:iam::123456789012:role/role', RoleSessionName='session')['Credentials'], default=str))"
        return self.boto(script)

    def boto(self, script, *arguments):
        """Runs Python with `s3` as a client of this server; what it prints, as JSON."""
        head = "import boto3, json, sys\n" \
               f"s3 = boto3.client('s3', endpoint_url={self.url!r}, region_name='us-east-1', aws_access_key_id={self.keys[0]!r}, " \
               f"aws_secret_access_key={self.keys[1]!r})\n" \
               f"sts = boto3.client('sts', endpoint_url={self.url!r}, region_name='us-east-1', aws_access_key_id={self.keys[0]!r}, " \
               f"aws_secret_access_key={self.keys[1]!r})\n"
        return json.loads(call(self.python, "-c", head + script, *arguments) or "null")


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that hang up


class FaultProxy:
    """Before an HTTP server. `fault(method, path, headers)` says what happens to a request: None: it goes through; ("status", code, body,
    headers): that answer; "short": half of the body, then the end; "stall": half of the body, then nothing; "lost": the server does it, and its answer
    is lost; "reset": the connection ends.
    """

    def __init__(self, url):
        there = urllib.parse.urlsplit(url)
        outer = self
        self.fault, self.seen, self.drop = (lambda method, path, headers: None), [], None  # drop: a header that does not go on

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                outer.seen.append((self.command, self.path))
                fault = outer.fault(self.command, self.path, self.headers)
                if fault == "reset":
                    return self.hang_up()
                if isinstance(fault, tuple):
                    return self.answer(fault[1], fault[3] if len(fault) > 3 else {}, fault[2].encode())
                connection = http.client.HTTPConnection(there.hostname, there.port, timeout=60)
                # The host that was signed, as a proxy before a server passes it on.
                connection.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k != outer.drop})
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                if fault == "lost":
                    return self.hang_up()
                headers = {k: v for k, v in answer.getheaders() if k.lower() not in ("connection", "transfer-encoding", "content-length")}
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self.answer(answer.status, headers, content, fault, length)

            def hang_up(self):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def answer(self, status, headers, content, fault=None, length=None):
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(content)))
                self.end_headers()
                if self.command == "HEAD":
                    return
                self.wfile.write(content[:len(content) // 2] if fault in ("short", "stall") else content)
                if fault == "stall":
                    outer.released.wait(60)
                if fault in ("short", "stall"):
                    self.hang_up()

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

        self.released = threading.Event()
        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def first(self, count, fault, of=lambda method, path: True):
        """The first `count` requests of a kind have the fault."""
        left = [count]
        lock = threading.Lock()

        def choose(method, path, _):
            with lock:
                if left[0] > 0 and of(method, path):
                    left[0] -= 1
                    return fault
            return None

        self.fault = choose

    def stop(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


class Web:
    """Files of a folder by HTTP, with ranges and ETags or without."""

    def __init__(self, folder, ranges):
        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __init__(self, *a, **k):
                super().__init__(*a, directory=str(folder), **k)

            def log_message(self, *_):
                pass

            def do_GET(self):
                path = pathlib.Path(self.translate_path(self.path))
                given = self.headers.get("Range")
                if not ranges or not given or not path.is_file():
                    return super().do_GET()
                content = path.read_bytes()
                first, last = given.split("=")[1].split("-")
                last = min(int(last or len(content)), len(content) - 1)
                if int(first) > last:
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return None
                part = content[int(first):last + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
                self.end_headers()
                self.wfile.write(part)
                return None

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Nginx(Process):
    """Files of a folder by HTTP with ranges, unpacked from Debian's package; no other server here is as fast as curl."""

    def __init__(self, folder, files):
        program = debian_packages(["nginx"]) / "usr/sbin/nginx"
        place, port = folder / "nginx", free_port()
        place.mkdir()
        temporary = "".join(f"{kind}_temp_path {place}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = f"user {os.environ.get('USER') or 'root'};\n" if os.geteuid() == 0 else ""
        (place / "nginx.conf").write_text(f"{user}worker_processes 1;\ndaemon off;\npid {place}/pid;\nevents {{}}\n"
                                          f"http {{ access_log off; sendfile on; {temporary}server {{ listen 127.0.0.1:{port}; root {files}; }} }}\n")
        self.url = f"http://127.0.0.1:{port}"
        self.start([program, "-p", place, "-e", place / "error.log", "-c", place / "nginx.conf"], folder / "nginx.log")
        wait_for("nginx", lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, 20)


class Sshd(Process):
    """OpenSSH's server for one user and one key, unpacked from Debian's packages."""

    def __init__(self, folder):
        place = debian_packages(["openssh-server", "openssh-sftp-server", "libwrap0"])
        self.folder, self.root, port = folder, folder / "sftp", free_port()
        self.root.mkdir(exist_ok=True)
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        if subprocess.run(["id", "sshd"], capture_output=True).returncode:  # the installed package would make this user
            call("useradd", "-r", "-d", "/run/sshd", "-s", "/usr/sbin/nologin", "sshd")
        host, key = self.new_key("host"), self.new_key("user")
        (folder / "authorized").write_text(key.with_suffix(".pub").read_text())
        (folder / "known").write_text(f"[127.0.0.1]:{port} " + " ".join(host.with_suffix(".pub").read_text().split()[:2]) + "\n")
        config = folder / "sshd_config"
        config.write_text(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\n"
                          f"PidFile {folder}/sshd.pid\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
                          f"Subsystem sftp {place}/usr/lib/openssh/sftp-server\n")
        self.start([place / "usr/sbin/sshd", "-D", "-e", "-f", config], folder / "sshd.log",
                   env={**os.environ, "LD_LIBRARY_PATH": f"{place}/usr/lib/x86_64-linux-gnu:{place}/lib/x86_64-linux-gnu"})
        self.url = f"sftp://{os.environ.get('USER') or 'root'}@127.0.0.1:{port}"
        self.env = {"PERIGEE_SSH_KEY": str(key), "PERIGEE_SSH_KNOWN_HOSTS": str(folder / "known")}
        wait_for("sshd", lambda: socket.create_connection(("127.0.0.1", port), 1).recv(4) == b"SSH-", 20)

    def new_key(self, name):
        path = self.folder / f"key_{name}"
        path.unlink(missing_ok=True)
        call("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-m", "PEM", "-f", path)
        return path


class Hdfs:
    """A NameNode and DataNodes of Hadoop 2.7.4: the jars of pyspark 3.0.0, and Debian's jersey 1 for WebHDFS. Needs Java."""
    JARS = ("hadoop-common hadoop-hdfs hadoop-auth hadoop-annotations guava commons-beanutils commons-cli commons-codec commons-collections "
            "commons-compress commons-configuration commons-digester commons-httpclient commons-io commons-lang- commons-logging commons-math3 "
            "commons-net log4j slf4j-api slf4j-log4j12 jetty protobuf-java htrace-core xmlenc javax.servlet-api netty-all leveldbjni-all "
            "jackson-core-asl jackson-mapper-asl xercesImpl xml-apis apacheds api-asn1-api api-util curator zookeeper jsp-api gson avro-1 "
            "paranamer httpclient httpcore jackson-module-jaxb-annotations jaxb jakarta.xml.bind-api jersey-media-jaxb activation "
            "jakarta.activation-api istack-commons-runtime").split()
    JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
            "--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED", "--add-opens", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"]

    def __init__(self, folder, data_nodes=2):
        if shutil.which("java") is None:
            raise Missing("there is no Java: apt install default-jre-headless")
        self.folder = folder / "hdfs"
        self.folder.mkdir()
        (self.folder / "conf").mkdir()
        for name in ("hdfs", "datanode", "static", "secondary"):
            (self.folder / "conf" / "webapps" / name).mkdir(parents=True)
        self.port, self.rpc = free_port(), free_port()
        (self.folder / "conf" / "log4j.properties").write_text(
            "log4j.rootLogger=INFO,c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\nlog4j.appender.c.target=System.err\n"
            "log4j.appender.c.layout=org.apache.log4j.PatternLayout\nlog4j.appender.c.layout.ConversionPattern=%p %c{1} %m%n\n")
        self.classpath = ":".join([str(self.folder / "conf"), *self.debian_jars(), *self.hadoop_jars()])
        self.configure(self.folder / "conf", {})
        call(*self.JAVA, "-cp", self.classpath, "org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive",
             cwd=self.folder)
        self.name_node = self.begin("namenode", "namenode.NameNode", self.folder / "conf")
        self.data_nodes = [self.begin_data_node(i) for i in range(data_nodes)]
        self.url = f"webhdfs://127.0.0.1:{self.port}"
        self.env = {"HADOOP_USER_NAME": os.environ.get("USER") or "root"}
        bean = f"http://127.0.0.1:{self.port}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        wait_for("HDFS", lambda: json.load(urllib.request.urlopen(bean, timeout=2))["beans"][0]["NumLiveDataNodes"] == data_nodes, 90)

    def debian_jars(self):
        names = ["libjersey1-core-java", "libjersey1-server-java", "libjersey1-servlet-java", "libjsr311-api-java", "libasm-java"]
        jars = debian_packages(names) / "usr" / "share" / "java"
        return [str(jars / f"{name}.jar") for name in ("jersey1-core", "jersey1-server", "jersey1-servlet", "jsr311-api", "asm")]

    def hadoop_jars(self):
        place = CACHE / "hadoop"
        if not (place / ".whole").exists():
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                # Not "pip download", which would run setup.py to look for what pyspark needs.
                call(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":none:", "pyspark==3.0.0", "-d", folder)
                with tarfile.open(glob.glob(folder + "/pyspark-*.tar.gz")[0]) as archive:
                    for member in archive:
                        name = pathlib.PurePath(member.name).name
                        if "/jars/" in member.name and name.endswith(".jar") and name.startswith(tuple(self.JARS)):
                            (place / name).write_bytes(archive.extractfile(member).read())
            (place / ".whole").touch()
        return sorted(map(str, place.glob("*.jar")))

    def configure(self, conf, more):
        values = {"dfs.replication": 2, "dfs.namenode.name.dir": f"file://{self.folder}/name", "dfs.permissions.enabled": "true",
                  "dfs.namenode.http-address": f"127.0.0.1:{self.port}", "dfs.datanode.hostname": "127.0.0.1",
                  "dfs.namenode.safemode.extension": 0, "dfs.namenode.fs-limits.min-block-size": 1 << 20, "dfs.blocksize": 4 << 20,
                  "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER", "dfs.namenode.replication.min": 1, **more}
        xml = lambda items: "<configuration>" + "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in items) + "</configuration>"
        (conf / "core-site.xml").write_text(xml([("fs.defaultFS", f"hdfs://127.0.0.1:{self.rpc}"), ("hadoop.tmp.dir", self.folder / "tmp")]))
        (conf / "hdfs-site.xml").write_text(xml(values.items()))

    def begin(self, name, what, conf):
        process = Process()
        classpath = str(conf) + self.classpath[len(str(self.folder / "conf")):]
        process.start([*self.JAVA, "-cp", classpath, f"org.apache.hadoop.hdfs.server.{what}"], self.folder / f"{name}.log", cwd=self.folder)
        return process

    def begin_data_node(self, index):
        conf = self.folder / f"conf{index}"
        if not conf.exists():
            shutil.copytree(self.folder / "conf", conf)
            self.configure(conf, {"dfs.datanode.data.dir": f"file://{self.folder}/data{index}", "dfs.datanode.address": f"127.0.0.1:{free_port()}",
                                  "dfs.datanode.http.address": f"127.0.0.1:{free_port()}", "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}"})
        return self.begin(f"datanode{index}", "datanode.DataNode", conf)

    def stop(self):
        for process in (*self.data_nodes, self.name_node):
            process.stop()
