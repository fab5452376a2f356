"""Prints docs/conformance.md from the score files of a run: conformance_table.py SCORE.json..."""
import datetime
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def merge(scores):
    """Features of all runs. A feature stands in one run only, so nothing is counted twice."""
    out = {}
    for score in scores:
        for name, row in score["features"].items():
            if name in out:
                raise SystemExit(f"feature {name} is in two of the runs")
            out[name] = row
    return out


def table(features, commit, date):
    passed, total, skipped = (sum(row[key] for row in features.values()) for key in ("passed", "total", "skipped"))
    lines = [
        "# Conformance",
        "",
        "What the API suite (tests/conformance) finds against the release program with the bundled model. This page is",
        "written by the run, `tests/run_conformance.sh --table docs/conformance.md`; do not edit it. Skipped are only the",
        "tests that wait minutes for the server to cut off a slow client (`--long-timeouts` runs them, too).",
        "",
        f"Run on {date} of commit {commit}: **{passed} of {total} passed**, {skipped} skipped.",
        "",
        "| feature | passed | of | skipped |",
        "|---|---:|---:|---:|",
    ]
    for name in sorted(features):
        row = features[name]
        lines.append(f"| {name} | {row['passed']} | {row['total']} | {row['skipped'] or ''} |")
    failed = [node for row in features.values() for node in row["failed"]]
    if failed:
        lines += ["", "Failed:", ""] + [f"- `{node}`" for node in failed]
    return "\n".join(lines) + "\n"


def main(paths):
    features = merge(json.loads(Path(path).read_text()) for path in paths)
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!docs")
    commit = git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    print(table(features, commit, datetime.datetime.now(datetime.timezone.utc).date().isoformat()), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
