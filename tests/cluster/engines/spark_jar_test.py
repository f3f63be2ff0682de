#!/usr/bin/env python3
"""perigee-spark.jar on real standalone clusters of Spark 3.5 and 4: a master and two workers. Needs a JDK; the Sparks come from PyPI's archives of
pyspark, into ~/.cache/perigee-test-servers (about 900 MB). What needs a session is in SparkJarTest.java, one program for all of it."""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster")]
import harness  # noqa: E402
import spark_cluster  # noqa: E402
from harness import wait_until  # noqa: E402

try:
    import numpy
except ImportError as missing:
    print(f"1..0 # SKIP {missing}; ./perigee test engines installs it")
    sys.exit(0)

OLD, NEW = "3.5.9", "4.3.0"  # Scala 2.12 and 2.13
PATIENCE = 600
JOB = {
    "name": "spark", "seed": 1, "epochs": 2, "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.05},
    "network": [{"type": "dense", "out": 32, "activation": "relu"}, {"type": "dense", "out": 2}],
    "data": {"train": {"type": "digits", "size": 64}, "global_batch": 32}, "averaging": {"type": "allreduce", "shards": 4},
}
SHORT = "writes_tables", "fits_transforms_saves_and_loads_in_a_pipeline", "an_estimator_keeps_data_resident"
ALL = (*SHORT, "names_of_classes_and_parameters", "a_killed_executor_costs_its_task_alone", "a_killed_executor_brings_its_partition_back",
       "rows_that_change_when_they_are_computed_again_are_refused", "a_cancelled_job_leaves_a_checkpoint", "mistakes_are_named")
folder = jar = cluster = None
clusters = contextlib.ExitStack()


