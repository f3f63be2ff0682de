#!/usr/bin/env python3
"""Which files are compiled together (src/combine.py): all of them, each once, in parts of about one size, and none beside one that would hide its names."""
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src"))
sys.dont_write_bytecode = True  # the tree stays clean
import combine  # noqa: E402

OWN = "namespace area {{\nnamespace {{\n\n{}\n\n}}  // namespace\n}}  // namespace area\n"


class Combine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source, self.build = pathlib.Path(folder.name), pathlib.Path(folder.name) / "build"

    def write(self, folder="src", **files):
        for name, text in files.items():
            path = self.source / folder / "area" / f"{name}.cpp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return ":".join(f"area/{name}.cpp" for name in files)

    def units(self, files, combined="true", folder="src"):
        """What is compiled, as lists of the files in it."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            combine.main(self.source, self.build, combined, "part", folder, files)
        found = []
        for line in printed.getvalue().split():
            path = pathlib.Path(os.path.normpath(self.source / folder / line))
            included = re.findall(rf'^#include "{folder}/area/(\w+)\.cpp"$', path.read_text(), re.MULTILINE) if "combined" in path.parts else [path.stem]
            found.append(included)
        return found

    def test_small_files_are_one_unit_in_their_order(self):
        self.assertEqual(self.units(self.write(b="int b;\n", a="int a;\n", c="int c;\n")), [["b", "a", "c"]])

    def test_each_file_is_compiled_by_itself_if_asked(self):
        self.assertEqual(self.units(self.write(b="int b;\n", a="int a;\n"), combined="false"), [["b"], ["a"]])

    def test_parts_are_of_about_one_size(self):
        files = {f"f{number}": "//" + "x" * (combine.UNIT_BYTES // 8) for number in range(24)}
        parts = self.units(self.write(**files))
        self.assertEqual([len(part) for part in parts], [8, 8, 8])
        self.assertEqual(sum(parts, []), list(files))

    def test_a_file_that_defines_a_macro_for_a_header_stays_alone(self):
        files = self.write(a="int a;\n", b='#define WIDTH 3\n\n#include "table.h"\n', c="#define AT_THE_END 1\nint c;\n#undef AT_THE_END\n")
        self.assertEqual(self.units(files), [["b"], ["a", "c"]])

    def test_files_that_each_have_a_name_of_their_own_are_apart(self):
        for own in ("int open(int a) { return a; }", "constexpr int kSize[] = {1, 2};", "struct Case {\n  int a;\n};", "const char* const kText = R\"(x)\";",
                    "using Numbers = std::vector<int>;", "std::map<std::string, std::pair<int, int>> found;", "class Site final : public Base {};",
                    "template <class T>\nconst std::vector<T>& parts_of(const T& whole) {\n  return whole;\n}", "enum class Kind { a, b };"):
            mine = OWN.format(own)
            self.assertEqual(self.units(self.write(a=mine, b="int b;\n", c=mine, d=mine)), [["a", "b"], ["c"], ["d"]], own)

    def test_the_name_of_a_function_stands_before_its_parameters(self):
        one, other = (OWN.format(f"std::string open(const std::string& a, const Json& {given} = defaults()) {{\n  return a;\n}}") for given in ("a", "b"))
        self.assertEqual(self.units(self.write(a=one, b=other)), [["a"], ["b"]])

    def test_a_test_is_apart_from_one_that_has_what_it_calls(self):
        for own, use in (("int open(int a) { return a; }", "open(3);"), ("struct Case {};", "std::vector<Case> cases;"), ("constexpr int kSize = 1;", "int a = kSize;")):
            mine, other = OWN.format(own), OWN.format("void f() {\n  " + use + "\n}")
            for first, second in ((mine, other), (other, mine)):
                files = self.write(folder="tests", a=first, b=second)
                self.assertEqual(self.units(files, folder="tests"), [["a"], ["b"]], own)
        for use in ("file.open(3);", "file->open(3);", "io::open(3);", "// open(3)", 'say("open(3)");', "int open = 1;"):
            files = self.write(folder="tests", a=OWN.format("int open(int a) { return a; }"), b=OWN.format("void f() {\n  " + use + "\n}"))
            self.assertEqual(self.units(files, folder="tests"), [["a", "b"]], use)

    def test_a_macro_of_two_files_keeps_them_apart_unless_it_ends(self):
        mine = "int a;\n#define NEEDS(x) x\n"
        self.assertEqual(self.units(self.write(a=mine, b=mine)), [["a"], ["b"]])
        self.assertEqual(self.units(self.write(a=mine + "#undef NEEDS\n", b=mine + "#undef NEEDS\n")), [["a", "b"]])

    def test_tests_and_local_names_keep_nothing_apart(self):
        a, b = (OWN.format(f"TEST(Suite, {name}) {{\n  int open = 1;\n  struct Case {{}};\n}}") for name in "AB")
        self.assertEqual(self.units(self.write(a=a, b=b)), [["a", "b"]])

    def test_a_short_name_of_a_namespace_may_be_said_twice(self):
        mine = OWN.format("namespace fs = std::filesystem;")
        self.assertEqual(self.units(self.write(a=mine, b=mine)), [["a", "b"]])

    def test_what_all_may_see_keeps_nothing_apart(self):
        self.assertEqual(self.units(self.write(a="int f(int a) { return a; }\n", b="int f(long a) { return 0; }\n")), [["a", "b"]])

    def test_an_unchanged_unit_is_not_written_again(self):
        files = self.write(a="int a;\n", b="int b;\n")
        self.units(files)
        unit = self.build / "combined" / "part_src_area_0.cpp"
        os.utime(unit, (1, 1))
        self.units(files)
        self.assertEqual(unit.stat().st_mtime, 1)
        self.units(self.write(a="int a;\n", b="int b;\n", c="int c;\n"))
        self.assertNotEqual(unit.stat().st_mtime, 1)


if __name__ == "__main__":
    unittest.main()
