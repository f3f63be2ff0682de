#!/usr/bin/env python3
"""Sections of RESULTS.md: that a benchmark replaces its own and nothing else, and that every benchmark has one."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import results

HERE = pathlib.Path(__file__).resolve().parent
TEXT = "# Results\n\n<!-- a: begin -->\nold\n<!-- a: end -->\n\nprose\n\n<!-- b: begin -->\n<!-- b: end -->\ntail\n"


class Replaced(unittest.TestCase):
    def test_only_its_own_section(self):
        self.assertEqual(results.replaced(TEXT, "a", "new\n"), TEXT.replace("old\n", "\nnew\n\n"))

    def test_an_empty_section(self):
        self.assertIn("<!-- b: begin -->\n\nnew\n\n<!-- b: end -->\ntail\n", results.replaced(TEXT, "b", "new"))

    def test_twice_is_once(self):
        once = results.replaced(TEXT, "a", "new")
        self.assertEqual(results.replaced(once, "a", "new"), once)

    def test_a_section_that_is_missing_double_or_reversed(self):
        for text in ("", TEXT * 2, "<!-- a: end -->\n<!-- a: begin -->\n", TEXT.replace("<!-- a: end -->", "")):
            with self.assertRaisesRegex(ValueError, "a: begin"):
                results.replaced(text, "a", "new")


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "RESULTS.md"
        self.file.write_text(TEXT)

    def report(self, *arguments):
        with mock.patch.object(sys, "argv", ["bench.py", *arguments]):
            return results.Report(str(self.file), "./perigee bench")

    def test_what_is_printed_becomes_the_section(self):
        with contextlib.redirect_stdout(io.StringIO()) as screen, self.report("start", "--results", "FILE", "--quick").section("a"):
            print("| x |", flush=True)
        self.assertEqual(screen.getvalue(), "| x |\n")
        self.assertRegex(self.file.read_text(), r"begin -->\n\nMachine: .* cores, load .*\. Date: \d{4}-\d\d-\d\d\. Command: "
                                                r"`./perigee bench start --quick`\n\n\| x \|\n\n<!-- a: end")

    def test_a_benchmark_that_fails_writes_nothing(self):
        with contextlib.suppress(RuntimeError), contextlib.redirect_stdout(io.StringIO()), self.report().section("a"):
            print("half")
            raise RuntimeError
        self.assertEqual(self.file.read_text(), TEXT)

    def test_a_missing_section_is_told_before_anything_is_measured(self):
        self.report().check("a", "b")
        with self.assertRaisesRegex(SystemExit, "c: begin"):
            self.report().check("a", "c")

    def test_without_a_file_nothing_is_kept(self):
        report = results.Report(None, "./perigee bench")
        report.check("c")
        with report.section("c"):
            pass


class Sections(unittest.TestCase):
    def names(self, folder, expression):
        done = subprocess.run([sys.executable, "-c", f"import {expression.split('.')[0]}; print(*{expression})"], cwd=folder, check=True,
                              capture_output=True, text=True)
        return done.stdout.split()

    def test_every_benchmark_has_one(self):
        wanted = ["cluster/bench.py", *(f"bench.py {name}" for name in ["training", *self.names(HERE, "bench.EXTRA")]),
                  *(f"experiments.py {name}" for name in self.names(HERE / "cluster", "experiments.known_rows()"))]
        self.assertGreater(len(wanted), 25)
        text = (HERE / "RESULTS.md").read_text()
        for name in wanted:
            results.replaced(text, name, "")


if __name__ == "__main__":
    unittest.main()