def build():
    """The jar as users build it, against the older Spark; and the test's program."""
    old, made = spark_cluster.home(OLD), folder / "perigee-spark.jar"
    done = subprocess.run([ROOT / "cluster" / "engines" / "spark" / "jar.sh", old, made], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    classes = folder / "classes"
    source = pathlib.Path(__file__).with_name("SparkJarTest.java")
    for command in (["javac", "--release", "11", "-nowarn", "-proc:none", "-cp", f"{made}:{old}/jars/*", "-d", classes, source],
                    ["jar", "--create", "--file", folder / "test.jar", "-C", classes, "."]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return made


def run_cases(names):
    """Cases inside one application."""
    command = cluster.submit("--jars", jar, "--class", "org.perigee.spark.SparkJarTest", folder / "test.jar", folder / "work", harness.program(), *names)
    done = subprocess.run(command, cwd=folder, env=cluster.env, capture_output=True, text=True, timeout=3 * PATIENCE)
    seen = [line for line in done.stdout.splitlines() if line.startswith("ok - ")]
    assert len(seen) == len(names) and done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    print("".join(f"# {line}\n" for line in seen), end="")


def front_door(*words, program=None, **conf):
    work = folder / "work"
    return cluster.submit("--class", "org.perigee.spark.Train", jar, work / "job.json", "--workers", 2, "--program", program or harness.program(),
                          "--train", work / "train.parquet", "--shared", work / "shared", *words, **conf)


def perigee_processes():
    """Of this test: its folder is in the command line of a coordinator, the task's name in that of a worker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            ours = str(folder).encode() in (entry / "environ").read_bytes() + b" ".join(words)
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and words[0] == harness.program().encode() and words[1:2] in ([b"train"], [b"worker"]) and ours:
            found.append(int(entry.name))
    return found


def works_in_a_pipeline():
    run_cases(SHORT if cluster.home == spark_cluster.home(OLD) else ALL)
    spark_cluster.check_ledger(folder / "work" / "pipeline", 3)
    spark_cluster.check_ledger(folder / "work" / "resident-ml", 3)
    if cluster.home == spark_cluster.home(NEW):
        for run, epochs, rows in (("killed", 20, 4096), ("resident-killed", 20, 4096), ("kept", 2, 512)):
            spark_cluster.check_ledger(folder / "work" / run, epochs, rows)
    wait_until("the end of all processes", lambda: not perigee_processes())


def trains_with_the_bits_of_two_processes():
    out = folder / "work" / "submitted"
    done = subprocess.run(front_door("--test", folder / "work" / "test.parquet", "--set", "epochs=3", "--out", out, "--model", folder / "work" / "ml"),
                          cwd=folder, env=cluster.env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "epoch 3: loss" in done.stdout and "test accuracy" in done.stdout, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert "unencrypted" not in done.stderr and (folder / "work" / "ml" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    spark_cluster.check_ledger(out, 3)
    direct = subprocess.run([harness.program(), "train", out / "job.json", "--workers", "2", "--threads", "1", "--out", folder / "work" / "direct"],
                            capture_output=True, text=True)
    assert direct.returncode == 0, direct.stderr
    assert harness.parameters(folder / "work" / "direct") == harness.parameters(out), "other bits"


def resident_data_give_the_same_bits():
    """As the exported rows of the case before, on two tasks; the only file outside of them is the driver's, of the test part."""
    out, mine = folder / "work" / "resident", folder / "work" / "mine"
    done = subprocess.run(front_door("--test", folder / "work" / "test.parquet", "--set", "epochs=3", "--out", out, "--data", "resident", "--shared", mine),
                          cwd=folder, env=cluster.env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "test accuracy" in done.stdout, f"{done.stdout}\n{done.stderr[-4000:]}"
    spark_cluster.check_ledger(out, 3)
    assert harness.parameters(folder / "work" / "direct") == harness.parameters(out), "other bits"
    source = harness.json.loads((out / "job.json").read_text())["data"]["test"]
    assert [str(file) for file in mine.iterdir()] == [source["file"]], source
    left = [str(file) for file in (folder / cluster.home.name.removeprefix("spark-")).rglob("*.npz")]
    assert not left, f"what the tasks held stays behind: {left}"
    wait_until("the end of all processes", lambda: not perigee_processes())


def exports_what_numpy_reads():
    """The archives, and the names that perigee_spark.py gives the same rows."""
    source = harness.json.loads((folder / "work" / "submitted" / "job.json").read_text())["data"]["train"]
    x = numpy.array([[numpy.cos(id * ((i * 37 + 11) % 1000 * 0.37)) for i in range(8)] for id in range(4096)]).astype(numpy.float32)
    seen = []
    for one in source.get("sources", [source]):
        file = pathlib.Path(one["file"])
        with numpy.load(file) as arrays:
            fields = arrays["x"], arrays["y"]
        digest = hashlib.sha256(b"".join(a.dtype.str.encode() + repr(a.shape).encode() + a.tobytes() for a in fields)).hexdigest()[:24]
        assert file.name == f"part-{file.name[5:10]}-{digest}.npz", (file.name, digest)
        seen.append(fields)
    rows, labels = (numpy.concatenate(part) for part in zip(*seen))
    assert rows.dtype == numpy.float32 and labels.dtype == numpy.int32
    assert numpy.allclose(rows[numpy.lexsort(rows.T)], x[numpy.lexsort(x.T)], atol=1e-6) and numpy.array_equal(labels, (rows[:, 0] + rows[:, 1] > 0).astype(numpy.int32))


def secrets(place):
    """The small files of this folder, and of those in it, that hold a secret."""
    found = []
    for where, _, names in os.walk(place):
        for file in (pathlib.Path(where, name) for name in names):
            try:
                if file.is_file() and file.stat().st_size < 4096 and re.search(rb"^[0-9a-f]{64}$", file.read_bytes(), re.M):
                    found.append(str(file))
            except FileNotFoundError:  # Spark removed it meanwhile
                pass
    return found


def a_killed_driver_leaves_no_process_and_no_secret():
    out, program, seen, scratch = (folder / "work" / name for name in ("orphaned", "perigee", "gpus", "scratch"))
    scratch.mkdir()
    program.write_text(f"""#!/bin/sh\n[ "$1" = worker ] && echo "$CUDA_VISIBLE_DEVICES" >>'{seen}'\nexec '{harness.program()}' "$@"\n""")
    program.chmod(0o755)
    java = f"{spark_cluster.LIGHT} -Djava.io.tmpdir={scratch}"
    conf = {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1", "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java, "spark.executorEnv.TMPDIR": str(scratch)}
    with subprocess.Popen(front_door("--set", "epochs=100000", "--out", out, "--min-workers", 2, program=program, **conf), cwd=folder,
                          env={**cluster.env, "TMPDIR": str(scratch)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as driver:
        try:
            for line in driver.stdout:
                if line.startswith("epoch 2:"):
                    break
            assert len(perigee_processes()) == 3, perigee_processes()
            assert list(scratch.glob("perigee-*/job.json")), "the driver keeps its files elsewhere"
            assert not secrets(scratch), "a killed driver would leave the run's secret"
        finally:
            driver.kill()
    wait_until("the end of all processes", lambda: not perigee_processes())
    assert not secrets(scratch), "a killed driver leaves the run's secret"
    assert list((out / "checkpoints").glob("*.safetensors"))
    assert seen.read_text() == "3\n3\n", "other GPUs than those of the tasks"


def refuses_what_cannot_work():
    for words, code, text in (([], 2, "a script or a job is needed"), (["a.lua", "b.lua"], 2, "a job is given already, a.lua"),
                              (["a.lua", "--worker", "2"], 2, "there is no option --worker"), (["a.lua", "--workers", "none"], 2, "expected a whole number above 0"),
                              (["a.lua", "--test", "x"], 2, "together with --train"), (["a.lua", "--label"], 2, "--label needs a value")):
        done = subprocess.run(["java", "-cp", f"{jar}:{cluster.home}/jars/*", "org.perigee.spark.Train", *words], capture_output=True, text=True)
        assert done.returncode == code and text in done.stderr, done.stderr
    done = subprocess.run(cluster.submit("--class", "org.perigee.spark.Train", jar, "a.lua", **{"spark.speculation": "true"}), cwd=folder, env=cluster.env,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "spark.speculation starts a second copy of a slow task" in done.stderr, done.stderr[-2000:]
    for home, path, text in (("/nowhere", "", "no folder of a Spark"), (cluster.home, "/nowhere", "there is no javac: install a JDK")):
        environment = {**os.environ, **({"PATH": path} if path else {})}
        done = subprocess.run([shutil.which("bash"), ROOT / "cluster" / "engines" / "spark" / "jar.sh", home], env=environment, capture_output=True, text=True)
        assert done.returncode == 1 and text in done.stderr, done.stderr


def use(version):
    """The cluster of this version; one at a time, and each is started once."""
    global cluster
    if cluster and cluster.home == spark_cluster.home(version):
        return
    clusters.close()
    for place in (folder / version, folder / "work"):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    (folder / "work" / "job.json").write_text(harness.json.dumps(JOB))
    cluster = clusters.enter_context(spark_cluster.SparkCluster(folder / version, home=spark_cluster.home(version), gpu="3"))


def on(version, case):
    def test():
        use(version)
        case()
    test.__name__ = f"spark_{version.split('.')[0]}_{case.__name__}"
    return test


if __name__ == "__main__":
    if not shutil.which("javac"):
        print("1..0 # SKIP there is no javac: apt install default-jdk-headless")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="perigee-spark-jar-") as name, clusters:
        folder = pathlib.Path(name)
        jar = build()
        harness.main([
            on(OLD, works_in_a_pipeline), on(OLD, trains_with_the_bits_of_two_processes), on(OLD, resident_data_give_the_same_bits),
            on(NEW, works_in_a_pipeline), on(NEW, trains_with_the_bits_of_two_processes), on(NEW, resident_data_give_the_same_bits),
            on(NEW, exports_what_numpy_reads), on(NEW, a_killed_driver_leaves_no_process_and_no_secret),
            on(NEW, refuses_what_cannot_work)
        ])
