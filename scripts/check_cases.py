#!/usr/bin/env python3
"""Checks that every test that docs/cases.md names exists, and that every row names one. Prints what is missing; exit code 1 then.

    scripts/check_cases.py [ROOT]
"""
import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| (BL-\d+) \|")
TEST = re.compile(r"`([^`\s]+)::([^`\s]+)`")


def exists(root: Path, file: str, name: str) -> bool:
    path = root / file
    if not path.is_file():
        return False
    text = path.read_text()
    if path.suffix == ".py":
        return re.search(rf"^\s*(async )?def {re.escape(name)}\(", text, re.M) is not None
    suite, _, test = name.partition(".")
    return re.search(rf"TEST(_F|_P)?\(\s*{re.escape(suite)},\s*{re.escape(test)}\)", text) is not None


def problems(root: Path) -> list[str]:
    found = []
    seen = set()
    for line in (root / "docs/cases.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        case = row.group(1)
        if case in seen:
            found.append(f"{case} stands there twice")
        seen.add(case)
        tests = TEST.findall(line)
        if not tests:
            found.append(f"{case} names no test")
        found += [f"{case}: {file} has no test {name}" for file, name in tests if not exists(root, file, name)]
    return found if seen else ["docs/cases.md has no rows"]


def main() -> int:
    found = problems(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    for problem in found:
        print(f"check_cases: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
