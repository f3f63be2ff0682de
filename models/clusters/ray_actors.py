"""Perigee on Ray: each actor runs one worker; an actor that dies is started again and joins as a new worker.

    python3 ray_actors.py SCRIPT [WORKERS [options of perigee train...]]

Needs `pip install ray` and `perigee` on the PATH of every node; PERIGEE_PROGRAM names another. Under `ray job submit` it runs as it is.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys

import ray

PROGRAM = os.environ.get("PERIGEE_PROGRAM", "perigee")


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # Ray kills its processes without a word


@ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)
class Worker:
    def pid(self):
        return os.getpid()

    def train(self, index, address, secret):
        key = f"/tmp/perigee-ray-{os.getpid()}.key"
        with os.fdopen(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(secret)
        threads = str(int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        command = [PROGRAM, "worker", f"ray-{index}-{os.getpid()}", "--join", address, "--secret", key, "--threads", threads]
        code = subprocess.run(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent).returncode
        os.unlink(key)
        return code


def main(script, workers="2", *options, on_event=print):
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    actors = [Worker.options(scheduling_strategy="SPREAD").remote() for _ in range(int(workers))]
    secret = subprocess.run([PROGRAM, "secret", "new"], check=True, capture_output=True, text=True).stdout
    key = f"/tmp/perigee-ray-{os.getpid()}.key"
    with os.fdopen(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(secret)
    listen = ray.util.get_node_ip_address() + ":0"
    command = [PROGRAM, "train", script, "--listen", listen, "--secret", key, "--log", "json", *options]
    lead = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    for line in lead.stdout:
        event = json.loads(line)
        if event["event"] == "start":
            address = json.load(open(os.path.join(event["folder"], "cluster.json")))["listen"]
            running = [actor.train.remote(i, address, secret) for i, actor in enumerate(actors)]  # noqa: F841: kept alive
        on_event(event)
    os.unlink(key)
    return lead.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
