#!/usr/bin/env python3
"""The pages of runs: page_test.py PROGRAM [FOLDER]. Prints TAP. What a browser must say is asked of headless Chromium:

    apt-get install --no-install-recommends chromium

It takes 300 MB, so it is not among the packages that `./perigee test` installs; without it these checks are skipped, and say so. With FOLDER the
runs, the pages and their pictures are kept there, to be looked at.
"""
import html.parser
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

import browser
from reader import CONTRAST, OVERFLOW

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
SECTIONS = ["summary", "curves", "confusion", "roc", "calibration", "regression", "worst", "layers", "timeline", "job", "environment"]
HOSTILE = "<img src=x onerror=window.ran=1>"  # a class of this name must stay text
JOBS = {
    "pictures": {
        "name": "<script>window.ran=1</script> & 'pictures'", "network": [{"type": "conv2d", "out": 4, "kernel": 3, "activation": "relu"}, {"type": "dense", "out": 3}],
        "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.02}, "epochs": 6, "seed": 3,
        "data": {"batch": 4, "train": {"type": "images", "folder": "pictures", "size": 8, "channels": 1},
                 "test": {"type": "images", "folder": "pictures", "size": 8, "channels": 1}}},
    "houses": {
        "network": [{"type": "dense", "out": 4, "activation": "tanh"}, {"type": "dense", "out": 1}], "loss": "mse",
        "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 30, "seed": 3,
        "data": {"batch": 20, **{part: {"type": "map", "transforms": [{"type": "standardize"}],
                                        "source": {"type": "csv", "file": "houses.csv", "target": "price", "drop": ["id"]}} for part in ("train", "test")}}},
}
TWO_OUTPUTS = """local pg = require "perigee"
local x = pg.input "x"
local body = pg.dense { 8, activation = "relu" } (x)
local data = pg.data.arrays { x = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 9 } }, c = { 0, 1, 2, 1 }, v = { { 1 }, { 2 }, { 3 }, { 4 } } }
return pg.experiment {
  name = "two-outputs",
  network = pg.graph { inputs = { x }, outputs = { kind = pg.dense { 3 } (body), size = pg.dense { 1 } (body) } },
  loss = { kind = { type = "cross_entropy", target = "c" }, size = { type = "mse", target = "v" } },
  optimizer = "adam", data = { train = data, test = data, batch = 2 }, epochs = 4, seed = 1,
}
"""
checks = []


def check(name, good, shown=""):
    checks.append((name, bool(good), shown))


def skip(name, why):
    checks.append((f"{name} # SKIP {why}", True, ""))


# --- Runs of every kind ---


def png(path, pixels):
    """A grey picture; `pixels`: rows of bytes."""
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in pixels))) + chunk(b"IEND", b""))


