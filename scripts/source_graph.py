"""The sources under src/ and what they include, for check_layers.py, check_headers.py and run_clang_tidy.py."""
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SUFFIXES = {".h", ".cuh", ".cc", ".cu", ".inc"}
HEADER_SUFFIXES = {".h", ".cuh"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]')


@dataclass(frozen=True)
class Include:
    line: int
    quoted: bool
    path: str


class SourceFile:
    """One file; `name` is its path below src/ with forward slashes, e.g. "kernels/cpu/gemm.h"."""

    def __init__(self, root: Path, path: Path):
        self.path = path
        self.name = path.relative_to(root).as_posix()

    @property
    def module(self) -> str:
        return self.name.split("/")[0]

    @property
    def is_header(self) -> bool:
        return self.path.suffix in HEADER_SUFFIXES

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def includes(self) -> list[Include]:
        found = []
        for number, line in enumerate(self.lines, 1):
            match = INCLUDE.match(line)
            if match:
                found.append(Include(number, match.group(1) == '"', match.group(2).strip()))
        return found


class SourceTree:
    def __init__(self, root: Path):
        self.root = Path(root)
        paths = sorted(p for p in self.root.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        self.files = {f.name: f for f in (SourceFile(self.root, p) for p in paths)}

    def closure(self, name: str) -> set[str]:
        """The file and every project file that it includes, directly or not."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current in seen or current not in self.files:
                continue
            seen.add(current)
            waiting.extend(i.path for i in self.files[current].includes if i.quoted)
        return seen

    def digest(self, name: str, *extra: str) -> str:
        """Changes when the file, anything it includes from src/, or one of `extra` changes."""
        hashed = hashlib.sha256()
        for part in extra:
            hashed.update(part.encode() + b"\0")
        for dependency in sorted(self.closure(name)):
            hashed.update(dependency.encode() + b"\0")
            hashed.update(self.files[dependency].text.encode() + b"\0")
        return hashed.hexdigest()
