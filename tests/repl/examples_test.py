#!/usr/bin/env python3
"""Runs every block of code in the Markdown files that docs_test.py does not type: examples_test.py PROGRAM. Prints TAP.

Trainings are cut to a few steps, addresses become this machine's; nothing else of what stands there is changed. The blocks of a document run
in its order and in one folder, so that a command finds the files that blocks before it made.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from documentation import ROOT, blocks_of, documents

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 120
# A job around a block that shows only one option.
JOB = """local pg = require "perigee"
return pg.experiment {{
  network = pg.sequential {{ pg.flatten {{}}, pg.dense {{ 8, name = "fc" }}, pg.dense {{ 10, name = "out" }} }}, seed = 1, epochs = 1,
  data = {{ train = pg.data.digits {{ part = "train", size = 256, endless = false }}, batch = 16 }}, loss = "cross_entropy", optimizer = pg.sgd {{ lr = 0.05 }}, {} }}
"""
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # in CI, with few cores


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Place:
    """A folder with what the commands of a document expect to find."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        shutil.copytree(ROOT / "models", self.folder / "models")
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "perigee").symlink_to(PROGRAM)
        for number in range(12):
            self.draw(f"photos/rows/{number}.png", lambda x, y: y // 4 % 2)
            self.draw(f"photos/columns/{number}.png", lambda x, y: x // 4 % 2)
        (self.folder / "job.lua").write_text(JOB.format("averaging = pg.averaging.easgd { every = 4 }"))
        self.environment = {**os.environ, **MPI, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder),
                            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))}
        self.printed = ""  # by the last command
        self.lacks_data = False
        self.behind = []  # commands that go on while the next ones run
        self.begin_block()

    def begin_block(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]

    def draw(self, name, white, size=24):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = b"".join(b"\0" + bytes(255 * white(x, y) for x in range(size)) for y in range(size))
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
                         chunk(b"IEND", b""))

    def start(self, command, given=None):
        log = tempfile.TemporaryFile("w+", dir=self.folder)
        child = subprocess.Popen(["bash", "-c", "exec " + command if not re.search("[|>]", command) else command], cwd=self.folder, env=self.environment,
                                 stdin=subprocess.PIPE if given else subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, text=True)
        if given:
            child.stdin.write(given)
            child.stdin.close()
        return command, child, log

    def finish(self, started):
        command, child, log = started
        try:
            status = child.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            status = "none in time"
        log.seek(0)
        text = log.read()
        log.close()
        if status != 0:
            raise Failed(f"{command}: status {status}\n{text[-2000:]}")
        return text

    def run(self, command, given=None):
        return self.finish(self.start(command, given))

    def listening(self):
        host, port = self.address.split(":")
        for _ in range(PATIENCE * 20):
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed("no process listens at " + self.address)

    def close(self):
        for _, child, log in self.behind:
            child.terminate()
            child.wait(timeout=PATIENCE)
            log.close()
        self.behind = []


def run_wrapper(line):
    """`./perigee build`, `./perigee test PART`, ...: what would run this very test. That there is such a word is all that is looked at."""
    word = line.split()[1]
    if not re.search(rf"^  {word}\)$", (ROOT / "perigee").read_text(), re.M):
        raise Failed(f"./perigee does not know '{word}'")
    if word != "test":
        return
    usage = subprocess.run([sys.executable, ROOT / "tests" / "run_tests.py", "--help"], capture_output=True, text=True, check=True).stdout
    for word in re.split(r"\s{2,}", line)[0].split()[2:]:
        if not re.search(rf"(^|\s){re.escape(word)}\b", usage):
            raise Failed(f"run_tests.py does not know '{word}'")


def run_command(place, line):
    line = re.sub(r"\s+#.*$", "", line).replace("./perigee", "perigee")
    if re.match("perigee (build|test|bench|lint|package)", line):
        return run_wrapper(line)
    program = line.split()[0]
    if not shutil.which(program, path=place.environment["PATH"]):
        raise Skipped(f"{program} is not installed")
    if program == "srun" and subprocess.run(["srun", "true"], capture_output=True).returncode != 0:
        raise Skipped("srun has no cluster")
    if line.startswith("perigee cloud up"):
        raise Skipped("machines cost money; tests/cluster/engines/cloud_test.py has some that do not")
    line = line.replace("host1:7700,host2:7700", place.address).replace("coordinator:7700", place.address)
    line = line.replace("--listen :7700", "--listen " + place.address).replace("0.0.0.0:7700", place.address)
    if "RUN" in line:
        line = line.replace("RUN", str(max((place.folder / "runs").iterdir(), key=lambda run: run.stat().st_mtime)))
    if "perigee train" in line:
        line += " --steps 8"
    if line.startswith("perigee agent") or "--listen" in line:
        place.close()
        place.behind.append(place.start(line))
        return place.listening()
    if "--join" in line:  # as many as the run waits for
        for worker in [place.start(line), place.start(line)]:
            place.finish(worker)
        return place.finish(place.behind.pop())
    try:
        place.printed = place.run(line)
    except Failed as failure:
        if os.environ.get("PERIGEE_DATA") or not (place.lacks_data or re.search("(tabular|timeseries)/", str(failure))):
            raise
        place.lacks_data = True  # what follows in the document may need this run
        place.printed = ""
        raise Skipped("its data is not here") from None
    return place.printed


def masked(line):
    """A line of output without its numbers and folders."""
    return re.sub(r"[-+]?\d[\d.,e+-]*", "#", re.sub(r"\S*/", "", " ".join(line.split())))


