#!/usr/bin/env python3
"""The pages of models/coming_from: idioms_test.py PROGRAM. Prints TAP.

Each has at least twenty numbered idioms with one block of the peer's code and one of ours. Every block of ours runs, after the page's first
one. What it assigns to a key of a job becomes part of the job, which then trains for two steps.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from documentation import PEERS, ROOT, blocks_of

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
PAGES = sorted((ROOT / "models" / "coming_from").glob("*.md"))
LEAST = 20
# Trainings are cut short by few examples; nothing else of what stands there is changed.
BEFORE = """function few_digits()
  local mnist = pg.data.mnist()
  return { train = mnist.train:take(640), test = mnist.test:take(200) }
end
"""
# Runs after each block; `job` is that of the page's beginning or of the block.
AFTER = """
do
  local changed = job ~= job_before
  for _, key in ipairs(require("perigee.native").job_keys "") do
    local value = rawget(_G, key.name)
    if value ~= nil then job[key.name], changed = value, true end
  end
  if changed then
    job.steps = 2
    local run_of_job = pg.start(job, { folder = false })
    run_of_job:wait(60)
    assert(run_of_job.state == "finished", tostring(run_of_job))
  end
end
"""


def run_lua(text):
    with tempfile.TemporaryDirectory(prefix="perigee-idioms-") as folder:
        done = subprocess.run([PROGRAM, "repl"], input=text, cwd=folder, capture_output=True, text=True, timeout=120)
    return (done.stdout + done.stderr)[-1500:].splitlines() if done.returncode else []


def page_cases(page):
    """(name, lines of Lua) of every block of ours."""
    blocks = [block for block in blocks_of(page) if block.kind == "lua"]
    begin = "\n".join(blocks[0].text) + "\njob_before = job\n"
    for block in blocks[1:]:
        text = begin + block.before + "\n" + "\n".join(block.text) + AFTER
        yield str(block), BEFORE + text.replace("pg.data.mnist()", "few_digits()")


def form(page):
    text = page.read_text()
    peer = PEERS[page.stem]
    sections = re.split(r"^## (?=\d+\. )", text, flags=re.M)[1:]
    if len(sections) < LEAST:
        yield f"{len(sections)} idioms; at least {LEAST}"
    for number, section in enumerate(sections, 1):
        title = section.splitlines()[0]
        kinds = re.findall(r"^```(\w+)$", section, re.M)
        if not title.startswith(f"{number}. "):
            yield f"'{title}' is number {number}"
        if len(kinds) != 2 or kinds != [peer, "lua"]:
            yield f"'{title}' has blocks of {kinds}; expected [{peer}, lua]"


def main():
    os.chdir(ROOT)
    checks = [(f"{page.name} has the form of such a page", lambda page=page: list(form(page))) for page in PAGES]
    checks += [(name, lambda text=text: run_lua(text)) for page in PAGES for name, text in page_cases(page)]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, ((name, _), wrong) in enumerate(zip(checks, pool.map(lambda check: check[1](), checks)), 1):
            failures += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {number} {name}" + "".join(f"\n# {line}" for line in wrong), flush=True)
    print(f"1..{len(checks)}")
    return 1 if failures or len(PAGES) != len(PEERS) else 0


if __name__ == "__main__":
    sys.exit(main())
