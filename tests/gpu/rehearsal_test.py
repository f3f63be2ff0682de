"""tests/gpu/run.sh from end to end where tests/cuda stands in for a GPU, stand_in/ for compute-sanitizer and, where python3 has none, for
PyTorch: what a user will run once on a machine with a GPU has run here before. rehearsal_test.py BUILD"""
import argparse
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import bench
import contestants

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
SANITIZED = 8  # parts


def run(*arguments, **environment):
    """(exit status, {part: result}, what was printed)"""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PERIGEE_", "STAND_IN_"))}
    environment = {**plain, "PERIGEE_BUILD": str(BUILD), **environment}
    environment["PATH"] = f"{HERE / 'stand_in'}:{environment['PATH']}"
    if importlib.util.find_spec("torch") is None:
        environment["PYTHONPATH"] = str(HERE / "stand_in")
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([HERE / "run.sh", "--rehearse", "--out", out, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600, check=False, env=environment)
        logs = "".join(f"\n---- {log.name}\n{log.read_text(errors='replace')[-20000:]}" for log in sorted(pathlib.Path(out).glob("*.txt")))
    rows = {m[1].strip(): m[2] for m in re.finditer(r"^(.{34}) (PASS|FAIL|not measured) ", done.stdout, re.M)}
    return done.returncode, rows, done.stdout + (logs if "FAIL" in rows.values() else "")


def expect(holds, what, text):
    if not holds:
        sys.exit(f"{what}\n{text}")


def everything_runs():
    status, rows, text = run("--bench", PERIGEE_SHIM_DEVICES="2")
    expect(status == 0, f"status {status} instead of 0", text)
    expect(set(rows.values()) <= {"PASS", "not measured"} and rows["benchmark"] == "PASS", "a part fails", text)
    missing = {name for name, result in rows.items() if result != "PASS"} - {"memory as predicted"}
    expect(not missing, f"not measured: {missing}", text)
    for row in ("LeNet 32", "LeNet 1024", "MLP 784-500-500-10, 128", "ResNet-50 bf16 NHWC, 128"):
        expect(re.search(rf"^\| {re.escape(row)} \| [\d.]+ \| [\d.]+ \|", text, re.M), f"the benchmark has no rates of {row}", text)
        overlaps = re.search(rf"^    {re.escape(row)}, overlap: -?[\d.]+ us", text, re.M)
        expect("ResNet" in row or overlaps, f"{row} without overlap has no rate", text)
        expect(re.search(rf"^    {re.escape(row)}\n +[\d.]+ us in \d+ pieces", text, re.M), f"no profile of {row}", text)


def what_is_wrong_is_told():
    status, rows, text = run("--only", "ops", PERIGEE_SHIM_FAULT="launch:700")
    expect(status == 1 and rows["ops beside the reference"] == "FAIL", f"a spoilt device: status {status}", text)
    expect(re.search("^    .*: Failure$", text, re.M), "a failure's reason is not shown", text)
    status, rows, text = run("--only", "check of", STAND_IN_FINDS="1")
    expect(status == 1 and list(rows.values()) == ["FAIL"] * SANITIZED, "what the sanitizer finds is no failure", text)
    status, rows, text = run("--only", "codecs", PERIGEE_BUILD="/nowhere")
    expect(status == 1 and "build first" in text, f"nothing built: status {status}", text)
    status, rows, text = run("--only", "several", PERIGEE_SHIM_DEVICES="0", STAND_IN_SEES="1")
    expect(status == 1 and rows["doctor"] == "FAIL", f"a GPU that others see and Perigee does not: status {status}", text)


def what_cannot_be_measured_is_no_failure():
    status, rows, text = run("--seconds", "9", "--only", "check of", STAND_IN_HANGS="1")
    expect(status == 0 and list(rows.values()) == ["not measured"] * SANITIZED, f"a tool that hangs: status {status}", text)
    with tempfile.NamedTemporaryFile("r") as asked:
        status, rows, text = run("--only", "check of", STAND_IN_REFUSES=asked.name)
        expect(status == 0 and list(rows.values()) == ["not measured"] * SANITIZED, f"a tool that refuses: status {status}", text)
        said = text.count("compute-sanitizer says: Device not supported")
        expect(said == 2 * SANITIZED, "it is not said of every part, in both tables", text)
        expect(len(asked.readlines()) == 1, "a tool that has refused is asked again", text)
    status, rows, text = run(PERIGEE_SHIM_DEVICES="0")
    expect(status == 77 and not rows and "no GPU" in text, f"without a GPU: status {status}", text)


def one_that_fails_loses_its_own_cell():
    with tempfile.TemporaryDirectory() as work:
        # Its children hold the pipe open longer than the time limit.
        one = contestants.Contestant(["bash", "-c", "sleep 20 & exit 3"], os.path.join(work, "log.txt"), dict(os.environ))
        try:
            one.answer(10)
            expect(False, "it has answered", "")
        except RuntimeError as error:
            expect("it ended with status 3" in str(error), "why there is no answer", str(error))
        args, reasons = argparse.Namespace(work=work), {}
        expect("tuned graph" in bench.settings_of("LeNet 32", args, reasons), "nothing was compiled before, and one is left out", "")
        told = [["LeNet 32", "compile", "no C++"], ["LeNet 32", "tuned graph", "no answer"], ["LeNet 1024", "tuned graph", "compiled in 3 s"]]
        pathlib.Path(bench.compiled_file(args)).write_text(json.dumps(told))
        settings = {name: bench.settings_of(name, args, reasons) for name in ("LeNet 1024", "LeNet 32", "MLP 784-500-500-10, 128")}
        took_part = [name for name in settings if "tuned graph" in settings[name]]
        expect(took_part == ["LeNet 1024"], "who takes part", str(settings))
        expect("compile" in settings["LeNet 32"], "what is short is not tried again", str(settings))
        expect(reasons == {"tuned graph": "not compiled in time"}, "the last one's reason", str(reasons))

        def measure(name, *_):
            if name == "LeNet 32":
                raise OSError("no more processes")
            return {}, ""

        bench.kernels, bench.measure = lambda *_: (None, ""), measure
        sys.argv = ["bench.py", "--rehearse", "--out", work, "--work", work, "--profile", "false"]
        with contextlib.redirect_stdout(io.StringIO()):
            bench.main()
        text = pathlib.Path(work, "bench.txt").read_text()
        expect("LeNet 32, the row: OSError: no more processes" in text and "| MLP " in text, "rows after one that fails", text)


def main():
    if not shutil.which("bash"):
        sys.exit(77)
    for number, scene in enumerate((everything_runs, what_is_wrong_is_told, what_cannot_be_measured_is_no_failure,
                                    one_that_fails_loses_its_own_cell), 1):
        scene()
        print(f"ok {number} - {scene.__name__}", flush=True)


if __name__ == "__main__":
    main()
