#!/usr/bin/env python3
"""Types tests/repl/terminals/*.session into the program through a pseudo-terminal and compares the screen: sessions.py PROGRAM [FILE...]

A session file is a list of steps:
    size COLUMNS ROWS         of the terminal; later in a file: the window changes
    env NAME=VALUE            before the start
    start ARGUMENTS           begins the program (without it: `repl`); `start again`: another one with the same files
    file NAME                 the following lines with | make this file in the folder that the program runs in
    type TEXT                 sends keys: <Enter>, <Tab>, <C-r>, <M-f>, <Up>, <Paste>...</Paste>, <lt> is "<"
    screen                    the following lines with | are what the screen comes to show (all rows; `|...` stands for any rows)
    cursor ROW COLUMN         where the cursor comes to stand, from 1
    style TEXT = SGR          how a text is shown
    signal NAME               to the program; `signal CONT` ends a stop
    running                   a line comes to run
    stopped                   the program comes to be stopped
    exit STATUS               the program ends with it; the terminal is as it was
Each step waits until it holds. It has failed once the program rests and it does not hold (patience.py).
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import shlex
import signal
import struct
import sys
import tempfile
import termios

from patience import Patience
from screen import Screen

PIECE = 61  # bytes of one read: a slow machine hands a frame over in parts, and so is every frame here
KEYS = {"Enter": "\r", "Tab": "\t", "Backspace": "\x7f", "Escape": "\x1b", "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D",
        "Home": "\x1b[H", "End": "\x1b[F", "Delete": "\x1b[3~", "PageUp": "\x1b[5~", "PageDown": "\x1b[6~", "lt": "<",
        "Paste": "\x1b[200~", "/Paste": "\x1b[201~", "M-Enter": "\x1b\r", "C-Left": "\x1b[1;5D", "C-Right": "\x1b[1;5C", "M-Backspace": "\x1b\x7f"}


class Failed(Exception):
    pass


def keys_of(text):
    def key(match):
        name = match[1]
        if name in KEYS:
            return KEYS[name]
        if re.fullmatch(r"C-.", name):
            return chr(ord(name[2].upper()) & 31)
        if re.fullmatch(r"M-.", name):
            return "\x1b" + name[2]
        raise Failed(f"no key <{name}>")
    return re.sub(r"<([^<>\s]+)>", key, text)


class Session:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)
        self.screen = Screen(80, 24)
        self.environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "HOME": str(folder), "LANG": "C.UTF-8",
                            "XDG_STATE_HOME": str(self.folder / "state"), "XDG_CACHE_HOME": str(self.folder / "cache"),
                            "PERIGEE_GRAPHICS": "braille"}  # the screen is not asked what pictures it shows
        self.child = self.master = None
        self.status = None

    def start(self, arguments):
        self.master, slave = pty.openpty()
        self.slave = slave  # kept open, so that its settings can be looked at afterwards
        self.set_size()
        self.before = termios.tcgetattr(slave)
        self.status, self.stopped_now, self.prompts, self.end_of_text = None, False, 0, ""
        self.news, told = os.pipe()
        self.shell = os.fork()
        if self.shell == 0:
            try:
                os.setsid()
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                self.be_shell(slave, told, arguments)
            finally:
                os._exit(97)
        os.close(told)
        self.child = int(self.next_news())

    def be_shell(self, slave, told, arguments):
        """What a shell is to the program: the session's leader, which puts it in the foreground and hears what becomes of it."""
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(slave, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 100)
            os.chdir(self.folder)
            os.execve(self.program, [self.program, *arguments], self.environment)
        os.write(told, f"{child}\n".encode())
        while True:
            _, status = os.waitpid(child, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                os.write(told, b"stopped\n")
                continue
            os.write(told, b"%d\n" % (-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)))
            signal.pause()  # the session outlives the program, so that its terminal can be looked at

    def next_news(self):
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self.news, 1)
            if not part:
                raise Failed("the shell went away")
            line += part
        return line.decode().strip()

    def set_size(self):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.rows, self.screen.columns, 0, 0))

    def pump(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            try:
                text = self.decode(os.read(self.master, PIECE))
                self.count_prompts(text)
                self.screen.feed(text)
            except OSError:
                pass
        while select.select([self.news], [], [], 0)[0]:
            news = self.next_news()
            if news == "stopped":
                self.stopped_now = True
            else:
                self.status = int(news)
                break

    rest = b""
    prompts = 0
    end_of_text = ""  # that may be the beginning of what a prompt is known by

    def count_prompts(self, text):
        mark = "pg> " if self.environment["TERM"] == "dumb" else "\x1b[?2004h"
        text = self.end_of_text + text
        self.prompts += text.count(mark)
        self.end_of_text = text[1 - len(mark):]

    def decode(self, data):
        data = self.rest + data
        for cut in range(len(data), max(-1, len(data) - 4), -1):
            try:
                text = data[:cut].decode()
                self.rest = data[cut:]
                return text
            except UnicodeDecodeError:
                continue
        raise Failed(f"not UTF-8: {data!r}")

    def until(self, holds, what):
        patience = Patience(self.shell)
        while not holds():
            if patience.is_over():
                raise Failed(f"{what()}\nthe screen:\n" + "\n".join("|" + line for line in self.screen.lines()) +
                             f"\ncursor {self.screen.y + 1} {self.screen.x + 1}, status {self.status}, {patience.report()}")
            self.pump(0.02)
        if self.screen.unknown:
            raise Failed(f"control sequences that the screen does not know: {self.screen.unknown}")

    def asked(self):
        """The editor waits for keys: its prompt is shown, and the terminal is not the running line's, which shows keys by itself."""
        line = "".join(self.screen.cells[self.screen.y])
        edited = self.screen.pasting and not termios.tcgetattr(self.slave)[3] & termios.ECHO
        return line.startswith(("pg> ", "  > ")) and (edited or self.environment["TERM"] == "dumb")

    def rests(self):
        """The program has drawn all it had to draw: its first thread sleeps and the terminal holds nothing that was not read."""
        try:
            state = pathlib.Path(f"/proc/{self.child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        return state == "S" and not select.select([self.master], [], [], 0)[0]

    def type(self, text):
        """What follows an Enter is sent when the next prompt is there: before that the terminal belongs to the line that runs."""
        pieces = [piece for piece in re.split("(?<=<Enter>)", text) if piece]
        for number, piece in enumerate(pieces):
            if number > 0:
                self.until(self.answered, lambda: f"expected a prompt before {piece}")
            before, self.prompts_before = self.screen.lines(), self.prompts
            self.send(piece)
            # A further line begins empty: `  > end` is the end of lines that are drawn once more before they run, and `  > ` may be half of it.
            self.answered = lambda: self.asked() and self.screen.lines() != before and (
                self.prompts > self.prompts_before or "".join(self.screen.cells[self.screen.y]).strip() == ">") and self.rests()

    def send(self, text):
        data = keys_of(text).encode()
        while data:
            _, ready, _ = select.select([], [self.master], [], 1.0)
            if ready:
                data = data[os.write(self.master, data[:512]):]
            self.pump(0)

    def close(self):
        if not self.child:
            return
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)
        os.kill(self.shell, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        for fd in (self.master, self.slave, self.news):
            os.close(fd)
        self.child = self.master = None


def fits(lines, wanted):
    """`...` stands for any rows."""
    if "..." not in wanted:
        return lines == wanted
    at = wanted.index("...")
    head, tail = wanted[:at], wanted[at + 1:]
    return len(lines) >= len(head) + len(tail) and lines[:len(head)] == head and (not tail or lines[len(lines) - len(tail):] == tail)


def steps_of(path):
    steps = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("|"):
            steps[-1][2].append(line[1:].rstrip())
        elif line.strip() and not line.startswith("#"):
            steps.append((number, line, []))
    return steps


def run_step(session, word, argument, block):
    if word not in ("size", "env", "file", "start") and session.child is None:
        session.start(["repl"])
        session.until(session.asked, lambda: "expected a prompt")
    if word == "size":
        columns, rows = map(int, argument.split())
        if session.child is None:
            session.screen = Screen(columns, rows)
        else:
            session.screen.resize(columns, rows)
            session.set_size()
    elif word == "env":
        name, value = argument.split("=", 1)
        session.environment[name] = value
    elif word == "file":
        path = session.folder / argument
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(block) + "\n")
    elif word == "start":
        if session.child is not None:
            size = session.screen.columns, session.screen.rows
            session.close()
            session.screen = Screen(*size)
        session.start(shlex.split(argument) if argument != "again" else ["repl"])
        session.until(lambda: session.asked() or session.status is not None, lambda: "expected a prompt")
    elif word == "type":
        session.type(argument)
    elif word == "screen":
        session.until(lambda: fits(session.screen.lines(), block), lambda: "expected\n" + "\n".join("|" + line for line in block))
    elif word == "cursor":
        row, column = map(int, argument.split())
        session.until(lambda: (session.screen.y + 1, session.screen.x + 1) == (row, column), lambda: f"expected cursor {argument}")
    elif word == "style":
        text, style = argument.rsplit(" = ", 1)
        session.until(lambda: session.screen.style_of(text) == style.strip("-"), lambda: f"expected style {style}, got {session.screen.style_of(text)}")
    elif word == "signal":
        session.stopped_now = False
        os.kill(session.child, getattr(signal, "SIG" + argument))
    elif word == "running":
        session.until(lambda: not session.screen.pasting, lambda: "expected a line to run")
    elif word == "stopped":
        session.until(lambda: session.stopped_now, lambda: "expected the program to be stopped")
    elif word == "exit":
        session.until(lambda: session.status is not None, lambda: "expected the program to end")
        if session.status != int(argument):
            raise Failed(f"expected status {argument}, got {session.status}")
        if termios.tcgetattr(session.slave) != session.before:
            raise Failed("the terminal is not as it was")
        session.until(lambda: not session.screen.pasting, lambda: "bracketed paste was left on")
    else:
        raise Failed(f"no step '{word}'")


def run_file(program, path):
    with tempfile.TemporaryDirectory(prefix="perigee-session-") as folder:
        session = Session(program, folder)
        try:
            for number, line, block in steps_of(path):
                word, _, argument = line.partition(" ")
                try:
                    run_step(session, word, argument, block)
                except Failed as failure:
                    raise Failed(f"{path.name}:{number}: {line}\n{failure}") from None
        finally:
            session.close()


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    here = pathlib.Path(__file__).resolve().parent
    paths = [pathlib.Path(name) for name in sys.argv[2:]] or sorted((here / "terminals").glob("*.session"))
    failures = 0
    for number, path in enumerate(paths, 1):
        try:
            run_file(program, path)
            print(f"ok {number} {path.stem}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"not ok {number} {path.stem}\n" + "\n".join("# " + line for line in str(failure).splitlines()), flush=True)
    print(f"1..{len(paths)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
