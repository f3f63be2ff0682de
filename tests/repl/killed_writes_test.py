"""kill -9 while a checkpoint of 33 MB is being written, due at every step, over and over: what is resumed is the newest that was complete, and the run's
end has the bits of one that nobody disturbed; with one process, and with a coordinator and two workers that are killed together.
killed_writes_test.py PROGRAM"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 48
BLOWS = 4  # that hit a file that is being written
FULL = 33_000_000  # bytes of a checkpoint, at least
DEADLINE_S = 120

JOB = {
    "name": "large", "seed": 1, "epochs": 2, "loss": "cross_entropy",
    "network": ["flatten", {"type": "dense", "out": 1536, "activation": "relu"}, {"type": "dense", "out": 1024, "activation": "relu"},
                {"type": "dense", "out": 10}],
    "optimizer": {"type": "adam", "lr": 1e-3},
    "data": {"train": {"type": "digits", "size": 8 * STEPS, "endless": False}, "batch": 16},
    "checkpoint": {"every_epochs": 0, "every_steps": 1},
}
KINDS = {
    "one process": (JOB, ["--threads", "1"]),
    "two workers": ({**JOB, "averaging": {"type": "allreduce", "shards": 2}}, ["--threads", "1", "--workers", "2"]),
}


class Run:
    def __init__(self, program, folder, *arguments):
        self.folder = folder
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([program, "train", *arguments, "--log", "json"], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True)

    def end(self):
        """What it printed, and its exit status."""
        out, _ = self.process.communicate(timeout=DEADLINE_S)
        self.errors.seek(0)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")], self.errors.read()

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        return self.end()


def complete(run):
    return sorted((run / "checkpoints").glob("step-*.safetensors"))


def unfinished(run):
    """Files that are being written, whatever they are called meanwhile."""
    files = {file: size_of(file) for file in (run / "checkpoints").glob("*.safetensors*")}
    return [file for file, size in files.items() if 0 <= size < FULL or (".tmp" in file.name and size >= 0)]


def size_of(file):
    try:
        return file.stat().st_size
    except FileNotFoundError:  # it was complete meanwhile
        return -1


def await_file(process, condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert process.poll() is None, f"it ended before there was {what}"
        assert time.monotonic() < end, f"no {what}"


def strike(run, folder, share, last):
    """Kills a run while it writes; `last`: the file of its end, which SIGTERM asks for. The size of what it had written, or none."""
    before, had = set(unfinished(folder)), complete(folder)
    if last:
        await_file(run.process, lambda: complete(folder) != had, "another checkpoint")
        run.process.send_signal(signal.SIGTERM)
    wanted = lambda: any(size_of(file) >= share * FULL for file in set(unfinished(folder)) - before)  # noqa: E731
    await_file(run.process, wanted, "a file that is being written")
    _, errors = run.kill()
    left = set(unfinished(folder)) - before
    return (max(size_of(file) for file in left) if left else None), errors


def parameters(file):
    content = file.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little"):]  # the header also names the job


def blows(program, folder, arguments):
    """Kills in the middle of a file, each followed by a run that goes on. That which is not struck, what had been written, and the newest file."""
    rng, sizes, tries = random.Random(7), [], 0
    run = Run(program, folder, "job.json", "--out", "struck", *arguments)
    while len(sizes) < BLOWS:
        tries += 1
        assert tries < 10 * BLOWS, f"files are complete before they can be struck: {sizes}"
        # By turns the file that SIGTERM asks for, after another one is complete, and the first that a resumed run writes.
        size, errors = strike(run, folder / "struck", rng.uniform(0, 0.9), last=tries % 2 == 1)
        assert "trying the checkpoint before it" not in errors, errors
        if size is not None:
            sizes.append(size)
        kept = complete(folder / "struck")
        assert all(size_of(file) >= FULL for file in kept), [(file.name, size_of(file)) for file in kept]
        run = Run(program, folder, "--resume", "struck", *arguments)
    return run, sizes, kept[-1]


def check(program, name, folder):
    job, arguments = KINDS[name]
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    _, errors = Run(program, folder, "job.json", "--out", "calm", *arguments).end()
    assert (folder / "calm" / "model.safetensors").exists(), errors
    run, sizes, newest = blows(program, folder, arguments)
    events, errors = run.end()
    assert run.process.returncode == 0, errors
    resumed = next(event for event in events if event["event"] == "start")
    assert pathlib.Path(resumed["resumed_from"]).name == newest.name != "step-000000000001.safetensors", (resumed, newest)
    assert "trying the checkpoint before it" not in errors, errors
    assert parameters(folder / "struck" / "model.safetensors") == parameters(folder / "calm" / "model.safetensors"), f"other bits after {sizes}"
    assert not unfinished(folder / "struck"), "what was not complete stays"
    print(f"ok: {name}: {len(sizes)} files struck after {', '.join(f'{size / 1e6:.0f}' for size in sizes)} MB; resumed from {newest.name}")


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    for name in sys.argv[2:] or KINDS:
        with tempfile.TemporaryDirectory() as place:
            check(program, name, pathlib.Path(place))


if __name__ == "__main__":
    main()
