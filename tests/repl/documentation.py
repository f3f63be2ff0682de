"""The blocks of code in the Markdown files: what each is, so that each is tested somewhere.

A fenced block says what it is. An indented one is commands of a shell, options of a job, or a drawing. An HTML comment in front of a block,
which readers do not see, may say
    <!-- before: LUA -->               what is run first
    <!-- file: NAME -->                the block is this file, which a later command of the same document uses
    <!-- tested by FILE: ... -->       where the test is instead
"""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The pages of models/coming_from, and the language of the other side's code in each; idioms_test.py runs ours.
PEERS = {"caffe": "prototxt", "dl4j": "java", "keras": "python", "pytorch": "python", "torch7": "torch"}
COMMAND = re.compile(r"(\./perigee|perigee|mpirun|srun|c\+\+) ")
OPTION = re.compile(r"[a-z_]+ = \S")


class Block:
    def __init__(self, file, line, kind, text, note):
        self.file, self.line, self.kind, self.text = file, line, kind, text
        self.before = (re.search(r"<!-- before: (.*?) -->", note) or [None, ""])[1]
        self.name = (re.search(r"<!-- file: (\S+) -->", note) or [None, ""])[1]
        self.elsewhere = (re.search(r"<!-- tested by (\S+): .*? -->", note) or [None, ""])[1]

    def __str__(self):
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def kind_of_indented(lines):
    """Every line of commands or of options begins as one; what is neither is a drawing, and has arrows or columns."""
    first = [line for line in lines if line.strip() and not line.startswith(" ")]
    if all(COMMAND.match(line) for line in first):
        return "commands"
    if all(OPTION.match(line) for line in first):
        return "options"
    if any(re.search("->|→|│|\\S  ", line) for line in lines):
        return "drawing"
    return "unknown"


def kind_of_fenced(language, lines):
    return "session" if language == "text" and lines[0].startswith("pg> ") else language or "unknown"


def blocks_of(file):
    lines = file.read_text().splitlines()
    at = 0
    while at < len(lines):
        begin = at
        note = lines[at - 1] if at and lines[at - 1].startswith("<!--") else lines[at - 2] if at > 1 and lines[at - 2].startswith("<!--") else ""
        if lines[at].startswith("```"):
            while not lines[at + 1].startswith("```"):
                at += 1
            body = lines[begin + 1:at + 1]
            yield Block(file, begin + 2, kind_of_fenced(lines[begin][3:], body), body, note)
            at += 2
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            body = [line[4:] for line in lines[begin:at]]
            while body and not body[-1].strip():
                body.pop()
            yield Block(file, begin + 1, kind_of_indented(body), body, note)
        else:
            at += 1


def documents():
    """Every Markdown file of the tree, without build folders and what runs leave behind."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name == ".github" or not name.startswith((".", "build", "runs")))
        yield from (pathlib.Path(folder) / name for name in sorted(names) if name.endswith(".md"))
