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
# The slices of asan, by folders of tests/: each builds the library, and beside it only what its own programs need. In the last are all that
# load the CUDA module of the host, whatever their folder.
ASAN_FOLDERS = [
    ["cluster"],
    ["api", "lua", "repl", "vectors"],
    ["data", "generate", "io", "net", "report", "text", "train"],
    ["core", "golden", "graph", "kernels", "nn", "optim"],
    ["cuda", "gpu"],
]
SHARES = [
    *({"asan": Slice(index, len(ASAN_FOLDERS))} for index in range(len(ASAN_FOLDERS))),
    {"tsan": WHOLE, "isa": WHOLE},
    {"fuzz": WHOLE},
    {"package": WHOLE, "wheel": WHOLE, "bundle": WHOLE, "rehearsal": WHOLE},
    {"faults": WHOLE, "alone": WHOLE},
    {"stores": WHOLE},
    {"planted": WHOLE, "races": WHOLE},
    {"engines": WHOLE},
]
# Seconds on two idle cores with an empty compiler cache; of a part in slices, for one slice. Those of build and asan are computed from the CPU
# time of single files: program and library 750 s, tests 2 s a file that is compiled with others of its program and 4 otherwise, the stand-in's
# kernels 2 s a file; with the address sanitizer 2.3 times as much. Of a slice of asan 650 s are the library.
BUDGETS = {
    "build": 1200, "lint": 240, "unit": 600, "models": 150, "install": 90, "mnist": 60, "simulator": 130,
    "asan": 1100, "tsan": 720, "isa": 240, "fuzz": 900, "package": 600, "wheel": 120, "bundle": 180, "rehearsal": 180, "faults": 540,
    "planted": 420, "races": 420, "alone": 360, "stores": 900, "engines": 1000,
}


def asan_slice_of(folder, environment):
    """The index of the slice that runs a program of tests/`folder` which Meson gives these variables."""
    if "PERIGEE_CUDA_MODULE" in environment:
        folder = "cuda"
    return next(index for index, folders in enumerate(ASAN_FOLDERS) if folder in folders)


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
