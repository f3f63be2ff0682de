#!/usr/bin/env python3
"""How long a training on Spark takes to its first step: spark_start.py [--turns 5]. Needs what tests/cluster/engines/spark_test.py needs.

One standalone cluster of a master and two workers. Each figure is of an application of its own, so that its executors and their Python processes are
new; the clock starts when the session is there. The applications take turns: an empty job of two tasks; one that hands the rows through Arrow, as the
export does; a training with data of its own; with the rows exported; with the rows resident. What counts is how much later than Spark's own job of the
same turn a step comes: the empty one for data of its own, the one through Arrow for rows. Seconds, and processor seconds of all processes of the
application and of the cluster, which other work on the machine does not lengthen as much.
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

KINDS = {"empty job": None, "empty job, Arrow": None, "train": "empty job", "train, exported": "empty job, Arrow", "train, resident": "empty job, Arrow"}
JOB = {
    "name": "start", "seed": 1, "epochs": 1, "loss": "cross_entropy", "optimizer": {"type": "sgd", "lr": 0.05},
    "network": [{"type": "dense", "out": 32, "activation": "relu"}, {"type": "dense", "out": 10}],
    "data": {"train": {"type": "digits", "size": 4096}, "global_batch": 32}, "averaging": {"type": "allreduce", "shards": 4},
}


def spent(sessions):
    """Processor seconds of the processes of these sessions, and of their children that have ended."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) in sessions:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def application(kind, folder, port, *daemons):
    """In a process of its own: the marks of one application, in seconds from the moment when its session is there."""
    import perigee_spark
    from pyspark.sql import functions as F
    cluster = spark_cluster.SparkCluster(folder)
    cluster.url = f"spark://127.0.0.1:{port}"
    spark = cluster.session()
    df = spark.range(0, 4096, 1, 2).withColumn("features", F.array(*[F.rand(i) for i in range(64)])).withColumn("label", (F.col("id") % 10).cast("int"))
    sessions = {os.getsid(0), *map(int, daemons)}
    marks, begun, used = [], time.monotonic(), spent(sessions)
    mark = lambda what: marks.append((what, round(time.monotonic() - begun, 2), round(spent(sessions) - used, 2)))  # noqa: E731

    def marked(name):
        call = getattr(perigee_spark, name)

        def run(*arguments, **more):
            result = call(*arguments, **more)
            mark(name)
            return result

        setattr(perigee_spark, name, run)

    for name in ("_run", "_partitions", "_start"):  # describe, the export, the coordinator
        marked(name)
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
    parser.add_argument("--application", nargs="+", metavar="KIND FOLDER PORT DAEMON", help="what a turn calls")
    arguments = parser.parse_args()
    if arguments.application:
        kind, folder, *rest = arguments.application
        return application(kind, pathlib.Path(folder), *rest)
    took = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="perigee-start-") as folder, spark_cluster.SparkCluster(folder) as cluster:
        for turn in range(arguments.turns):
            for kind in KINDS:
                done = subprocess.run([sys.executable, __file__, "--application", kind, folder, str(cluster.port), *(str(d.pid) for d in cluster.daemons)],
                                      capture_output=True, text=True, start_new_session=True)
                if done.returncode:
                    sys.exit(done.stderr[-3000:])
                marks = {what: times for what, *times in json.loads(done.stdout.strip().splitlines()[-1])}
                took[kind].append(marks.get("step", marks["end"]))
                print(f"turn {turn + 1}, load {os.getloadavg()[0]:.0f}, {kind}: {marks}", flush=True)
    figure = lambda values, sign="": f"{statistics.median(values):{sign}.1f} [{min(values):{sign}.1f} to {max(values):{sign}.1f}]"  # noqa: E731
    print("\n| median [least to most] | seconds | CPU seconds | later than Spark's own job | CPU seconds more |\n|---|---|---|---|---|")
    for kind, own in KINDS.items():
        later = [figure([a[i] - b[i] for a, b in zip(took[kind], took[own])], "+") if own else "" for i in range(2)]
        print(f"| {kind} | {figure([t[0] for t in took[kind]])} | {figure([t[1] for t in took[kind]])} | {later[0]} | {later[1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
