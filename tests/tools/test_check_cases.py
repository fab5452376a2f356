import shutil
import tempfile
import unittest
from pathlib import Path

from tools_path import ROOT
from check_cases import problems


class CheckCases(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "docs").mkdir()
        (self.root / "a_test.py").write_text("def test_one():\n    pass\n")
        (self.root / "b_test.cc").write_text("TEST(Suite, Name) {}\nTEST_F(Fixture, Other) {}\n")

    def found(self, *rows):
        (self.root / "docs/cases.md").write_text("| id | fault | tests |\n|---|---|---|\n" + "".join(f"| {row} |\n" for row in rows))
        return problems(self.root)

    def test_the_tree(self):
        self.assertEqual(problems(ROOT), [])

    def test_existing_tests(self):
        self.assertEqual(self.found("BL-001 | x | `a_test.py::test_one`, `b_test.cc::Suite.Name`", "BL-002 | y | `b_test.cc::Fixture.Other`"), [])

    def test_missing_tests(self):
        for test in ("a_test.py::test_on", "a_test.py::one", "b_test.cc::Suite.Nam", "b_test.cc::Name.Suite", "c_test.py::test_one"):
            self.assertEqual(len(self.found(f"BL-001 | x | `{test}`")), 1, test)

    def test_rows_without_tests_and_twice(self):
        self.assertIn("names no test", self.found("BL-001 | x | later")[0])
        self.assertIn("twice", self.found("BL-001 | x | `a_test.py::test_one`", "BL-001 | x | `a_test.py::test_one`")[0])
        self.assertEqual(len(self.found()), 1)


if __name__ == "__main__":
    unittest.main()
