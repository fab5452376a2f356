import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tools_path


@unittest.skipUnless(shutil.which("g++"), "no g++")
class CheckHeaders(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "src/base").mkdir(parents=True)

    def write(self, name, text):
        (self.root / "src/base" / name).write_text(text)

    def run_check(self, *options):
        done = subprocess.run([sys.executable, tools_path.ROOT / "scripts/check_headers.py", "--root", self.root, *options],
                              capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_good_header_is_compiled_once(self):
        self.write("a.h", "#pragma once\n#include <expected>\ninline std::expected<int, int> one() { return 1; }\n")
        self.assertIn("1 compiled now, 0 problems", self.run_check()[1])
        self.assertIn("0 compiled now, 0 problems", self.run_check()[1])

    def test_header_that_needs_another_first(self):
        self.write("a.h", "#pragma once\ninline std::string name() { return {}; }\n")
        code, output = self.run_check()
        self.assertEqual(code, 1)
        self.assertIn("src/base/a.h does not compile alone", output)

    def test_shared_header_is_cxx20(self):
        self.write("a.h", "#pragma once\n// Shared with .cu files: C++20.\n#include <expected>\n"
                          "inline std::expected<int, int> one() { return 1; }\n")
        self.assertEqual(self.run_check()[0], 1)

    def test_change_below_is_seen(self):
        self.write("a.h", '#pragma once\n#include "base/b.h"\ninline int two() { return one() + 1; }\n')
        self.write("b.h", "#pragma once\ninline int one() { return 1; }\n")
        self.assertEqual(self.run_check()[0], 0)
        self.write("b.h", "#pragma once\ninline int uno() { return 1; }\n")
        self.assertEqual(self.run_check()[0], 1)

    def test_missing_pragma_once_shows(self):
        self.write("a.h", "struct Twice {};\n")
        self.assertEqual(self.run_check()[0], 1)

    def test_build_proves_what_comes_first_in_a_unit(self):
        for name in ("first.h", "second.h", "unbuilt.h", "shared.h"):
            self.write(name, "#pragma once\n// C++20\n" if name == "shared.h" else "#pragma once\n")
        self.write("first.cc", '#include "base/first.h"\n#include "base/second.h"\n')
        self.write("shared.cc", '#include "base/shared.h"\n')
        self.write("unbuilt.cc", '#include "base/unbuilt.h"\n')
        self.write("CMakeLists.txt", "add_library(base first.cc shared.cc not_unbuilt.cc)\n")
        self.assertIn("1 proved by the build, 3 compiled now", self.run_check("--built")[1])


if __name__ == "__main__":
    unittest.main()
