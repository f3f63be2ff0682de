#!/usr/bin/env python3
"""Builds and runs the tests: `./perigee test [--all] [--soak TIME] [PART…]`.

    build      everything that the tests need, in build/
    lint       tests/rules/lint.py
    unit       every test that Meson knows: GoogleTest programs, Lua tests
    models     every script of models/ for a few steps
  and with --all:
    isa        the kernel tests again, capped at each lower instruction set
    simulator  12,000 seeds of simulated clusters with faults, the planted bugs, the coordinator's work per round
    install    meson install into a folder; the embedding test builds against it
    package    the .deb installs and runs on a clean Debian 12 root made with debootstrap
    mnist      one epoch of models/lenet.lua on the real MNIST, at least 97.5 %
    accuracy of resnet20 is not here: tests/bench/accuracy.py measures it
    asan       the unit tests with the address and undefined-behaviour sanitizers, in build-asan/
    tsan       loader and training threads with the thread sanitizer, in build-tsan/
    fuzz       every program of tests/fuzz/ with libFuzzer, at most 20 s each from one seed, in build-fuzz/;
               PERIGEE_FUZZ_SECONDS=600 seeks new inputs for so long each
    faults     real processes of a cluster that are killed, stopped and cut off: tests/cluster/faults/faults.py
    bundle     what tests/gpu/run.sh needs on a machine with a GPU is made, and runs where nothing else is installed

Each part is timed. The last line is `N passed, N failed, N skipped`; the exit status is 0 only when nothing failed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
JOBS = os.cpu_count() or 2
MINUTES = 60
# Without the variable every run tries the same inputs, so that it says whether this change broke something; with it, new ones.
FUZZ_SECONDS = int(os.environ.get("PERIGEE_FUZZ_SECONDS", "0"))
FUZZ_LIMITS = [f"-max_total_time={FUZZ_SECONDS}"] if FUZZ_SECONDS else ["-seed=1", "-runs=300000", "-max_total_time=20"]
UBSAN = f"print_stacktrace=1:halt_on_error=1:suppressions={ROOT / 'tests' / 'ubsan.supp'}"


class Part:
    """What one part of the run found."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped, self.seconds = name, 0, 0, 0, 0.0
        self.notes = []

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def fail(self, what, output=""):
        self.failed += 1
        tail = "\n".join(output.strip().splitlines()[-40:])
        print(f"FAILED {self.name}: {what}\n{tail}\n" if tail else f"FAILED {self.name}: {what}", flush=True)

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


def known_tests(folder):
    status, text = run(["meson", "introspect", "--tests", folder])
    return json.loads(text) if status == 0 else []


def count_gtest(part, report):
    """Counts from a GoogleTest XML report. A disabled test counts as skipped: nothing may hide."""
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
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
        status, output = run(test["cmd"], timeout=max(test.get("timeout", 30), 30) * 10, env=env, cwd=test.get("workdir") or folder)
        output = "\n".join(line for line in output.splitlines() if not re.match(r"\[( RUN  |       OK|---|===|  PASSED)", line))
        points = re.findall(r"^(ok|not ok)\b([^\n]*)", output, re.M)
        before = part.failed
        if report.is_file() and report.stat().st_size:
            count_gtest(part, report)
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


def run_tests(part, tests, folder, env=None):
    alone = [t for t in tests if not t.get("is_parallel", True)]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda t: run_test(part, t, folder, env or {}), [t for t in tests if t not in alone]))
    for test in alone:
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


# ---- the parts; each takes its Part and reports into it ----

def build(part):
    status, output = configure(BUILD, ["--buildtype=release"])
    if status == 0:
        status, output = run(["ninja", "-C", BUILD], timeout=30 * MINUTES)
    warnings = len(re.findall(r"\bwarning:", output))
    if warnings:
        part.notes.append(f"{warnings} compiler warnings")
    if status:
        part.fail("build", "\n".join(line for line in output.splitlines() if not line.startswith("[")))
        return
    part.add(passed=1)


def lint(part):
    status, output = run([sys.executable, ROOT / "tests" / "rules" / "lint.py"])
    if not count_line(part, output):
        part.fail("lint.py did not finish", output)
    elif status:
        print("FAILED lint:\n" + "\n".join(output.splitlines()[:40]), flush=True)


