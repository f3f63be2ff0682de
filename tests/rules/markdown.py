#!/usr/bin/env python3
"""The rules of Markdown files: links lead to files and headings that exist, `folder/file.h` names a file of the tree, prose is wrapped at
120 columns, a folder's README.md has at most 120 lines (the front page 200, the tutorial in models/ 340). Prints one line per finding."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "repl"))
from documentation import documents  # noqa: E402

COLUMNS, LINES = 120, 120
MORE_LINES = {"README.md": 200, "models/README.md": 340}


def without_code(text):
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)


def anchors(file):
    """What GitHub makes of a file's headings."""
    found = {}
    for title in re.findall(r"^#+ (.*)$", without_code(file.read_text()), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower()).strip().replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return found


def link_findings(file, text):
    for match in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), text)):
        target, _, anchor = match[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (file.parent / target).resolve() if target else file
        line = text[:match.start()].count("\n") + 1
        if not there.exists():
            yield line, f"there is no {match[1]}"
        elif anchor and (there.suffix != ".md" or anchor not in anchors(there)):
            yield line, f"{match[1]} has no such heading"


def known_paths():
    """Every file of the tree by every end of its path; `x.*` is any x with an extension."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    parts = [name.split("/") for name in listing.stdout.split() if (ROOT / name).is_file()]
    ends = {"/".join(path[first:]) for path in parts for first in range(len(path))}
    return ends | {re.sub(r"\.[^./]+$", ".*", end) for end in ends}


def path_findings(file, text, known):
    for match in re.finditer(r"`([\w./-]+\.(?:h|cpp|cu|cuh|py|sh|\*))`", text):
        stem = re.sub(r"\.[^./]+$", "", match[1].split("/")[-1])
        placeholder = "x" in stem.split("_") or re.search(r"[A-Z]", match[1]) or stem.startswith("pg.")  # `cpu/x.cpp`, `NAME.lua`, `pg.loss.*`
        here = os.path.relpath(file.parent / match[1], ROOT) if match[1].startswith("..") else match[1]
        if stem and not placeholder and here not in known:
            yield text[:match.start()].count("\n") + 1, f"there is no {match[1]}"


def findings(file, known):
    text = without_code(file.read_text())
    yield from link_findings(file, text)
    yield from path_findings(file, text, known)
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS and not line.startswith(("|", "    ", "<!--", "#", "![")):
            yield number, f"{len(line)} columns; prose is wrapped at {COLUMNS}"
    most = MORE_LINES.get(str(file.relative_to(ROOT)), LINES)
    lines = file.read_text().count("\n")
    if file.name == "README.md" and lines > most:
        yield lines, f"{lines} lines; at most {most}: specifications have their own files"


def main():
    failures = checked = 0
    known = known_paths()
    for file in documents():
        checked += 1
        for line, what in findings(file, known):
            failures += 1
            print(f"{file.relative_to(ROOT)}:{line}: {what}")
    print(f"{checked} files, {failures} findings")
    return 1 if failures or checked < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
