#!/usr/bin/env python3
"""How long a training on Spark takes to its first step: spark_start.py [--turns 5]. Needs what tests/cluster/engines/spark_test.py needs.

One standalone cluster of a master and two workers. Each figure is of an application of its own, so that its executors and their Python processes are
new; the clock starts when the session is there. The applications take turns: an empty job of two tasks; one that hands the rows through Arrow, as the
export does; a training with data of its own; with the rows exported; with the rows resident. What counts is how much later than the empty job a step
comes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "cluster" / "engines"), str(ROOT / "cluster" / "engines" / "spark")]
import harness  # noqa: E402
import spark_cluster  # noqa: E402

KINDS = "empty job", "empty job, Arrow", "train", "train, exported", "train, resident"
JOB = {
    "name": "start", "seed": 1, "epochs": 1, "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.05},
    "network": [{"type": "dense", "out": 32, "activation": "relu"}, {"type": "dense", "out": 10}],
    "data": {"train": {"type": "digits", "size": 4096}, "global_batch": 32}, "averaging": {"type": "allreduce", "shards": 4},
}


def application(kind, folder, port):
    """In a process of its own: the marks of one application, in seconds from the moment when its session is there."""
    import perigee_spark
    from pyspark.sql import functions as F
    cluster = spark_cluster.SparkCluster(folder)
    cluster.url = f"spark://127.0.0.1:{port}"
    spark = cluster.session()
    df = spark.range(0, 4096, 1, 2).withColumn("features", F.array(*[F.rand(i) for i in range(64)])).withColumn("label", (F.col("id") % 10).cast("int"))
    marks, begun = [], time.monotonic()
    mark = lambda what: marks.append((what, round(time.monotonic() - begun, 2)))  # noqa: E731
    if kind == "empty job":
        spark.sparkContext.parallelize(range(2), 2).mapPartitions(list).collect()
    elif kind == "empty job, Arrow":
        df.mapInArrow(lambda batches: batches, df.schema).count()
    else:
        (folder / "job.json").write_text(json.dumps(JOB))
        rows = {} if kind == "train" else {"train": df, "data": "export" if kind.endswith("exported") else "resident"}
        seen = set()

        def hear(event):
            if event["event"] not in seen:
                seen.add(event["event"])
                mark(event["event"])

        perigee_spark.train(str(folder / "job.json"), workers=2, out=str(folder / f"run-{time.time()}"), shared=str(folder / "shared"),
                            program=harness.program(), on_event=hear, **rows)
    mark("end")
    print(json.dumps(marks))
    spark.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--application", nargs=3, metavar=("KIND", "FOLDER", "PORT"), help="what a turn calls")
    arguments = parser.parse_args()
    if arguments.application:
        kind, folder, port = arguments.application
        return application(kind, pathlib.Path(folder), port)
    took = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="perigee-start-") as folder, spark_cluster.SparkCluster(folder) as cluster:
        for turn in range(arguments.turns):
            for kind in KINDS:
                done = subprocess.run([sys.executable, __file__, "--application", kind, folder, str(cluster.port)], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr[-3000:])
                marks = dict(json.loads(done.stdout.strip().splitlines()[-1]))
                took[kind].append(marks.get("step", marks["end"]))
                print(f"turn {turn + 1}, load {os.getloadavg()[0]:.0f}, {kind}: {marks}", flush=True)
    print("\n| | seconds, median [least-most] | later than the empty job of the same turn |\n|---|---|---|")
    for kind in KINDS:
        later = statistics.median(a - b for a, b in zip(took[kind], took["empty job"]))
        print(f"| {kind} | {statistics.median(took[kind]):.1f} [{min(took[kind]):.1f}-{max(took[kind]):.1f}] | {later:+.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