def unit(part):
    tests = known_tests(BUILD)
    if not tests:
        part.fail("Meson lists no tests")
    run_tests(part, tests, BUILD)


def models(part):
    """Every example runs. Data that a model needs and that is not here makes it skip (exit 3), unless PERIGEE_DATA is set."""
    scripts = sorted((ROOT / "models").glob("*.lua"))
    with tempfile.TemporaryDirectory() as out:
        for script in scripts:
            folder = data_folder()
            env = {"PERIGEE_DATA": folder} if folder else {}
            status, output = run([program(), "train", script, "--steps", "3", "--log", "json", "--out", pathlib.Path(out) / script.stem],
                                 timeout=5 * MINUTES, env=env)
            if status == 0 and '"event":"end"' in output.replace(" ", ""):
                part.add(passed=1)
            elif status == 3 and not folder:
                part.skip(f"{script.name}: its data is not here")
            else:
                part.fail(f"models/{script.name}: exit status {status}", output)


def isa(part):
    """Parity with the reference kernels at each instruction set (decision 13)."""
    tests = [t for t in known_tests(BUILD) if pathlib.Path(t["cmd"][0]).parent == BUILD / "tests" / "kernels"]
    for cap in ("baseline", "avx2"):
        run_tests(part, tests, BUILD, {"PERIGEE_ISA": cap})


SEEDS = int(os.environ.get("PERIGEE_SEEDS", "12000"))
SMALL_SEEDS = 1000  # of encrypted connections, and of agents
STANDBY_SEEDS = 3000


def simulator(part):
    """Simulated clusters, one process per core; each seed is a test. Figures: seeds/s, how much faster than real time, what was reached."""
    folder = BUILD / "tests" / "cluster" / "simulator"

    def seeds(first):
        count = SEEDS // JOBS
        return run([folder / "simulate", "--from", first * count, "--seeds", count], timeout=20 * MINUTES)

    start = time.monotonic()
    reached, ratios, passed = {}, [], 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for status, output in pool.map(seeds, range(JOBS)):
            for name, times in re.findall(r"^ +(\d+)  (\S+)$", output, re.M):
                reached[times] = reached.get(times, 0) + int(name)
            ratios += [float(r) for r in re.findall(r"([\d.]+) times faster than real time", output)]
            before = part.failed, part.passed
            if not count_line(part, output):
                part.fail("simulate did not finish", output)
            elif status:
                print("FAILED simulator:\n" + "\n".join(line for line in output.splitlines() if " FAILED: " in line), flush=True)
            passed += part.passed - before[1]
    seconds = time.monotonic() - start
    for small in (("simulate", "--tls", "--seeds", SMALL_SEEDS), ("simulate", "--agents", "--seeds", SMALL_SEEDS),
                  ("simulate_standby", "--seeds", STANDBY_SEEDS)):
        status, output = run([folder / small[0], *small[1:]], timeout=10 * MINUTES)
        print(output, flush=True)
        if not count_line(part, output):
            part.fail(f"{' '.join(map(str, small))} did not finish", output)
    part.notes.append(f"{passed / seconds:.0f} seeds/s on {JOBS} cores, {min(ratios, default=0):.0f} times real time")
    missed = [fault for fault in ("worker_kill", "coordinator_power", "power_cut", "worker_pause", "partition", "stuck", "not_finite",
                                  "disk_full", "rounds_voided", "skipped", "ledger_torn", "connections_half_open") if not reached.get(fault)]
    print("reached in seeds: " + ", ".join(f"{name} {times}" for name, times in sorted(reached.items())), flush=True)
    part.fail("faults that no seed reached: " + ", ".join(missed)) if missed else part.add(passed=1)
    status, output = run([folder / "planted"], timeout=20 * MINUTES)
    print(output, flush=True)
    part.fail("planted bugs") if status else part.add(passed=2)
    status, output = run([BUILD / "tests" / "bench" / "coordinator_bench"], timeout=10 * MINUTES)
    print(output, flush=True)
    part.fail("coordinator_bench", output) if status else part.add(passed=1)


