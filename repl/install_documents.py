#!/usr/bin/env python3
"""Mends the links of the installed documents: install_documents.py FOLDER EXAMPLES, below the prefix. `meson install` calls it.

A link to a file of the tree that is not installed becomes its text; one to an example of tests/api leads to where the examples are.
"""
import os
import pathlib
import re
import sys

LINK = re.compile(r"\[([^\]\[]+)\]\(([\w./-]+)((?:#[\w-]+)?)\)")


def mended(file, text, examples):
    def link(found):
        name, path, place = found.groups()
        if (file.parent / path).exists():
            return found[0]
        example = examples / pathlib.PurePath(path).name
        if example.is_file():
            return f"[{name}]({os.path.relpath(example, file.parent)}{place})"
        return name

    # Blocks of code stay as they are.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def main():
    prefix = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"])
    folder, examples = (prefix / name for name in sys.argv[1:])
    for file in sorted(folder.rglob("*.md")):
        text = file.read_text()
        if (changed := mended(file, text, examples)) != text:
            file.write_text(changed)


if __name__ == "__main__":
    main()
