import sys
import unittest

import tools_path

sys.path.insert(0, str(tools_path.ROOT / "tests"))
import conformance_table  # noqa: E402


def row(passed, total, skipped=0, failed=()):
    return {"passed": passed, "total": total, "skipped": skipped, "failed": list(failed)}


class ConformanceTable(unittest.TestCase):
    def test_rows_sum_and_failures_are_named(self):
        features = conformance_table.merge([
            {"features": {"chat": row(3, 4, failed=["test_chat.py::test_x"])}},
            {"features": {"auth": row(2, 2, skipped=1)}},
        ])
        text = conformance_table.table(features, "abc", "2026-01-02")
        self.assertIn("**5 of 6 passed**, 1 skipped", text)
        self.assertIn("| auth | 2 | 2 | 1 |", text)
        self.assertIn("| chat | 3 | 4 |  |", text)
        self.assertIn("test_chat.py::test_x", text)

    def test_a_feature_in_two_runs_is_an_error(self):
        with self.assertRaises(SystemExit):
            conformance_table.merge([{"features": {"chat": row(1, 1)}}] * 2)


if __name__ == "__main__":
    unittest.main()
