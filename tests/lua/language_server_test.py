#!/usr/bin/env python3
"""A Lua language server on every script of models/ and on the scripts of the documentation, with perigee.d.lua: language_server_test.py FILE. Prints TAP.

The server is LuaLS (lua-language-server) or EmmyLua's (emmylua_ls), which reads the same annotations; neither is a Debian package, so where
there is none this is skipped, and annotations_test.py alone proves that everything is there.
"""
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from runner.examples import experiments  # noqa: E402
PATIENCE = 60
# Scripts with one mistake each that the annotations make visible; the line of the mistake, from 0.
WRONG = {
    "wrong_argument.lua": ('local pg = require "perigee"\nreturn pg.start(7)\n', 1),
    "wrong_part.lua": ('local pg = require "perigee"\nreturn pg.data.mnist().trian\n', 1),
    "wrong_name.lua": ('local pg = require "perigee"\nreturn pg.conv2dd { 20 }\n', 1),
    "wrong_method.lua": ('local pg = require "perigee"\nlocal x = pg.zeros(2)\nreturn x:summ()\n', 2),
}


class Server:
    def __init__(self, command, folder):
        self.child = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.buffer, self.number, self.found = b"", 0, {}
        answer = self.ask("initialize", {
            "processId": os.getpid(), "rootUri": folder.as_uri(), "workspaceFolders": [{"uri": folder.as_uri(), "name": "scripts"}],
            "capabilities": {"textDocument": {"publishDiagnostics": {}, "diagnostic": {}}, "workspace": {"configuration": False}}})
        self.pulls = "diagnosticProvider" in answer["capabilities"]
        self.tell("initialized", {})

    def write(self, message):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.child.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.child.stdin.flush()

    def tell(self, method, parameters):
        self.write({"method": method, "params": parameters})

    def read(self, seconds):
        """The next message, or None."""
        end = time.monotonic() + seconds
        while True:
            head = re.match(rb"(?:.*\r\n)*?Content-Length: (\d+)\r\n(?:.*\r\n)*?\r\n", self.buffer)
            if head and len(self.buffer) >= head.end() + int(head[1]):
                body = self.buffer[head.end():head.end() + int(head[1])]
                self.buffer = self.buffer[head.end() + int(head[1]):]
                return json.loads(body)
            if not select.select([self.child.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            part = os.read(self.child.stdout.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the server ended")
            self.buffer += part

    def handle(self, message):
        if message is None:
            raise RuntimeError("the server says nothing")
        if message.get("method") == "textDocument/publishDiagnostics":
            self.found[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "method" in message and "id" in message:  # it asks for its configuration, or registers something
            wanted = message.get("params") or {}
            self.write({"id": message["id"], "result": [None] * len(wanted["items"]) if "items" in wanted else None})

    def ask(self, method, parameters):
        self.number += 1
        self.write({"id": self.number, "method": method, "params": parameters})
        while True:
            message = self.read(PATIENCE)
            if message and message.get("id") == self.number and "method" not in message:
                return message.get("result")
            self.handle(message)

    def check(self, file):
        """What it finds wrong in a script: [(line, text)], lines from 0."""
        uri = file.as_uri()
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "lua", "version": 1, "text": file.read_text()}})
        if self.pulls:
            found = self.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})["items"]
        else:
            while uri not in self.found:
                self.handle(self.read(PATIENCE))
            found = self.found[uri]
        return [(each["range"]["start"]["line"], each["message"]) for each in found if each.get("severity", 1) <= 2]

    def close(self):
        self.child.kill()
        self.child.wait()


def scripts_of(folder):
    for model in experiments():
        shutil.copy(model, folder)
        yield folder / model.name
    documents = [*ROOT.glob("*.md"), *ROOT.glob("*/*.md")]
    blocks = [text for document in documents for text in re.findall(r"^```lua\n(local pg = .*?)^```$", document.read_text(), re.M | re.S)]
    for number, text in enumerate(blocks, 1):
        file = folder / f"block_{number}.lua"
        file.write_text(text)
        yield file


def main():
    annotations = pathlib.Path(sys.argv[1]).resolve()
    program = shutil.which("lua-language-server") or shutil.which("emmylua_ls")
    if not program:
        print("ok 1 a language server # SKIP neither lua-language-server nor emmylua_ls is installed\n1..1")
        return 0
    number, failures = 0, 0
    with tempfile.TemporaryDirectory(prefix="perigee-luals-") as name:
        folder = pathlib.Path(name).resolve()
        library = folder / "library"
        library.mkdir()
        shutil.copy(annotations, library)
        (folder / ".luarc.json").write_text(json.dumps({"runtime.version": "LuaJIT", "workspace.library": [str(library)]}))
        (folder / ".emmyrc.json").write_text(json.dumps({"runtime": {"version": "LuaJIT"}, "diagnostics": {"disable": ["access-invisible"]}, "workspace": {"library": [str(library)]}}))
        scripts = list(scripts_of(folder))
        for file, (text, _) in WRONG.items():
            (folder / file).write_text(text)
            scripts.append(folder / file)
        server = Server([program], folder)
        try:
            for script in scripts:
                number += 1
                found = server.check(script)
                good = [line for line, _ in found] == [WRONG[script.name][1]] if script.name in WRONG else not found
                failures += not good
                print(f"{'ok' if good else 'not ok'} {number} {script.name}" + "".join(f"\n# {line + 1}: {text}" for line, text in ([] if good else found)))
        finally:
            server.close()
    print(f"1..{number}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