def perigee(*arguments, code=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


def make_data():
    for kind, value in ((HOSTILE, 60), ("bright", 190), ("a class whose name is much longer than any column of a table would like", 120)):
        for i in range(8):
            png(pathlib.Path("pictures") / kind / f"{i}.png", [bytes(value + (x * y + 9 * i) % 40 for x in range(8)) for y in range(8)])
    lines = [f"{i},{40 + i},{'Rome' if i % 3 else 'Oslo'},{100 + 3 * i + (7 * i) % 11}" for i in range(60)]
    pathlib.Path("houses.csv").write_text("\n".join(["id,size,<b>city</b>,price", *lines]) + "\n")
    for name, job in JOBS.items():
        pathlib.Path(f"{name}.json").write_text(json.dumps(job))
    pathlib.Path("two.lua").write_text(TWO_OUTPUTS)


def abort(folder):
    """A run that is interrupted once it trains."""
    process = subprocess.Popen([PROGRAM, "train", "houses.json", "--epochs", "1000000", "--out", folder, "--log", "json"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if '"step"' in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def make_runs():
    perigee("train", "pictures.json", "--out", "pictures-run", "--log", "json")
    perigee("train", "houses.json", "--out", "houses-run", "--log", "json")
    perigee("train", "two.lua", "--out", "two-run", "--log", "json")
    perigee("train", "houses.json", "--out", "workers-run", "--log", "json", "--workers", "2", "--set", "optimizer.lr=0.02")
    abort("aborted-run")
    perigee("train", "houses.json", "--out", "failed-run", "--log", "json", "--set", "optimizer.type=sgd", "--set", "optimizer.lr=1e9", code=4)
    old = pathlib.Path("old-run")  # of a version that kept neither details nor a page
    old.mkdir()
    for file in ("job.json", "log.jsonl", "report.json"):
        (old / file).write_bytes(pathlib.Path("houses-run", file).read_bytes())
    perigee("report", "old-run")
    perigee("report", "houses-run", "workers-run", "failed-run", "pictures-run", "--out", "comparison.html")
    runs = ["pictures-run", "houses-run", "two-run", "workers-run", "aborted-run", "failed-run", "old-run"]
    return {name: pathlib.Path(name, "report.html") for name in runs}


# --- The file ---


class Reader(html.parser.HTMLParser):
    VOID = {"meta", "link", "br", "img", "input"}

    def __init__(self):
        super().__init__()
        self.open, self.problems, self.headings, self.sections, self.scripts, self.text = [], [], [], {}, 0, ""
        self.ids, self.tables = [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if any(name.startswith("on") or name == "style" for name in attributes):
            self.problems.append(("an attribute that the policy forbids", tag, attributes))
        if any(re.match("https?:|//|javascript:", attributes.get(name) or "") for name in ("src", "href")):
            self.problems.append(("a link outwards", tag, attributes))
        if tag == "section":
            self.sections[attributes["id"]] = ""
        if tag == "script":
            self.scripts += 1
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and "scope" not in attributes:
            self.problems.append(("a header without a scope", tag))
        if tag == "table":
            self.tables.append(False)
        if tag == "caption":
            self.tables[-1] = True
        if (tag == "img" and not attributes.get("alt")) or (attributes.get("role") in ("img", "group") and not attributes.get("aria-label")):
            self.problems.append(("no alternative", tag, attributes))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(("unbalanced", tag, self.getpos()))

    def handle_data(self, data):
        if "section" in self.open and self.sections:
            last = next(reversed(self.sections))
            self.sections[last] += data
        self.text += data


def check_file(name, path, sections):
    size, text = path.stat().st_size, path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    check(f"{name}: less than 500 kB", size < 500_000, size)
    check(f"{name}: well formed, with headers, captions and alternatives", not reader.problems and not reader.open and all(reader.tables), (reader.problems[:5], reader.open))
    check(f"{name}: every section is there", list(reader.sections) == sections, list(reader.sections))
    check(f"{name}: none is empty", all(len(words.strip()) > 15 for words in reader.sections.values()), reader.sections)
    steps = [b - a for a, b in zip(reader.headings, reader.headings[1:])]
    check(f"{name}: headings do not jump", reader.headings[0] == 1 and reader.headings.count(1) == 1 and max(steps) <= 1, reader.headings)
    check(f"{name}: one script, which is ours", reader.scripts == 1)
    check(f"{name}: ids are unique", len(set(reader.ids)) == len(reader.ids), reader.ids)
    return reader


def check_content(pages):
    pictures, houses = (check_file(name, pages[name], SECTIONS) for name in ("pictures-run", "houses-run"))
    check("a class's name stays text", HOSTILE in pictures.sections["confusion"] and "<script>window.ran=1</script>" in pictures.text)
    check("a column's name stays text", "<b>city</b>" in houses.sections["worst"], houses.sections["worst"])
    check("the worst pictures are shown", pages["pictures-run"].read_text().count("<img src=\"data:image/png;base64,") == 16)
    # The rows that the table shows are rows of the file, for all that was standardised in between.
    rows = [line.split(",") for line in pathlib.Path("houses.csv").read_text().splitlines()[1:]]
    worst = json.loads(pathlib.Path("houses-run/details.json").read_text())["evaluation"]["worst"]
    good = [row["columns"] == {"size": float(rows[row["example"]][1]), "<b>city</b>": rows[row["example"]][2]} and
            row["actual_values"] == [float(rows[row["example"]][3])] for row in worst]
    check("the worst rows are those of the table", len(good) == 16 and all(good), worst[:2])
    errors = sorted(((row["actual_values"][0] - row["predicted_values"][0]) ** 2 for row in worst), reverse=True)
    check("they are in the order of their losses", [row["loss"] for row in worst] == sorted((row["loss"] for row in worst), reverse=True) and
          all(abs(a - row["loss"]) <= 1e-3 * a for a, row in zip(errors, worst)), errors)
    for name, words in {"aborted-run": ("summary", "interrupted"), "failed-run": ("summary", "The run failed"), "old-run": ("layers", "details.json"),
                        "workers-run": ("summary", "workers2"), "two-run": ("layers", "kind")}.items():
        check(f"{name} says so", words[1] in check_file(name, pages[name], SECTIONS).sections[words[0]])
    check("an interrupted run says why figures are missing", "interrupted before" in check_file("aborted-run", pages["aborted-run"], SECTIONS).sections["regression"])
    alone, two = (json.loads(pathlib.Path(name, "details.json").read_text())["evaluation"] for name in ("houses-run", "workers-run"))
    check("two workers sample the same examples as one", [p["actual"] for p in alone["scatter"]] == [p["actual"] for p in two["scatter"]] and len(two["worst"]) == 16)


def check_comparison():
    reader = check_file("comparison", pathlib.Path("comparison.html"), ["figures", "curves", "job", "environment"])
    differences = reader.sections["job"]
    check("the jobs' differences are listed", "optimizer.lr" in differences and "1000000000" in differences and "batch" in differences, differences)
    check("what they share is not", "data.train.source.file" in differences and '"seed"' not in differences)
    check("the best is marked in words", "best: " in reader.sections["figures"])
    again = perigee("report", "houses-run", "--out", "-")
    check("the page is made again from the folder, byte for byte", again == pathlib.Path("houses-run/report.html").read_text())


def check_report_text():
    perigee("train", "pictures.json", "--out", "areas-run", "--log", "json", "--set", 'metrics=["classification","roc"]')
    text = pathlib.Path("areas-run/report.txt").read_text()
    check("report.txt has the areas", "roc.auc" in text and "ROC AUC  average precision" in text, text)
    check("report.txt does not cut names to pieces", "0 " + HOSTILE in text and "much longer tha..." in text, text)
    svg = pathlib.Path("failed-run/curves.svg").read_text()
    check("curves.svg survives a run that failed", svg.startswith("<svg") and "nan" not in svg)


# --- The page in a browser ---


def colours(data):
    """How many colours a picture has: of the RGB or RGBA that Chromium writes."""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind in (2, 6)
    step, at, packed = (3 if kind == 2 else 4), 8, b""
    while at < len(data):
        length = struct.unpack(">I", data[at:at + 4])[0]
        packed += data[at + 8:at + 8 + length] if data[at + 4:at + 8] == b"IDAT" else b""
        at += length + 12
    raw, before, found = zlib.decompress(packed), bytearray(width * step), set()
    for y in range(height):
        kind, line = raw[y * (width * step + 1)], bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        for x in range(len(line)):
            left, up, corner = (line[x - step] if x >= step else 0), before[x], (before[x - step] if x >= step else 0)
            paeth = min((left, up, corner), key=lambda v, p=left + up - corner: abs(p - v))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        found.update(bytes(line[x:x + 3]) for x in range(0, len(line), step))
        before = line
    return len(found)


def look(tester, name, path, keep):
    for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")):
        tab, what = tester.open(path, width=width, scheme=scheme), f"{name} at {width} px, {scheme}"
        check(f"{what}: nothing runs over", not (found := tab.value(OVERFLOW)), found)
        check(f"{what}: text and curves stand out", not (found := tab.value(CONTRAST)), found)
        check(f"{what}: the console is empty, no request leaves", not (found := tab.troubles()), found)
        if keep:
            path.with_name(f"{path.stem}-{width}-{scheme}.png").write_bytes(tab.picture(whole=True))
        tab.close()


def check_by_keyboard(tester, path):
    tab = tester.open(path)
    check("no foreign text ran", tab.value("window.ran === undefined && document.scripts.length === 1"))
    tab.key("Tab")
    check("the first key leads past the navigation", tab.value("document.activeElement.className") == "skip")
    reached = set()
    for _ in range(60):
        tab.key("Tab")
        reached.add(tab.value("document.activeElement.closest('svg.plot,.scroll,pre,summary,input,nav') ? document.activeElement.tagName : ''"))
    check("figures, tables, choices and details are reached by Tab", {"svg", "DIV", "SUMMARY", "INPUT", "A"} <= reached, reached)
    tab.value("document.querySelector('#curves svg.plot').focus()")
    tab.key("ArrowLeft")
    check("an arrow key reads a value", re.search(r"epoch [\d.]+: train [\d.]+", tab.value("document.querySelector('#curves output').textContent")))
    tab.value("document.querySelector('#curves input:nth-of-type(2)').click()")
    shown = "[...document.querySelectorAll('#curves fieldset')[0].querySelectorAll('div')].map(d => getComputedStyle(d).display)"
    check("the other axis can be chosen", tab.value(shown) == ["none", "block"])
    tab.close()


def check_looks(tester, pages, keep):
    for name, path in {**pages, "comparison": pathlib.Path("comparison.html")}.items():
        look(tester, name, path, keep)
    check_by_keyboard(tester, pages["pictures-run"])
    blank = pathlib.Path("blank.html")
    blank.write_text("<!DOCTYPE html><title>blank</title>")
    for scheme in ("light", "dark"):
        some, none = (colours(tester.open(path, scheme=scheme).picture(scale=.25)) for path in (pages["houses-run"], blank))
        check(f"the screen is not blank, {scheme}", some > none + 20, (some, none))
    still = tester.open(pages["houses-run"], script=False)
    check("without scripts it is the same page", colours(still.picture(scale=.25)) > 20)
    paper = tester.open(pages["houses-run"], media="print")
    check("on paper there is no navigation", paper.value("getComputedStyle(document.querySelector('nav')).display") == "none")
    if keep:
        pathlib.Path("paper.png").write_bytes(paper.picture(whole=True))


def main(folder, keep):
    os.chdir(folder)
    make_data()
    pages = make_runs()
    check_content(pages)
    check_comparison()
    check_report_text()
    if not browser.find():
        return skip("pages in a browser", "no Chromium here: apt-get install --no-install-recommends chromium")
    tester = browser.Browser()
    try:
        check_looks(tester, pages, keep)
    finally:
        tester.close()


if len(sys.argv) > 2:
    pathlib.Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[2], True)
else:
    with tempfile.TemporaryDirectory() as scratch:
        main(scratch, False)
        os.chdir("/")
print(f"1..{len(checks)}")
for number, (name, good, shown) in enumerate(checks, 1):
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not good:
        print("# " + str(shown)[:2000].replace("\n", "\n# "))
sys.exit(0 if all(good for _, good, _ in checks) else 1)
