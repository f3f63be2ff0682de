#!/usr/bin/env python3
"""What checkpoints beside the training cost: `python3 tests/bench/checkpoints.py [TURNS [EVERY]]`.

The same run of one thread with a checkpoint due every EVERY steps (16), and with none before its end, in turns: CPU time of the process, wall time,
and what the run itself counts that its training thread was held up, as a share of its time. A small and a large network; the disk as it is,
and one that needs half a second for each file (tests/repl/slow_sync.c). Prints the rows of RESULTS.md."""

import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("PERIGEE_PROGRAM") or str(ROOT / "build" / "repl" / "perigee")
SLOW_MS = 500
# Name: hidden units, examples, batch, epochs.
NETWORKS = {"50,000 numbers": ("32", 4096, 16, 24), "11 million numbers": ("1024, 1024, 1024", 512, 64, 6)}

JOB = """
local pg = require "perigee"
local layers = { pg.flatten {} }
for _, units in ipairs { %s } do layers[#layers + 1] = pg.dense { units, activation = "relu" } end
layers[#layers + 1] = pg.dense { 10 }
return pg.experiment {
  name = "kept", network = pg.sequential(layers), loss = "cross_entropy", optimizer = pg.adam { lr = 1e-3 },
  data = { train = pg.data.digits({ size = %d }).train, batch = %d },
  checkpoint = { every_epochs = 0, every_steps = %d }, epochs = %d, seed = 1,
}
"""


def trained(folder, network, every_steps, slow):
    hidden, examples, batch, epochs = NETWORKS[network]
    (folder / "job.lua").write_text(JOB % (hidden, examples, batch, every_steps, epochs), encoding="utf-8")
    log = folder / "written"
    log.write_text("", encoding="utf-8")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([PROGRAM, "train", "job.lua", "--threads", "1", "--log", "json", "--out", folder / "run"], cwd=folder, capture_output=True,
                          text=True, check=False, env={**os.environ, "LD_PRELOAD": str(folder / "slow_sync.so"), "SLOW_SYNC_LOG": str(log),
                                                       "SLOW_SYNC_MS": str(SLOW_MS if slow else 0)})
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stdout[-500:] + done.stderr)
    shutil.rmtree(folder / "run")
    spent = json.loads(done.stdout.splitlines()[-1])["time"]
    files = sum("/step-" in line for line in log.read_text(encoding="utf-8").splitlines())
    return {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall, "held": spent["checkpoint_s"], "files": files,
            "training": spent["compute_s"] + spent["update_s"]}


def main():
    turns, every = (int(given) for given in (sys.argv[1:] + ["5", "16"][len(sys.argv) - 1:])[:2])
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "slow_sync.so", ROOT / "tests" / "repl" / "slow_sync.c", "-ldl"], check=True)
        print("| network | disk | CPU s with, without | wall s with, without | held up s with, without | files |\n|---|---|---|---|---|---|")
        for network in NETWORKS:
            for slow in (False, True):
                runs = {every: [], 0: []}
                for _ in range(turns):
                    for every_steps, found in runs.items():
                        found.append(trained(folder, network, every_steps, slow))

                def of(what, runs=runs):
                    return ", ".join(f"{statistics.median(run[what] for run in found):.2f}" for found in runs.values())
                print(f"| {network} | {f'{SLOW_MS} ms a file' if slow else 'as it is'} | {of('cpu')} | {of('wall')} | {of('held')} | "
                      f"{statistics.median(run['files'] for run in runs[every]):.0f} |", flush=True)


if __name__ == "__main__":
    main()
