"""Perigee on Dask: each task runs one worker; a task whose worker process dies is run again elsewhere and joins as a new worker.

    python3 dask_tasks.py SCHEDULER SCRIPT [WORKERS [options of perigee train...]]

SCHEDULER is the address of a scheduler, as tcp://host:8786, or "local". Needs `pip install distributed` and `perigee` on the PATH of every
machine; PERIGEE_PROGRAM names another.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from urllib.parse import urlparse

from distributed import Client, get_worker
from distributed.utils import get_ip

PROGRAM = os.environ.get("PERIGEE_PROGRAM", "perigee")


def train_here(index, address, secret):
    def die_with_parent():
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)

    with tempfile.NamedTemporaryFile("w", prefix="perigee-") as key:  # for its owner alone
        key.write(secret)
        key.flush()
        name, threads = f"dask-{index}-{os.getpid()}", str(get_worker().state.nthreads)
        command = [PROGRAM, "worker", name, "--join", address, "--secret", key.name, "--threads", threads]
        return subprocess.run(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent).returncode


def main(scheduler, script, workers="2", *options, on_event=print):
    with Client(n_workers=int(workers), threads_per_worker=1, dashboard_address=None) if scheduler == "local" else Client(scheduler) as client:
        host = urlparse(client.scheduler.address).hostname
        host = host if host == "127.0.0.1" else get_ip(host)  # this machine's address towards the scheduler
        with tempfile.NamedTemporaryFile("w", prefix="perigee-") as key:
            secret = subprocess.run([PROGRAM, "secret", "new"], check=True, capture_output=True, text=True).stdout
            key.write(secret)
            key.flush()
            command = [PROGRAM, "train", script, "--listen", host + ":0", "--secret", key.name, "--log", "json", *options]
            lead = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for line in lead.stdout:
                event = json.loads(line)
                if event["event"] == "start":
                    address = json.load(open(os.path.join(event["folder"], "cluster.json")))["listen"]
                    tasks = [client.submit(train_here, i, address, secret, pure=False, retries=20) for i in range(int(workers))]  # noqa: F841
                on_event(event)
            return lead.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