def faults(part):
    status, output = run([sys.executable, ROOT / "tests" / "cluster" / "faults" / "faults.py"], timeout=45 * MINUTES)
    points = re.findall(r"^(ok|not ok)\b([^\n]*)", output, re.M)
    part.add(passed=sum(word == "ok" and "# SKIP" not in rest for word, rest in points))
    for word, rest in points:
        if "# SKIP" in rest:
            part.skip(rest.strip())
    wrong = sum(word == "not ok" for word, _ in points)
    if wrong:
        part.fail("faults.py", output)
        part.add(failed=wrong - 1)
    elif status:
        part.fail(f"faults.py: exit status {status}", output)
    print("\n".join(line for line in output.splitlines() if line.startswith("# ") and ": n " in line), flush=True)


def install(part):
    status, output = run([sys.executable, ROOT / "tests" / "api" / "install_test.py", BUILD], timeout=10 * MINUTES)
    ran = re.search(r"^Ran (\d+) tests?", output, re.M)
    if status:
        return part.fail("the installed library", output)
    part.add(passed=int(ran[1]))


def package(part):
    """The Debian package on a clean Debian 12 root."""
    status, output = run([sys.executable, ROOT / "tests" / "api" / "package_test.py", BUILD], timeout=45 * MINUTES)
    last = (output.strip().splitlines() or [""])[-1]
    if status == 77:
        return part.skip(next((line for line in output.splitlines() if line.startswith("skipped: ")), last))
    if status:
        return part.fail("the Debian package", output)
    part.notes.append(last)
    part.add(passed=1)


def bundle(part):
    status, output = run([ROOT / "tests" / "gpu" / "bundle.sh", "--build", BUILD, "--check"], timeout=20 * MINUTES)
    if status == 77:
        return part.skip((output.strip().splitlines() or [""])[-1])
    if status:
        return part.fail("the bundle for machines with a GPU", output)
    part.notes.append(next(line for line in output.splitlines() if line.endswith(" bytes")))
    part.add(passed=1)


def mnist(part):
    folder = data_folder()
    if not folder or not (pathlib.Path(folder) / "mnist").is_dir():
        if os.environ.get("CI") == "true":
            return part.fail("PERIGEE_DATA has no mnist folder; under CI=true that is a failure")
        return part.skip("PERIGEE_DATA has no mnist folder")
    with tempfile.TemporaryDirectory() as out:
        status, output = run([program(), "train", ROOT / "models" / "lenet.lua", "--epochs", "1", "--log", "json", "--out", out],
                             timeout=15 * MINUTES, env={"PERIGEE_DATA": folder})
    ends = [line for line in output.splitlines() if line.startswith("{") and '"end"' in line]
    if status or not ends:
        return part.fail(f"models/lenet.lua: exit status {status}", output)
    accuracy = json.loads(ends[-1])["test"]["accuracy"]
    part.notes.append(f"accuracy {100 * accuracy:.2f} % after one epoch")
    part.add(passed=1) if accuracy >= 0.975 else part.fail(f"accuracy {accuracy} is below 0.975", ends[-1])


def sanitizer_options(sanitizers):
    """Line numbers but no variables, which halves the time to build."""
    return ["--buildtype=plain", "-Doptimization=1", "-Dcpp_args=-g1", f"-Db_sanitize={sanitizers}", "-Db_lundef=false"]


def sanitized(part, folder, sanitizers, chosen, env):
    """Builds the chosen tests' programs with sanitizers and runs them."""
    status, output = configure(folder, sanitizer_options(sanitizers))
    if status:
        return part.fail("configure", output)
    tests = [t for t in known_tests(folder) if chosen(t)]
    built = {t["id"]: t["filename"][0] for t in json.loads(run(["meson", "introspect", "--targets", folder])[1])}
    files = {t["cmd"][0] for t in tests} | {built[name] for t in tests for name in t.get("depends", []) if name in built}
    programs = sorted(os.path.relpath(file, folder) for file in files if file.startswith(str(folder)))
    status, output = run(["ninja", "-C", folder, *programs], timeout=40 * MINUTES)
    if status:
        return part.fail("build", output)
    run_tests(part, tests, folder, env)


def is_gtest(test, folder):
    return test["cmd"][0].startswith(str(folder)) and pathlib.Path(test["cmd"][0]).name.endswith("_test")


