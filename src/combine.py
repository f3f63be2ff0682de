#!/usr/bin/env python3
"""Writes files that include others, so that those are compiled together. Most of the time of compiling a file goes into its headers and
templates: many files cost little more than one.

    combine.py SOURCE BUILD COMBINED NAME FOLDER FILE:FILE…    prints what to compile in place of FOLDER's
                                                               files, relative to it

SOURCE and BUILD are the roots of the tree and of the build, COMBINED is true or false. Files of an area of the tree, such as src/nn, come
together in the order that they are given in. One that defines a macro for a header stays alone, and two that have a name each for itself are
kept apart: the program has unique names (CONTRIBUTING.md), files of tests may each have an `open` of their own, or call another `open`.
"""
import os
import re
import sys
from pathlib import Path

UNIT_BYTES = 250000  # a third less compiling than with 64,000, which pays for each header four times; an edited unit takes 15 s


def areas_of(source, files):
    """{area: files} and the files that stay alone."""
    areas, alone = {}, []
    for file in files:
        if re.search(r'^#define[^\n]*\n+#include', (source / file).read_text(), re.MULTILINE):
            alone.append(file)
        else:
            areas.setdefault('_'.join(Path(file).parts[:-1][:2]), []).append(file)
    return areas, alone


def own_names(text):
    """What a file's anonymous namespaces and macros name at the margin, where clang-format puts declarations."""
    names = set(re.findall(r'^#define (\w+)', text, re.MULTILINE)) - set(re.findall(r'^#undef (\w+)', text, re.MULTILINE))
    for inside in re.findall(r'^namespace {$(.*?)^}  // namespace$', text, re.MULTILINE | re.DOTALL):
        for line in re.findall(r'^(?!namespace )[A-Za-z][^\n]*', inside, re.MULTILINE):  # `namespace fs = …` may be said twice
            found = re.match(r'(?:struct|class|union|enum(?: class)?|using) (\w+)', line) or \
                re.match(r'(?:[\w:<>,&*\[\]() ]*?[ &*>])??(\w+)(?:\[\w*\])* ?[({=;]', line)
            names.update(found.groups() if found else ())
    return {name for name in names if not re.match(r'(INSTANTIATE_)?TEST|TYPED_TEST|(namespace|template|void)$', name)}


def used_names(text):
    """Functions that a file calls by their bare names, and the types and constants that it mentions."""
    code = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', '', text)
    return {call or other for call, other in re.findall(r'(?<![\w.>:])(\w+)\(|(?<![\w.>:])(?=k?[A-Z])(\w+)', code)}


def cut(source, files, of_tests=False):
    """The files in parts of about the same size, in none of which two have a name each; of tests, none calls what is another's."""
    sizes = [(source / file).stat().st_size for file in files]
    count = max(1, round(sum(sizes) / UNIT_BYTES))
    parts, owned, used = [[] for _ in range(count)], [set() for _ in range(count)], [set() for _ in range(count)]
    for number, file in enumerate(files):
        text = (source / file).read_text()
        own, uses = own_names(text), used_names(text) if of_tests else set()
        first = sum(sizes[:number]) * count // sum(sizes)
        fits = (place for place in [*range(first, len(parts)), *range(first)] if not own & (owned[place] | used[place]) and not uses & owned[place])
        place = next(fits, len(parts))
        if place == len(parts):
            parts, owned, used = [*parts, []], [*owned, set()], [*used, set()]
        parts[place].append(file)
        owned[place] |= own
        used[place] |= uses
    return [part for part in parts if part]


def write(path, text):
    if not path.exists() or path.read_text() != text:  # else nothing is compiled again
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(source, build, combined, name, folder, files):
    files = [os.path.normpath(os.path.join(folder, file)) for file in files.split(':')]
    areas, units = areas_of(source, files) if combined == 'true' else ({}, files)
    for area, members in areas.items():
        for number, part in enumerate(cut(source, members, of_tests=area.startswith('tests'))):
            unit = build / 'combined' / f'{name}_{area}_{number}.cpp'
            write(unit, ''.join(f'#include "{file}"\n' for file in part))
            units.append(unit)
    for unit in units:
        print(os.path.relpath(source / unit, source / folder))


if __name__ == '__main__':
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
