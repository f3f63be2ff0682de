#!/usr/bin/env python3
"""perigee_spark on a real standalone cluster: a master and two workers. Needs Java, pyspark, pyarrow, pandas and numpy; `./perigee test engines`
installs them. One cluster and one session serve all tests: each start of a JVM takes long."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "cluster" / "engines"), str(ROOT / "cluster" / "engines" / "spark")]
import harness  # noqa: E402
from harness import wait_until  # noqa: E402

try:
    import pyarrow  # noqa: F401
    import perigee_spark
    import spark_cluster
    from pyspark.sql import functions as F
except ImportError as missing:
    print(f"1..0 # SKIP {missing}; ./perigee test engines installs it")
    sys.exit(0)

JOB = {
    "name": "spark", "seed": 1, "epochs": 2, "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.05},
    "network": [{"type": "dense", "out": 32, "activation": "relu"}, {"type": "dense", "out": 2}],
    "data": {"train": {"type": "digits", "size": 64}, "global_batch": 32}, "averaging": {"type": "allreduce", "shards": 4},
}
spark = folder = url = None


def table(rows=4096, label="label"):
    """Eight numbers a row, which say the label; in four partitions."""
    df = spark.range(0, rows, 1, 4).select("id", *[F.cos(F.col("id") * ((i * 37 + 11) % 1000) * 0.37).cast("float").alias(f"f{i}") for i in range(8)])
    names = F.when(F.col("f0") + F.col("f1") > 0, "up").otherwise("down") if label == "name" else (F.col("f0") + F.col("f1") > 0).cast("int")
    return df.withColumn("features", F.array(*[f"f{i}" for i in range(8)])).withColumn(label, names)


def train(out, *, job=JOB, df=None, **more):
    file = folder / "job.json"
    file.write_text(harness.json.dumps(job))
    return perigee_spark.train(str(file), train=df if df is not None else table(), workers=2, out=str(folder / out), shared=str(folder / "shared"),
                               program=harness.program(), **more)


def perigee_processes():
    """Of this test: their folder or their program is in the command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and words[0].endswith(b"perigee") and words[1:2] in ([b"train"], [b"worker"]) and b"spark" in b" ".join(words):
            found.append(int(entry.name))
    return found


def expect(error, text, call):
    try:
        call()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError(f"no {error.__name__}")