def asan(part):
    folder = ROOT / "build-asan"
    # The first two run kernels on fibers, of which the sanitizer knows little; the shim guards their memory itself. train_team takes ten
    # minutes here, and train_device goes through nearly the same code.
    left_out = ("cuda_parity", "cuda_linalg", "train_team")
    sanitized(part, folder, "address,undefined", lambda t: is_gtest(t, folder) and t["name"].split("/")[-1] not in left_out, {
        # A small quarantine of freed memory: tests look at how much a process holds.
        "ASAN_OPTIONS": "quarantine_size_mb=32:detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": UBSAN,
        "LSAN_OPTIONS": f"suppressions={ROOT / 'tests' / 'lsan.supp'}:print_suppressions=0"})


def tsan(part):
    folder = ROOT / "build-tsan"
    sanitized(part, folder, "thread", lambda t: is_gtest(t, folder) and t["name"].split("/")[-1] in ("data", "train", "core", "api"),
              {"TSAN_OPTIONS": f"halt_on_error=1:allocator_may_return_null=1:suppressions={ROOT / 'tests' / 'tsan.supp'}", "OMP_NUM_THREADS": "1"})


def fuzz(part):
    sources = sorted((ROOT / "tests" / "fuzz").glob("*.cpp"))
    if not sources:
        return part.skip("tests/fuzz holds no program")
    if not shutil.which("clang++"):
        return part.skip("clang is not installed")
    folder = ROOT / "build-fuzz"
    options = [*sanitizer_options("address,undefined"), "-Dfuzz=true", f"-Dfuzz_library={BUILD}"]
    status, output = configure(folder, options, env={"CC": "clang", "CXX": ("ccache " if shutil.which("ccache") else "") + "clang++"})
    targets = [f"tests/fuzz/{s.stem}" for s in sources]
    if status == 0:
        status, output = configure(BUILD, ["--buildtype=release"])
    if status == 0:
        status, output = run(["ninja", "-C", BUILD, "libperigee.a", "libperigee_setup.a", "lua/libperigee_lua.a"], timeout=30 * MINUTES)
    if status == 0:
        status, output = run(["ninja", "-C", folder, *targets], timeout=30 * MINUTES)
    if status:
        return part.fail("build", output)

    def one(target):
        name = pathlib.Path(target).name
        corpus = folder / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = ROOT / "tests" / "fuzz" / "corpus" / name
        status, output = run([folder / target, *FUZZ_LIMITS, "-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1",
                              f"-artifact_prefix={folder}/{name}-", corpus, *([seeds] if seeds.is_dir() else [])],
                             timeout=FUZZ_SECONDS + 140, env={"UBSAN_OPTIONS": UBSAN})
        part.fail(name, output) if status else part.add(passed=1)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, targets))


QUICK = [build, lint, unit, models]
REST = [isa, simulator, install, package, bundle, mnist, faults, asan, tsan, fuzz]


def main():
    names = [p.__name__ for p in QUICK + REST]
    parser = argparse.ArgumentParser(prog="perigee test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the slow parts too")
    parser.add_argument("--soak", metavar="TIME", help="only this: a cluster under random faults for so long, as in 10m")
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these: " + ", ".join(names))
    args = parser.parse_args()
    if args.soak:
        program = [sys.executable, ROOT / "tests" / "cluster" / "faults" / "faults.py", "--soak", args.soak]
        part = Part("build")
        build(part)
        return 1 if part.failed else subprocess.run([str(c) for c in program]).returncode
    unknown = [p for p in args.parts if p not in names]
    if unknown:
        parser.error(f"no part '{unknown[0]}'; the parts are {', '.join(names)}")
    chosen = [p for p in QUICK + REST if p.__name__ in args.parts] if args.parts else QUICK + (REST if args.all else [])

    reports = []
    for function in chosen:
        part = Part(function.__name__)
        reports.append(part)
        start = time.monotonic()
        print(f"== {part.name}", flush=True)
        try:
            function(part)
        except Exception as error:  # a broken harness is a failure, and the closing lines still come
            part.fail(f"{type(error).__name__}: {error}")
        part.seconds = time.monotonic() - start
        if part.name == "build" and part.failed:
            break

    print(f"\n{'part':<10} {'seconds':>8} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for part in reports:
        print(f"{part.name:<10} {part.seconds:>8.1f} {part.passed:>7} {part.failed:>7} {part.skipped:>8}  {'; '.join(part.notes)}".rstrip())
    print(f"{'all':<10} {sum(p.seconds for p in reports):>8.1f}\n")
    failed = sum(p.failed for p in reports)
    print(f"{sum(p.passed for p in reports)} passed, {failed} failed, {sum(p.skipped for p in reports)} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
