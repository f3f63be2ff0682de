#!/usr/bin/env python3
"""Every error says where, what, and a remedy that works: errors_test.py PROGRAM [--write] [CASE...]. Prints TAP.

Each case of error_cases.py makes an error and follows the advice of its message. Then the sources are searched for the places that raise errors: a
place is covered when its text came up in a case, or when a unit test in C++ expects it, for what only programs and damaged states can meet. Places
that are not covered stand in tests/rules/errors_uncovered.txt. A new error must have a case; a line of the file whose error has one, or is gone,
must leave it, and --write takes such lines out. It adds none. Files that are damaged in every way, and machines that fail, cannot each be a case: of
the errors of UNIT_TESTED, of headers and of functions that do nothing but raise, a test anywhere says the cause or the remedy. Those that none says
stand in tests/rules/errors_unsaid.txt, each with one of REASONS and what that is in its case. There may be MOST_UNSAID of them and no more.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import error_cases
import error_texts
import error_vectors

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNCOVERED = ROOT / "tests" / "rules" / "errors_uncovered.txt"  # FILE: TEXT, in order
UNSAID = UNCOVERED.with_name("errors_unsaid.txt")  # likewise, of UNIT_TESTED
# Not counted: no error that a user meets.
EXCEPTIONS = {
    "cluster/simulator/": "what the simulator's oracle finds wrong with the program: tests/cluster/simulator/planted.cpp",
}
COUNTED_THERE = ("cluster/simulator/forecast",)  # what a user asks of it
# Where they come from, and what makes them.
UNIT_TESTED = {
    "cluster/": "faults of other machines, policies, codecs, launchers, ledgers: tests/cluster",
    "src/net/": "faults of the network: tests/net",
    "src/device/": "faults of a GPU: tests/gpu",
    "src/train/device/": "faults of a GPU: tests/gpu",
    "src/model/device/": "faults of a GPU: tests/gpu",
    "src/data/table/": "damaged tables, steps, formulas: tests/data",
    "kernels/": "devices and calls that do not fit: tests/kernels",
    "src/io/": "damaged files, stores that refuse: tests/io, tests/stores, tests/data",
    "src/vectors/": "damaged files and limits: tests/vectors",
    "src/text/": "damaged files of tokenizers: tests/text",
    "src/api/": "misuse of the C functions: tests/api",
    "src/run/run_server.cpp": "nonsense at a run's socket: tests/train/run_server_test.cpp",
    "src/run/local_run.cpp": "runs of other processes: tests/train/run_server_test.cpp, watch_test.py",
    "src/graph/lapack.cpp": "LAPACK: tests/graph",
}
# Why no test brings an error of errors_unsaid.txt about.
REASONS = {
    "limit": "more data than a test makes: gigabytes, or millions of entries",
    "system": "the operating system or a library fails between two calls, or lacks a part",
    "peer": "another program answers as none does that a test has: a store, a launcher, a coordinator of another version",
    "behind": "a check behind another one, which sees it first; it stands there for callers that are still to come",
    "moment": "two things must meet within a moment, or one must last for minutes",
}
MOST_UNSAID = 24  # entries of errors_unsaid.txt: may only be lowered
FOLDERS = ("kernels", "src", "cluster", "lua", "repl")
SHORTEST = 12  # letters of a text that says something
SAYS = ["Error", "fail", "refuse", "misfit", "unknown_key"]
WHERE = r"|\bwhere\.fail\s*(?=\")"
CALLS = rf"\b(?:{'|'.join(SAYS)})\s*(?=[({{])" + WHERE


def sources(*kinds):
    """The sources of these kinds, as (name, text)."""
    paths = [path for folder in FOLDERS for kind in kinds for path in (ROOT / folder).rglob("*" + kind)]
    return [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted(paths)]


def helpers():
    """As CALLS, with every function that does nothing but raise."""
    names = {name for _, text in sources(".cpp", ".h", ".cu", ".cuh") for name in re.findall(r"\[\[noreturn\]\][^;{(]*?(\w+)\(", text)}
    return rf"\b(?:{'|'.join(sorted(names | set(SAYS) | {'luaL_error'}))})\s*(?=[({{])" + WHERE


def write_tables(folder):
    """Small tables of each kind."""
    draw = random.Random(1)

    def table(name, rows, label, separator=","):
        lines = [separator.join(["a", "b", "y"])]
        for i in range(rows):
            lines.append(separator.join([f"{draw.random():.3f}", f"{draw.random():.3f}", label(i)]))
        (folder / name).write_text("\n".join(lines) + "\n")

    error_cases.error_sound.write_recordings(folder)
    error_cases.error_clusters.write_secrets(folder)
    error_cases.error_tables.write_tables(folder)
    table("two.csv", 60, lambda i: ["red", "green"][i % 2])
    table("three.csv", 60, lambda i: ["red", "green", "blue"][i % 3])
    table("badtest.csv", 20, lambda i: ["red.", "green."][i % 2])
    table("number.csv", 60, lambda i: f"{i / 7:.4f}")
    table("semicolon.csv", 60, lambda i: str(i % 2), ";")
    (folder / "odd name.csv").write_text("a\n1\n")
    (folder / "comma.csv").write_text('a,b\n"0,5",1\n')
    (folder / "decimal.csv").write_text("a;b;y\n" + "".join(f"{i},5;{i},25;{i % 2}\n" for i in range(20)))
    (folder / "gaps.csv").write_text("a,b,y\n" + "".join(f"{i if i != 7 else ''},{i / 3:.3f},{i % 2}\n" for i in range(20)))
    (folder / "notarget.csv").write_text("a,b,y\n1,2,0.5\n3,4,\n5,6,1.5\n")
    (folder / "targetless.csv").write_text("a,b,y\n1,2,\n3,4,\n")
    (folder / "nodate.csv").write_text("when,y\n2021-01-02,0.5\nsoon,1.5\n2021-01-04,2\n")
    (folder / "daymonth.csv").write_text("when,y\n01/02/2021,0.5\n03/04/2021,1.5\n05/06/2021,2\n")
    (folder / "isodates.csv").write_text("when\n2021-05-01\n")
    (folder / "dates.csv").write_text("when,y\n" + "".join(f"{i + 13}.05.2021,{i / 7:.3f}\n" for i in range(10)))
    (folder / "dates.lua").write_text(script_of({"TRAIN": 'pg.data.csv { "dates.csv", target = "y", dates = { "when" } }', "NETWORK": "pg.dense { 1 }", "LOSS": '"mse"'}))
    (folder / "header.csv").write_text("a,b,y\n")
    (folder / "shared" / "nowhere").mkdir(parents=True)
    shutil.copy(folder / "two.csv", folder / "shared" / "nowhere" / "two.csv")
    for name, text in {**error_texts.FILES, **error_vectors.FILES}.items():
        (folder / name).write_text(text)
    (folder / "net.onnx").write_text("not ours")
    (folder / "kept.lua").write_text(script_of({}))
    # Models of a text: one that foretells it, and one that makes a number of it.
    text = "pg.data.text { \"two.csv\", context = 4 }"
    network = "pg.sequential {{ pg.embedding {{ 40, 4 }}, {} }}"
    (folder / "texts.lua").write_text(script_of({"TRAIN": text, "NETWORK": network.format("pg.flatten {}, pg.dense { 40 }")}))
    (folder / "values.lua").write_text(script_of({"TRAIN": text.replace("4 }", '4, targets = "every" }'), "LOSS": '"mse"',
                                                  "NETWORK": network.format("pg.conv1d { 1, kernel = 1 }, pg.flatten {}")}))


def script_of(parts):
    text = error_cases.SCRIPT
    for key, value in (error_cases.DEFAULTS | parts).items():
        text = text.replace(key, value, 1)
    return text


class Program:
    """Runs the program in a folder of its own for each case."""

    def __init__(self, path, tables):
        self.path, self.tables = path, tables

    def run(self, folder, args, environment):
        clean = {key: value for key, value in os.environ.items() if key != "PERIGEE_DATA"} | environment
        try:
            done = subprocess.run([self.path, *args], cwd=folder, capture_output=True, text=True, timeout=180, env=clean)
        except subprocess.TimeoutExpired:
            return 124, "", "it does not end"
        return done.returncode, done.stdout, done.stderr


def words(text):
    return set(re.findall(r"[\w.*]+", text))


def follow(case, message):
    """(old, new) of the advice in `message`, or a text that says why there is none."""
    if case.fix != "nearest":
        old, new = case.fix
        if not case.hint:
            return case.fix
        new_words = words(new) - words(old) - words(case.script or script_of(case.parts)) - words(" ".join(case.args))
        unsaid = {word for word in new_words if word not in message}
        return f"the message does not say {sorted(unsaid)}" if unsaid else (old, new)
    found = re.search(r"did you mean '([^']+)'", message)
    return (case.wrong.strip("' "), found[1]) if found else "no name is proposed"


def wrong_with(case, program, folder):
    """A list of what is wrong with the case, and all that the program said."""
    shutil.copytree(program.tables, folder, copy_function=os.link)  # a copy for each case is a gigabyte, for which every fsync waits
    text = case.script or script_of(case.parts)
    (folder / case.file).unlink(missing_ok=True)
    (folder / case.file).write_text(text)
    for args in case.after:
        code, out, err = program.run(folder, args, case.environment)
        if code:
            return [f"{args} failed: {err}"], err
    before = set((folder / "runs").glob("*"))
    code, out, err = program.run(folder, case.args, case.environment)
    message = err.strip().splitlines()[-1] if case.args[0] != "-e" and err.strip() else err
    wrong = []
    if code == 0:
        wrong.append("it is no error")
    for kind, wanted in (("place", case.place), ("cause", case.cause), ("remedy", case.hint)):
        if not any(each in message for each in wanted.split("|")):
            wrong.append(f"the {kind} '{wanted}' is not in the message")
    if not case.writes_run and set((folder / "runs").glob("*")) != before:
        wrong.append("a run folder is left behind")
    if case.fix and not wrong:
        change = follow(case, message)
        if isinstance(change, str):
            return [change, message], err
        (folder / case.file).write_text(text.replace(*change))
        args = [argument.replace(*change) for argument in case.args]
        if (folder / case.file).read_text() == text and args == list(case.args):
            return [f"'{change[0]}' is not in the script"], err
        code, out, more = program.run(folder, args, case.environment)
        if code:
            wrong.append(f"after {change} it fails still: {more.strip()}")
    return wrong + ([message] if wrong else []), err


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def literals(call):
    """The texts in a call, with neighbours joined."""
    joined = re.sub(r'(?<!\\)"\s*\n?\s*"', "", call)
    return [re.sub(r"\\(.)", r"\1", text) for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)]


def literals_of_file(path):
    """The texts in a source, also R"(...)"."""
    text, raw = path.read_text(), r'\bR"([^(\s"]{0,16})\((.*?)\)\1"'
    return [found[1] for found in re.findall(raw, text, re.S)] + literals(re.sub(raw, "", text, flags=re.S))


def call_at(text, start):
    """The text between the brackets that open at `start`."""
    depth = 0
    for i in range(start, min(len(text), start + 3000)):
        depth += text[i] in "({"
        depth -= text[i] in ")}"
        if depth == 0:
            return text[start:i]
    return ""


def pieces_at(text, found):
    """The pieces of fixed text in the call that begins at `found`, but for those that say nothing."""
    call = call_at(text, found.end()) if text[found.end()] != '"' else text[found.end():].split("\n")[0]
    pieces = [piece.strip(" ;:,'(") for literal in literals(call) for piece in re.split(r"%[-\d.]*[a-z]", literal)]
    return [piece for piece in pieces if len(piece) >= SHORTEST]


def begins(name, prefixes):
    return any(name.startswith(prefix) for prefix in prefixes)


def places():
    """(file, line, text): where the sources raise an error, by the longest piece of its fixed text."""
    for name, text in sources(".cpp", ".lua"):
        if begins(name, [*EXCEPTIONS, *UNIT_TESTED]):
            continue
        for found in re.finditer(CALLS, text):
            if pieces := pieces_at(text, found):
                yield name, text.count("\n", 0, found.start()) + 1, max(pieces, key=len)


def unit_tested_places():
    """(file, line, pieces) of UNIT_TESTED, and of whatever places() does not see: headers, CUDA, functions that raise by another name."""
    every = helpers()
    for name, text in sources(".cpp", ".lua", ".h", ".cu", ".cuh"):
        if begins(name, EXCEPTIONS) and not begins(name, COUNTED_THERE):
            continue
        seen = set()
        if name.endswith((".cpp", ".lua")) and not begins(name, [*EXCEPTIONS, *UNIT_TESTED]):
            seen = {found.start() for found in re.finditer(CALLS, text)}
        for found in re.finditer(every, text):
            if found.start() not in seen and (pieces := pieces_at(text, found)):
                yield name, text.count("\n", 0, found.start()) + 1, pieces


def expected_by_unit_tests():
    """The texts in the unit tests: what one of them expects of an error."""
    return "\n".join(text for path in sorted(ROOT.glob("tests/**/*_test.cpp")) for text in literals_of_file(path))


def expected_anywhere():
    """The texts of SHORTEST letters and more in all tests but this one."""
    texts = set()
    for path in sorted(ROOT.glob("tests/**/*_test.cpp")) + sorted(ROOT.glob("tests/**/*.lua")):
        texts.update(literals_of_file(path))
    for path in sorted(ROOT.glob("tests/**/*.py")):
        if "rules" not in path.parts and path.name != "errors_test.py":
            texts.update(a or b for a, b in re.findall(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'', path.read_text()))
    return {text for text in (each.strip(" ;:,'(") for each in texts) if len(text) >= SHORTEST}


def entries_of(path):
    """(an entry, its reason) of each line, also of one that is there twice."""
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return [(entry, reason) for entry, _, reason in (line.partition("  # ") for line in lines)]


def read_list(path):
    """(the lines of its head, the entries with their reasons)."""
    return [line for line in path.read_text().splitlines() if line.startswith("#")], dict(entries_of(path))


def bound_of(head):
    return int(re.search(r"\d+", head[0])[0])


def check_list(path, lines, write, check):
    """`lines`: those of the errors that no test has, by FILE: TEXT."""
    head, listed = read_list(path)
    if write and len(listed) <= bound_of(head):
        listed = {entry: reason for entry, reason in listed.items() if entry in lines}
        head = [re.sub(r"\d+", str(len(listed)), head[0], count=1), *head[1:]]
        path.write_text("".join(line + "\n" for line in head + [f"{entry}  # {reason}" if reason else entry for entry, reason in listed.items()]))
    check(f"every error that is not in {path.name} has a case",
          [f"{entry} (line {lines[entry]}): add a case to error_cases.py, or a unit test" for entry in sorted(set(lines) - set(listed))])
    check(f"every error in {path.name} lacks one", [f"{entry}: take it out, with --write" for entry in listed if entry not in lines])
    names = [entry for entry, _ in entries_of(path)]
    check(f"{path.name} is in order, each entry once", [] if names == sorted(set(names)) else ["sort it, each line once"])
    check(f"{path.name} is as long as its head says, and has not grown",
          [] if len(listed) == bound_of(head) else [f"{len(listed)} entries, {bound_of(head)} in the head: cases, not lines, are added; --write lowers the number"])


def check_places(said, write, check):
    strict = list(places())
    check_list(UNCOVERED, {f"{name}: {text}": line for name, line, text in strict if text not in said}, write, check)
    expected = expected_anywhere()
    whole, unsaid, count = "\n".join([said, *expected]), {}, 0
    for name, line, pieces in unit_tested_places():
        count += 1
        if not any(piece in whole or any(text in piece for text in expected) for piece in pieces):
            unsaid[f"{name}: {max(pieces, key=len)}"] = line
    check_list(UNSAID, unsaid, write, check)
    reasons = [(entry, *reason.partition(": ")[::2]) for entry, reason in entries_of(UNSAID)]
    check("every error that no test says has a reason, and what that is in its case",
          [f"{entry}: '{kind}: {why}' is no reason; it begins with one of {', '.join(REASONS)}, and says why no test can make it"
           for entry, kind, why in reasons if kind not in REASONS or len(why) < SHORTEST])
    check(f"{UNSAID.name} has at most {MOST_UNSAID} entries",
          [] if len(reasons) <= MOST_UNSAID else [f"{len(reasons)} entries: a new error has a test that makes it; the bound is never raised"])
    print(f"# {len(strict) + count} places raise an error; {len(unsaid)} texts are said by no test")


def main():
    program_path = str(pathlib.Path(sys.argv[1]).resolve())
    write = "--write" in sys.argv
    only = [word for word in sys.argv[2:] if word != "--write"]
    number = failures = 0

    def check(name, wrong):
        nonlocal number, failures
        number += 1
        failures += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {name}" + "".join(f"\n# {line}" for text in wrong for line in text.splitlines()), flush=True)

    said = []
    with tempfile.TemporaryDirectory(prefix="perigee-errors-") as root:
        tables = pathlib.Path(root) / "tables"
        tables.mkdir()
        write_tables(tables)
        program, before = Program(program_path, tables), contents(tables)
        cases = [case for case in error_cases.CASES if not only or case.name in only]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # half of a case's time is waiting for the disk
            found = pool.map(lambda index: wrong_with(cases[index], program, pathlib.Path(root) / f"case{index}"), range(len(cases)))
            for case, (wrong, err) in zip(cases, found):
                said.append(err)
                check(case.name, wrong)
        after = contents(tables)
        check("no case writes into a table, which is every case's", [name for name in before if after.get(name) != before[name]])
    if not only:
        check_places("\n".join([*said, expected_by_unit_tests()]), write, check)
    print(f"1..{number}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
