"""How long a test waits for a program on a terminal. A machine that is ten times slower makes no difference: what counts is whether the
program does anything."""
import os
import pathlib
import time

REST = 15.0  # seconds in which no thread of the program has run or has waited for a disk: nothing will come
LIMIT = 240.0  # seconds of a program that is always busy: a run trains beside the prompt
LOOK = 0.25  # between two looks; a longer pause was one of the test itself, and the program's time counts no more than this


def processes_of(session):
    """The fields of /proc/PID/stat behind the name, of every process of the session."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session:
            yield folder, fields


def threads_of(folder):
    """(name, state, what it waits for in the kernel, clock ticks) of every thread."""
    try:
        tasks = sorted((folder / "task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            place = (task / "wchan").read_text() if os.access(task / "wchan", os.R_OK) else ""
            yield (task / "comm").read_text().strip(), fields[0], place, int(fields[11]) + int(fields[12])
        except (OSError, IndexError):
            continue


class Patience:
    """Begins with a wait. `session` is the process that leads the program's session; it does nothing itself."""

    def __init__(self, session):
        self.session = session
        self.looked = time.monotonic()
        self.resting = self.waited = 0.0
        self.ticks = None

    def is_over(self):
        now = time.monotonic()
        if now - self.looked < LOOK:
            return False
        self.looked = now
        self.waited += LOOK
        states, ticks = set(), 0
        for folder, _ in processes_of(self.session):
            for _, state, _, used in threads_of(folder):
                states.add(state)
                ticks += used
        at_rest = ticks == self.ticks and not states & {"R", "D"}
        self.ticks = ticks
        self.resting = self.resting + LOOK if at_rest else 0.0
        return self.resting >= REST or self.waited >= LIMIT

    def report(self):
        """What the program's threads were doing, for the failure's text."""
        lines = [f"waited {self.waited:.0f} s, the last {self.resting:.0f} s without work; its threads:"]
        for folder, _ in processes_of(self.session):
            if int(folder.name) != self.session:
                lines += [f"  {folder.name} {name}: {state} {place} {used} ticks" for name, state, place, used in threads_of(folder)]
        return "\n".join(lines)
