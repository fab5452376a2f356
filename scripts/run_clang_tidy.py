#!/usr/bin/env python3
"""Runs clang-tidy-19 with the checks of .clang-tidy on the sources under src/, in parallel.

  run_clang_tidy.py [--preset NAME] [--all] [--tests] [FILE...]     FILE below src/, e.g. base/json.cc

Needs a configured build tree (default: build/release) for the compile commands. A clean result is remembered in
build/ until the file, a header that it includes from src/, the checks or the compile command change, so that a
second run takes seconds. Unit tests are left out unless --tests is given: they cost half the time and the
compiler's warnings cover them. CUDA sources are left out: clang 19 does not know CUDA 13.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_graph import SourceTree

ROOT = Path(__file__).resolve().parent.parent
TOOL = "clang-tidy-19"
# The compile commands are g++'s; clang does not know all of its warning flags.
EXTRA = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument",
         "--extra-arg=-Wno-deprecated-declarations"]  # libstdc++'s own, inside std::stable_sort


def read_commands(path: Path) -> dict[str, str]:
    """Compile command by file name below src/."""
    commands = {}
    for entry in json.loads(path.read_text()):
        file = Path(entry["directory"], entry["file"]).resolve()
        if file.is_relative_to(ROOT / "src"):
            commands[file.relative_to(ROOT / "src").as_posix()] = entry.get("command", "")
    return commands


def run_one(build: Path, name: str) -> tuple[str, float]:
    start = time.monotonic()
    done = subprocess.run([TOOL, "-p", str(build), *EXTRA, str(ROOT / "src" / name)],
                          capture_output=True, text=True)
    messages = "" if done.returncode == 0 else done.stdout + done.stderr
    return messages, time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="release")
    parser.add_argument("--all", action="store_true", help="forget earlier clean results")
    parser.add_argument("--tests", action="store_true", help="unit tests too")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if shutil.which(TOOL) is None:
        print(f"run_clang_tidy: {TOOL} is not installed; skipped")
        return 0
    build = ROOT / "build" / options.preset
    if not (build / "compile_commands.json").exists():
        print(f"run_clang_tidy: configure first: cmake --preset {options.preset}")
        return 1
    tree = SourceTree(ROOT / "src")
    checks = (ROOT / ".clang-tidy").read_text()
    version = subprocess.run([TOOL, "--version"], capture_output=True, text=True).stdout
    stamps = ROOT / "build" / "stamps" / "tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    work = []
    for name, command in sorted(read_commands(build / "compile_commands.json").items()):
        if not name.endswith(".cc") or name not in tree.files:
            continue
        if options.files and name not in options.files or name.endswith("_test.cc") and not options.tests:
            continue
        stamp = stamps / tree.digest(name, checks, version, command, *EXTRA)
        if options.all or not stamp.exists():
            work.append((name, stamp))
    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (name, stamp), (messages, seconds) in zip(work, pool.map(lambda w: run_one(build, w[0]), work)):
            print(f"{'FAILED' if messages else 'ok'} src/{name} ({seconds:.0f} s)", flush=True)
            if messages:
                failed += 1
                print(messages)
            else:
                stamp.touch()
    print(f"run_clang_tidy: {len(work)} files checked now, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
