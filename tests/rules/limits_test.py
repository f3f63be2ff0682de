#!/usr/bin/env python3
"""The limits that lint.py checks (limits.py), on text that keeps them and on text that does not."""
import unittest

import limits
import op_names


def long_function(head, lines=70):
    return head + " {\n" + "  step();\n" * (lines - 2) + "}\n"


class Functions(unittest.TestCase):
    def problems(self, source, file="src/x.cpp"):
        return list(limits.function_problems(file, source))

    def test_a_long_function_is_found_by_name_and_line(self):
        self.assertEqual(self.problems("int x;\n" + long_function("int Trainer::run(int a, Map<int> b) const")),
                         [":2: Trainer::run has 70 lines; at most 60"])

    def test_functions_of_namespaces_and_classes_count_alone(self):
        body = long_function("  void f()", 40) * 3
        self.assertEqual(self.problems("namespace a {\nnamespace {\nclass B : public C<int> {\n" + body + "};\n}\n}\n"), [])
        self.assertEqual(len(self.problems("namespace a {\nstruct B {\n" + long_function("  void f()") + "};\n}\n")), 1)

    def test_lambdas_and_blocks_belong_to_their_function(self):
        self.assertEqual(len(self.problems("void f() {\n" + long_function("  run([&](int i)", 40) + ");\n" + long_function("  for (;;)", 40) + "}\n")), 1)

    def test_tables_comments_and_strings_are_no_functions(self):
        table = "const Op kOps[] = {\n" + '  {.name = "x", .f = make(1)},\n' * 80 + "};\n"
        self.assertEqual(self.problems(table + "// void f() {\n" * 80 + 'const char* s = "f() {";\n' + "#define M(x) { \\\n" + "  x; \\\n" * 80 + "}\n"), [])

    def test_a_constructor_with_initialisers_is_one(self):
        self.assertEqual(len(self.problems(long_function("A::A(int x) : b_(x), c_{x}"))), 1)

    def test_tests_have_no_limit(self):
        self.assertEqual(self.problems(long_function("TEST(A, B)"), "tests/core/x.cpp"), [])


class Comments(unittest.TestCase):
    def problems(self, file, source):
        return len(list(limits.comment_problems(file, source)))

    def test_a_comment_that_is_no_sentence_is_found(self):
        self.assertEqual(self.problems("kernels/x.cpp", "int a;  // Of each step.\n// What it costs.\n"), 2)
        self.assertEqual(self.problems("tests/x.py", "# What is tested\n"), 1)

    def test_continued_lines_and_other_words_are_not(self):
        self.assertEqual(self.problems("kernels/x.cpp", "// One of the kinds\n// Of Bayes. Office. Whatever.\n"), 0)

    def test_folders_that_are_not_listed_are_left(self):
        self.assertEqual(self.problems("elsewhere/x.cpp", "// What it is\n"), 0)


class OpNames(unittest.TestCase):
    NAMES = {"add", "cast", "relu", "softmax", "sub"}

    def problems(self, source, file="src/graph/passes/x.cpp"):
        return list(op_names.op_name_problems(file, source, self.NAMES))

    def test_names_are_those_that_the_ops_define(self):
        self.assertEqual(op_names.op_names(['{.name = "cast", .doc = "x"},', 'elementwise_unary("neg", "-x.")\nelementwise_binary(\n  "add", "a"']),
                         {"cast", "neg", "add"})

    def test_questions_are_found(self):
        for line in ('if (name == "relu") f();', 'if ("relu" != name) f();', 'strcmp(op, "cast") == 0', 'is_op(node, "add")',
                     'std::string_view(node.op->name) == "sub"', 'key == "add" ? a : b', 'name.starts_with("softmax")'):
            self.assertEqual(len(self.problems("\n" + line)), 1, line)
        self.assertIn(':2: asks for the op "relu"', self.problems('\nif (name == "relu") f();')[0])

    def test_tables_are_found(self):
        for text in ('constexpr const char* kCheap[] = {"add", "sub"};', 'const std::set<std::string> kOps = {"add",\n  "cast"};',
                     'constexpr Entry kTable[] = {\n    {"add", 2, f},\n    {"relu", 1, g}};', 'for (auto op : {"add", "relu"}) f(op);'):
            self.assertEqual(len(self.problems(text)), 1, text)

    def test_to_append_an_op_is_no_question(self):
        for line in ('graph.apply("add", {a, b})', 'Value relu(Value x) { return build_unary("relu", x); }', 'op_named("cast")', '// == "add"',
                     'const Kernel kernel = {.op = "cast", .name = "ref"};', 'if (name == "other") f();', 'const Value y = f(x, "add");'):
            self.assertEqual(self.problems(line), [], line)

    def test_ops_and_folders_with_words_of_their_own_are_left(self):
        for file in ("src/graph/ops/x.cpp", "kernels/ops/x.h", "src/data/transforms/x.cpp", "tests/graph/x.cpp"):
            self.assertEqual(self.problems('if (name == "relu") f();', file), [], file)
        self.assertEqual(self.problems('if (type == "softmax") f();', "src/nn/activations.cpp"), [])
        self.assertEqual(len(self.problems('if (type == "add") f();', "src/nn/activations.cpp")), 1)


class Others(unittest.TestCase):
    def test_a_folder_with_too_many_entries_is_found(self):
        files = [f"src/many/{n}.cpp" for n in range(41)] + [f"src/nn/layers/{n}.cpp" for n in range(99)] + ["src/few/a.cpp"]
        self.assertEqual([folder for folder, problems in limits.folder_problems(files) if problems], ["src/many"])

    def test_subjects(self):
        for good in ("graph: key plans by shape", "src/api,lua: name the axes", "tests/cuda: watch every access"):
            self.assertEqual(limits.subject_faults(good), [], good)
        for bad in ("Key plans by shape", "Graph: key plans", "graph:key plans", "graph: " + "x" * 70):
            self.assertEqual(len(limits.subject_faults(bad)), 1, bad)


if __name__ == "__main__":
    unittest.main()
