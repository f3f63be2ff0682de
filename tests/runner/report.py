"""Running commands and tests, and counting what they say. Used by the parts (parts.py)."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
JOBS = os.cpu_count() or 2
MINUTES = 60


def telling_lines(output, most=40):
    """The lines of a test's output that say why it failed: its wrong points of TAP with the comments below them, or else its end."""
    points = re.findall(r"^not ok\b[^\n]*(?:\n#[^\n]*)*", output, re.M)
    return "\n".join(points).splitlines()[:most] if points else output.strip().splitlines()[-most:]


class Part:
    """What one part of the run found."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped, self.seconds = name, 0, 0, 0, 0.0
        self.notes = []
        self.times = []  # (seconds, name) of each test

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def fail(self, what, output=""):
        self.failed += 1
        told = "\n".join(telling_lines(output))
        print(f"FAILED {self.name}: {what}\n{told}\n" if told else f"FAILED {self.name}: {what}", flush=True)

    def skip(self, what):
        self.skipped += 1
        print(f"skipped {self.name}: {what}", flush=True)


def run(command, timeout=20 * MINUTES, env=None, cwd=ROOT):
    """(exit status, stdout and stderr together); 124 when it ran out of time."""
    try:
        done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return 124, text + f"\ntimed out after {timeout} s"


def configure(folder, options, env=None):
    """Afterwards Meson's list of tests is that of the tree: in a folder that is there Meson runs again if one of its files has changed."""
    if (folder / "build.ninja").is_file():
        return run(["ninja", "-C", folder, "build.ninja"], env=env)
    return run(["meson", "setup", folder, ROOT, *options], env=env)


def known_tests(folder, kind="tests"):
    """What Meson knows in a build folder; of kind "benchmarks": the long tests, whose programs are not built by default."""
    status, text = run(["meson", "introspect", f"--{kind}", folder])
    return json.loads(text) if status == 0 else []


def build_tests(folder, tests, timeout):
    """Builds the programs that the tests are and those that they use; (exit status, output)."""
    built = {t["id"]: t["filename"][0] for t in json.loads(run(["meson", "introspect", "--targets", folder])[1])}
    files = {built[name] for t in tests for name in t.get("depends", []) if name in built}
    files |= {word for t in tests for word in t["cmd"]} & set(built.values())
    targets = sorted(os.path.relpath(file, folder) for file in files)
    return run(["ninja", "-C", folder, *targets], timeout=timeout)


def count_gtest(part, report, program):
    """Counts from a GoogleTest XML report. A disabled test counts as skipped: nothing may hide."""
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        part.times.append((float(case.get("time", "0")), f"{program} {case.get('classname')}.{case.get('name')}"))
        if case.get("status") == "notrun" or case.find("skipped") is not None or case.get("result") == "skipped":
            part.add(skipped=1)
        elif case.find("failure") is not None:
            part.failed += 1
        else:
            part.add(passed=1)


def run_test(part, test, folder, extra_env):
    """One entry of Meson's list: a GoogleTest program, a program that speaks TAP, or one that only has an exit status."""
    with tempfile.TemporaryDirectory() as temporary:
        report = pathlib.Path(temporary) / "report.xml"
        env = {**test.get("env", {}), **extra_env, "GTEST_OUTPUT": f"xml:{report}", "GTEST_COLOR": "no"}
        start = time.monotonic()
        status, output = run(test["cmd"], timeout=max(test.get("timeout", 30), 30) * 10, env=env, cwd=test.get("workdir") or folder)
        output = "\n".join(line for line in output.splitlines() if not re.match(r"\[( RUN  |       OK|---|===|  PASSED)", line))
        points = re.findall(r"^(ok|not ok)\b([^\n]*)", output, re.M)
        before = part.failed
        if not report.is_file():
            part.times.append((time.monotonic() - start, test["name"]))
        if report.is_file() and report.stat().st_size:
            count_gtest(part, report, test["name"])
            if part.failed > before:
                names = re.findall(r"^\[  FAILED  \] (\S+) \(", output, re.M)
                print(f"FAILED {part.name}: {test['name']}: {', '.join(names)}\n" + "\n".join(output.splitlines()[-60:]), flush=True)
        elif points:
            part.add(passed=sum(word == "ok" and "# SKIP" not in rest.upper() for word, rest in points),
                     skipped=sum("# SKIP" in rest.upper() for _, rest in points))
            wrong = sum(word == "not ok" and "# SKIP" not in rest.upper() for word, rest in points)
            if wrong:
                part.fail(test["name"], output)
                part.add(failed=wrong - 1)
        elif status == 77:
            return part.skip(test["name"])
        elif status == 0:
            return part.add(passed=1)
        if status not in (0, 77) and part.failed == before:
            part.fail(f"{test['name']}: exit status {status}", output)  # crashed, leaked, or timed out outside any test


def in_order(tests):
    """Those that run beside others, those of Meson's higher priority first: the longest, or the last one would keep one core alone for a minute."""
    return sorted((t for t in tests if t.get("is_parallel", True)), key=lambda t: -t.get("priority", 0))


def waits(test):
    """One of real processes, which wait for each other and for the disk most of the time: Meson's suite `waits`."""
    return any(suite.endswith(":waits") for suite in test.get("suite", []))


def run_tests(part, tests, folder, env=None):
    """As many at a time as there are cores, and one more of those that wait; when only such are left, each core's turn goes to them, too."""
    together = in_order(tests)
    waiting = collections.deque(t for t in together if waits(t))
    computing = collections.deque(t for t in together if not waits(t))

    def take_turns(*queues):
        for queue in queues:
            while True:
                try:
                    test = queue.popleft()
                except IndexError:
                    break
                run_test(part, test, folder, env or {})

    with concurrent.futures.ThreadPoolExecutor(JOBS + 1) as pool:
        turns = [pool.submit(take_turns, computing, waiting) for _ in range(JOBS)] + [pool.submit(take_turns, waiting)]
        for turn in turns:
            turn.result()
    for test in tests:
        if not test.get("is_parallel", True):
            run_test(part, test, folder, env or {})


def count_line(part, text):
    if m := re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M):
        part.add(*map(int, m[-1]))
        return True
    return False


def program():
    return BUILD / "repl" / "perigee"


def data_folder():
    folder = os.environ.get("PERIGEE_DATA")
    if not folder and (ROOT.parent / "shared" / "data").is_dir():
        folder = str(ROOT.parent / "shared" / "data")
    return folder if folder and pathlib.Path(folder).is_dir() else None


