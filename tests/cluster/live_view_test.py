#!/usr/bin/env python3
"""The live view of a cluster in a real pseudo-terminal: what each worker's row says, a resize, a worker that dies, and how the terminal
is left behind."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import harness
from harness import Cluster, wait_until

HEADING = ["worker", "examples/s", "share", "round trip", "sent", "received", "stale", "state"]
ROW = re.compile(r"^(?P<name>\S+/\d+) +(?P<rate>[\d,]+) +(?P<share>\d+) % +(?P<trip>\d+\.\d) ms +(?P<sent>[\d.]+ [kMGT]?B) +"
                 r"(?P<received>[\d.]+ [kMGT]?B) +(?P<stale>\d+)  (?P<state>.*)$")


class Screen:
    """As much of a terminal as the live view uses: text, \\r, \\n, cursor up, clear to the end of line and of screen, colours."""
    SEQUENCE = re.compile(r"\x1b\[(\d*(?:;\d+)*)([A-Za-z])")

    def __init__(self, rows, columns):
        self.lines, self.row, self.column = [""], 0, 0  # everything that scrolled away is kept on top
        self.rows, self.columns, self.rest, self.colour, self.frames = rows, columns, "", False, 0

    def feed(self, data):
        text, self.rest = self.rest + data, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = self.SEQUENCE.match(text, at)
                if not found:
                    assert len(text) - at < 16, f"an unknown sequence {text[at:at + 16]!r}"
                    self.rest = text[at:]
                    return
                self.obey(found[2], found[1])
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def obey(self, letter, number):
        line = self.lines[self.row]
        if letter == "A":
            top = max(0, len(self.lines) - self.rows)
            self.row = max(top, self.row - int(number or 1))
        elif letter == "K":
            self.lines[self.row] = line[:self.column]
        elif letter == "J":
            self.lines[self.row] = line[:self.column]
            del self.lines[self.row + 1:]
            self.frames += 1
        elif letter == "m":
            self.colour = number not in ("", "0")
        else:
            raise AssertionError(f"an unknown sequence {number}{letter}")

    def put(self, letter):
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self.row += 1
        else:
            if self.column >= self.columns:  # the terminal wraps
                self.row, self.column = self.row + 1, 0
            while len(self.lines) <= self.row:
                self.lines.append("")
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[:self.column] + letter + line[self.column + 1:]
            self.column += 1
        while len(self.lines) <= self.row:
            self.lines.append("")

    def shown(self):
        return self.lines[-self.rows:]


class Terminal:
    """`perigee ...` in a terminal of its own."""

    def __init__(self, folder, *arguments, rows=24, columns=120):
        self.screen = Screen(rows, columns)
        self.status = None
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm")
            os.execv(harness.program(), ["perigee", *arguments])
        self.resize(rows, columns)
        settings = termios.tcgetattr(self.file)
        settings[3] |= termios.NOFLSH  # else Ctrl-C throws away what is on its way to the screen
        termios.tcsetattr(self.file, termios.TCSANOW, settings)

    def resize(self, rows, columns):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.rows, self.screen.columns = rows, columns

    def read(self, seconds=0.2):
        """False at the end of the program."""
        if not select.select([self.file], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.file, 65536)
        except OSError:  # the other side is closed
            return False
        self.screen.feed(data.decode(errors="replace"))
        return bool(data)

    def wait_for(self, what, condition):
        end = time.monotonic() + harness.DEADLINE
        while True:
            if found := condition():
                return found
            more = self.read()
            assert more and time.monotonic() < end, f"no {what} on the screen:\n" + "\n".join(self.screen.lines[-40:])

    def workers(self):
        """The rows of the table that is shown now."""
        lines = self.screen.shown()
        headings = [i for i, line in enumerate(lines) if line.startswith("worker ")]
        if not headings:
            return []
        rows = []
        for line in lines[headings[-1] + 1:]:
            found = ROW.match(line)
            if not found:
                break
            rows.append(found.groupdict())
        return rows

    def children(self):
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as words:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) == self.pid:
                        found[words.read().split("\0")[2]] = int(entry)
            except (OSError, IndexError):
                pass
        return found

    def end(self):
        """Reads to the end; the exit status."""
        wait_until("the end of the program", lambda: not self.read())
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self):
        if self.status is None:
            for pid in [*self.children().values(), self.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            os.waitpid(self.pid, 0)
        os.close(self.file)


def at_work(rows, count=3):
    """All workers train and every figure of each is known."""
    return len(rows) == count and rows if all(
        r["rate"] != "0" and r["share"] != "0" and r["sent"] != "0 B" and r["received"] != "0 B" and r["state"].startswith("training")
        and r["stale"] == "0" for r in rows) else None


def rows_say_what_each_worker_does():
    with Cluster() as cluster:
        cluster.write_job(epochs=100000, averaging={"type": "periodic", "every": 4})
        terminal = Terminal(cluster.folder, "train", "job.json", "--workers", "3")
        try:
            screen = terminal.screen
            rows = terminal.wait_for("row for each worker", lambda: at_work(terminal.workers()))
            heading = next(line for line in reversed(screen.shown()) if line.startswith("worker "))
            assert re.split(r" {2,}", heading.strip()) == HEADING or heading.split() == " ".join(HEADING).split(), heading
            assert len({r["name"] for r in rows}) == 3 and abs(sum(int(r["share"]) for r in rows) - 100) <= 2, rows
            assert any(float(r["trip"]) > 0 for r in rows), rows
            terminal.wait_for("worker that waits", lambda: [r for r in terminal.workers() if ", waits for " in r["state"]])
            terminal.wait_for("line of the run", lambda: re.match(r"epoch \d+.* step \d+", screen.lines[-1]))

            # Narrower and lower: nothing wraps, nothing is left over from before.
            for rows_shown, columns in ((24, 60), (4, 40), (24, 120)):
                terminal.resize(rows_shown, columns)
                for _ in range(12):
                    terminal.wait_for("frame", lambda before=screen.frames: screen.frames > before)
                left = [line for line in screen.lines if line.startswith("worker  ") or re.match(r"epoch \d.*step", line)]
                assert len(left) <= 4, ("frames that were not wiped:", left)  # the one shown, and what a lower terminal pushed up
                assert all(len(line) <= columns for line in screen.shown()[-3:]), (columns, screen.shown())

            # A worker dies: one line says so above the table, another comes.
            victim = sorted(terminal.children())[1]
            os.kill(terminal.children()[victim], signal.SIGKILL)
            terminal.wait_for("line about the fault", lambda: [
                line for line in screen.lines if f"worker {victim}" in line and "lost" in line and "signal 9" in line])
            terminal.wait_for("third worker again", lambda: at_work(terminal.workers()))

            os.write(terminal.file, b"\x03")
            status = terminal.end()
            assert status == 130, (status, screen.lines[-10:])
            lines = [line for line in screen.lines if line.strip()]
            assert any(line.startswith("stopping at the next step") for line in lines), lines[-8:]
            last = next(i for i, line in enumerate(lines) if line.startswith("stopped after step"))
            assert not any(ROW.match(line) or re.match(r"epoch \d.*step", line) for line in lines[last - 3:]), lines[-15:]
            assert "continue with:" in "\n".join(lines[last:]), lines[last:]
            assert screen.column == 0 and not screen.colour, "the cursor is at the beginning of a line, in no colour"
            assert not screen.rest and screen.lines[-1] == "", screen.lines[-3:]
        finally:
            terminal.close()


def a_run_that_ends_by_itself_leaves_the_table_of_its_time():
    with Cluster() as cluster:
        cluster.write_job(epochs=1)
        terminal = Terminal(cluster.folder, "train", "job.json", "--workers", "2", "--trace", "t.json")
        try:
            assert terminal.end() == 0, terminal.screen.lines
            text = "\n".join(terminal.screen.lines)
            table = re.search(r"^workers' time +load +compute +encode +wait +transfer +apply$", text, re.M)
            assert table and len(re.findall(r"\d %", text[table.end():].split("\n")[2])) == 6, text
            assert "trace t.json" in text, text
        finally:
            terminal.close()


if __name__ == "__main__":
    harness.main([rows_say_what_each_worker_does, a_run_that_ends_by_itself_leaves_the_table_of_its_time])
