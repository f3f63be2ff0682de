"""Checkpoints are written beside the training: a disk that needs two seconds for each file holds the training thread up at the run's end alone.
What the run counts itself is looked at, and how many files came; no rate of this machine. slow_disk_test.py PROGRAM"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DISK_S = 2.0  # for each file
DUE = 64  # checkpoints in the run

JOB = """
local pg = require "perigee"
return pg.experiment {
  name = "slow", network = pg.sequential { pg.flatten {}, pg.dense { 32, activation = "relu" }, pg.dense { 10 } },
  loss = "cross_entropy", optimizer = pg.adam { lr = 1e-3 },
  data = { train = pg.data.digits({ size = 2048 }).train, batch = 16 },
  checkpoint = { every_epochs = 0, every_steps = %d }, epochs = 4, seed = 1,
}
"""


def compiled(folder):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        print("skipped: no C compiler")
        sys.exit(77)
    library = folder / "slow_sync.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "slow_sync.c", "-ldl"], check=True)
    return library


def trained(program, folder, every_steps, **variables):
    """The last event of a run, and the files that it wrote to the disk, in order."""
    (folder / "job.lua").write_text(JOB % every_steps, encoding="utf-8")
    log = folder / "written"
    log.write_text("", encoding="utf-8")
    done = subprocess.run([program, "train", "job.lua", "--threads", "1", "--log", "json", "--out", folder / "run"], cwd=folder,
                          env={**os.environ, **variables, "SLOW_SYNC_LOG": str(log)}, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    shutil.rmtree(folder / "run")
    return json.loads(done.stdout.splitlines()[-1]), [pathlib.Path(line).name for line in log.read_text(encoding="utf-8").splitlines()]


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        slow = {"LD_PRELOAD": str(compiled(folder)), "SLOW_SYNC_MS": str(int(1000 * DISK_S))}
        end, written = trained(program, folder, 512 // DUE, **slow)
        checkpoints = [name for name in written if name.startswith("step-")]
        assert len(checkpoints) >= 2, written
        held = end["time"]["checkpoint_s"]
        # The file under way at the end, and the last one.
        assert held < 4 * DISK_S, f"{held} s, with a disk that needs {DISK_S} s for each of {DUE} checkpoints"
        last = [name for name in checkpoints if name.startswith("step-000000000512")]
        assert len(last) == 1, f"the end's checkpoint is written once: {written}"
    print(f"ok: {len(checkpoints)} of {DUE} checkpoints written, training held up for {held:.2f} s")


if __name__ == "__main__":
    main()
