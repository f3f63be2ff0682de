#!/usr/bin/env python3
"""`perigee help`, the manual pages and the reference: help_test.py PROGRAM. Prints TAP.

lua/REFERENCE.md is what the program prints today. Every command has a manual page with every option of its --help; groff accepts the pages,
where it is installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
REFERENCE = ROOT / "lua" / "REFERENCE.md"


def run(*words, status=0):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60)
    if done.returncode != status:
        raise AssertionError(f"perigee {' '.join(map(str, words))}: status {done.returncode}, expected {status}\n{done.stderr}")
    return done.stdout if status == 0 else done.stderr


def command_names():
    return re.findall(r"^  (\w+) ", run("--help").split("Subcommands:")[1], re.M)


def reference_is_up_to_date():
    printed, written = run("schema", "--markdown"), REFERENCE.read_text()
    if printed != written:
        line = next((n for n, (a, b) in enumerate(zip(printed.splitlines(), written.splitlines()), 1) if a != b), "the end")
        yield f"lua/REFERENCE.md differs in line {line}; write it anew: perigee schema --markdown > lua/REFERENCE.md"


def reference_has_sentences():
    """No row without a text, no definition without a sentence."""
    text = REFERENCE.read_text()
    rows = definitions = 0
    keys = text.split("## Keys of a job")[1].split("\n## ")[0]
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("| `"):
            rows += 1
            if len(re.split(r"(?<!\\)\|", line)[-3 if line in keys else -2].strip()) < 2:  # a key's row ends with its example
                yield f"line {number} has no text: {line}"
    for part in re.split(r"^### ", text.replace(keys, ""), flags=re.M)[1:]:
        name, _, rest = part.partition("\n\n")
        paragraph = rest.split("\n\n")[0]
        definitions += 1
        if not paragraph.endswith(".") or len(paragraph) < 2:
            yield f"{name}: no sentence: {paragraph[:80]}"
    if rows < 800 or definitions < 180:
        yield f"only {rows} rows and {definitions} definitions"


def help_of_commands():
    listed = run("help")
    for name in command_names():
        if not re.search(rf"^  {name} ", listed, re.M):
            yield f"perigee help does not list {name}"
        if not run("help", name).startswith(run(name, "--help")):
            yield f"perigee help {name} is not perigee {name} --help"
    for name, key in [("data", "job.data"), ("train", "data.train"), ("report", "job.report")]:
        if f"'{name}' is also a key of a job: `perigee help {key}`" not in run("help", name) or f"{name} = " not in run("help", key):
            yield f"perigee help {name} does not name the key {key}, or has no example of it"


def help_of_names():
    for name, part in [("early_stopping", "patience"), ("clip", 'type = "norm"'), ("batch", "data = { batch = 64 }"), ("adamw", "weight_decay"),
                       ("pg.data.csv", "missing_values"), ("pg.experiment", "early_stopping"), ("checkpoint", "keep"), ("diloco", "outer")]:
        if part not in run("help", name):
            yield f"perigee help {name} does not say '{part}'"
    kinds = {"losses": "mse", "schedules": "cosine", "optimizers": "adamw", "layers": "conv2d", "metrics": "roc", "sources": "csv", "transforms": "flip",
             "policies": "diloco", "codecs": "int8", "activations": "relu", "initialisers": "xavier", "loss": "mse", "ops": "matmul"}
    for kind, member in kinds.items():
        if not re.search(member if kind == "loss" else rf"^  {member} +\S.{{8}}", run("help", kind), re.M):
            yield f"perigee help {kind} has no line for {member}"
    for name, part in [("accuracy", 'metric = "test.accuracy"'), ("sampler", "source:balanced {}"), ("pg.data", "source:split")]:
        if part not in run("help", name):
            yield f"perigee help {name} does not say {part}"
    for name in ["early_stopping", "pg.data.csv", "job.data"]:
        if re.search(r"1000000000|, none: |= none[ ,}]", run("help", name)):
            yield f"perigee help {name} shows a default that is none"
    for key in re.findall(r"^\| `(\w+)` \|", REFERENCE.read_text().split("## Keys of a job")[1].split("\n## ")[0], re.M):
        if key not in command_names() and f"{key} = " not in run("help", key):
            yield f"perigee help {key} has no example"
    for name, hint in [("trian", "did you mean 'train'?"), ("early_stoping", "did you mean 'early_stopping'?"), ("no_such_thing_at_all", "there is no help")]:
        said = run("help", name, status=2)
        if hint not in said:
            yield f"perigee help {name}: {said}"


def plain(page):
    return page.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


def manual_pages():
    with tempfile.TemporaryDirectory(prefix="perigee-man-") as folder:
        pages = pathlib.Path(folder) / "new" / "man1"
        run("help", "--man", pages)
        names = command_names()
        there = {page.name for page in pages.iterdir()}
        if there != {"perigee.1", *(f"perigee-{name}.1" for name in names)}:
            yield f"pages: {sorted(there)}"
        root = plain((pages / "perigee.1").read_text())
        for name in names:
            page = plain((pages / f"perigee-{name}.1").read_text())
            if f"perigee-{name}\\fR(1)" not in root:
                yield f"perigee.1 does not name {name}"
            if not page.startswith(f'.TH PERIGEE-{name.upper()} 1 "" "Perigee '):
                yield f"{name}: {page[:80]}"
            for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
                if f".SH {section}\n" not in page:
                    yield f"{name} has no {section}"
            for option in re.findall(r"^  (?:-\w,)?(--[\w-]+)", run(name, "--help"), re.M):
                if f"\\fB{option}\\fR" not in page:
                    yield f"{name}: no {option}"
        for page in sorted(pages.iterdir()) if shutil.which("groff") else []:
            said = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True).stderr
            if said:
                yield f"{page.name}: {said}"


def main():
    failures = 0
    checks = [reference_is_up_to_date, reference_has_sentences, help_of_commands, help_of_names, manual_pages]
    for number, check in enumerate(checks, 1):
        try:
            wrong = list(check())
        except AssertionError as error:
            wrong = [str(error)]
        failures += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {check.__name__.replace('_', ' ')}" + "".join(f"\n# {line}" for line in wrong[:20]), flush=True)
    print(f"1..{len(checks)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
