#!/usr/bin/env python3
"""The rules of the tree that a program can check: `./perigee lint [--fix]`.

    layout        clang-format leaves every C++ file as it is
    luacheck      no warnings in Lua files
    includes      includes go only to the left: kernels <- src <- cluster <- lua <- repl; own header first; a library only in its folder
    headers       every header compiles alone; so does every program of tests/fuzz, which few commits build
    kernels       every __global__ function of kernels/cuda begins with begin_kernel(); (overlap.cuh says why), and none reads ahead of it
    ops           no code outside of ops/ asks for an op by name, or lists names of ops (op_names.py)
    limits        at most 40 entries in a folder and 60 lines in a function; no comment begins with "Of" or "What"; subjects of commits
    names         no `-march=native`, no `catch (...)` in lua/, no `new`/`delete` of our own

Prints one line per finding and at the end `N passed, N failed, N skipped` (one check = one rule on one file).
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import headers
import limits
import op_names

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDER = ["kernels", "src", "cluster", "lua", "repl"]
# The folders of src, in the same way: each includes only from itself and from those before it. src/api, a composition root, is free.
SRC_ORDER = ["core", "tensor", "io", "text", "vectors", "net", "device", "graph", "eager", "optim", "nn", "data", "job", "model", "generate", "train", "report", "run", "schema"]
EVERYTHING = re.compile(r"^(repl/main\.cpp|src/api/|tests/)")  # composition roots; nothing includes them

# header of a library: the places that may include it
LIBRARIES = [
    (re.compile(r"^(cuda|cudnn|cublas|nvrtc|nccl)"), re.compile(r"^kernels/cuda/")),
    (re.compile(r"^(immintrin|x86intrin)\.h"), re.compile(r"^(kernels/|tests/bench/)")),
    (re.compile(r"^rapidjson/"), re.compile(r"^src/core/json\.cpp$")),
    (re.compile(r"^curl/"), re.compile(r"^src/io/store/transfer")),
    (re.compile(r"^xxhash\.h"), re.compile(r"^src/io/digest\.cpp$")),
    (re.compile(r"^openssl/ssl\.h"), re.compile(r"^src/net/")),
    (re.compile(r"^openssl/"), re.compile(r"^(src/io/digest\.cpp$|src/net/|cluster/launch/secret\.cpp$)")),
    (re.compile(r"^uv\.h"), re.compile(r"^(src/net/|cluster/uv/|repl/)")),
    (re.compile(r"^(lua|lauxlib|lualib|luajit)\.h(pp)?"), re.compile(r"^(lua|repl)/")),
    (re.compile(r"^termios\.h"), re.compile(r"^repl/")),
]


def tracked(*patterns):
    """Files of the tree: git's list where there is one, so that build folders and run folders are left out."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode == 0:
        return sorted(f for f in listing.stdout.split() if (ROOT / f).is_file())
    return sorted(str(p.relative_to(ROOT)) for pattern in patterns for p in ROOT.rglob(pattern)
                  if not p.relative_to(ROOT).parts[0].startswith(("build", ".")))


class Findings:
    def __init__(self):
        self.passed = self.skipped = 0
        self.failures = []

    def check(self, rule, file, problems):
        """`problems`: lines of text, none when the file keeps the rule."""
        problems = list(problems)
        if problems:
            self.failures.append((rule, file))
            for problem in problems:
                print(f"{rule}: {file}{problem}")
        else:
            self.passed += 1

    def skip(self, rule, reason):
        self.skipped += 1
        print(f"{rule}: skipped: {reason}")


