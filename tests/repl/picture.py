#!/usr/bin/env python3
"""Records the session that README.md shows: picture.py PROGRAM writes repl/session.svg, picture.py --check PROGRAM plays it again.

The lines below are typed into the prompt on a pseudo-terminal; the picture is the screen that they leave. Its description holds the same
screen as text. `--check` compares that text with a new session, but for numbers and curves. With PERIGEE_DATA the run trains on MNIST.
"""
import os
import pathlib
import re
import sys
import tempfile
import time
import xml.etree.ElementTree
from xml.sax.saxutils import escape

from screen import Screen
from sessions import Failed, Session

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "repl" / "session.svg"
COLUMNS, ROWS = 110, 60
# The input, and the seconds that pass before the next line. Whether the run has got so far is seen in its log, not by the clock.
STEPS_TOLD = 3  # before its curve is drawn
LINES = [('run = pg.start "models/lenet.lua"', 6),
         ("run.progress", 0),
         ('run:plot("loss", { width = 108, height = 8, log = true })', 0),
         ("run.lr = 1e-4", 1),
         ('run:eval("test").accuracy', 0),
         ("run.network.conv1.weight[1]", 0),
         ("run:stop()", 0),
         ("pg.grad(function(w) return (w ^ 2):sum() end)(pg.arange(4))", 0),
         ("pg.conv2d { 20, kernal = 5 }", 0)]
CELL_WIDTH, CELL_HEIGHT, FONT, MARGIN, BAR = 8, 18, 13.3, 14, 30
COLOURS = {"": "#d6dae0", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "35": "#d2a8ff", "36": "#79c0ff", "2": "#8b949e"}
DOTS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]  # of a braille character, by bit
BOX = {"│": "M4 0v18", "┤": "M4 0v18M4 9h-4"}


def steps_told(folder):
    return sum(log.read_text().count('"event":"step"') for log in pathlib.Path(folder).glob("runs/*/log.jsonl"))


def play(program, patience):
    """The screen after all lines; `patience` scales the pauses."""
    with tempfile.TemporaryDirectory(prefix="perigee-picture-") as folder:
        (pathlib.Path(folder) / "models").symlink_to(ROOT / "models")
        session = Session(program, folder)
        session.screen = Screen(COLUMNS, ROWS)
        session.environment.update({name: os.environ[name] for name in ("PERIGEE_DATA",) if name in os.environ})
        try:
            session.start(["repl"])
            session.until(session.asked, lambda: "expected a prompt")
            for text, pause in LINES:
                session.type(text + "<Enter>")
                session.until(lambda: session.answered(), lambda: "expected a prompt")
                end = time.monotonic() + pause * patience
                while time.monotonic() < end:
                    session.pump(0.05)
                session.until(lambda: steps_told(folder) >= STEPS_TOLD, lambda: "expected steps in the run's log")
            return session.screen
        finally:
            session.close()


def runs_of(cells, styles):
    """(column, text, style) of neighbouring cells that share a style. Two blanks end a run, so that columns stay where they are in any font."""
    at = 0
    while at < len(cells):
        begin, style = at, styles[at]
        while at < len(cells) and styles[at] == style and not is_drawn(cells[at]):
            at += 1
        for words in re.finditer(r"\S+( \S+)*", "".join(cells[begin:at])):
            yield begin + words.start(), words[0], style
        at = max(at, begin + 1)


def is_drawn(char):
    return char in BOX or "\u2800" <= char <= "\u28ff"


def drawing_of(cells):
    """Curves and axes as paths: fonts differ in where they put them."""
    dots, axes = "", ""
    for column, char in enumerate(cells):
        x = MARGIN + column * CELL_WIDTH
        if char in BOX:
            axes += re.sub(r"M(\d+) (\d+)", lambda m: f"M{x + int(m[1])} {int(m[2])}", BOX[char])
        elif is_drawn(char):
            for bit, (dx, dy) in enumerate(DOTS):
                if ord(char) - 0x2800 >> bit & 1:
                    dots += f"M{x + 2 + 4 * dx} {round(2.25 + 4.5 * dy, 2)}h.01"
    return dots, axes


def svg(screen):
    lines = screen.lines()
    width, height = 2 * MARGIN + COLUMNS * CELL_WIDTH, BAR + MARGIN + len(lines) * CELL_HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
             "<title>A session at Perigee's prompt</title>", f"<desc>{escape(chr(10).join(lines))}</desc>",
             f"<style>text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:{COLOURS['']}}}"
             + "".join(f".c{code}{{fill:{colour}}}" for code, colour in COLOURS.items() if code)
             + f".b{{font-weight:bold}}.d{{stroke:{COLOURS['36']};stroke-width:2.4;stroke-linecap:round}}.a{{stroke:{COLOURS['2']};fill:none}}</style>",
             f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#6e7681"/>']
    parts += [f'<circle cx="{20 + 20 * at}" cy="16" r="5.5" fill="{colour}"/>' for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))]
    for row in range(len(lines)):
        cells, styles, y = screen.cells[row], screen.styles[row], BAR + row * CELL_HEIGHT
        for column, text, style in runs_of(cells, styles):
            codes = style.split(";")
            classes = " ".join(["b"] * ("1" in codes) + [f"c{code}" for code in codes if code in COLOURS and code])
            parts.append(f'<text x="{MARGIN + column * CELL_WIDTH}" y="{y + 13}" textLength="{len(text) * CELL_WIDTH}"'
                         + (f' class="{classes}"' if classes else "") + f">{escape(text)}</text>")
        for path, kind in zip(drawing_of(cells), "da"):
            if path:
                parts.append(f'<path class="{kind}" transform="translate(0 {y})" d="{path}"/>')
    return "\n".join([*parts, "</svg>", ""])


def outline(lines):
    """What two sessions have in common: no curves, no figures, no warning that drawn digits stand in for MNIST."""
    text = re.sub(r"^warning: .*?(?=^pg> )", "", "\n".join(lines), flags=re.M | re.S)
    kept = [line.strip() for line in text.splitlines() if not any(map(is_drawn, line)) and not re.search(r"\d +step +\d", line)]
    return [line.split(" · ")[0] if " · " in line else re.sub(r"\s*-?\d[\d.,e-]*", " #", line) for line in kept]


def main():
    checked = sys.argv[1] == "--check"
    program = str(pathlib.Path(sys.argv[-1]).resolve())
    try:
        screen = play(program, 0.3 if checked else 1)
    except Failed as failure:
        print("not ok 1 the session is played\n" + "\n".join("# " + line for line in str(failure).splitlines()) + "\n1..1")
        return 1
    if not checked:
        PICTURE.write_text(svg(screen))
        print("\n".join(screen.lines()))
        return 0
    shown = xml.etree.ElementTree.parse(PICTURE).getroot().find("{http://www.w3.org/2000/svg}desc").text.splitlines()
    wanted, got = outline(shown), outline(screen.lines())
    print("ok 1 the picture is what the prompt shows" if wanted == got else
          "not ok 1 the picture is not what the prompt shows: make it again with picture.py\n" +
          "\n".join(f"# expected {w!r}\n# got      {g!r}" for w, g in zip(wanted + [""] * len(got), got + [""] * len(wanted)) if w != g))
    print("1..1")
    return 0 if wanted == got else 1


if __name__ == "__main__":
    sys.exit(main())
