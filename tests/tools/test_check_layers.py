import shutil
import tempfile
import unittest
from pathlib import Path

import tools_path
from check_layers import LINES_MAX, check, read_floors

FLOORS = "# floor module\n7 frontend\n4 weights\n4 kv\n3 kernels\n1 tensor\n0 base\n"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("cmake/floors.txt", FLOORS)
        self.write("src/base/error.h", "#pragma once\n#include <string>\n")
        self.write("src/kernels/device_api.h", '#pragma once\n#include "base/error.h"\n')
        self.write("src/weights/loader.h", '#pragma once\n#include "kernels/device_api.h"\n#include "base/error.h"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self):
        return check(self.root)[0]

    def assert_one(self, *words):
        problems = self.problems()
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def test_good_tree(self):
        self.write("src/weights/loader.cc", '#include "weights/loader.h"\n')
        self.assertEqual(self.problems(), [])

    def test_include_that_goes_up(self):
        self.write("src/base/error.cc", '#include "base/error.h"\n\n#include "weights/loader.h"\n')
        self.assert_one("src/base/error.cc:3", "goes up", "weights (floor 4)")

    def test_include_that_goes_sideways(self):
        self.write("src/kv/pool.h", '#pragma once\n#  include "weights/loader.h"\n')
        self.assert_one("src/kv/pool.h:2", "sideways")

    def test_unit_tests_obey_too(self):
        self.write("src/base/error_test.cc", '#include "kernels/device_api.h"\n')
        self.assert_one("goes up")

    def test_relative_and_bare_includes(self):
        self.write("src/weights/loader.cc", '#include "loader.h"\n#include "../base/error.h"\n')
        problems = self.problems()
        self.assertEqual(len(problems), 2, problems)
        self.assertTrue(all("module/file.h" in p for p in problems))

    def test_angle_brackets_do_not_hide_an_include(self):
        self.write("src/base/error.cc", "#include <weights/loader.h>\n")
        self.assert_one("use quotes")

    def test_missing_file(self):
        self.write("src/weights/loader.cc", '#include "base/eror.h"\n')
        self.assert_one("is not there")

    def test_unknown_module(self):
        self.write("src/util/misc.h", "#pragma once\n")
        self.write("src/weights/loader.cc", '#include "util/misc.h"\n')
        self.assertEqual(len(self.problems()), 2)

    def test_header_without_pragma_once(self):
        self.write("src/base/ids.h", "#ifndef IDS_H\n#define IDS_H\n#endif\n")
        self.assert_one("src/base/ids.h", "#pragma once")

    def test_backend_condition(self):
        text = "#if defined(__AVX2__)\n#endif\n#ifdef TANDEM_WITH_CUDA\n#endif\n#if __cplusplus > 202002L\n#endif\n"
        self.write("src/kernels/cpu/x86/gemm.cc", text)
        self.assertEqual(self.problems(), [])
        self.write("src/frontend/request.cc", text)
        self.assertEqual(len(self.problems()), 2)

    def test_backend_header(self):
        self.write("src/kernels/cuda/attend.h", "#pragma once\n#include <cuda_runtime.h>\n")
        self.assertEqual(self.problems(), [])
        self.write("src/frontend/request.cc", '#include <immintrin.h>\n#include "kernels/cuda/attend.h"\n')
        self.assertEqual(len(self.problems()), 2)

    def test_cmake_dependencies(self):
        self.write("src/kernels/CMakeLists.txt",
                   "tandem_module(kernels\n  SOURCES weights.cc\n  DEPS base tensor fmt::fmt # weights\n"
                   "  TESTS a_test.cc\n  TEST_DEPS weights)\n")
        self.assert_one("TEST_DEPS weights", "goes up")

    def test_too_long(self):
        self.write("src/base/ids.cc", "\n" * (LINES_MAX + 1))
        self.assert_one("split it")

    def test_floors_table_is_checked(self):
        self.write("cmake/floors.txt", FLOORS + "5 base\n")
        with self.assertRaises(SystemExit):
            read_floors(self.root / "cmake/floors.txt")

    def test_project_floors_name_every_module_of_the_tree(self):
        floors = read_floors(tools_path.ROOT / "cmake/floors.txt")
        folders = {p.name for p in (tools_path.ROOT / "src").iterdir() if p.is_dir()}
        self.assertLessEqual(folders, set(floors))


if __name__ == "__main__":
    unittest.main()
