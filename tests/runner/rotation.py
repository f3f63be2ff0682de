"""Which parts `./perigee test --all` runs at a commit, and how long each may take.

A cold run of everything takes hours. So the long parts are divided into SHARES of about equal cost, and each commit runs the share
that its hash chooses: over a few days every share meets every change. `--everything` runs all.
"""
import dataclasses

LIMIT_SECONDS = 3600  # of a run on two idle cores that begins with an empty compiler cache


@dataclasses.dataclass(frozen=True)
class Slice:
    """The items index, index + of, index + 2*of, … of what a part consists of."""
    index: int = 0
    of: int = 1

    def take(self, items):
        return list(items)[self.index::self.of]

    def range(self, count):
        """The same share of `count` numbers, as a range without gaps."""
        return range(count * self.index // self.of, count * (self.index + 1) // self.of)

    def __str__(self):
        return "" if self.of == 1 else f" {self.index + 1}/{self.of}"


WHOLE = Slice()
QUICK = ["build", "lint", "unit", "models"]
ALWAYS = [*QUICK, "install", "mnist", "simulator"]
SHARES = [
    {"asan": Slice(0, 2)},
    {"asan": Slice(1, 2)},
    {"tsan": WHOLE, "isa": WHOLE},
    {"fuzz": WHOLE},
    {"package": WHOLE, "bundle": WHOLE, "rehearsal": WHOLE},
    {"faults": WHOLE},
    {"planted": WHOLE, "races": WHOLE},
]
# Seconds on two idle cores with an empty compiler cache; of a part in slices, for one slice.
BUDGETS = {
    "build": 1200, "lint": 240, "unit": 600, "models": 150, "install": 90, "mnist": 60, "simulator": 180,
    "asan": 1080, "tsan": 720, "isa": 240, "fuzz": 900, "package": 600, "bundle": 180, "rehearsal": 180, "faults": 540, "planted": 420, "races": 420,
}


def share_of(commit):
    """The share that a commit runs, from its hash in hexadecimal."""
    return int(commit, 16) % len(SHARES)


def schedule(share=None):
    """{part: its slice} of share number `share`, in the order of running; of everything without one."""
    if share is None:
        return {name: WHOLE for name in [*ALWAYS, *rotating()]}
    chosen = {name: WHOLE for name in ALWAYS}
    chosen["simulator"] = Slice(share, len(SHARES))  # its seeds are divided among all shares
    return {**chosen, **SHARES[share]}


def rotating():
    """The parts that take turns, each once."""
    return list(dict.fromkeys(name for share in SHARES for name in share))
