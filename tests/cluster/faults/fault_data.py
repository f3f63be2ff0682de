"""Data, versions and disks that are not right."""
import os
import pathlib
import re
import subprocess

from fault_kit import fault, skip_unless
from fault_points import points, write_points
from fault_world import END_PATIENCE, Failure
from harness import program

@fault("F28", repeat=2)
def not_a_number(world, rng, blows):
    """Rows of the data without numbers: a worker that trains on them says so, three try, then those examples are booked as skipped."""
    write_points(world.folder, world.examples, rng, bad={17, 18})
    write_points(world.folder / "test", 64, rng)
    world.write_job(train=points(), test=points("test/"))
    world.start_coordinator()
    for index in range(3):
        world.start_worker(f"w{index}")
    line = world.wait("the line about a contribution without numbers", lambda e: e.get("event") == "quarantined")
    if not line.get("worker") or not line.get("cause"):
        raise Failure(f"the line does not name who and why: {line}")
    world.wait("what was given up", lambda e: e.get("event") == "skipped")
    world.skipped = None
    world.finish()
    found = world.check_ledger(skipped=None)
    if not 0 < found["skipped"] <= world.epochs * 2 * 48:  # two rows, each in a batch of its own, of all workers at most
        raise Failure(f"skipped: {found}")


@fault("data", repeat=1, policies=("allreduce",))
def another_data_set(world, rng, blows):
    """A worker whose data are others than the coordinator's is refused, with both fingerprints; the run goes on."""
    write_points(world.folder, world.examples, rng)
    write_points(world.folder / "other", world.examples, rng)
    write_points(world.folder / "test", 64, rng)
    world.write_job(train=points(), test=points("test/"))
    world.start(2)
    mark = world.events.mark()
    for file in ("points.npy", "classes.npy"):  # those who have the old files open keep them
        os.replace(world.folder / "other" / file, world.folder / file)
    child = world.start_worker("stranger")
    child.expected = (child.wait(),)
    line = world.wait("the refusal", lambda e: e.get("event") in ("worker_refused", "worker_failed", "worker_lost") and e.get("worker") == "stranger", mark)
    if child.expected == (0,) or "data" not in str(line) or "data" not in child.said():
        raise Failure(f"exit code {child.expected}, line {line}, said {child.said()}")
    world.steps(2, workers=2)


@fault("F27", repeat=1, policies=("allreduce",))
def another_version(world, rng, blows):
    """A worker of another version, which is this program with other bytes where the version stands, is refused with both named."""
    executable, version = patched_program(world.folder / "other-version")
    world.start(2)
    mark = world.events.mark()
    child = world.start_worker("old", executable=executable, env={"LD_LIBRARY_PATH": str(executable.parent)})
    child.expected = (child.wait(),)
    line = world.wait("the refusal", lambda e: e.get("event") == "worker_refused" and e.get("worker") == "old", mark)
    if child.expected == (0,) or version not in child.said() or line.get("got") == line.get("expected"):
        raise Failure(f"exit code {child.expected}, line {line}, said {child.said()}")
    world.steps(2, workers=2)


def patched_program(folder):
    folder.mkdir()
    version = subprocess.run([program(), "version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+\.\d+", version)[0]
    major, minor, _ = version.split(".")
    other = f"{major}.{(int(minor) + 1) % 10}.0"
    source = pathlib.Path(program())
    files = [source] + [f for f in source.parent.glob("libperigee.so*") if f.is_file()]
    for file in files:
        data = file.read_bytes()
        data = data.replace(version[:-1].encode(), other[:-1].encode())  # constants and instructions' operands alike
        (folder / file.name).write_bytes(data)
        (folder / file.name).chmod(0o755)
    said = subprocess.run([folder / source.name, "version"], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    skip_unless(other in said.stdout, "the program has its version in a form that cannot be patched")
    return folder / source.name, version


# ---- the disk ----


@fault("F14", repeat=6, file_system_bytes=4 << 20)
def disk_full(world, rng, blows):
    """The file system of the run folder is full for a while, ledger and checkpoints with it: training goes on, and what was not
    written is written later."""
    world.write_job(checkpoint="every_epochs = 1")
    world.start(3)
    for _ in range(blows):
        mark = world.events.mark()
        filler = fill(world.out)
        kept = checkpoints(world)
        world.wait("the line about the ledger", lambda e: e.get("event") == "ledger_unwritable", mark, seconds=END_PATIENCE)
        # It is told once in a run; an epoch that ends shows each time that no worker waits for the disk.
        world.wait("the warning about a checkpoint", lambda e: e.get("event") == "warning" and "no checkpoint was written" in e["text"],
                   seconds=END_PATIENCE)
        world.wait("the end of an epoch", lambda e: e.get("event") == "epoch", mark, seconds=END_PATIENCE)
        if not kept & checkpoints(world) and kept:
            raise Failure(f"of the checkpoints {kept} none is left")
        filler.unlink()
        world.poll("the next checkpoint", lambda: checkpoints(world) - kept, seconds=END_PATIENCE)
        world.steps(1, workers=3)
        world.note_blame(mark)
    left = [str(file) for file in world.out.rglob("*.tmp*")]
    if left:
        raise Failure(f"half-written files are left: {left}")


def checkpoints(world):
    return {file.name for file in (world.out / "checkpoints").glob("*.safetensors")}


@fault("F14", repeat=1, policies=("periodic",), file_system_bytes=4 << 20)
def no_room_for_the_model(world, rng, blows):
    """Room for the ledger and the log, but not for the model: everything is trained and counted, and the exit code says that it is not kept."""
    world.write_job(epochs=24)
    world.start(2)
    filler = fill(world.out)
    os.truncate(filler, filler.stat().st_size - (80 << 10))
    world.let_go()
    code = world.coordinator.wait(END_PATIENCE)
    if code != 7 or "the model could not be saved" not in world.coordinator.said():
        raise Failure(f"ended with {code}: {world.coordinator.said()}")
    world.check_ledger()
    world.finished = True


def fill(folder):
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler
