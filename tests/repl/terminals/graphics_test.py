#!/usr/bin/env python3
"""pg.plot on terminals with pictures: graphics_test.py PROGRAM. Prints TAP.

A terminal is played: it answers what the program asks, or does not, and the pictures that come are decoded.
"""
import base64
import os
import pathlib
import pty
import re
import select
import signal
import sys
import tempfile
import termios
import time
import zlib

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ATTRIBUTES, KITTY = b"\x1b[c", b"\x1b_Gi=7141"
IMAGE = 'pg.plot(pg.tensor { { { 0, 1 }, { 0.5, 0.25 } }, { { 1, 0 }, { 0.5, 0.25 } }, { { 0, 0 }, { 0.5, 1 } } }, { kind = "image" })'
CHART = "pg.plot { 1, 4, 2, 8 }"


def start_on(slave, arguments, environment):
    """The process of the program on a terminal."""
    clean = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "HOME": "/tmp", "LANG": "C.UTF-8"} | environment
    child = os.fork()
    if child == 0:
        os.setsid()
        for descriptor in range(3):
            os.dup2(slave, descriptor)
        os.execve(PROGRAM, [PROGRAM, *arguments], clean)
    return child


class Terminal:
    """What the program writes while `answers`, from question to answer, come back after `delay_s`."""

    def __init__(self, expression, answers, environment=None, delay_s=0.0, typed=b""):
        self.written, self.rest, left = b"", b"", dict(answers)
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        if typed:
            os.write(master, typed)
            time.sleep(0.1)
        child = start_on(slave, ["-e", expression], environment or {})
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if master in select.select([master], [], [], 0.02)[0]:
                self.written += os.read(master, 65536)
            for question in [q for q in left if q in self.written]:
                time.sleep(delay_s)
                os.write(master, left.pop(question))
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
        while master in select.select([master], [], [], 0.1)[0]:
            self.written += os.read(master, 65536)
        self.code = os.waitstatus_to_exitcode(status)
        self.restored = termios.tcgetattr(slave) == before
        os.close(master)
        os.close(slave)


class Prompt:
    """The prompt on a terminal that is asked in the middle of a session."""

    RUNS = b"\x1b[?2004l"  # and ends with the line that runs
    PROMPT = b"\x1b[?2004h"  # bracketed paste goes on with each

    def __enter__(self):
        self.master, self.slave = pty.openpty()
        self.folder = tempfile.TemporaryDirectory(prefix="perigee-graphics-")
        self.written, self.seen = b"", 0
        self.child = start_on(self.slave, ["repl"], {"XDG_STATE_HOME": self.folder.name, "HOME": self.folder.name, "NO_COLOR": "1"})
        self.until(self.PROMPT)
        return self

    def __exit__(self, *_):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.master)
        os.close(self.slave)
        self.folder.cleanup()

    def until(self, wanted):
        """All that comes up to `wanted`."""
        end = time.monotonic() + 30
        while (at := self.written.find(wanted, self.seen)) < 0:
            assert time.monotonic() < end, f"{wanted!r} did not come after {self.written[self.seen:]!r}"
            if self.master in select.select([self.master], [], [], 0.05)[0]:
                self.written += os.read(self.master, 65536)
        part, self.seen = self.written[self.seen:at], at + len(wanted)
        return part

    def type(self, keys):
        os.write(self.master, keys)

    def is_as_typed(self, line, result):
        """The line that stands at the prompt has nothing else in it: it runs, and is all that the history has of it."""
        self.until(self.RUNS)
        self.until(result + b"\r\n")
        self.until(self.PROMPT)
        self.type(b"\x10\x01#[[\x05]]\r")  # the last line, as a text
        self.until(self.RUNS)
        self.until(str(len(line)).encode() + b"\r\n")


def decoded_sixel(written):
    """Rows of (red, green, blue) from 0 to 255, and what was written around the picture."""
    found = re.search(rb"\x1bP0;1;0q\"1;1;(\d+);(\d+)(.*?)\x1b\\", written, re.DOTALL)
    width, height = int(found[1]), int(found[2])
    rows = [[None] * width for _ in range(height)]
    colours, colour, x, top = {}, 0, 0, 0
    for part in re.finditer(rb"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|([$-])|(.)", found[3], re.DOTALL):
        assert not part[10], f"{part[0]!r} is no sixel"
        if part[1]:
            colours[int(part[1])] = tuple(round(int(part[k]) * 2.55) for k in (2, 3, 4))
        elif part[5]:
            colour = int(part[5])
        elif part[9]:
            x, top = 0, top + (6 if part[9] == b"-" else 0)
        else:
            count, mask = (int(part[6]), part[7][0] - 63) if part[6] else (1, part[8][0] - 63)
            for _ in range(count):
                for bit in range(6):
                    if mask >> bit & 1:
                        assert rows[top + bit][x] is None, "a pixel has two colours"
                        rows[top + bit][x] = colours[colour]
                x += 1
    assert all(pixel is not None for row in rows for pixel in row), "a pixel has no colour"
    return rows, written[:found.start()] + written[found.end():]


def decoded_kitty(written):
    pieces = re.findall(rb"\x1b_G([^;\x1b]*);([^\x1b]*)\x1b\\", re.sub(rb"\x1b_Gi=7141[^\x1b]*\x1b\\", b"", written))
    first = dict(pair.split(b"=") for pair in pieces[0][0].split(b","))
    assert (first[b"a"], first[b"f"], first[b"q"]) == (b"T", b"100", b"2"), first
    assert [head[-1:] for head, _ in pieces] == [b"1"] * (len(pieces) - 1) + [b"0"] and all(len(data) <= 4096 for _, data in pieces)
    png = base64.b64decode(b"".join(data for _, data in pieces), validate=True)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    at = png.index(b"IDAT")
    raw = zlib.decompress(png[at + 4:at + 4 + int.from_bytes(png[at - 4:at], "big")])
    rows = []
    for y in range(height):
        line = raw[y * (3 * width + 1):(y + 1) * (3 * width + 1)]
        assert line[0] == 0
        rows.append([tuple(line[1 + 3 * x:4 + 3 * x]) for x in range(width)])
    return rows


def near(one, other, most):
    return max(abs(a - b) for pixel, again in zip(one, other) for a, b in zip(pixel, again)) <= most


def check_image(rows):
    size = len(rows) // 2
    assert len(rows) == len(rows[0]) == 2 * size > 100, (len(rows), len(rows[0]))
    corners = [rows[0][0], rows[0][-1], rows[-1][0], rows[-1][-1]]
    assert near(corners, [(0, 255, 0), (255, 0, 0), (128, 128, 128), (64, 64, 255)], 2), corners


def only_text(terminal):
    """No picture, and nothing else that a terminal without pictures would show as text."""
    text = terminal.written.replace(ATTRIBUTES, b"").decode()
    assert terminal.code == 0 and terminal.restored
    assert "\x1b" not in text, text
    assert re.search("[\u2800-\u28ff█▓]", text), text


