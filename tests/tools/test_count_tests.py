import unittest

import tools_path  # noqa: F401
from count_tests import Counts, count


class CountTests(unittest.TestCase):
    def test_ctest(self):
        log = "98% tests passed, 1 tests failed out of 50\n\nTotal Test time (real) =   1.20 sec\n"
        self.assertEqual(count(log), Counts(49, 1, 0))

    def test_ctest_skipped_is_not_passed(self):
        log = ("100% tests passed, 0 tests failed out of 3\n\nThe following tests did not run:\n"
               "\t  2 - Golden.ReadsShared (Skipped)\n")
        self.assertEqual(count(log), Counts(2, 0, 1))

    def test_gtest_output_inside_ctest_counts_once(self):
        log = "[  PASSED  ] 3 tests.\n[  FAILED  ] 1 test, listed below:\n50% tests passed, 1 tests failed out of 2\n"
        self.assertEqual(count(log), Counts(1, 1, 0))

    def test_gtest_alone(self):
        log = "[  PASSED  ] 3 tests.\n[  SKIPPED ] 2 tests, listed below:\n[  FAILED  ] 1 test, listed below:\n"
        self.assertEqual(count(log), Counts(3, 1, 2))

    def test_pytest(self):
        log = "=========== 2 failed, 10 passed, 3 skipped, 5 deselected, 1 error in 4.20s ===========\n"
        self.assertEqual(count(log), Counts(10, 3, 3))

    def test_pytest_quiet(self):
        self.assertEqual(count("6 failed, 8 passed, 1223 deselected in 2.53s\n"), Counts(8, 6, 0))
        self.assertEqual(count("10 passed, 1 warning in 0.53s\n"), Counts(10, 0, 0))
        self.assertEqual(count("no tests ran in 0.01s\n"), Counts())

    def test_pytest_with_colour_and_minutes(self):
        self.assertEqual(count("\x1b[32m==== \x1b[32m\x1b[1m7 passed\x1b[0m\x1b[32m in 61.00s (0:01:01)\x1b[0m ===\n"),
                         Counts(7, 0, 0))

    def test_unittest(self):
        self.assertEqual(count("Ran 5 tests in 0.010s\n\nFAILED (failures=1, skipped=1)\n"), Counts(3, 1, 1))
        self.assertEqual(count("Ran 5 tests in 0.010s\n\nOK\n"), Counts(5, 0, 0))

    def test_own_closing_line_is_the_whole(self):
        log = "=== 7 passed in 1.0s ===\n100% tests passed, 0 tests failed out of 4\n\n11 passed, 2 failed, 1 skipped\n\n"
        self.assertEqual(count(log), Counts(11, 2, 1))

    def test_nothing(self):
        self.assertEqual(count("make: *** [Makefile:3: test] Error 2\n"), Counts())


if __name__ == "__main__":
    unittest.main()
