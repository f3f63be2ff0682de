#!/usr/bin/env python3
"""Compares the C ABI with what tests/api/abi.txt says: the symbols of libperigee, and the layout of every struct and enum of perigee.h.

    abi.py BUILD            says what differs; exit status 1 if anything does
    abi.py BUILD --write    the ABI was changed on purpose: stores what it is now

Allowed without a new soname: a new function, a new enumerator, a new member at the end of a struct that begins with `size`,
behind the padding of what was its end.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "src" / "api" / "perigee.h"
STORED = ROOT / "tests" / "api" / "abi.txt"


def declarations():
    """Structs as (name, members), and names of enumerators, functions and their types."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    structs = []
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, re.S):
        members = []
        for member in filter(None, (m.strip() for m in body.split(";"))):
            pointer = re.search(r"\(\*(\w+)\)", member)
            members.append(pointer[1] if pointer else re.search(r"(\w+)(?:\[\w+\])?$", member)[1])
        structs.append((name, members))
    enumerators = [name for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.S) for name in re.findall(r"(PERIGEE_\w+) =", body)]
    functions = [re.sub(r"\s+", " ", f) for f in re.findall(r"PERIGEE_API\b\s*([^;]*?)\s*PERIGEE_NOEXCEPT;", text)]
    return structs, enumerators, functions


def layouts(structs, enumerators):
    """What the C compiler makes of them."""
    lines = ["#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
    for name, members in structs:
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        lines += [f'  printf("  {m} %zu %zu\\n", offsetof({name}, {m}), sizeof((({name}*)0)->{m}));' for m in members]
    lines += [f'  printf("enumerator {e} %d\\n", (int){e});' for e in enumerators]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
        source.write_text("\n".join([*lines, "  return 0;", "}", ""]))
        subprocess.run(["cc", "-std=c11", "-o", program, source], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def structs_in(lines):
    """{struct: (its size, {member: offset})}"""
    found, name = {}, ""
    for line in lines:
        words = line.split()
        if words[0] == "struct":
            name = words[1]
            found[name] = (int(words[2]), {})
        elif line.startswith(" "):
            found[name][1][words[0]] = int(words[1])
    return found


def in_padding(was, now):
    """New members inside a struct as older programs know it: in its padding, which holds anything."""
    before = structs_in(was)
    return [f"{name}.{member}" for name, (_, members) in structs_in(now).items() if name in before
            for member, offset in members.items() if member not in before[name][1] and offset < before[name][0]]


def exported(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    return sorted(line.split()[2] for line in listed.splitlines() if line.split()[1] != "A")


def current(build):
    structs, enumerators, functions = declarations()
    library = next(iter(sorted((pathlib.Path(build) / "repl").glob("libperigee.so.*.*.*"))))
    return [*layouts(structs, enumerators), *(f"symbol {name}" for name in exported(library)), *sorted(f"function {f}" for f in functions)]


def main():
    now = current(sys.argv[1])
    was = STORED.read_text().splitlines()
    if padded := in_padding(was, now):
        print("these lie in the padding of the structs of programs that are built already; put a larger member in front:", *padded, sep="\n  ")
        return 1
    if "--write" in sys.argv:
        STORED.write_text("\n".join(now) + "\n")
        return 0
    under = {}  # a struct's members have its name in front
    for lines, side in ((was, 0), (now, 1)):
        struct = ""
        for line in lines:
            struct = line.split()[1] if line.startswith("struct") else struct
            under.setdefault(f"{struct}.{line.strip()}" if line.startswith(" ") else line, [False, False])[side] = True
    differences = [("- " if side[0] else "+ ") + line for line, side in under.items() if side[0] != side[1]]
    if not differences:
        return 0
    print("the C ABI is not what tests/api/abi.txt says (- stored, + now):", *differences, sep="\n  ")
    print("If something only came (a function, an enumerator, a member at a struct's end, which changes its size): it is compatible.\n"
          "If anything went, moved or changed its type: raise `soversion` in repl/meson.build, and say so in CHANGELOG.md.\n"
          "Then store it: python3 tests/api/abi.py build --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
