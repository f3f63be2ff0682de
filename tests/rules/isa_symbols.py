#!/usr/bin/env python3
"""What is compiled for one instruction set must not be run by a machine without it.

The linker keeps one copy of each inline function or template instance, whichever file it came from. Were it a copy that was compiled
for AVX-512, every machine would run it. So the libraries named on the command line may define such functions only in a namespace of
their instruction set (PERIGEE_CPU_NAMESPACE) or, better, none: anonymous namespaces and `static` keep them private.
"""
import subprocess
import sys

NAMESPACES = ("perigee::cpu_baseline::", "perigee::cpu_avx2::", "perigee::cpu_avx512::")


def shared_functions(library):
    listing = subprocess.run(["nm", "-C", library], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) == 3 and parts[1] == "W" and not any(name in parts[2] for name in NAMESPACES):
            yield parts[2]


failures = [(library, name) for library in sys.argv[1:] for name in sorted(set(shared_functions(library)))]
for library, name in failures:
    print(f"{library}: shared with other instruction sets: {name}")
sys.exit(1 if failures or len(sys.argv) < 2 else 0)
