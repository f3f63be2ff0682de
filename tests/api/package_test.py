#!/usr/bin/env python3
"""The Debian package on a clean Debian 12: package_test.py BUILD. `./perigee test package` runs it.

Makes the package, a Debian 12 root with debootstrap, installs the package there as apt does, and runs program, C example and C++ library
in it. Exits with 77 and the reason where that cannot be done: it needs root, debootstrap and a Debian mirror.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIRROR = os.environ.get("PERIGEE_DEBIAN_MIRROR", "http://deb.debian.org/debian")
MINUTES = 60


def run(*command, timeout=5 * MINUTES):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=timeout, env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def clean_root(folder):
    try:
        run("debootstrap", "--variant=minbase", "bookworm", folder, MIRROR, timeout=15 * MINUTES)
        shutil.copy("/etc/resolv.conf", folder / "etc" / "resolv.conf")
        run("chroot", folder, "apt-get", "update", "-q")
    except RuntimeError as error:
        skip(f"no Debian root can be made here: {error}")


def check(root, package):
    def inside(*command, **options):
        return run("chroot", root, *command, **options)

    shutil.copy(package, root / "perigee.deb")
    inside("apt-get", "install", "-q", "-y", "--no-install-recommends", "/perigee.deb", timeout=15 * MINUTES)
    version = inside("perigee", "version")
    assert re.fullmatch(r"perigee \d+\.\d+\.\d+\n", version), version
    for place in ("man/man1/perigee-train.1.gz", "zsh/vendor-completions/_perigee", "bash-completion/completions/perigee.bash", "perigee/models/lenet.lua"):
        assert (root / "usr" / "share" / place).is_file(), place
    assert "total" in inside("perigee", "describe", "/usr/share/perigee/models/siamese.lua")
    (root / "job.json").write_text('{"network": {"type": "sequential", "layers": [{"type": "dense", "out": 10}]}, "loss": "cross_entropy", "optimizer": {"type": "adam"},'
                                   ' "data": {"train": {"type": "digits", "part": "train", "size": 500}, "batch": 20}, "epochs": 2, "seed": 1}')
    said = inside("perigee", "train", "/job.json", "--log", "json", "--out", "/run")
    assert '"event":"end"' in said and (root / "run" / "model.safetensors").exists(), said[-2000:]
    assert not [line for line in inside("dpkg", "--verify", "perigee").splitlines() if line], "installed files differ from the package"

    inside("apt-get", "install", "-q", "-y", "--no-install-recommends", "g++", "pkg-config", timeout=15 * MINUTES)
    for compiler, example in (("cc", "example.c"), ("c++ -std=c++20", "example_online.cpp")):
        said = inside("sh", "-c", f"cd /tmp && {compiler} /usr/share/doc/perigee/examples/{example} $(pkg-config --cflags --libs perigee) && ./a.out")
        assert said.strip(), example
    inside("apt-get", "remove", "-q", "-y", "perigee")
    left = [p for p in (root / "usr").rglob("*perigee*")]
    assert not left, f"left behind: {left}"


def main():
    if os.geteuid() != 0:
        skip("needs root")
    for program in ("debootstrap", "dpkg-deb", "dpkg-shlibdeps"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix="perigee-package-") as folder:
        package = run("bash", ROOT / "repl" / "package.sh", sys.argv[1], folder).strip().splitlines()[-1]
        root = pathlib.Path(folder) / "root"
        clean_root(root)
        check(root, package)
        print(f"{os.path.basename(package)}: {os.path.getsize(package) / 2**20:.1f} MB; installed, run and removed on a clean Debian 12")


if __name__ == "__main__":
    main()
