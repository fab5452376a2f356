#!/usr/bin/env python3
"""Checks the walls of the house on the sources under src/ (docs/architecture.md says why they stand).

  check_layers.py [--root DIR]        DIR holds src/ and cmake/floors.txt; default: this checkout

Fails on: an include that goes to a higher floor or to another module of the same floor; a quoted include that is
not "module/file.h" below src/ or names no file; a dependency in a CMakeLists.txt that goes up or sideways;
a condition on a backend, an instruction set or a GPU header above the floor of kernels; a header without
#pragma once; a file over LINES_MAX lines.
"""
import argparse
import re
import sys
from pathlib import Path

from source_graph import SourceFile, SourceTree

KERNELS_FLOOR = 3
LINES_MAX = 600  # the rule is "about 500"; this is where it stops being about
CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")
BACKEND = re.compile(
    r"\b(__CUDACC__|__CUDA_ARCH__|__NVCC__|__HIP\w*|TANDEM_\w*(CUDA|NCCL|GPU|MPI|AVX|AMX|NEON|SVE)\w*"
    r"|__AVX\w*|__AMX\w*|__SSE\w*|__FMA__|__F16C__|__ARM_\w+|__aarch64__|__arm__|__x86_64__|__i386__|_M_X64)\b")
BACKEND_HEADER = re.compile(
    r"^(cuda|cublas|cub/|nccl|nvml|mpi\.h|immintrin|x86intrin|arm_neon|arm_sve|arm_acle|kernels/cuda/|tensor/cuda/|hwy/)")
CMAKE_MODULE = re.compile(r"tandem_module\s*\(([^)]*)\)", re.S)
CMAKE_KEYWORDS = {"SOURCES", "DEPS", "PRIVATE_DEPS", "TESTS", "TEST_DEPS"}


def read_floors(path: Path) -> dict[str, int]:
    floors = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not words[0].isdigit() or words[1] in floors:
            raise SystemExit(f"{path}:{number}: want 'floor module', each module once, found: {line.strip()}")
        floors[words[1]] = int(words[0])
    return floors


def why_forbidden(floors: dict[str, int], module: str, other: str) -> str | None:
    if other == module:
        return None
    if other not in floors:
        return f"'{other}' is no module of cmake/floors.txt"
    if floors[other] > floors[module]:
        return f"goes up: {module} (floor {floors[module]}) may not know {other} (floor {floors[other]})"
    if floors[other] == floors[module]:
        return f"goes sideways: {module} and {other} share floor {floors[module]}"
    return None


def check_includes(tree: SourceTree, floors: dict[str, int], file: SourceFile) -> list[str]:
    problems = []
    for include in file.includes:
        where = f"src/{file.name}:{include.line}: "
        if BACKEND_HEADER.match(include.path) and floors[file.module] > KERNELS_FLOOR:
            problems.append(where + f"'{include.path}' belongs to a backend: only kernels and below may include it")
            continue
        first = include.path.split("/")[0]
        if include.quoted:
            if ".." in include.path.split("/") or "/" not in include.path:
                problems.append(where + f'write "module/file.h" from src/, found "{include.path}"')
            elif why := why_forbidden(floors, file.module, first):
                problems.append(where + f'"{include.path}" {why}')
            elif include.path not in tree.files:
                problems.append(where + f'"{include.path}" is not there')
        elif include.path in tree.files:
            problems.append(where + f"<{include.path}> is a file of this project: use quotes")
    return problems


def check_file(tree: SourceTree, floors: dict[str, int], file: SourceFile) -> list[str]:
    if file.module not in floors:
        return [f"src/{file.name}: its folder is no module of cmake/floors.txt"]
    problems = check_includes(tree, floors, file)
    if file.is_header and not any(re.match(r"\s*#\s*pragma\s+once\b", line) for line in file.lines):
        problems.append(f"src/{file.name}: header without #pragma once")
    if floors[file.module] > KERNELS_FLOOR:
        for number, line in enumerate(file.lines, 1):
            match = CONDITION.match(line)
            if match and BACKEND.search(match.group(2)):
                problems.append(f"src/{file.name}:{number}: condition on a backend above the floor of kernels")
    if len(file.lines) - 1 > LINES_MAX:
        problems.append(f"src/{file.name}: {len(file.lines) - 1} lines; split it (limit {LINES_MAX})")
    return problems


def check_cmake(root: Path, floors: dict[str, int]) -> list[str]:
    """Declared dependencies obey the floors too. Names of libraries (with ::) are left alone."""
    problems = []
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        module = path.relative_to(root / "src").parts[0]
        text = re.sub(r"#.*", "", path.read_text())
        for call in CMAKE_MODULE.findall(text):
            keyword = None
            for word in call.split()[1:]:
                if word in CMAKE_KEYWORDS:
                    keyword = word
                elif keyword and keyword.endswith("DEPS") and word in floors and module in floors:
                    if why := why_forbidden(floors, module, word):
                        problems.append(f"{path.relative_to(root)}: {keyword} {word} {why}")
    return problems


def check(root: Path) -> tuple[list[str], int]:
    floors = read_floors(root / "cmake" / "floors.txt")
    tree = SourceTree(root / "src")
    problems = [p for f in tree.files.values() for p in check_file(tree, floors, f)]
    return problems + check_cmake(root, floors), len(tree.files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    problems, count = check(parser.parse_args().root)
    for problem in problems:
        print(problem)
    print(f"check_layers: {count} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
