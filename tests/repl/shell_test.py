#!/usr/bin/env python3
"""What the shells' completion scripts offer, asked of the shells themselves: shell_test.py PROGRAM. Prints TAP."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
JOB = """local pg = require "perigee"
print "a script that talks"
io.write "on both"
return pg.experiment {
  network = pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 2, name = "last" } },
  data = { train = pg.data.digits().train, batch = 50 },
  optimizer = pg.sgd { lr = pg.cosine { from = 0.1 } },
}
"""
# words that are typed, the last one unfinished; what is offered for it
CASES = [
    (["tra"], ["train"]),
    (["train", "--resu"], ["--resume"]),
    (["train", "jo"], ["job.lua", "job.yaml"]),
    (["train", "job.lua", "--set", "opt"], ["optimizer=", "optimizer."]),
    (["train", "job.lua", "--set", "optimizer.l"], ["optimizer.lr=", "optimizer.lr."]),
    (["train", "job.lua", "--set", "optimizer.lr.fr"], ["optimizer.lr.from="]),
    (["train", "job.lua", "--set", "network.layers.last.ou"], ["network.layers.last.out="]),
    (["train", "job.lua", "--set", "network.layers.1.ou"], ["network.layers.1.out="]),
    (["describe", "--set", "data.bat", "job.yaml"], ["data.batch="]),
    (["describe", "--set", "data.batch", "bad.lua"], []),
    (["describe", "--set", "data.batch", "endless.lua"], []),
    (["train", "--set", "see"], ["seed="]),
    (["help", "tra"], ["train"]),
    (["train", "job.lua", "--set", "nothing.here"], []),
]
# Each prints what the shell would offer for the words $@, the number of the unfinished one (from 0) first.
BASH = """
eval "$($PROGRAM completion bash)"
compopt() { :; }
COMP_CWORD=$1; shift
COMP_WORDS=("$PROGRAM" "$@")
_perigee
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { :; }
eval "$($PROGRAM completion zsh)"
compset() { return 1 }
compadd() { while [[ $1 == -* ]]; do case $1 in (--) shift; break ;; (-S|-d) shift 2 ;; (*) shift ;; esac; done; for each in "$@"; do [[ $each == $PREFIX* ]] && print -r -- $each; done }
_files() { print -rl -- $PREFIX*(N) }
CURRENT=$(( $1 + 1 )); shift
words=("$PROGRAM" "$@")
PREFIX=$words[CURRENT]
_perigee
true
"""
FISH = """
$PROGRAM completion fish | source
complete -C "perigee $argv[2..]" | string replace -r '\\t.*' ''
"""


def offered(shell, words, folder):
    script = {"bash": ["bash", "-c", BASH, "bash"], "zsh": ["zsh", "-f", "-c", ZSH, "zsh"], "fish": ["fish", "--no-config", "-c", FISH]}[shell]
    at = next((i for i, word in enumerate(words) if word.startswith("--set")), len(words) - 2) + 1
    environment = {**os.environ, "PROGRAM": str(PROGRAM), "HOME": folder, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    if shell == "fish" and at != len(words) - 1:  # it is asked for the end of a line
        words = [*words[:at - 1], *words[at + 1:], *words[at - 1:at + 1]]
    done = subprocess.run([*script, str(at + 1), *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    return [line for line in done.stdout.splitlines() if line], done.stderr


def found_in_fpath(folder):
    """As an installation has it: compinit takes the file for perigee's completion, and running it completes."""
    place = folder / "site-functions"
    place.mkdir()
    (place / "_perigee").write_text(subprocess.run([PROGRAM, "completion", "zsh"], capture_output=True, text=True, check=True).stdout)
    script = """fpath=($PLACE $fpath); autoload -Uz compinit; compinit -u -D; print -r -- $_comps[perigee]
      compadd() { print -r -- "offered $*" }
      words=(perigee tra) CURRENT=2; _perigee"""
    done = subprocess.run(["zsh", "-f", "-c", script], env={**os.environ, "PLACE": str(place)}, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    return lines[:1] == ["_perigee"] and any(line.startswith("offered") and " train " in line for line in lines)


def main():
    number, failures = 0, 0
    with tempfile.TemporaryDirectory(prefix="perigee-shells-") as name:
        folder = pathlib.Path(name)
        (folder / "job.lua").write_text(JOB)
        (folder / "job.yaml").write_text("network:\n  - {type: dense, out: 2}\ndata: {train: {type: digits}, batch: 5}\n")
        (folder / "bad.lua").write_text("error 'on purpose'")
        (folder / "endless.lua").write_text("while true do end")
        for shell in ("bash", "zsh", "fish"):
            if not shutil.which(shell):
                number += 1
                print(f"ok {number} {shell} # SKIP it is not installed", flush=True)
                continue
            if shell == "zsh":
                number += 1
                good = found_in_fpath(folder)
                failures += not good
                print(f"{'ok' if good else 'not ok'} {number} zsh finds the script in $fpath", flush=True)
            for words, wanted in CASES:
                number += 1
                got, errors = offered(shell, words, name)
                good = sorted(got) == sorted(wanted) and not errors
                failures += not good
                print(f"{'ok' if good else 'not ok'} {number} {shell} {' '.join(words)}" + ("" if good else f"\n# expected {wanted}, got {got} {errors}"),
                      flush=True)
    print(f"1..{number}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
