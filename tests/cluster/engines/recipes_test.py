#!/usr/bin/env python3
"""The recipes of models/clusters with the real Ray and the real Dask: a process of theirs is killed, the ledger stays exact. `./perigee test
engines` installs both."""
import os
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "cluster"), str(ROOT / "models" / "clusters")]
import harness  # noqa: E402
from harness import Cluster  # noqa: E402

os.environ["PERIGEE_PROGRAM"] = harness.program()


def killed_once(cluster, start):
    """Runs a recipe, kills the process that is the parent of a worker once both train; the run ends, and its ledger adds up."""
    cluster.write_job(epochs=300)
    os.chdir(cluster.folder)
    events, killed = [], []

    def watch(event):
        events.append(event)
        if event["event"] == "step" and event["workers"] == 2 and not killed:
            name = next(e["worker"] for e in events if e["event"] == "worker_joined")
            killed.append(int(name.rsplit("-", 1)[1]))
            os.kill(killed[0], signal.SIGKILL)

    code = start(watch)
    kinds = [e["event"] for e in events]
    assert code == 0 and killed and {"worker_lost", "worker_left"} & set(kinds) and kinds.count("worker_joined") >= 3, (code, killed, kinds[-5:])
    cluster.check_ledger(cluster.folder / next(e["folder"] for e in events if e["event"] == "start"), epochs=300)


def ray_starts_a_killed_actor_again():
    try:
        import ray
        import ray_actors
    except ImportError as missing:
        raise harness.Skip(str(missing)) from None
    with Cluster() as cluster:
        os.environ["PYTHONPATH"] = str(ROOT / "models" / "clusters")  # of the actors
        os.environ["RAY_raylet_start_wait_time_s"] = "120"
        try:
            ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False, object_store_memory=100_000_000)
        except Exception as error:  # not ours to judge: a machine with too much to do
            raise harness.Skip(f"Ray itself does not start here: {error}") from None
        try:
            killed_once(cluster, lambda watch: ray_actors.main("job.json", "2", on_event=watch))
        finally:
            ray.shutdown()


def dask_runs_a_killed_task_again():
    try:
        import dask_tasks
    except ImportError as missing:
        raise harness.Skip(str(missing)) from None
    with Cluster() as cluster:
        killed_once(cluster, lambda watch: dask_tasks.main("local", "job.json", "2", on_event=watch))


if __name__ == "__main__":
    harness.main([ray_starts_a_killed_actor_again, dask_runs_a_killed_task_again])