def check_output(place, block):
    """The last command printed these lines, but for their numbers."""
    if not place.printed and place.lacks_data:
        raise Skipped("its data is not here")
    printed = {masked(line) for line in place.printed.splitlines()}
    for line in block.text:
        if masked(line) not in printed:
            raise Failed(f"'{line}' was not printed; what was:\n{place.printed[-1500:]}")


def run_options(place, line):
    if line.startswith("codec = "):
        line = "averaging = pg.averaging.periodic { every = 5, %s }" % line
    text = JOB.format(line if not line.startswith("data = ") else "averaging = pg.averaging.periodic { every = 5 }")
    if line.startswith("data = "):
        text = re.sub(r"data = \{.*\}, loss", line + ", loss", text)
    (place.folder / "option.lua").write_text(text)
    place.run("perigee describe option.lua")
    place.run("perigee train option.lua --steps 2")


def run_lua(place, block):
    text = "\n".join(block.text) + "\n"
    if "return pg.experiment" not in text:
        return place.run("perigee repl", (block.before + "\n" if block.before else "") + text)
    file = place.folder / "models" / "block.lua"
    file.write_text(text)
    place.run(f"perigee train {file} --steps 2")
    # It is said to be that model.
    named = "models/" + re.search(r'name = "(\w+)', text)[1] + ".lua"
    if place.run("perigee describe --json models/block.lua") != place.run("perigee describe --json " + named):
        raise Failed("it is not the job of " + named)


def run_json(place, block):
    job = {"network": [{"type": "dense", "out": 3}], "loss": "cross_entropy", "optimizer": "sgd", "data": {"train": json.loads("\n".join(block.text)), "batch": 4}}
    (place.folder / "block.json").write_text(json.dumps(job))
    (place.folder / "iris.csv").write_text("length,width,kind\n" + "".join(f"{i % 7},{i % 5},{'abc'[i % 3]}\n" for i in range(60)))
    place.run("perigee train block.json --steps 2")


def write_file(place, block):
    file = place.folder / block.name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(block.text) + "\n")


def check_commit(block):
    if not re.fullmatch(r"[a-z0-9/_.+-]+: \S.*", block.text[0]) or len(block.text[0]) > 72 or block.text[1:2] != [""]:
        raise Failed("no commit message of the form that CONTRIBUTING.md asks for")


def run_cpp(place, block):
    before = block.before.replace("; ", ";\n  ")
    (place.folder / "block.cpp").write_text("#include <perigee.hpp>\n#include <cstdio>\n#include <span>\n#include <vector>\nint main() {\n  %s\n%s\n}\n" %
                                            (before, "\n".join(block.text)))
    build = PROGRAM.parent
    place.run(f"c++ -std=c++20 -I{ROOT / 'src' / 'api'} -I{build} block.cpp -o block {build / 'libperigee.so'} -Wl,-rpath,{build}")
    place.run("./block")


def check_elsewhere(block):
    file = ROOT / block.elsewhere
    if not file.is_file():
        raise Failed("there is no " + block.elsewhere)
    if block.kind == "cpp" and "\n".join(block.text) not in file.read_text():
        raise Failed("it is not what stands in " + block.elsewhere)


def unknown(block):
    raise Failed(f"what is this? It is '{block.kind}', which no test knows (tests/repl/documentation.py)")


def cases(block, place):
    """What is to be run, each with its name: lines of commands and options one by one."""
    if block.elsewhere:
        yield f"is tested by {block.elsewhere}", lambda: check_elsewhere(block)
    elif block.kind in ("commands", "options"):
        for line in filter(str.strip, block.text):
            yield line.split("  ")[0], lambda line=line: (run_command if block.kind == "commands" else run_options)(place, line)
    elif block.name:
        yield f"is the file {block.name}", lambda: write_file(place, block)
    elif block.kind == "output":
        yield "is what was printed", lambda: check_output(place, block)
    elif block.kind == "gitcommit":
        yield "is a commit message", lambda: check_commit(block)
    elif block.kind in ("lua", "json", "cpp"):
        yield block.kind, lambda: {"lua": run_lua, "json": run_json, "cpp": run_cpp}[block.kind](place, block)
    elif block.kind == "session":
        yield "is typed by docs_test.py", lambda: None
    elif block.kind != "drawing":
        yield block.kind, lambda: unknown(block)


def check_used(blocks):
    """A file that no later command or file mentions was never tried."""
    for at, block in enumerate(blocks):
        if block.name and not any(block.name in line for later in blocks[at + 1:] if later.kind == "commands" or later.name for line in later.text):
            raise Failed(f"{block}: nothing after it uses {block.name}")


def all_cases():
    for file in documents():
        if file.parent.name == "coming_from":  # idioms_test.py
            continue
        blocks = list(blocks_of(file))
        with tempfile.TemporaryDirectory(prefix="perigee-examples-") as folder:
            place = Place(folder)
            for block in blocks:
                place.begin_block()
                for name, run in cases(block, place):
                    yield f"{block} {name}", run
                place.close()
            yield f"{file.relative_to(ROOT)} uses its files", lambda blocks=blocks: check_used(blocks)


def main():
    number, failures = 0, 0
    for name, run in all_cases():
        number, begin = number + 1, time.monotonic()
        try:
            run()
            print(f"ok {number} {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Skipped as skipped:
            print(f"ok {number} {name} # SKIP {skipped}", flush=True)
        except (Failed, OSError, ValueError) as failure:
            failures += 1
            print(f"not ok {number} {name}\n" + "\n".join("# " + line for line in str(failure).splitlines()), flush=True)
    print(f"1..{number}")
    return 1 if failures or number < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
