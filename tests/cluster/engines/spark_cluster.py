"""A real standalone cluster of Spark: a master and workers, each with one core, on free ports of this machine. Ends with the block."""
import glob
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

import harness

CACHE = pathlib.Path(os.environ.get("PERIGEE_TEST_SERVERS", pathlib.Path.home() / ".cache" / "perigee-test-servers"))
SECURE = {"spark.authenticate": "true", "spark.authenticate.secret": "of-this-test-alone", "spark.network.crypto.enabled": "true"}
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # several JVMs share the cores of a test machine, and none lives long


def home(version):
    """The folder of a Spark, with its jars and programs, taken from PyPI's archive of pyspark when it is first needed."""
    place = CACHE / f"spark-{version}"
    if not (place / ".whole").exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":none:", f"pyspark=={version}", "-d", folder],
                                  capture_output=True, text=True)
            if done.returncode:
                raise ImportError(f"pip cannot download pyspark {version}: {done.stderr.strip()[-300:]}")
            with tarfile.open(glob.glob(folder + "/pyspark-*.tar.gz")[0]) as archive:
                for member in archive:
                    parts = pathlib.PurePosixPath(member.name).parts
                    if parts[1:2] == ("deps",) and parts[2:3] in (("jars",), ("bin",)) and member.isfile() and ".." not in parts:
                        file = place.joinpath(*parts[2:])
                        file.parent.mkdir(exist_ok=True)
                        file.write_bytes(archive.extractfile(member).read())
                        file.chmod(0o755)
        (place / ".whole").touch()
    return place


def home_of_pyspark():
    import pyspark
    return pathlib.Path(pyspark.__file__).parent


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def check_ledger(run, epochs, rows=4096):
    """Every row of every epoch counted exactly once, or is booked as skipped."""
    done = subprocess.run([harness.program(), "ledger", str(run), "--json"], capture_output=True, text=True)
    found = harness.json.loads(done.stdout)
    assert done.returncode == 0 and (found["duplicates"], found["missing"]) == (0, 0), found
    assert found["counted"] + found["skipped"] == epochs * rows, found


class SparkCluster:
    def __init__(self, folder, workers=2, memory="1g", home=None, gpu=""):
        """`gpu`: a number that each worker says its GPU has; nobody looks whether there is one."""
        self.folder, self.home = pathlib.Path(folder), home or home_of_pyspark()
        self.env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable,
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_HOME": str(self.home), "SPARK_DAEMON_JAVA_OPTS": " ".join([LIGHT, *(f"-D{key}={value}" for key, value in SECURE.items())])}
        if gpu:
            script = self.folder / "gpu.sh"
            script.write_text(f"""#!/bin/sh\necho '{{"name": "gpu", "addresses": ["{gpu}"]}}'\n""")
            script.chmod(0o755)
            self.env["SPARK_WORKER_OPTS"] = f"-Dspark.worker.resource.gpu.amount=1 -Dspark.worker.resource.gpu.discoveryScript={script}"
        self.port, self.workers, self.memory = free_port(), workers, memory
        self.url = f"spark://127.0.0.1:{self.port}"
        self.daemons = []

    def start(self, name, *words):
        log = open(self.folder / f"{name}.log", "w")
        self.daemons.append(subprocess.Popen([str(self.home / "bin" / "spark-class"), *words], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                             cwd=self.folder, start_new_session=True))
        return self.folder / f"{name}.log"

    def __enter__(self):
        master = self.start("master", "org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", str(self.port), "--webui-port", "0")
        self.expect(master, "I have been elected leader")
        for index in range(self.workers):
            self.start(f"worker{index}", "org.apache.spark.deploy.worker.Worker", "-h", "127.0.0.1", "-c", "1", "-m", self.memory, "-d",
                       str(self.folder / f"work{index}"), "--webui-port", "0", self.url)
        self.expect(master, "Registering worker", self.workers)
        return self

    def expect(self, log, text, count=1):
        end = time.monotonic() + 180
        while len(re.findall(text, log.read_text(errors="replace"))) < count:
            if time.monotonic() > end:
                raise AssertionError(f"Spark: no '{text}':\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)

    def __exit__(self, *error):
        for daemon in self.daemons:
            try:
                os.killpg(daemon.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            daemon.wait()

    def conf(self, more):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m", "spark.driver.memory": "512m",
                "spark.ui.enabled": "false", "spark.executor.extraJavaOptions": LIGHT, "spark.driver.extraJavaOptions": LIGHT, **SECURE,
                "spark.sql.shuffle.partitions": "4", **more}

    def submit(self, *words, **conf):
        """The command line of an application: words are those of spark-submit after its options."""
        options = [word for key, value in self.conf(conf).items() for word in ("--conf", f"{key}={value}")]
        return [str(self.home / "bin" / "spark-submit"), "--master", self.url, *options, *map(str, words)]

    def session(self, name="perigee", **conf):
        from pyspark.sql import SparkSession
        os.environ["PYSPARK_PYTHON"] = sys.executable  # of the tasks
        builder = SparkSession.builder.master(self.url).appName(name)
        for key, value in self.conf(conf).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session


def executors(folder):
    """Process ids of the executors whose folder lies in this one, the oldest first."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ours = os.readlink(entry / "cwd").startswith(os.path.realpath(folder) + "/")
            if entry.name.isdigit() and ours and any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words):
                started = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[19])
                found.append((started, int(entry.name)))
        except (OSError, ValueError):
            continue
    return [pid for _, pid in sorted(found)]