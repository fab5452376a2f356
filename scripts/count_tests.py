#!/usr/bin/env python3
"""Reads the output of test runners and prints "passed failed skipped".

  count_tests.py LOG...

Knows the closing lines of ctest, pytest, unittest, GoogleTest run by hand, and our own "N passed, N failed".
A log that closes with our own line is that line; otherwise every runner's closing line in it counts, but
GoogleTest's only where ctest did not run the programs (ctest shows their output when they fail).
"""
import re
import sys
from typing import NamedTuple

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OWN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
CTEST = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$")
CTEST_SKIPPED = re.compile(r"^\s*\d+ - .*\((Skipped|Disabled)\)$")
PYTEST = re.compile(r"^=* ?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+) in [\d.]+s.*$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s$")
UNITTEST_END = re.compile(r"^(OK|FAILED)(?: \((.*)\))?$")
GTEST = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?[,.]")


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(*(a + b for a, b in zip(self, other)))


def _from_pytest(text: str) -> Counts:
    found = dict.fromkeys(["passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed"], 0)
    for number, word in re.findall(r"(\d+) (\w+)", text):
        if word in found:
            found[word] += int(number)
    return Counts(found["passed"] + found["xfailed"],
                  found["failed"] + found["error"] + found["errors"] + found["xpassed"], found["skipped"])


def _from_unittest(ran: int, details: str | None) -> Counts:
    found = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", details or "")}
    failed = found.get("failures", 0) + found.get("errors", 0)
    return Counts(ran - failed - found.get("skipped", 0), failed, found.get("skipped", 0))


def count(text: str) -> Counts:
    lines = [COLOUR.sub("", line).rstrip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    if own := OWN.match(last):
        return Counts(*(int(n or 0) for n in own.groups()))
    total, gtest, saw_ctest, ran = Counts(), Counts(), False, None
    for line in lines:
        if match := CTEST.match(line):
            failed, all_tests = map(int, match.groups())
            total += Counts(all_tests - failed, failed)
            saw_ctest = True
        elif saw_ctest and CTEST_SKIPPED.match(line):  # ctest counts a skipped test as passed
            total += Counts(-1, 0, 1)
        elif match := PYTEST.match(line):
            total += _from_pytest(match.group(1))
        elif match := UNITTEST_RAN.match(line):
            ran = int(match.group(1))
        elif ran is not None and (match := UNITTEST_END.match(line)):
            total += _from_unittest(ran, match.group(2))
            ran = None
        elif match := GTEST.match(line):
            gtest += Counts(**{match.group(1).lower(): int(match.group(2))})
    return total if saw_ctest else total + gtest


def main() -> int:
    total = Counts()
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8", errors="replace") as log:
            total += count(log.read())
    print(*total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
