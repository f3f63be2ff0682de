"""Who computes in bench.py: Perigee by train_bench, PyTorch by peer.py, each in a process that can fail or be ended alone."""
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


# What is tried, one after the other, where a step does not run: options of train_bench, environment.
FORMS = (("", (), {}), ("kernels not measured", ("--measure", "0"), {}),
         ("kernels not measured, on one stream", ("--measure", "0"), {"PERIGEE_CUDA_BRANCHES": "1"}),
         ("libraries of the loader's path alone, not measured", ("--measure", "0"), {"PERIGEE_CUDA_LIBRARIES": ""}))


class Perigee:
    """Ours in one row. `said` has what went wrong, by form."""

    def __init__(self, program, job, name):
        self.command, self.name, self.said, self.forms = [program, job, "--device", "cuda:0"], name, {}, list(FORMS)

    def run(self, seconds, limit_s, options, environment):
        # In parts, the first of which brings the clock up.
        text = output_of([*self.command, "--repeats", "4", "--seconds", str(seconds / 3), *options], limit_s, **environment)
        result = json.loads(text)
        if "per_step" in result:
            COUNTERS[self.name] = result["per_step"]
        return statistics.median(result["images_per_s"][1:])

    def rate(self, seconds, limit_s):
        """images/s by the first form that runs; None where none does."""
        limit_s = min(limit_s, LONGEST_START_S)
        while self.forms:
            form, options, environment = self.forms[0]
            try:
                return self.run(seconds, limit_s, options, environment)
            except (RuntimeError, OSError, ValueError, KeyError) as error:
                self.said["perigee" + (f", {form}" if form else "")] = str(error)
                self.forms.pop(0)
            limit_s = min(limit_s, 20)  # the rest are for diagnosis
            if not form:
                self.find_fault(limit_s)
        return None

    def find_fault(self, limit_s):
        """Op by op, each waited for: the error names the op."""
        try:
            self.run(0.1, limit_s, ("--measure", "0"), {"PERIGEE_CUDA_BLOCKING": "1"})
            self.said["perigee, op by op, not measured"] = "runs"
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            self.said["perigee, op by op, not measured"] = str(error)

    def form(self):
        return self.forms[0][0] if self.forms else ""


class PeerProcess:
    """peer.py in a process of its own. RuntimeError says why it gives no answer; then it is gone."""

    def __init__(self, name, setting, work):
        self.said = b""
        self.log = os.path.join(work, f"peer_{rows.plain(name)}_{rows.plain(setting)}.txt")
        arguments = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py"), name, setting, work]
        environment = dict(os.environ)
        if "ResNet" not in name:  # many of them compile at once, each with workers of its own
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "2"
        if "tuned" in setting:  # takes longest and is not waited for
            arguments = ["nice", "-n", "10"] + arguments
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(arguments + ["--rehearse"] * rows.REHEARSAL, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, bufsize=0, env=environment)

    def send(self, command):
        try:
            self.process.stdin.write(f"{command}\n".encode())
        except OSError:
            pass  # it has ended: answer() says why

    def answer(self, limit_s):
        end = time.monotonic() + limit_s
        while b"\n" not in self.said:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.end(f"no answer within {limit_s:.0f} s")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                with open(self.log, errors="replace") as log:
                    self.end(([line.strip() for line in log if line.strip()] or ["it ended"])[-1])
            self.said += got
        line, _, self.said = self.said.partition(b"\n")
        reply = json.loads(line)
        if "failed" in reply:
            self.end(reply["failed"])
        return reply

    def end(self, why):
        self.close()
        raise RuntimeError(why)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def rate(self, seconds):
        """images/s"""
        self.send(seconds)
        return self.answer(20 + 3 * seconds)["rate"]