def code_lines(text):
    """(number, line) without comments and string contents, well enough for the rules below."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#include"):
            yield number, line.split("//")[0]
            continue
        line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        yield number, line.split("//")[0]


def include_problems(file, text):
    top = file.split("/")[0]
    includes = [(n, *m.groups()) for n, line in code_lines(text)
                if (m := re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line))]
    for number, kind, name in includes:
        if kind == "<":
            for header, allowed in LIBRARIES:
                if header.match(name) and not allowed.match(file) and not file.startswith("tests/"):
                    yield f":{number}: <{name}> may not be included here; allowed: {allowed.pattern}"
            continue
        target = name.split("/")[0]
        if target not in ORDER + ["tests"]:
            if not ((ROOT / file).parent / name).is_file() and name not in ("perigee.h", "perigee.hpp", "perigee_rules.hpp"):
                yield f':{number}: "{name}": include from the root of the tree ("folder/…")'
            continue
        if EVERYTHING.match(file):
            continue
        if target == "tests" or ORDER.index(target) > ORDER.index(top):
            yield f':{number}: "{name}": {top}/ may include only from {", ".join(ORDER[:ORDER.index(top) + 1])}'
        elif name.startswith("src/api/") and top != "repl":
            yield f':{number}: "{name}": nothing includes a composition root'
        elif top == target == "src":
            own, other = file.split("/")[1], name.split("/")[1]
            if own not in SRC_ORDER or other not in SRC_ORDER:
                yield f":{number}: src/{own if own not in SRC_ORDER else other} has no place in SRC_ORDER of {pathlib.Path(__file__).name}"
            elif SRC_ORDER.index(other) > SRC_ORDER.index(own):
                yield f':{number}: "{name}": src/{own} may include only from src/{{{",".join(SRC_ORDER[:SRC_ORDER.index(own) + 1])}}}'
    if file.endswith(".cpp") and (ROOT / file).with_suffix(".h").is_file() and includes:
        own = str(pathlib.PurePosixPath(file).with_suffix(".h"))
        if own in [name for _, _, name in includes] and includes[0][2] != own:
            yield f":{includes[0][0]}: the first include is the file's own header, {own}"


def name_problems(file, text):
    for number, line in code_lines(text):
        if re.search(r"catch\s*\(\s*\.\.\.\s*\)", line) and file.startswith("lua/"):
            yield f":{number}: `catch (...)` eats Lua's own errors (lua/guard.h)"
        if re.search(r"(?<![\w.])new\s+(?!\()[A-Za-z_]", line) or (re.search(r"(?<![\w=] )\bdelete(\[\])?\s+[A-Za-z_*]", line) and "Deleter" not in line):
            yield f":{number}: no `new` or `delete`; use unique_ptr or a container"
    if file.endswith(".h") and "#pragma once" not in text and "#ifndef PERIGEE_H\n" not in text:  # C has no pragma once
        yield ": a header needs #pragma once"


def end_of_parentheses(text, begin):
    depth = 0
    for at in range(text.index("(", begin), len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def kernel_problems(text):
    text = "\n".join(line for _, line in code_lines(text))
    number_of = lambda at: text.count("\n", 0, at) + 1
    for kernel in re.finditer(r"\b__global__\b", text):
        at = kernel.end()
        if bounds := re.compile(r"\s*void\s+__launch_bounds__\s*(?=\()").match(text, at):
            at = end_of_parentheses(text, bounds.end())
        if not re.compile(r"\s*\{\s*begin_kernel\(\);").match(text, end_of_parentheses(text, at)):
            yield f":{number_of(kernel.start())}: a kernel begins with begin_kernel();"
    for ahead in re.finditer(r"\b(__restrict__|__ldg)\b", text):
        yield f":{number_of(ahead.start())}: {ahead[1]} may be read before begin_kernel() has waited"


def check_headers(findings):
    """Every header alone, and every fuzz program. Skipped for free when none of them changed since all of them last passed."""
    files = tracked("*.h", "*.hpp", "tests/fuzz/*.cpp")
    if not (ROOT / "build" / "repl" / "perigee_rules.hpp").is_file():  # written by the build
        files = [f for f in files if f != "src/api/perigee.hpp" and not f.startswith("tests/api/")]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode() + b"\0" + (ROOT / file).read_bytes())
    stamp = ROOT / "build" / ".headers-passed"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        findings.passed += len(files)
        return
    library_flags = []
    for package in ("luajit", "libuv"):
        flags = subprocess.run(["pkg-config", "--cflags", package], capture_output=True, text=True)
        library_flags += flags.stdout.split()
    before = len(findings.failures)
    for file, errors in headers.Compiler(library_flags, files).run():
        first = next((line for line in errors.splitlines() if "error" in line), errors[:300])
        findings.check("headers", file, [f": does not compile alone: {first}"] if errors else [])
    if len(findings.failures) == before and stamp.parent.is_dir():
        stamp.write_text(digest.hexdigest())


def check_layout(findings, fix):
    files = tracked("*.cpp", "*.h", "*.hpp", "*.cu", "*.cuh")
    if not shutil.which("clang-format"):
        return findings.skip("layout", "clang-format is not installed")
    if fix:
        subprocess.run(["clang-format", "-i", *files], cwd=ROOT, check=True)
    run = subprocess.run(["clang-format", "--dry-run", *files], cwd=ROOT, capture_output=True, text=True)
    wrong = {}
    for line in run.stderr.splitlines():
        if m := re.match(r"(.*?):(\d+):\d+: warning: code should be clang-formatted", line):
            wrong.setdefault(os.path.relpath(ROOT / m[1], ROOT), []).append(m[2])
    for file in files:
        lines = wrong.get(file)
        findings.check("layout", file, [f":{lines[0]}: {len(lines)} places differ from clang-format; ./perigee lint --fix"] if lines else [])


def check_lua(findings):
    files = tracked("*.lua")
    if not files:
        return
    if not shutil.which("luacheck"):
        return findings.skip("luacheck", "luacheck is not installed")
    run = subprocess.run(["luacheck", "--no-color", "--formatter", "plain", *files], cwd=ROOT, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    for file in files:
        findings.check("luacheck", file, [line[len(file):] for line in lines if line.startswith(file + ":")])
    if run.returncode > 2:
        findings.check("luacheck", "", [run.stderr.strip() or run.stdout.strip()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="let clang-format rewrite the files")
    args = parser.parse_args()
    findings = Findings()
    ops = op_names.read_op_names(ROOT)
    for file in tracked("*.cpp", "*.h", "*.hpp", "*.cu", "*.cuh"):
        text = (ROOT / file).read_text()
        findings.check("includes", file, include_problems(file, text))
        findings.check("names", file, name_problems(file, text))
        findings.check("ops", file, op_names.op_name_problems(file, text, ops))
    for file in tracked("kernels/cuda/*.cu", "kernels/cuda/*.cuh"):
        findings.check("kernels", file, kernel_problems((ROOT / file).read_text()))
    for folder, problems in limits.folder_problems(tracked()):
        findings.check("limits", folder, problems)
    for file in tracked():
        if file.endswith(tuple(limits.COMMENT)):
            findings.check("limits", file, limits.file_problems(file, (ROOT / file).read_text()))
    for commit, problems in limits.subject_problems(ROOT):
        findings.check("limits", f"commit {commit}", problems)
    for file in tracked("*meson.build"):
        findings.check("names", file, (f":{n}: -march=native: kernels choose instruction sets when they run" for n, line in
                                       enumerate((ROOT / file).read_text().splitlines(), 1)
                                       if "march=native" in line.split("#")[0]))
    check_layout(findings, args.fix)
    check_lua(findings)
    check_headers(findings)
    print(f"{findings.passed} passed, {len(findings.failures)} failed, {findings.skipped} skipped")
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
