#!/usr/bin/env python3
"""Installs Perigee into a folder and uses it from there as another project would: pkg-config, CMake, all installed examples.

    install_test.py BUILD    (the build folder; `./perigee test install` runs this)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="perigee-install-")
        cls.root = pathlib.Path(cls.folder.name)
        run("meson", "install", "-C", BUILD, "--destdir", cls.root, "--no-rebuild", "--strip", "--quiet")
        pkgconfig = next(cls.root.rglob("perigee.pc"))
        cls.library = next(cls.root.rglob("libperigee.so"))
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig.parent), "PKG_CONFIG_SYSROOT_DIR": str(cls.root),
                           "LD_LIBRARY_PATH": str(cls.library.parent)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def flags(self):
        return run("pkg-config", "--cflags", "--libs", "perigee", env=self.environment).split()

    def build_and_run(self, *command):
        with tempfile.TemporaryDirectory() as place:
            program = pathlib.Path(place) / "program"
            run(*command, "-o", program, *self.flags(), env=self.environment)
            return run(program, env=self.environment, cwd=place, timeout=300)

    def test_cpp_program_trains(self):
        said = self.build_and_run("c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", ROOT / "tests/api/example.cpp")
        self.assertRegex(said, r"epoch 3: loss 0\.")
        self.assertRegex(said, r"accuracy (0\.9|1\.0)")

    def test_c_program_trains(self):
        said = self.build_and_run("cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", ROOT / "tests/api/example.c")
        self.assertRegex(said, r"y = (2\.9|3\.0)\d* a \+ -(1\.9|2\.0)\d* b")

    # The installed examples are built in place: CMake finds the library, each example runs and judges its own result.
    def test_cmake_builds_the_installed_examples(self):
        config = next(self.root.rglob("perigee-config.cmake"))
        examples = next(self.root.rglob("examples/CMakeLists.txt")).parent
        with tempfile.TemporaryDirectory() as build:
            run("cmake", "-S", examples, "-B", build, f"-Dperigee_DIR={config.parent}", "-DCMAKE_BUILD_TYPE=MinSizeRel",
                "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", env=self.environment)
            run("cmake", "--build", build, env=self.environment)
            programs = sorted(p for p in pathlib.Path(build).iterdir() if p.name.startswith("example"))
            self.assertEqual(len(programs), len(list(examples.glob("example*.c*"))))
            for program in programs:
                if program.name.startswith("example_predict"):
                    continue  # it takes a model and a table: example_predict_test.py
                said = run(program, env=self.environment, cwd=build, timeout=300)
                self.assertTrue(said.strip(), program.name)
        with tempfile.TemporaryDirectory() as project:
            pathlib.Path(project, "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C)\nfind_package(perigee 0.2)\n"
                'if(perigee_FOUND)\n message(FATAL_ERROR "a later version was found")\nendif()\n')
            run("cmake", "-S", project, "-B", f"{project}/b", f"-Dperigee_DIR={config.parent}", env=self.environment)

    def test_examples_are_short(self):
        for name in ("example.c", "example.cpp"):
            self.assertLessEqual(len((ROOT / "tests/api" / name).read_text().splitlines()), 30, name)

    def test_readme_shows_the_example(self):
        self.assertIn((ROOT / "tests/api/example.cpp").read_text(), (ROOT / "models/README.md").read_text())

    # The symbols that leave the library are those that perigee.h declares: no more, so that nothing of ours or of the C++ library
    # collides with the host program; no fewer, so that what the header promises links.
    def test_exported_symbols(self):
        header = (ROOT / "src/api/perigee.h").read_text()
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        declared = set(re.findall(r"PERIGEE_API\b[^;]*?\b(perigee_\w+)\(", header))
        listed = run("nm", "-D", "--defined-only", self.library)
        exported = {line.split()[2] for line in listed.splitlines() if line.split()[1] != "A"}
        self.assertGreater(len(declared), 40)
        self.assertEqual(exported, declared | {"perigee_main", "perigee_luaopen"})  # what the program and the Lua module are doors to

    def test_what_is_installed(self):
        here = {str(p.relative_to(self.root)).split("/", 2)[-1] for p in self.root.rglob("*") if p.is_file()}
        text = "\n".join(sorted(here))
        for wanted in (r"bin/perigee$", r"include/perigee\.h$", r"include/perigee\.hpp$", r"include/perigee_rules\.hpp$",
                       r"man1/perigee\.1$", r"man1/perigee-train\.1$", r"completions/perigee\.bash$", r"site-functions/_perigee$",
                       r"vendor_completions\.d/perigee\.fish$", r"perigee/lua/REFERENCE\.md$", r"perigee/models/coming_from/keras\.md$",
                       r"luals/perigee\.d\.lua$", r"pkgconfig/perigee\.pc$", r"cmake/perigee/perigee-config-version\.cmake$", r"libperigee\.so\.0$"):
            self.assertRegex(text, re.compile(wanted, re.M))

        program = next(self.root.rglob("bin/perigee"))
        self.assertRegex(run(program, "version"), r"\d+\.\d+\.\d+")
        models = next(self.root.rglob("perigee/models"))
        tracked = {p.relative_to(ROOT / "models") for p in (ROOT / "models").rglob("*") if p.is_file() and "runs" not in p.parts}
        self.assertEqual({p.relative_to(models) for p in models.rglob("*") if p.is_file()}, tracked)
        self.assertIn("total", run(program, "describe", models / "siamese.lua"))

    def test_links_of_documents_lead_somewhere(self):
        documents = next(self.root.rglob("share/perigee"))
        count = 0
        for file in documents.rglob("*.md"):
            text = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.M | re.S)
            for path in re.findall(r"\[[^\]\[]+\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
                if not path.startswith("http"):
                    count += 1
                    self.assertTrue((file.parent / path).exists(), f"{file.relative_to(documents)}: {path}")
        self.assertGreater(count, 50)
        self.assertTrue((documents / "../doc/perigee/examples/example_predict.c").exists())
        self.assertIn("doc/perigee/examples/example_predict.c)", (documents / "README.md").read_text())

    # The tree that `luarocks make` fills is self-contained: the library beside the module is the one that is loaded.
    @unittest.skipUnless(shutil.which("luarocks") and shutil.which("luajit"), "luarocks or luajit is not installed")
    @unittest.skipUnless(BUILD == ROOT / "build", "the rockspec builds in build/")
    def test_rock(self):
        with tempfile.TemporaryDirectory() as tree:
            run("luarocks", "--lua-version", "5.1", "make", "--tree", tree, "lua/perigee-0.1.0-1.rockspec", cwd=ROOT, timeout=300)
            script = """local pg = require "perigee"
                print(pg.version, (pg.arange(6) * 2):sum():item())
                local experiment = pg.experiment { network = pg.sequential { pg.flatten {}, pg.dense { 10 } }, loss = "cross_entropy",
                  optimizer = pg.sgd { lr = 0.1 }, data = { train = pg.data.digits { part = "train", size = 64, endless = false }, batch = 16 }, epochs = 1 }
                print(pg.start(experiment, { folder = false }):wait(60).state)
                for line in io.lines "/proc/self/maps" do if line:find "libperigee" then print(line:match "/.*") break end end"""
            environment = {**os.environ, "LUA_CPATH": f"{tree}/lib/lua/5.1/?.so"}
            version, state, library = run("luajit", "-e", script, env=environment, cwd=tree, timeout=120).splitlines()
            self.assertEqual((version, state), ("0.1.0\t42", "finished"))
            self.assertEqual(pathlib.Path(library).parent.resolve(), pathlib.Path(tree).resolve() / "lib/lua/5.1")

    @unittest.skipUnless(shutil.which("luajit"), "luajit is not installed")
    def test_stock_luajit(self):
        module = next(self.root.rglob("lua/5.1/perigee.so"))
        script = """
            local pg = require "perigee"
            local net = pg.sequential { pg.conv2d { 20, kernel = 5 }, pg.dense { 10 } }
            local ok, message = pcall(function() local layer = pg.conv2d { 20, kernal = 5 } return layer end)
            assert(not ok and message:find "did you mean 'kernel'", message)
            print(pg.version, #net.layers, (pg.arange(4) + 1):sum():item())"""
        done = subprocess.run(["luajit", "-e", script], env={**os.environ, "LUA_CPATH": str(module.parent / "?.so")}, capture_output=True, text=True)
        self.assertEqual((done.stdout.split(), done.stderr), (["0.1.0", "2", "14"], ""))

    def test_size(self):
        size = sum(p.stat().st_size for p in self.root.rglob("*") if p.is_file() and not p.is_symlink())
        print(f"{size / 2**20:.1f} MB are installed")
        # The aim is 12, which the library alone keeps (11.9); the CUDA module has 2.7, and texts, headers and models 1.3. Kernels of recurrent
        # layers and attention, each for three instruction sets and for CUDA, have brought 1.5; tables, tokenizers, stores and launchers 1.5;
        # readers of eleven formats, sessions with a memory and word vectors on workers 0.6; tables beyond memory, Arrow's interface, layers of
        # sound and partitions 0.5. Packing has taken 1 back.
        self.assertLess(size, 16.5 * 2**20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
