#!/usr/bin/env python3
"""The wheel in a fresh virtual environment: wheel_test.py BUILD. `./perigee test wheel` runs it.

Makes the wheel, has `auditwheel show` agree with its tag, installs it, runs the program, and links a C program with the library. Exits with
77 and the reason where PyPI, which has auditwheel, cannot be reached.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# No library of the system's beside those of the platform may be needed: this is what the loader says of each that it opens.
TRACE = {"LD_DEBUG": "libs"}


def run(*command, **environment):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, env={**os.environ, "PYTHONPATH": "", **environment})
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


def check(work, build):
    wheel = pathlib.Path(run(sys.executable, ROOT / "repl" / "wheel.py", build, work / "wheels").split()[-1])
    tag = re.search(r"py3-none-(manylinux_\d+_\d+_\w+)\.whl$", wheel.name)[1]

    run(sys.executable, "-m", "venv", work / "auditor")
    auditor = work / "auditor" / "bin"
    try:
        run(auditor / "pip", "install", "-q", "auditwheel")
    except RuntimeError as error:
        print(f"skipped: auditwheel cannot be installed: {str(error).splitlines()[-1]}")
        return 77
    shown = run(auditor / "auditwheel", "show", wheel, PATH=f"{auditor}:{os.environ['PATH']}")
    expect(f'"{tag}"' in " ".join(shown.split()), f"auditwheel does not say {tag}:\n{shown}")

    run(sys.executable, "-m", "venv", work / "fresh")
    fresh = work / "fresh"
    run(fresh / "bin" / "pip", "install", "-q", "--no-index", wheel)
    program = fresh / "bin" / "perigee"
    version = run(program, "version")
    expect(version.startswith("perigee "), version)
    for place in ("man/man1/perigee-train.1", "bash-completion/completions/perigee.bash", "perigee/models/lenet.lua", "perigee/lua/REFERENCE.md"):
        expect((fresh / "share" / place).is_file(), f"the wheel has no {place}")
    trained = run(program, "train", ROOT / "models" / "siamese.lua", "--steps", "3", "--log", "json", "--out", work / "run")
    expect('"event":"end"' in trained.replace(" ", ""), trained)
    opened = re.findall(r"calling init: (\S+/libperigee\S*|\S+/libluajit\S*|\S+/libuv\S*|\S+/libssl\S*)", run(program, "version", **TRACE))
    expect(opened and all(file.startswith(str(fresh)) for file in opened), f"not from the wheel: {opened}")

    example = work / "example"
    library = next(fresh.rglob("libperigee.so.0")).parent
    run("cc", "-std=c11", ROOT / "tests" / "api" / "example.c", "-o", example, f"-I{fresh / 'include'}", f"-L{library}", "-lperigee",
        f"-Wl,-rpath,{library}", "-lm")
    expect(re.search(r"y = (2\.9|3\.0)", run(example)), "the C example has not learnt")
    run(fresh / "bin" / "pip", "uninstall", "-q", "-y", "perigee")
    expect(not program.exists(), "the program outlives pip uninstall")
    print(f"{wheel.name}: {wheel.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perigee-wheel-") as place:
        sys.exit(check(pathlib.Path(place), pathlib.Path(sys.argv[1]).resolve()))
