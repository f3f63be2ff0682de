"""What the tests of stores share: the list of tests, the tool that makes single calls, the program."""
import contextlib
import hashlib
import json
import os
import pathlib
import random
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PERIGEE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "repl" / "perigee"
TOOL = BUILD / "tests" / "io" / "store_tool"
TESTS = []  # (name, function), in order


def test(function):
    TESTS.append((function.__name__, function))
    return function


def digest(content):
    return hashlib.sha256(content).hexdigest()


def random_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


def environment(folder, **more):
    """A home of its own, so that no file of the user's counts; caches in it."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PERIGEE_", "HADOOP_", "XDG_"))}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(folder / "cache"), **more}


class Tool:
    """store_tool as a process with an environment: tool("stat", url) is its answer."""

    def __init__(self, env):
        self.process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def __call__(self, *fields):
        self.process.stdin.write("\t".join(str(f) for f in fields) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.warnings = self.process.stderr.read()
        self.process.wait()


def one(env, *fields):
    with Tool(env) as tool:
        return tool(*fields)


def perigee(env, *arguments, timeout=120, cwd=None):
    """(status, stdout and stderr)."""
    done = subprocess.run([PROGRAM, *[str(a) for a in arguments]], env=env, cwd=cwd, timeout=timeout, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def says(answer, *texts):
    """The error of an answer has all of the texts, in one line each."""
    assert "error" in answer, f"no error: {answer}"
    for text in texts:
        assert text in answer["error"], f"{text!r} is not in {answer['error']!r}"


@contextlib.contextmanager
def at_most(seconds):
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    assert took <= seconds, f"took {took:.1f} s, at most {seconds} were allowed"
