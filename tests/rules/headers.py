"""Compiles every header alone, and every program of tests/fuzz; lint.py runs it.

A header that another one includes is not parsed again for it: clang keeps what many headers include as a precompiled header. A header sees
through it only what it includes itself, so that a missing include is found as
if the header were compiled with nothing. Where clang is not installed, g++ compiles each header from its text.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE_FOLDERS = ["", "src/api/", "build/repl/"]
OWN_FLAGS = [("kernels/cpu/", ["-march=x86-64-v4", "-DPERIGEE_ISA=avx512"])]  # other flags, so no precompiled headers
WRITING = 4  # a precompiled header costs as much as reading its text so many times


def includes_of(file):
    """Files of the tree and names of other headers that `file` includes."""
    own, other = [], []
    for kind, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', (ROOT / file).read_text(), re.M):
        places = [str(pathlib.PurePosixPath(file).parent / name)] + [folder + name for folder in INCLUDE_FOLDERS]
        found = next((place for place in places if kind == '"' and (ROOT / place).is_file()), None)
        (own if found else other).append(found or name)
    return own, other


def closures(files):
    """What each file includes, directly or not: {file: set of files of the tree and of names of other headers}."""
    direct = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in direct:
            direct[file] = includes_of(file)
            waiting += direct[file][0]
    known = {}

    def closure(file, above):
        if file not in known:
            own, other = direct[file]
            reached = set(own) | set(other)
            for each in own:
                if each not in above:  # a circle of includes
                    reached |= closure(each, above | {file})
            if above:
                return reached
            known[file] = reached
        return known[file]

    return {file: closure(file, frozenset()) for file in direct}


class Compiler:
    def __init__(self, flags, files):
        self.flags = flags
        self.files = files
        self.reached = closures(files)
        self.clang = shutil.which("clang++")
        self.parents = self.choose() if self.clang else {}
        self.kept = set(self.parents.values())
        self.done = {}

    def own_flags(self, file):
        return next((flags for folder, flags in OWN_FLAGS if file.startswith(folder)), [])

    def choose(self):
        """What is worth a precompiled header: {file: the one that it is compiled with}."""
        parents = {}
        # About how long it takes to read a file: headers of libraries are the long ones.
        weight = {file: sum(1 if each in self.reached else 4 for each in reached) for file, reached in self.reached.items()}
        users = {file: [each for each in self.files if file in self.reached[each] and not self.own_flags(each)] for file in self.files
                 if file.endswith(".h") and not self.own_flags(file)}
        while True:
            saved = {file: sum(max(0, weight[file] - weight[parents[each]] if each in parents else weight[file]) for each in using)
                     for file, using in users.items() if file not in parents.values()}
            best = max(saved, key=lambda file: (saved[file] - WRITING * weight[file], file), default=None)
            if best is None or saved[best] <= WRITING * weight[best]:
                break
            for each in users[best]:
                if each not in parents or weight[parents[each]] < weight[best]:
                    parents[each] = best
        for file in set(parents.values()):
            parents.pop(file, None)  # clang 14 fails with precompiled headers that are made with others
        return parents

    def compile(self, file, folder):
        """What the compiler says against `file`."""
        parent = self.parents.get(file)
        precompiled = lambda header: str(pathlib.Path(folder) / (header.replace("/", "+") + ".pch"))
        common = ["-std=c++20", "-w", "-I.", "-Isrc/api", "-Ibuild/repl", *self.own_flags(file), *self.flags]
        alone = ["-fsyntax-only", "-x", "c++", "-include", file, os.devnull]
        if file in self.kept:
            command = ["clang++", *common, "-x", "c++-header", file, "-o", precompiled(file)]
        elif parent and self.done[parent].result() == "":
            command = ["clang++", *common, "-include-pch", precompiled(parent), *alone]
        else:
            command = ["g++", *common, *alone]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if run.returncode != 0 and parent:  # what counts is what the compiler of the build says
            run = subprocess.run(["g++", *common, *alone], cwd=ROOT, capture_output=True, text=True)
        return "" if run.returncode == 0 else run.stderr or f"status {run.returncode}"

    def run(self):
        """(file, what the compiler says), in the order of `files`."""
        with tempfile.TemporaryDirectory(prefix="perigee-headers-") as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for file in sorted(self.files, key=lambda each: each not in self.kept):
                self.done[file] = pool.submit(self.compile, file, folder)
            return [(file, self.done[file].result()) for file in self.files]
