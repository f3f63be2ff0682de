#!/usr/bin/env python3
"""Stores with real servers: stores_test.py [--quick] [NAME...]. Prints TAP; a name chooses the tests that begin with it.

What the servers need is installed into ~/.cache/perigee-test-servers at the first run (about 600 MB).
"""
import argparse
import pathlib
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kit
import servers

import hdfs_cases  # noqa: F401
import publish_cases  # noqa: F401
import run_cases  # noqa: F401
import s3_cases  # noqa: F401  registers its tests
import web_cases  # noqa: F401


class World:
    """Servers, each started when a test first asks for it."""

    def __init__(self, folder, quick):
        self.folder, self.quick, self.running, self.missing = folder, quick, {}, {}

    def server(self, name, make):
        if name in self.missing:  # what did not start once is not tried again
            raise self.missing[name]
        if name not in self.running:
            try:
                self.running[name] = make()
            except servers.Missing as missing:
                self.missing[name] = missing
                raise
        return self.running[name]

    @property
    def moto(self):
        return self.server("moto", lambda: servers.Moto(self.folder))

    @property
    def sshd(self):
        return self.server("sshd", lambda: servers.Sshd(self.folder))

    @property
    def hdfs(self):
        return self.server("hdfs", lambda: servers.Hdfs(self.folder))

    def s3(self, **more):
        return kit.environment(self.folder, **{**self.moto.env(), **more})

    def file(self, name, content):
        path = self.folder / "files" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def note(self, text):
        print(f"# {text}", flush=True)

    def stop(self):
        for server in self.running.values():
            server.stop()
        for process in servers.STARTED:
            process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of the long ones")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    chosen = [(name, run) for name, run in kit.TESTS if not args.names or any(name.startswith(n) for n in args.names)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="perigee-stores-") as folder:
        world = World(pathlib.Path(folder), args.quick)
        try:
            for number, (name, run) in enumerate(chosen, 1):
                start = time.monotonic()
                try:
                    run(world)
                    print(f"ok {number} {name} # {time.monotonic() - start:.1f} s", flush=True)
                except servers.Missing as missing:
                    print(f"ok {number} {name} # SKIP {str(missing)[:300]}", flush=True)
                except Exception:  # whatever a test raises is its failure
                    failed += 1
                    print(f"not ok {number} {name}\n" + "".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
        finally:
            world.stop()
    print(f"1..{len(chosen)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
