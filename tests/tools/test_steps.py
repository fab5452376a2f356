import subprocess
import tempfile
import unittest

import tools_path


class Steps(unittest.TestCase):
    def run_script(self, body):
        with tempfile.TemporaryDirectory() as folder:
            script = f"set -uo pipefail\nsteps_dir={folder}\n. {tools_path.ROOT}/scripts/steps.sh\n{body}\nfinish\n"
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        return done.returncode, done.stdout.strip().splitlines()

    def test_all_good(self):
        code, lines = self.run_script("step one echo '3 passed in 0.1s'\nstep two true")
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed"))

    def test_a_failure_does_not_stop_the_rest(self):
        code, lines = self.run_script("step one false\nstep two echo '3 passed in 0.1s'")
        self.assertEqual((code, lines[-1]), (1, "3 passed, 1 failed"))

    def test_failed_tests_fail_the_run_whatever_the_code(self):
        code, lines = self.run_script("step one echo '1 failed, 3 passed, 2 skipped in 0.1s'")
        self.assertEqual((code, lines[-1]), (1, "3 passed, 1 failed, 2 skipped"))

    def test_failed_tests_are_counted_once(self):
        code, lines = self.run_script("step one sh -c 'echo 2 failed in 0.1s; exit 1'")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 2 failed"))

    def test_no_test_is_a_failure(self):
        code, lines = self.run_script("step one true")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"))

    def test_nested_run_counts_its_last_line(self):
        code, lines = self.run_script("step one printf '5 passed in 1.0s\\n\\n5 passed, 0 failed\\n'\nskip two later")
        self.assertEqual((code, lines[-1]), (0, "5 passed, 0 failed"))


if __name__ == "__main__":
    unittest.main()
