#!/usr/bin/env python3
"""The prompt without a terminal, as scripts use it: pipe_test.py PROGRAM. Prints TAP."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
# name, arguments, standard input, exit code, standard output, a part of standard error
CASES = [
    ("a line", ["repl"], "print(pg.version)", 0, "0.1.0\n", ""),
    ("values and statements", ["repl"], "1 + 1\nlocal x = 3\nfunction f(a)\n  return a + x\nend\nf(4), _\n", 0, "2\n7  2\n", ""),
    ("Windows' ends of lines", ["repl"], "x = 2\r\nx\r\n", 0, "2\n", ""),
    ("ends at the first error", ["repl"], "1\nnothing.here\n2", 1, "1\n", "attempt to index global 'nothing'"),
    ("an unfinished input", ["repl"], "function f(", 1, "", "near '<eof>'"),
    ("nothing", ["repl"], "", 0, "", ""),
    ("expressions", ["-e", "x = 20", "-e", "x * 2"], "", 0, "40\n", ""),
    ("an expression that fails", ["-e", "error 'on purpose'", "-e", "1"], "", 1, "", "on purpose"),
    ("commands", ["repl"], ":load script.lua\n!echo from the shell\n:quit\n1", 0, '"from the script"\nfrom the shell\n', ""),
    ("an unknown command", ["repl"], ":laod x", 1, "", "did you mean ':load'?"),
    ("a script, then its value", ["repl", "script.lua"], "_", 0, '"from the script"\n"from the script"\n', ""),
    ("a script that is not there", ["repl", "scrip.lua"], "1", 1, "", "did you mean 'script.lua'?"),
    ("os.exit", ["-e", "os.exit(7)"], "", 7, "", ""),
    ("no bytecode", ["-e", "loadstring(string.dump(print))"], "", 1, "", "dump"),
]


def problems(folder):
    for name, arguments, given, code, output, error in CASES:
        done = subprocess.run([PROGRAM, *arguments], input=given.encode(), capture_output=True, cwd=folder, timeout=60)
        got = done.returncode, done.stdout.decode(), done.stderr.decode()
        good = got[:2] == (code, output) and error in got[2] and (error or not got[2]) and "\x1b" not in got[1] + got[2]
        yield name, "" if good else f"expected {(code, output, error)}, got {got}"
    # SIGINT ends a loop that swallows errors, and a wait for input.
    for name, given in (("an interrupted loop", b"while true do pcall(function() while true do end end) end\n"), ("an interrupted wait", b"x = 1\nprint(x)\n")):
        child = subprocess.Popen([PROGRAM, "repl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
        child.stdin.write(b"io.write('ready\\n') io.flush()\n" + given)
        child.stdin.flush()
        child.stdout.readline()
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        code = child.wait(timeout=60)
        child.communicate()
        yield name, "" if code == 130 else f"expected 130, got {code}"


def main():
    with tempfile.TemporaryDirectory(prefix="perigee-pipe-") as folder:
        (pathlib.Path(folder) / "script.lua").write_text("#!/usr/bin/env perigee\nlocal kept = 'from the script'\nreturn kept\n")
        results = list(problems(folder))
    for number, (name, problem) in enumerate(results, 1):
        print(f"{'not ok' if problem else 'ok'} {number} {name}" + (f"\n# {problem}" if problem else ""))
    print(f"1..{len(results)}")
    return 1 if any(problem for _, problem in results) else 0


if __name__ == "__main__":
    sys.exit(main())
