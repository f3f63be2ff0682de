#!/usr/bin/env python3
"""How soon the prompt answers: `./perigee bench prompt`. Medians of 40 starts and of 40 keys, through a real pseudo-terminal.

    first prompt      from the start of the process until the prompt is on the screen: within 50 ms
    perigee -e 1      the whole process: within 25 ms
    completion        from the Tab until the completed name is on the screen: within 20 ms
    path of a job     the same of the paths of models/lenet.lua, after its script was evaluated the first time: within 20 ms
    Ctrl-C            from the key until the prompt is back from an endless loop: within 100 ms
    live              LeNet's images a second, one thread, beside a prompt that plots its loss four times a second, against `perigee train`, in
                      turns: at least 0.98
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "repl"))
from screen import Screen  # noqa: E402
from sessions import Session  # noqa: E402

PROGRAM = str(ROOT / "build" / "repl" / "perigee")
TIMES = 40


def milliseconds(measure):
    values = sorted(1000 * measure() for _ in range(TIMES))
    return statistics.median(values), values[0], values[-1]


def spin(session, holds):
    """Without the pauses of Session.until, which would be measured."""
    end = time.monotonic() + 15
    while not holds():
        session.pump(0.001)
        if time.monotonic() > end:
            raise SystemExit("the prompt did not answer")


def first_prompt(folder):
    session = Session(PROGRAM, folder)
    begin = time.perf_counter()
    session.start(["repl"])
    spin(session, session.asked)
    seconds = time.perf_counter() - begin
    session.close()
    return seconds


def one_expression():
    begin = time.perf_counter()
    subprocess.run([PROGRAM, "-e", "1"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def completion(session, typed, whole):
    session.send("\x15" + typed)
    spin(session, lambda: session.screen.lines()[-1] == "pg> " + typed)
    begin = time.perf_counter()
    session.send("\t")
    spin(session, lambda: session.screen.lines()[-1] == "pg> " + whole)
    return time.perf_counter() - begin


def interruption(session):
    session.send("\x15while true do end\r")
    spin(session, lambda: not session.screen.pasting)
    time.sleep(0.02)
    begin = time.perf_counter()
    session.send("\x03")
    spin(session, session.asked)
    return time.perf_counter() - begin


def launched(folder, job):
    command = [PROGRAM, "train", job, "--threads", "1", "--log", "json", "--out", f"{folder}/launched-{time.monotonic_ns()}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["examples_per_s"]


def beside_the_prompt(folder, job):
    session = Session(PROGRAM, folder)
    session.environment |= {"PERIGEE_DATA": os.environ.get("PERIGEE_DATA", "")}
    session.start(["repl"])
    spin(session, session.asked)
    session.send(f'run = pg.start("{job}", {{ threads = 1, out = "beside-{time.monotonic_ns()}" }})\r')
    session.send('r = run:on("end", function(e) io.open("speed", "w"):write(("%.1f"):format(e.examples_per_s)):close() end)\r')
    told = pathlib.Path(folder) / "speed"
    end = time.monotonic() + 120
    while not (told.exists() and told.read_text()):
        session.send("run:plot()\r")
        until = time.monotonic() + 0.25
        while time.monotonic() < until:
            session.pump(0.02)
        if time.monotonic() > end:
            raise SystemExit("the run did not end:\n" + "\n".join(session.screen.lines()))
    speed = float(told.read_text())
    told.unlink()
    session.close()
    return speed


def live(folder):
    job = pathlib.Path(folder) / "job.json"
    described = subprocess.run([PROGRAM, "describe", ROOT / "models" / "lenet.lua", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    job.write_text(json.dumps({**json.loads(described.stdout), "epochs": 6}))
    speeds = [(launched(folder, job), beside_the_prompt(folder, job)) for _ in range(5)]
    ratio = statistics.median(beside for _, beside in speeds) / statistics.median(alone for alone, _ in speeds)
    print(f"live           {ratio:7.3f} of the launcher's {statistics.median(alone for alone, _ in speeds):,.0f} images/s "
          f"(turns: {', '.join(f'{beside / alone:.3f}' for alone, beside in speeds)})   at least 0.98: {'met' if ratio >= 0.98 else 'NOT MET'}")
    return ratio < 0.98


def main():
    failed = 0

    def row(name, bar, values):
        nonlocal failed
        median, least, most = values
        failed += median > bar
        print(f"{name:<14} {median:7.1f} ms [{least:.1f}-{most:.1f}]   at most {bar} ms: {'met' if median <= bar else 'NOT MET'}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        row("first prompt", 50, milliseconds(lambda: first_prompt(folder)))
        row("perigee -e 1", 25, milliseconds(one_expression))
        session = Session(PROGRAM, folder)
        session.screen = Screen(200, 24)
        session.start(["repl"])
        spin(session, session.asked)
        row("completion", 20, milliseconds(lambda: completion(session, "pg.data.mn", "pg.data.mnist")))
        call = f'pg.start("{ROOT}/models/lenet.lua", {{ set = "optimizer.we'
        completion(session, call, call + "ight_decay=")
        row("path of a job", 20, milliseconds(lambda: completion(session, call, call + "ight_decay=")))
        row("Ctrl-C", 100, milliseconds(lambda: interruption(session)))
        session.close()
        failed += live(folder)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