def a_terminal_with_sixels_gets_them():
    terminal = Terminal(IMAGE, {ATTRIBUTES: b"\x1b[?62;4;22c", KITTY: b"\x1b[?62;4;22c"})
    rows, rest = decoded_sixel(terminal.written)
    check_image(rows)
    assert terminal.code == 0 and terminal.restored
    assert not rest.replace(ATTRIBUTES, b"").replace(b"\x1b_Gi=7141,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\", b"").strip(), rest


def a_terminal_of_kittys_protocol_gets_that():
    terminal = Terminal(IMAGE, {ATTRIBUTES: b"\x1b[?62;c", KITTY: b"\x1b_Gi=7141;OK\x1b\\\x1b[?62;c"})
    check_image(decoded_kitty(terminal.written))
    assert terminal.code == 0 and terminal.restored


def both_show_the_same_chart():
    sixel = decoded_sixel(Terminal(CHART, {}, {"PERIGEE_GRAPHICS": "sixel"}).written)[0]
    kitty = decoded_kitty(Terminal(CHART, {}, {"PERIGEE_GRAPHICS": "kitty"}).written)
    assert len(sixel) == len(kitty) and len(sixel[0]) == len(kitty[0]) > 300
    assert all(near(one, other, 27) for one, other in zip(sixel, kitty))  # half a step of the cube of colours
    assert sum(pixel != (255, 255, 255) for row in kitty for pixel in row) > 500


def a_terminal_without_pictures_gets_text():
    only_text(Terminal(CHART, {ATTRIBUTES: b"\x1b[?6c"}))


def one_that_might_print_kittys_question_is_not_asked_it():
    for answer in (b"\x1b[?6c", b"\x1b[?1;2c"):
        assert KITTY not in Terminal(CHART, {ATTRIBUTES: answer}).written


def a_terminal_that_does_not_answer_costs_a_moment():
    begin = time.monotonic()
    only_text(Terminal(CHART, {}))
    assert time.monotonic() - begin < 5


def an_answer_in_pieces_is_one():
    terminal = Terminal(IMAGE, {ATTRIBUTES: b"\x1b[?62;4c", KITTY: b"\x1b[?62;4c"}, delay_s=0.1)
    check_image(decoded_sixel(terminal.written)[0])


def the_environment_decides():
    for kind in ("braille", "none"):
        terminal = Terminal(CHART, {ATTRIBUTES: b"\x1b[?62;4c"}, {"PERIGEE_GRAPHICS": kind})
        only_text(terminal)
        assert ATTRIBUTES not in terminal.written
    wrong = Terminal(CHART, {}, {"PERIGEE_GRAPHICS": "sixle"})
    assert b"expected kitty, sixel, braille or none" in wrong.written


def a_dumb_terminal_and_a_pipe_are_not_asked():
    assert ATTRIBUTES not in Terminal(CHART, {}, {"TERM": "dumb"}).written
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        assert os.system(f"'{PROGRAM}' -e '{CHART}' > '{out}' < /dev/null") == 0
        assert "\x1b" not in out.read_text()


def what_was_typed_ahead_is_not_lost():
    terminal = Terminal(CHART, {ATTRIBUTES: b"\x1b[?62;4c"}, typed=b"x\n")
    assert ATTRIBUTES not in terminal.written and terminal.code == 0


def a_prompt_asks_once_and_nothing_of_it_is_typed():
    with Prompt() as prompt:
        prompt.type(IMAGE.encode() + b"\r")
        prompt.until(ATTRIBUTES)
        prompt.type(b"\x1b[?62;4;22c")
        prompt.until(KITTY)
        prompt.type(b"\x1b[?62;4;22c")
        check_image(decoded_sixel(prompt.until(prompt.PROMPT))[0])
        prompt.type(b"6 * 7\r")
        prompt.is_as_typed(b"6 * 7", b"42")
        prompt.until(prompt.PROMPT)
        prompt.type(IMAGE.encode() + b"\r")
        again = prompt.until(prompt.PROMPT)
        assert ATTRIBUTES not in again and b"\x1bP0;1;0q" in again


def what_is_typed_while_it_asks_is_the_next_line():
    for answer in (b"", b"\x1b[?62;4;22c"):
        with Prompt() as prompt:
            prompt.type(CHART.encode() + b"\r")
            prompt.until(ATTRIBUTES)
            prompt.type(b"6 " + answer + b"* 7\r")
            prompt.is_as_typed(b"6 * 7", b"42")


def an_answer_that_comes_late_is_not_typed():
    for question, early, late in ((ATTRIBUTES, b"", b"\x1b[?62;4;22c"), (KITTY, b"\x1b[?62;4c", b"\x1b_Gi=7141;OK\x1b\\\x1b[?62;4c")):
        with Prompt() as prompt:
            prompt.type(CHART.encode() + b"\r")
            prompt.until(ATTRIBUTES)
            prompt.type(early)
            if early:
                prompt.until(question)
            prompt.until(prompt.PROMPT)
            prompt.type(b"6 " + late + b"* 7\r")
            prompt.is_as_typed(b"6 * 7", b"42")


def main():
    tests = [value for name, value in list(globals().items())
             if callable(value) and getattr(value, "__module__", "") == "__main__" and "_" in name and name.split("_")[0] in
             ("a", "an", "both", "one", "the", "what")]
    failures = 0
    for number, test in enumerate(tests, 1):
        problem = ""
        try:
            test()
        except Exception as error:  # noqa: BLE001
            problem = f"{type(error).__name__}: {error}"
        failures += bool(problem)
        print(f"{'not ok' if problem else 'ok'} {number} {test.__name__.replace('_', ' ')}" + (f"\n# {problem[:600]}" if problem else ""), flush=True)
    print(f"1..{len(tests)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
