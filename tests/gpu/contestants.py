"""Who computes in bench.py: Perigee by train_bench, PyTorch by peer.py, each in a process that can fail or be ended alone."""
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time

import rows

LONGEST_START_S = 110  # of Perigee, with all kernels to measure
COUNTERS = {}  # of each row: what train_bench counted on the device in a step, where it counts


def own_environment(**more):
    """Of our programs: the libraries that came with them are not for anybody else's."""
    folder = os.environ.get("PERIGEE_GPU_LIBRARIES")
    return {**os.environ, **({"LD_LIBRARY_PATH": folder} if folder else {}), **more}


def output_of(command, limit_s, **environment):
    """What a program of ours prints; RuntimeError says why not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=max(1.0, limit_s), check=False,
                              env=own_environment(**environment))
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"not done after {late.timeout:.0f} s; {last_words((late.stderr or b'').decode(errors='replace'))}") from late
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {last_words(done.stderr)}")
    return done.stdout


def last_words(text):
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())[-600:] or "it said nothing"


# Fallbacks, tried one after the other where a step does not run: options of train_bench, environment.
APART = {"PERIGEE_CUDA_OVERLAP": "0"}
NO_OVERLAP = ("kernels that do not overlap", (), APART)
FORMS = (("", (), {}), NO_OVERLAP, ("no overlap, kernels not measured", ("--measure", "0"), APART),
         ("no overlap, kernels not measured, on one stream", ("--measure", "0"), {**APART, "PERIGEE_CUDA_BRANCHES": "1"}),
         ("no overlap, libraries of the loader's path alone, not measured", ("--measure", "0"), {**APART, "PERIGEE_CUDA_LIBRARIES": ""}))


class Contestant:
    """A program that answers lines with lines of JSON. RuntimeError says why it gives no answer; then it is gone."""

    def __init__(self, command, log, environment):
        self.said, self.log = b"", log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, bufsize=0, env=environment)

    def send(self, command):
        try:
            self.process.stdin.write(f"{command}\n".encode())
        except OSError:
            pass  # it has ended: answer() says why

    def answer(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\n" not in self.said:
            left = end - time.monotonic()
            if left <= 0:
                self.end(f"no answer within {limit_s:.0f} s")
            if not select.select([self.process.stdout], [], [], min(left, 1))[0]:
                if self.process.poll() is not None:  # though something that it began may hold the pipe
                    self.end(f"it ended with status {self.process.returncode}")
                continue
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(5)
                self.end(f"it ended with status {self.process.returncode}")
            self.said += got
        line, _, self.said = self.said.partition(b"\n")
        reply = json.loads(line)
        if "failed" in reply:
            self.close()
            raise RuntimeError(reply["failed"])
        return reply

    def end(self, why):
        self.close()
        with open(self.log, errors="replace") as log:
            raise RuntimeError(f"{why}; {last_words(log.read())}")

    def close(self):
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)  # a driver may not let go of it
        self.process.stdin.close()
        self.process.stdout.close()


class Perigee:
    """Ours in one row. `said` has what went wrong, by form."""

    def __init__(self, program, name, work, forms=FORMS):
        self.command = [program, rows.make_job(name, work), "--device", "cuda:0", "--turns", "1"]
        self.log = os.path.join(work, f"ours_{rows.plain(name)}{rows.plain(forms[0][0])}.txt")
        self.name, self.said, self.forms, self.process = name, {}, list(forms), None
        self.counts = forms is FORMS

    def start(self, limit_s):
        """The first form that runs; False where none does."""
        while self.forms:
            form, options, environment = self.forms[0]
            try:
                self.begin(options, environment, limit_s)
                return True
            except (RuntimeError, OSError, ValueError) as error:
                self.fail(error)
            limit_s = min(limit_s, 20)  # the rest are for diagnosis
            if not form:
                self.find_fault(limit_s)
        return False

    def begin(self, options, environment, limit_s):
        self.process = Contestant([*self.command, *options], self.log, own_environment(**environment))
        self.process.answer(min(limit_s, LONGEST_START_S))

    def fail(self, error):
        form = self.forms.pop(0)[0]
        self.said["perigee" + (f", {form}" if form else "")] = str(error)
        self.close()

    def rate(self, seconds):
        """images/s; None, and another form's from now on, where it fails."""
        if self.process is None and not self.start(20):
            return None
        try:
            self.process.send(seconds)
            result = self.process.answer(20 + 3 * seconds)
            if "per_step" in result and self.counts:
                COUNTERS[self.name] = result["per_step"]
            return result["images_per_s"]
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            self.fail(error)
            return None

    def find_fault(self, limit_s):
        """Op by op, each waited for: the error names the op."""
        what = "perigee, op by op, not measured"
        try:
            self.begin(("--measure", "0"), {"PERIGEE_CUDA_BLOCKING": "1"}, limit_s)
            self.process.send(0.1)
            self.process.answer(limit_s)
            self.said[what] = "runs"
        except (RuntimeError, OSError, ValueError) as error:
            self.said[what] = str(error)
        self.close()

    def form(self):
        return self.forms[0][0] if self.forms else ""

    def close(self):
        if self.process is not None:
            self.process.close()
            self.warn()
        self.process = None

    def warn(self):
        with open(self.log, errors="replace") as log:
            lines = [line.strip() for line in log if "warning" in line]
        if lines:
            self.said["perigee warns"] = f"{len(lines)} times, first: {lines[0][:300]}"


class PeerProcess(Contestant):
    """peer.py in a process of its own."""

    def __init__(self, name, setting, work):
        log = os.path.join(work, f"peer_{rows.plain(name)}_{rows.plain(setting)}.txt")
        arguments = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py"), name, setting, work]
        environment = dict(os.environ)
        # Many of them compile at once, each with workers of its own.
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "8" if "ResNet" in name else "2"
        if rows.is_long(setting):
            arguments = ["nice", "-n", "10"] + arguments
        super().__init__(arguments + ["--rehearse"] * rows.REHEARSAL, log, environment)

    def rate(self, seconds):
        """images/s"""
        self.send(seconds)
        return self.answer(20 + 3 * seconds)["rate"]
