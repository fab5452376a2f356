#!/usr/bin/env python3
"""Checks that every header under src/ compiles alone, without warnings.

  check_headers.py [--root DIR] [--all] [--built] [HEADER...]     HEADER as in includes, e.g. base/error.h

--all forgets earlier passes; DIR holds src/ (default: this checkout). --built takes a header as proved when a
source file that the build compiles includes it before anything else: for use right after a build.

As C++23; a header that is shared with .cu files says so by a comment that holds the words "C++20", and is
compiled as C++20. A header for one instruction set may ask for flags by a comment line "// check_headers: -mavx2".
Headers below a folder named "arm" need the Arm cross compiler and are left out, with a word, where it is missing;
those of CUDA (.cuh, and below "cuda") where there is no nvcc. A pass is remembered in build/ until the header,
a header that it includes, the compiler or the flags change.
"""
import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_graph import SourceFile, SourceTree

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wno-missing-field-initializers", "-Werror", "-I", "src"]
SHARED_MARK = re.compile(r"^\s*//.*C\+\+20\b")
FLAGS_MARK = re.compile(r"^\s*//\s*check_headers:\s*(.*)$")


def compiler_for(header: SourceFile) -> list[str] | None:
    """The compiler and its language flags, or None where this machine has none for it."""
    folders = header.name.split("/")[:-1]
    if header.path.suffix == ".cuh" or "cuda" in folders:
        nvcc = shutil.which("nvcc")
        return [nvcc, "-x", "cu", "-std=c++20"] if nvcc else None
    standard = "c++20" if any(SHARED_MARK.match(line) for line in header.lines) else "c++23"
    name = os.environ.get("CXX", "g++")
    native_arm = platform.machine() == "aarch64"
    if "arm" in folders and not native_arm:
        name = "aarch64-linux-gnu-g++"
    elif "x86" in folders and native_arm:
        return None
    if shutil.which(name) is None:
        return None
    asked = [word for line in header.lines if (m := FLAGS_MARK.match(line)) for word in m.group(1).split()]
    return [name, f"-std={standard}", *asked]


def proved_by_build(tree: SourceTree) -> set[str]:
    """Headers that are the first include of a source file which some CMakeLists.txt names, and that guard themselves."""
    proved = set()
    for source in tree.files.values():
        if source.path.suffix != ".cc" or not source.includes or not source.includes[0].quoted:
            continue
        header = tree.files.get(source.includes[0].path)
        if header is None or {"arm", "x86", "cuda"} & set(header.name.split("/")):
            continue
        if "#pragma once" not in header.lines or any(SHARED_MARK.match(line) for line in header.lines):
            continue
        for folder in source.path.relative_to(tree.root).parents:
            lists = tree.root / folder / "CMakeLists.txt"
            name = re.escape(source.path.relative_to(tree.root / folder).as_posix())
            if lists.is_file() and re.search(rf"(?<![\w./-]){name}(?![\w.-])", lists.read_text()):
                proved.add(header.name)
    return proved


def compile_alone(root: Path, header: SourceFile, command: list[str]) -> str:
    """Returns the compiler's messages, empty when the header is good."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "alone.cc"
        # Twice: a header must bear being included again.
        unit.write_text(f'#include "{header.name}"\n#include "{header.name}"\n')
        flags = ["-c", "-o", os.devnull, "-I", "src"] if "nvcc" in command[0] else FLAGS
        done = subprocess.run([*command, *flags, str(unit)], cwd=root, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--built", action="store_true")
    parser.add_argument("headers", nargs="*")
    options = parser.parse_args()
    root = options.root
    tree = SourceTree(root / "src")
    headers = [f for f in tree.files.values() if f.is_header and (not options.headers or f.name in options.headers)]
    stamps = root / "build" / "stamps" / "headers"
    stamps.mkdir(parents=True, exist_ok=True)
    work, left_out = [], []
    proved = proved_by_build(tree) if options.built else set()
    for header in headers:
        if header.name in proved:
            continue
        command = compiler_for(header)
        if command is None:
            left_out.append(header.name)
            continue
        version = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout
        stamp = stamps / tree.digest(header.name, version, *command, *FLAGS)
        if options.all or not stamp.exists():
            work.append((header, command, stamp))
    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (header, _, stamp), messages in zip(work, pool.map(lambda w: compile_alone(root, w[0], w[1]), work)):
            if messages:
                failed += 1
                print(f"src/{header.name} does not compile alone:\n{messages}")
            else:
                stamp.touch()
    for name in left_out:
        print(f"src/{name}: left out, no compiler for it on this machine")
    print(f"check_headers: {len(headers)} headers, {len(proved)} proved by the build, {len(work)} compiled now, "
          f"{failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
