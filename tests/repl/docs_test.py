#!/usr/bin/env python3
"""Types every block of the documentation that begins with the prompt, and compares what the screen then shows: docs_test.py PROGRAM

Blocks are fenced as ```text. `...` stands for rows that differ from run to run. repl/README.md lists every subcommand.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from documentation import ROOT, blocks_of, documents
from screen import Screen
from sessions import Failed, Session, fits

PROMPT = re.compile(r"^(pg> |  > )(.*)$")


def sessions():
    return [(str(block), block.text) for file in documents() for block in blocks_of(file) if block.kind == "session"]


def play(program, lines):
    with tempfile.TemporaryDirectory(prefix="perigee-docs-") as folder:
        session = Session(program, folder)
        session.screen = Screen(120, 200)
        try:
            session.start(["repl"])
            session.until(session.asked, lambda: "expected a prompt")
            inputs = [PROMPT.match(line)[2].replace("<", "<lt>") for line in lines if PROMPT.match(line)]
            # Indentation is typed by the editor.
            session.type("".join(line.lstrip() + "<Enter>" for line in inputs))
            wanted = ["...", *(line.rstrip() for line in lines), "pg>"]
            if "..." in wanted[1:]:  # compared up to there
                wanted = wanted[:wanted.index("...", 1)]
                session.until(lambda: session.answered(), lambda: "expected a prompt")
                session.until(lambda: session.screen.lines()[1:len(wanted)] == wanted[1:], lambda: "expected\n" + "\n".join(wanted[1:]))
            else:
                session.until(lambda: fits(session.screen.lines(), wanted), lambda: "expected\n" + "\n".join(wanted[1:]))
        finally:
            session.close()


def missing_commands(program):
    usage = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) ", usage[usage.index("Subcommands:"):], re.M)
    table = (ROOT / "repl" / "README.md").read_text()
    return [name for name in commands if not re.search(rf"^\|[^|]*`perigee {name}\b", table, re.M)] if commands else ["--help lists none"]


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    found, failures = sessions(), 0
    for number, (name, lines) in enumerate(found, 1):
        try:
            play(program, lines)
            print(f"ok {number} {name}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"not ok {number} {name}\n" + "\n".join("# " + line for line in str(failure).splitlines()), flush=True)
    missing = missing_commands(program)
    print(f"{'not ok' if missing else 'ok'} {len(found) + 1} repl/README.md lists every subcommand" + (f"\n# missing: {missing}" if missing else ""))
    print(f"1..{len(found) + 1}")
    return 1 if failures or missing or len(found) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
