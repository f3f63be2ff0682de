"""Writes what a benchmark prints into its own section of a Markdown file (tests/bench/RESULTS.md), with machine, date and command.

A section lies between `<!-- NAME: begin -->` and `<!-- NAME: end -->`. It is replaced as a whole, so nothing is written in it by hand.
"""
import contextlib
import datetime
import os
import pathlib
import shlex
import sys


def replaced(text, name, body):
    """`text` with `body` in the section `name`. ValueError where it has not exactly one such section."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"there is not one section that begins with '{begin.strip()}' and ends with '{end}'")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{body.strip()}\n\n{end}{rest.split(end)[1]}"


def machine():
    """The CPU, its cores, and how busy they are."""
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def add_option(parser):
    parser.add_argument("--results", metavar="FILE", help="replace this benchmark's section of a Markdown file (tests/bench/RESULTS.md) with what it prints")


class Copy:
    """A stream that also keeps what is written to it."""

    def __init__(self, stream):
        self.stream, self.text = stream, ""

    def write(self, text):
        self.text += text
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


class Report:
    """The file of --results; without one, nothing is kept. `command` is how a user calls the benchmark: "./perigee bench"."""

    def __init__(self, file, command):
        self.file = pathlib.Path(file) if file else None
        options = [option for at, option in enumerate(sys.argv[1:], 1) if option != "--results" and sys.argv[at - 1] != "--results"]
        self.command = " ".join([command, *map(shlex.quote, (option for option in options if not option.startswith("--results=")))])

    def check(self, *names):
        """Ends the program before anything is measured where the file lacks a section."""
        try:
            for name in names if self.file else ():
                replaced(self.file.read_text(), name, "")
        except (OSError, ValueError) as error:
            sys.exit(f"{self.file}: {error}")

    @contextlib.contextmanager
    def section(self, name):
        """What is printed inside becomes the section; nothing is written when an exception leaves it."""
        if not self.file:
            yield
            return
        where = machine()  # before the benchmark adds its own load
        with contextlib.redirect_stdout(Copy(sys.stdout)) as copy:
            yield
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        body = f"Machine: {where}. Date: {today}. Command: `{self.command}`\n\n{copy.text}"
        self.file.write_text(replaced(self.file.read_text(), name, body))
