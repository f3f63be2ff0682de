#!/usr/bin/env python3
"""perigee.d.lua against the bindings: annotations_test.py PROGRAM FILE. Prints TAP."""
import re
import subprocess
import sys

program, file = sys.argv[1:]
text = open(file, encoding="utf-8").read()
LIST = """
local help, pg = require "perigee.help", require "perigee"
for name, value in pairs(pg) do
  if type(value) == "function" then print("function " .. help.path("pg.", name)) end
end
for _, entry in ipairs((help.entries())) do
  if entry.path then
    print("function " .. entry.full_path)
    for _, option in ipairs(entry.options) do
      if entry.family ~= "op" then print(("option perigee.%s.%s %s"):format(entry.family, entry.name, option.name)) end
    end
  end
end
for name in pairs(require("perigee.tensor").methods) do print("method " .. name) end"""
bindings = [line.split() for line in subprocess.run([program, "-e", LIST], capture_output=True, text=True, check=True).stdout.splitlines()]

classes, current = {}, None
for line in text.splitlines():
    if match := re.match(r"---@class ([\w.]+)", line):
        current = classes.setdefault(match[1], set())
    elif (match := re.match(r"---@field ([\w]+)\??", line)) and current is not None:
        current.add(match[1])
    elif not line.startswith("---"):
        current = None
functions = set(re.findall(r"^function ([\w.]+)\(", text, re.M)) | set(re.findall(r"^(pg[\w.]+) = pg", text, re.M)) | {
    name for name in re.findall(r'^(pg\["\w+"\]) = function', text, re.M)}
methods = set(re.findall(r"^function perigee_Tensor[.:](\w+)\(", text, re.M))

missing = []
for kind, *rest in bindings:
    if kind == "function" and rest[0] not in functions:
        missing.append(rest[0])
    elif kind == "option" and rest[1] not in classes.get(rest[0], ()):
        missing.append(f"{rest[0]}: {rest[1]}")
    elif kind == "method" and rest[0] not in methods:
        missing.append("a tensor's " + rest[0])
# Without a result a language server takes what a function gives for nothing.
silent, comment = [], []
for line in text.splitlines():
    if match := re.match(r"function ([\w.:]+)\(", line):
        if not any(each.startswith("---@return") for each in comment):
            silent.append(match[1])
    comment = [*comment, line] if line.startswith("---") else []
NOTHING = {"pg.save", "pg.seed", "pg.set", *(f"perigee_Run:{name}" for name in ("pause", "resume", "stop", "kick", "save", "on", "plot", "close"))}
used = set(re.findall(r"\bperigee\.[A-Z]\w*(?![\w.])", re.sub(r"---@class [^\n]*", "", text)))
undeclared = sorted(name for name in used if name not in classes)
loads = subprocess.run([program, "-e", f"assert(loadfile {file!r}) return nil"], capture_output=True, text=True)

checks = [("every function, option and method of the bindings is annotated", not missing and len(bindings) > 800, missing[:20] or len(bindings)),
          ("every class that is used is declared", not undeclared, undeclared),
          ("every function says what it gives", not set(silent) - NOTHING, sorted(set(silent) - NOTHING)),
          ("it is Lua", loads.returncode == 0, loads.stderr)]
for number, (name, good, detail) in enumerate(checks, 1):
    print(f"{'ok' if good else 'not ok'} {number} {name}" + ("" if good else f"\n# {detail}"))
print(f"1..{len(checks)}")
sys.exit(0 if all(good for _, good, _ in checks) else 1)