def trains_with_the_bits_of_two_processes():
    begun = time.monotonic()
    first = []
    model = train("run", test=table(1024), set={"epochs": 3}, on_event=lambda e: first.append(time.monotonic()) if e["event"] == "step" and not first else None)
    print(f"# {first[0] - begun:.1f} s from train() to the first step, with the export", flush=True)
    assert model.attempts == {0: 0, 1: 0} and model.end["test"]["accuracy"] > 0.8, (model.attempts, model.end)
    spark_cluster.check_ledger(model.folder, 3)
    done = subprocess.run([harness.program(), "train", model.folder + "/job.json", "--workers", "2", "--threads", "1", "--out", str(folder / "direct")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert harness.parameters(folder / "direct") == harness.parameters(folder / "run"), "other bits"
    seen = model.transform(table(1000)).select("prediction", "prediction_values", "label").collect()
    assert len(seen) == 1000 and sum(row.prediction == str(row.label) for row in seen) > 800
    assert all(len(row.prediction_values) == 2 and abs(sum(row.prediction_values) - 1) < 1e-5 for row in seen)


def resident_data_give_the_same_bits():
    """No folder is shared: the tasks keep their partitions. The same rows in the same order, whatever the number of partitions."""
    model = train("resident", data="resident", test=table(1024), set={"epochs": 3})
    assert model.attempts == {0: 0, 1: 0} and model.end["test"]["accuracy"] > 0.8, (model.attempts, model.end)
    spark_cluster.check_ledger(model.folder, 3)
    assert harness.parameters(folder / "run") == harness.parameters(folder / "resident"), "other bits than those of exported data"
    job = harness.json.loads((folder / "resident/job.json").read_text())
    assert [s["name"] for s in job["data"]["train"]["sources"]] == ["train/0", "train/1"] and job["data"]["at"] == "partitions", job["data"]


def a_killed_executor_brings_its_partition_back():
    killed, events = [], []

    def watch(event):
        events.append(event["event"])
        if event["event"] == "step" and event["workers"] == 2 and not killed:
            killed.append(spark_cluster.executors(folder)[0])
            os.kill(killed[0], signal.SIGKILL)

    model = train("resident_killed", data="resident", set={"epochs": 400}, on_event=watch)
    assert killed and sorted(model.attempts.values()) == [0, 1], model.attempts
    assert events.count("worker_joined") == 3, [e for e in events if e.startswith("worker")]
    spark_cluster.check_ledger(model.folder, 400)
    wait_until("the end of all processes", lambda: not perigee_processes())


def rows_that_change_when_they_are_computed_again_are_refused():
    import random
    other = F.udf(lambda _: random.random(), "float").asNondeterministic()
    df = table().withColumn("f7", other("id")).withColumn("features", F.array(*[f"f{i}" for i in range(8)]))
    expect(perigee_spark.PerigeeError, "has other rows than when the run began", lambda: train("changing", df=df, data="resident"))
    kept = df.persist()
    try:
        train("kept", df=kept, data="resident")
    finally:
        kept.unpersist()
    spark_cluster.check_ledger(str(folder / "kept"), 2)
    wait_until("the end of all processes", lambda: not perigee_processes())


def vectors_names_and_columns():
    from pyspark.ml.feature import VectorAssembler
    names = [f"f{i}" for i in range(8)]
    df = VectorAssembler(inputCols=names, outputCol="vector").transform(table(512, "name"))
    model = train("vectors", df=df, features="vector", label="name")
    assert {row.prediction for row in model.transform(df).select("prediction").collect()} <= {"up", "down"}
    other = perigee_spark.export(df, str(folder / "columns"), names, "name", classes=["down", "up"])
    assert [s["file"].split("/")[-1] for s in other["sources"]] == sorted(
        p.name for p in (folder / "columns").iterdir()), "the same rows, the same hashes"
    assert {p.name for p in (folder / "columns").iterdir()} <= {p.name for p in (folder / "shared").iterdir()}
    again = perigee_spark.export(df, str(folder / "columns"), names, "name", classes=["down", "up"])
    assert again == other and len(list((folder / "columns").iterdir())) == 4


def kill_executors(out, blows):
    """Always the older one, so that the tasks lose theirs in turns: one that loses four ends the job."""
    killed, events = [], []

    def watch(event):
        events.append(event["event"])
        if event["event"] == "step" and event["workers"] == 2 and len(killed) < blows and events.count("worker_joined") == 2 + len(killed):
            killed.append(spark_cluster.executors(folder)[0])
            os.kill(killed[-1], signal.SIGKILL)

    # With one worker the run goes on: it might be over before the task's next worker joins.
    model = train(out, set={"epochs": 400}, on_event=watch, min_workers=1 if blows == 1 else 2)
    assert len(killed) == blows == sum(model.attempts.values()), (killed, model.attempts)
    assert {"worker_lost", "worker_left"} & set(events) and events.count("worker_joined") == 2 + blows, [e for e in events if e.startswith("worker")]
    spark_cluster.check_ledger(model.folder, 400)
    wait_until("the end of all processes", lambda: not perigee_processes())


def a_killed_executor_costs_its_task_alone():
    kill_executors("killed", 1)


def twenty_killed_executors_cost_twenty_tasks():
    if "PERIGEE_TEST_EVERYTHING" not in os.environ:
        raise harness.Skip("takes long: ./perigee test --everything has it")
    for number in range(4):
        kill_executors(f"killed-{number}", 5)


DRIVER = """
import sys
sys.path[:0] = {paths!r}
import pathlib
import spark_cluster, spark_test
spark_test.folder = pathlib.Path({folder!r})
cluster = spark_cluster.SparkCluster({folder!r})
cluster.url = {url!r}
spark_test.spark = cluster.session()
spark_test.train("orphaned", set={{"epochs": 100000}}, min_workers=2, on_event=lambda e: e["event"] == "epoch" and print(e["epoch"], flush=True))
"""


def a_killed_driver_leaves_no_process():
    spark.stop()  # its executors hold the cores
    text = DRIVER.format(paths=sys.path[:3], folder=str(folder), url=url)
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        try:
            seen = [line.strip() for line, _ in zip(driver.stdout, range(2))]
            assert seen == ["1", "2"] and len(perigee_processes()) == 3, (seen, perigee_processes())
        finally:
            driver.kill()
    wait_until("the end of all processes", lambda: not perigee_processes())
    assert list((folder / "orphaned/checkpoints").glob("*.safetensors"))


def a_cancelled_job_leaves_a_checkpoint():
    context = spark.sparkContext
    context.setJobGroup("perigee", "to be cancelled", interruptOnCancel=True)
    trained = threading.Event()
    canceller = threading.Thread(target=lambda: (trained.wait(120), context.cancelJobGroup("perigee")))
    canceller.start()
    try:
        expect(perigee_spark.PerigeeError, "resume= goes on", lambda: train(
            "cancelled", set={"epochs": 5000}, on_event=lambda e: trained.set() if e["event"] == "epoch" else None))
    finally:
        canceller.join()
        context.setLocalProperty("spark.jobGroup.id", None)
    assert list((folder / "cancelled/checkpoints").glob("*.safetensors"))
    wait_until("the end of all processes", lambda: not perigee_processes())


def mistakes_are_named():
    expect(ValueError, "there is no column 'feature'", lambda: train("none", features="feature"))
    expect(ValueError, "has no rows", lambda: train("none", df=table().filter("id < 0")))
    expect(Exception, "rows have no value", lambda: train("none", df=table().withColumn("f0", F.expr("if(id = 7, null, f0)")), features=["f0", "f1"]))
    expect(perigee_spark.PerigeeError, "there is no loss 'cros_entropy'", lambda: train("none", job={**JOB, "loss": "cros_entropy"}))
    expect(ValueError, "it is 'export', files that all machines see", lambda: train("none", data="rezident"))
    expect(perigee_spark.PerigeeError, "unknown key 'rate'", lambda: train("none", set={"optimizer": {"type": "sgd", "rate": 1}}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perigee-spark-") as name:
        folder = pathlib.Path(name)
        with spark_cluster.SparkCluster(folder) as cluster:
            url = cluster.url
            spark = cluster.session()
            try:
                harness.main([
                    trains_with_the_bits_of_two_processes, resident_data_give_the_same_bits, vectors_names_and_columns, a_killed_executor_costs_its_task_alone,
                    a_killed_executor_brings_its_partition_back, rows_that_change_when_they_are_computed_again_are_refused,
                    a_cancelled_job_leaves_a_checkpoint, mistakes_are_named, twenty_killed_executors_cost_twenty_tasks, a_killed_driver_leaves_no_process
                ])
            finally:
                spark.stop()
