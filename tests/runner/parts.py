"""The parts of a test run. Each is a function of its Part, into which it reports, and of the slice that it is to run (rotation.py)."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from . import rotation
from .examples import experiments
from .report import BUILD, JOBS, MINUTES, ROOT, build_tests, configure, count_line, data_folder, known_tests, program, run, run_tests

# Without the variable every run tries the same inputs, so that it says whether this change broke something; with it, new ones.
FUZZ_SECONDS = int(os.environ.get("PERIGEE_FUZZ_SECONDS", "0"))
FUZZ_LIMITS = [f"-max_total_time={FUZZ_SECONDS}"] if FUZZ_SECONDS else ["-seed=1", "-runs=300000", "-max_total_time=20"]
UBSAN = f"print_stacktrace=1:halt_on_error=1:suppressions={ROOT / 'tests' / 'ubsan.supp'}"


def build(part, _):
    """Everything that is built by default: program, library, tests that run at every commit, benchmarks."""
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


def lint(part, _):
    status, output = run([sys.executable, ROOT / "tests" / "rules" / "lint.py"])
    if not count_line(part, output):
        part.fail("lint.py did not finish", output)
    elif status:
        print("FAILED lint:\n" + "\n".join(output.splitlines()[:40]), flush=True)


def unit(part, _):
    tests = known_tests(BUILD)
    if not tests:
        part.fail("Meson lists no tests")
    run_tests(part, tests, BUILD)


def long_test(part):
    """Meson's long test of the part's name."""
    tests = [t for t in known_tests(BUILD, "benchmarks") if t["name"] == part.name]
    if not tests:
        return part.skip("this build has no such test")
    status, output = build_tests(BUILD, tests, timeout=20 * MINUTES)
    part.fail("build", output) if status else run_tests(part, tests, BUILD)


def races(part, _):
    long_test(part)


def planted(part, _):
    long_test(part)


def rehearsal(part, _):
    long_test(part)


def models(part, _):
    """Every example runs. Data that a model needs and that is not here makes it skip (exit 3), unless PERIGEE_DATA is set."""
    with tempfile.TemporaryDirectory() as out:
        for script in experiments():
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
        for script in sorted((ROOT / "models" / "programs").glob("*.lua")):
            run_program(part, script, out)


def run_program(part, script, runs):
    """A script that trains by itself, whole, or its small form where it has one; or that asks a run of models/, which its head names."""
    asked = re.search(r'arg = \{ "runs/(\w+)" \}', script.read_text())
    given = f'arg = {{ "{runs}/{asked[1]}" }} ' if asked else ""
    folder = data_folder()
    status, output = run([program(), "-e", f"{given}small = true dofile {str(script)!r}"], timeout=5 * MINUTES,
                         env={"PERIGEE_DATA": folder} if folder else {})
    if status == 0:
        part.add(passed=1)
    elif not folder and "cannot be opened" in output:
        part.skip(f"programs/{script.name}: its data is not here")
    else:
        part.fail(f"models/programs/{script.name}: exit status {status}", output)


def isa(part, _):
    """Parity with the reference kernels at each instruction set."""
    tests = [t for t in known_tests(BUILD) if pathlib.Path(t["cmd"][0]).parent == BUILD / "tests" / "kernels"]
    for cap in ("baseline", "avx2"):
        run_tests(part, tests, BUILD, {"PERIGEE_ISA": cap})


SEEDS = int(os.environ.get("PERIGEE_SEEDS", "12000"))
SMALL_SEEDS = 1000  # of encrypted connections, and of agents
STANDBY_SEEDS = 3000
FAULTS_OF_SEEDS = ("worker_kill", "coordinator_power", "power_cut", "worker_pause", "partition", "stuck", "not_finite", "disk_full",
                   "rounds_voided", "skipped", "ledger_torn", "connections_half_open")


def simulator(part, slice):
    """Simulated clusters, one process per core; each seed is a test. Figures: seeds/s, how much faster than real time, what was reached."""
    folder = BUILD / "tests" / "cluster" / "simulator"

    def seeds(job):
        mine = slice.range(SEEDS)
        first, end = mine.start + len(mine) * job // JOBS, mine.start + len(mine) * (job + 1) // JOBS
        return run([folder / "simulate", "--from", first, "--seeds", end - first], timeout=20 * MINUTES)

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
    for *small, count in (("simulate", "--tls", SMALL_SEEDS), ("simulate", "--agents", SMALL_SEEDS), ("simulate_standby", STANDBY_SEEDS)):
        mine = slice.range(count)
        status, output = run([folder / small[0], *small[1:], "--from", mine.start, "--seeds", len(mine)], timeout=10 * MINUTES)
        print(output, flush=True)
        if not count_line(part, output):
            part.fail(f"{' '.join(map(str, small))} did not finish", output)
    part.notes.append(f"{passed / seconds:.0f} seeds/s on {JOBS} cores, {min(ratios, default=0):.0f} times real time")
    print("reached in seeds: " + ", ".join(f"{name} {times}" for name, times in sorted(reached.items())), flush=True)
    if slice.of == 1:  # fewer seeds need not reach all
        missed = [fault for fault in FAULTS_OF_SEEDS if not reached.get(fault)]
        part.fail("faults that no seed reached: " + ", ".join(missed)) if missed else part.add(passed=1)
    status, output = run([BUILD / "tests" / "bench" / "coordinator_bench"], timeout=10 * MINUTES)
    print(output, flush=True)
    part.fail("coordinator_bench", output) if status else part.add(passed=1)


def count_points(part, name, status, output):
    """Lines of TAP, `ok N name` and `not ok N name`."""
    points = re.findall(r"^(ok|not ok)\b([^\n]*)", output, re.M)
    part.add(passed=sum(word == "ok" and "# SKIP" not in rest for word, rest in points))
    for word, rest in points:
        if "# SKIP" in rest:
            part.skip(rest.strip())
    wrong = sum(word == "not ok" for word, _ in points)
    if wrong:
        part.fail(name, output)
        part.add(failed=wrong - 1)
    elif status:
        part.fail(f"{name}: exit status {status}", output)


def faults(part, _):
    status, output = run([sys.executable, ROOT / "tests" / "cluster" / "faults" / "faults.py"], timeout=45 * MINUTES)
    count_points(part, "faults.py", status, output)
    print("\n".join(line for line in output.splitlines() if line.startswith("# ") and ": n " in line), flush=True)


def stores(part, _):
    """Stores with real servers; of the long tests a sample, unless everything is wanted."""
    status, output = run(["ninja", "-C", BUILD, "tests/io/store_tool", "repl/perigee"])
    if status:
        return part.fail("build", output)
    whole = bool(os.environ.get("PERIGEE_TEST_EVERYTHING"))
    status, output = run([sys.executable, ROOT / "tests" / "stores" / "stores_test.py", *([] if whole else ["--quick"])],
                         timeout=(60 if whole else 15) * MINUTES)
    count_points(part, "stores_test.py", status, output)
    print("\n".join(line for line in output.splitlines() if line.startswith("# ")), flush=True)


def install(part, _):
    status, output = run([sys.executable, ROOT / "tests" / "api" / "install_test.py", BUILD], timeout=10 * MINUTES)
    ran = re.search(r"^Ran (\d+) tests?", output, re.M)
    if status:
        return part.fail("the installed library", output)
    part.add(passed=int(ran[1]))


def package(part, _):
    """The Debian package on a clean Debian 12 root."""
    status, output = run([sys.executable, ROOT / "tests" / "api" / "package_test.py", BUILD], timeout=45 * MINUTES)
    last = (output.strip().splitlines() or [""])[-1]
    if status == 77:
        return part.skip(next((line for line in output.splitlines() if line.startswith("skipped: ")), last))
    if status:
        return part.fail("the Debian package", output)
    part.notes.append(last)
    part.add(passed=1)


def wheel(part, _):
    """The wheel in a fresh virtual environment."""
    status, output = run([sys.executable, ROOT / "tests" / "api" / "wheel_test.py", BUILD], timeout=15 * MINUTES)
    last = (output.strip().splitlines() or [""])[-1]
    if status == 77:
        return part.skip(last)
    if status:
        return part.fail("the wheel", output)
    part.notes.append(last)
    part.add(passed=1)


def alone(part, slice):
    """Every C++ file without precompiled headers and without the other files of its folder: it includes what it uses."""
    sources = slice.take(file for folder in ("src", "cluster", "lua", "repl") for file in sorted((ROOT / folder).rglob("*.cpp")))
    flags = run(["pkg-config", "--cflags", "luajit", "libuv", "libpng"])[1].split()

    def compile_alone(file):
        return run(["g++", "-std=c++20", "-fsyntax-only", "-w", "-DPERIGEE_VERSION=\"\"", f"-I{ROOT}", f"-I{ROOT / 'src' / 'api'}",
                    f"-I{BUILD / 'repl'}", *flags, file])

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for file, (status, output) in zip(sources, pool.map(compile_alone, sources)):
            part.fail(str(file.relative_to(ROOT)), output) if status else part.add(passed=1)


# Each test of tests/cluster/engines with what PyPI has for it, and the program that a Debian package has.
ENGINES = {
    "etcd_test.py": ([], None),
    "cloud_test.py": (["boto3"], None),
    "submit_test.py": (["kubernetes-validate==1.37.0", "kubeflow-trainer-api==2.3.0", "cfn-lint", "pyyaml"], None),
    "recipes_test.py": (["ray==2.60.0", "distributed"], None),
    "arrow_test.py": (["pyarrow", "polars", "duckdb"], None),
    "spark_test.py": (["pyspark==4.3.0", "pyarrow", "pandas<3", "numpy"], ("java", "default-jre-headless")),
    "spark_jar_test.py": (["numpy"], ("javac", "default-jdk-headless")),
}


def engines(part, _):
    """Spark, Ray, Dask and etcd, the real ones, pyarrow, polars and DuckDB, and the schemas of Kubernetes and CloudFormation; in virtual environments
    in build/engines."""
    status, output = run(["ninja", "-C", BUILD, "tests/cluster/lease_tool", "repl/perigee"])
    if status:
        return part.fail("build", output)
    for name, (packages, needed) in ENGINES.items():
        folder = BUILD / "engines" / name.removesuffix("_test.py")
        installed = folder / "installed"
        if needed and not shutil.which(needed[0]):
            run(["apt-get", "install", "-q", "-y", "--no-install-recommends", needed[1]], timeout=5 * MINUTES)
        if needed and not shutil.which(needed[0]):
            part.skip(f"{name}: {needed[1]} is not installed")
            continue
        if not installed.exists() or installed.read_text() != " ".join(packages):
            shutil.rmtree(folder, ignore_errors=True)
            status, output = run([sys.executable, "-m", "venv", folder])
            if status == 0 and packages:
                status, output = run([folder / "bin" / "pip", "install", "-q", *packages], timeout=10 * MINUTES)
            if status:
                part.skip(f"{name}: pip cannot install {' '.join(packages)}: {output.strip().splitlines()[-1] if output.strip() else status}")
                continue
            installed.write_text(" ".join(packages))
        test = next((ROOT / "tests").rglob(name))
        status, output = run([folder / "bin" / "python", test], timeout=10 * MINUTES,
                             env={"PERIGEE_PROGRAM": program(), "PERIGEE_LIBRARY": BUILD / "repl" / "libperigee.so"})
        points = re.findall(r"^(ok|not ok) ([^\n]*)", output, re.M)
        part.add(passed=sum(word == "ok" and "# SKIP" not in rest for word, rest in points))
        for word, rest in points:
            if "# SKIP" in rest:
                part.skip(f"{name}: {rest}")
        wrong = sum(word == "not ok" for word, _ in points)
        if wrong or status or not points:
            part.fail(f"{name}: exit status {status}", output)
            part.add(failed=max(0, wrong - 1))


def bundle(part, _):
    status, output = run([ROOT / "tests" / "gpu" / "bundle.sh", "--build", BUILD, "--check"], timeout=20 * MINUTES)
    if status == 77:
        return part.skip((output.strip().splitlines() or [""])[-1])
    if status:
        return part.fail("the bundle for machines with a GPU", output)
    part.notes.append(next(line for line in output.splitlines() if line.endswith(" bytes")))
    part.add(passed=1)


def mnist(part, _):
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


def clang():
    """The environment that makes Meson choose clang, which compiles all checks of undefined behaviour in two thirds of the time that gcc takes."""
    return {"CC": "clang", "CXX": ("ccache " if shutil.which("ccache") else "") + "clang++"}


def sanitized(part, folder, options, chosen, env, compiler=None):
    """Builds the programs of the GoogleTests that are chosen with sanitizers and runs them."""
    status, output = configure(folder, options, env=compiler)
    if status:
        return part.fail("configure", output)
    tests = chosen([t for t in known_tests(folder) if is_gtest(t, folder)])
    status, output = build_tests(folder, tests, timeout=40 * MINUTES)
    if status:
        return part.fail("build", output)
    run_tests(part, tests, folder, env)


def is_gtest(test, folder):
    return test["cmd"][0].startswith(str(folder)) and pathlib.Path(test["cmd"][0]).name.endswith("_test")


def asan(part, slice):
    folder = ROOT / "build-asan"
    # The first two run kernels on fibers, of which the sanitizer knows little; the shim guards their memory itself. train_team takes ten
    # minutes here, and train_device goes through nearly the same code. failing_calls uses up all descriptors, and the sanitizer tries through
    # a pipe whether an object can be read: without one it calls a good object bad.
    left_out = ("cuda_parity", "cuda_linalg", "train_team", "failing_calls")

    def is_mine(test):
        of_tests = pathlib.Path(test["cmd"][0]).relative_to(folder / "tests").parts[0]
        return test["name"] not in left_out and (slice.of == 1 or rotation.asan_slice_of(of_tests, test["env"]) == slice.index)

    sanitized(part, folder, sanitizer_options("address,undefined"), lambda tests: [t for t in tests if is_mine(t)], {
        # A small quarantine of freed memory: tests look at how much a process holds.
        "ASAN_OPTIONS": "quarantine_size_mb=32:detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": UBSAN,
        "LSAN_OPTIONS": f"suppressions={ROOT / 'tests' / 'lsan.supp'}:print_suppressions=0"}, clang())


def tsan(part, _):
    folder = ROOT / "build-tsan"
    sanitized(part, folder, sanitizer_options("thread"), lambda tests: [t for t in tests if t["name"] in ("data", "train", "core", "api")],
              {"TSAN_OPTIONS": f"halt_on_error=1:allocator_may_return_null=1:suppressions={ROOT / 'tests' / 'tsan.supp'}", "OMP_NUM_THREADS": "1"})


def fuzz(part, _):
    sources = sorted((ROOT / "tests" / "fuzz").rglob("*.cpp"))
    if not sources:
        return part.skip("tests/fuzz holds no program")
    if not shutil.which("clang++"):
        return part.skip("clang is not installed")
    folder = ROOT / "build-fuzz"
    options = [*sanitizer_options("address,undefined"), "-Dfuzz=true", f"-Dfuzz_library={BUILD}"]
    status, output = configure(folder, options, env=clang())
    targets = [f"tests/fuzz/{s.stem}" for s in sources]
    if status == 0:
        status, output = configure(BUILD, ["--buildtype=release"])
    if status == 0:
        status, output = run(["ninja", "-C", BUILD, "libperigee.a", "libperigee_setup.a", "lua/libperigee_lua.a", "lua/libperigee_lua_setup.a"], timeout=30 * MINUTES)
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
                             timeout=FUZZ_SECONDS + 140, env={"UBSAN_OPTIONS": UBSAN, "ASAN_OPTIONS": "allocator_may_return_null=1"})  # memory that is not there is an Error
        part.fail(name, output) if status else part.add(passed=1)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one, targets))
