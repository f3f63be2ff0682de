#!/usr/bin/env python3
"""The rotation of long test parts (tests/runner/rotation.py): every share comes up, the shares make the whole, and each fits into the time."""
import hashlib
import pathlib
import re
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runner import report, rotation  # noqa: E402


class Rotation(unittest.TestCase):
    def test_every_share_comes_up(self):
        commits = [hashlib.sha1(str(n).encode()).hexdigest() for n in range(1000)]
        times = [sum(rotation.share_of(c) == share for c in commits) for share in range(len(rotation.SHARES))]
        self.assertEqual(sum(times), 1000)
        for share, count in enumerate(times):
            self.assertGreater(count, 1000 / len(times) / 2, f"share {share}")

    def test_the_same_commit_runs_the_same_share(self):
        self.assertEqual(rotation.share_of("6fc266957437d6e19fea35418a31d7f21cdb9e5e"), int("6fc266957437d6e19fea35418a31d7f21cdb9e5e", 16) % len(rotation.SHARES))

    def test_the_shares_partition_everything(self):
        slices = {}
        for share in range(len(rotation.SHARES)):
            for name, part in rotation.schedule(share).items():
                slices.setdefault(name, []).append((part.of, part.index))
        self.assertEqual(set(slices), set(rotation.schedule()))
        for name, found in slices.items():
            if name in rotation.ALWAYS and name != "simulator":
                self.assertEqual(set(found), {(1, 0)}, name)
            else:
                self.assertEqual(sorted(found), [(found[0][0], index) for index in range(found[0][0])], name)

    def test_slices_partition_their_items(self):
        for count in (0, 1, 5, 12000):
            for of in (1, 2, 7):
                slices = [rotation.Slice(index, of) for index in range(of)]
                self.assertEqual(sorted(n for s in slices for n in s.take(range(count))), list(range(count)))
                self.assertEqual([n for s in slices for n in s.range(count)], list(range(count)))

    def test_each_folder_of_tests_is_in_one_slice_of_asan(self):
        tests = pathlib.Path(__file__).resolve().parents[1]
        folders = {file.parent.name for file in tests.glob("*/meson.build") if re.search(r"executable\('\w+_test'", file.read_text())}
        found = [folder for group in rotation.ASAN_FOLDERS for folder in group]
        self.assertEqual(sorted(found), sorted(folders))
        self.assertEqual({s.get("asan") for s in rotation.SHARES} - {None},
                         {rotation.Slice(index, len(rotation.ASAN_FOLDERS)) for index in range(len(rotation.ASAN_FOLDERS))})
        self.assertEqual(rotation.asan_slice_of("train", {"PERIGEE_CUDA_MODULE": "x"}), rotation.asan_slice_of("cuda", {}))

    def test_the_longest_tests_begin_first(self):
        tests = [{"name": name, "priority": priority, "is_parallel": name != "alone"} for name, priority in (("a", 0), ("long", 1), ("alone", 1), ("b", 0), ("longer", 2))]
        self.assertEqual([t["name"] for t in report.in_order(tests)], ["longer", "long", "a", "b"])

    def test_one_that_waits_runs_beside_those_that_compute(self):
        running, lock, meeting = set(), threading.Lock(), threading.Barrier(report.JOBS + 1)

        def run(part, test, folder, env):
            with lock:
                running.add(test["name"])
                self.assertTrue(test["is_parallel"] or len(running) == 1, running)
            if test["is_parallel"]:
                meeting.wait(60)  # of one for each core, and another
            with lock:
                running.remove(test["name"])

        def test_of(name, suite, parallel=True):
            return {"name": name, "suite": suite, "is_parallel": parallel}

        tests = [test_of(f"computes {i}", ["perigee"]) for i in range(report.JOBS)]
        tests += [test_of("alone", ["perigee"], False)]
        tests += [test_of(f"waits {i}", ["perigee", "perigee:waits"]) for i in range(report.JOBS + 2)]
        with unittest.mock.patch.object(report, "run_test", run):
            report.run_tests(None, tests, None)

    def test_every_share_fits_into_the_time(self):
        for share in range(len(rotation.SHARES)):
            self.assertLessEqual(sum(rotation.BUDGETS[name] for name in rotation.schedule(share)), rotation.LIMIT_SECONDS, f"share {share}")

    def test_the_long_parts_meet_only_where_that_is_cheap(self):
        for share in rotation.SHARES:
            self.assertLessEqual(len({"asan", "tsan", "fuzz", "package", "faults"} & set(share)), 1)


if __name__ == "__main__":
    unittest.main()
