#!/usr/bin/env python3
"""Makes a wheel of what is built: wheel.py BUILD FOLDER, called by `./perigee package`. Nothing is compiled or fetched.

`pip install perigee-….whl` puts the same files as `meson install` into the environment: the program on the PATH, the library with its
headers, the module for LuaJIT. There is no Python code in it. The libraries that libperigee needs and that not every Linux has go beside it,
with their licences. The platform tag names the newest glibc whose symbols are used. Where the build packs the library's relocations, which
the loader of glibc 2.35 does not know, the wheel gets a library that is linked without it.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Libraries of the platform, which a manylinux wheel takes from the system (PEP 600).
PLATFORM = re.compile(r"^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|z)\.so.*)$")


def output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def is_elf(file):
    with open(file, "rb") as opened:
        return not file.is_symlink() and opened.read(4) == b"\x7fELF"


def use_plain_relocations(build, prefix):
    """Replaces a library with packed relocations by `perigee_wheel` of repl/meson.build."""
    library = next(file for file in prefix.rglob("libperigee.so.*") if is_elf(file))
    if "GLIBC_ABI_DT_RELR" not in output("readelf", "-V", library):
        return
    output("meson", "compile", "-C", build, "perigee_wheel")
    output("strip", build / "repl" / "libperigee_wheel.so", "-o", library)


def bundle_libraries(prefix):
    """Copies what libperigee needs into its folder, where its run path leads."""
    library = next(file for file in prefix.rglob("libperigee.so.*") if is_elf(file))
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", library), re.M):
        if PLATFORM.match(name):
            continue
        file = pathlib.Path(path).resolve()
        shutil.copy(file, library.parent / name)
        package = output("dpkg-query", "-S", f"*/{file.name}").split(":")[0]
        licences = prefix / "share" / "doc" / "perigee" / "libraries"
        licences.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"/usr/share/doc/{package}/copyright", licences / f"{package}.txt")


def without_links(prefix):
    """A wheel holds no symbolic links: the library has the name that programs need at run time, and a text leads the linker to it."""
    for full in list(prefix.rglob("libperigee.so.*.*.*")):
        short = full.with_name("libperigee.so." + full.name.split(".")[2])
        short.unlink()
        full.rename(short)
        full.with_name("libperigee.so").unlink()
        full.with_name("libperigee.so").write_text(f"INPUT(-l:{short.name})\n")
    links = [file for file in prefix.rglob("*") if file.is_symlink()]
    assert not links, f"a wheel cannot hold the link {links[0]}"


def newest_glibc(files):
    versions = [tuple(map(int, v.split("."))) for file in files for v in re.findall(r"\bGLIBC_(\d+\.\d+)", output("readelf", "-V", file))]
    return max(versions)


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write_wheel(prefix, folder, version, tag):
    info = f"perigee-{version}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: perigee\nVersion: {version}\nSummary: trains neural networks on one machine or on many\n"
                "License: Apache-2.0\nRequires-Python: >=3.7\n")
    entries = {f"perigee-{version}.data/data/{file.relative_to(prefix)}": (file.read_bytes(), file.stat().st_mode)
               for file in sorted(prefix.rglob("*")) if file.is_file()}
    entries[f"{info}/METADATA"] = (metadata.encode(), 0o644)
    entries[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: perigee\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode(), 0o644)
    entries[f"{info}/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    record = "".join(record_line(name, content) for name, (content, _) in entries.items()) + f"{info}/RECORD,,\n"
    entries[f"{info}/RECORD"] = (record.encode(), 0o644)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"perigee-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in entries.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode & 0o777) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel


def main():
    build, folder = map(pathlib.Path, sys.argv[1:3])
    version = re.search(r"^ *version: '(.*)',$", (ROOT / "meson.build").read_text(), re.M)[1]
    with tempfile.TemporaryDirectory() as work:
        output("meson", "install", "-C", build, "--destdir", work, "--no-rebuild", "--strip", "--quiet")
        prefix = next(pathlib.Path(work).rglob("bin/perigee")).parents[1]
        use_plain_relocations(build, prefix)
        bundle_libraries(prefix)
        without_links(prefix)
        for file in prefix.rglob("perigee.pc"):
            depth = len(file.parent.relative_to(prefix).parts)
            file.write_text(re.sub(r"^prefix=.*$", "prefix=${pcfiledir}" + "/.." * depth, file.read_text(), flags=re.M))
        major, minor = newest_glibc([file for file in prefix.rglob("*") if file.is_file() and is_elf(file)])
        print(write_wheel(prefix, folder, version, f"manylinux_{major}_{minor}_{os.uname().machine}"))


if __name__ == "__main__":
    main()
