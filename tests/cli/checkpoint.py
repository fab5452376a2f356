"""Copies of the bundled model with something wrong in them."""
import json
import os
import shutil
import struct
from pathlib import Path

from program import BUNDLED, ROOT

GOLDEN = ROOT / "tests/golden/checkpoints"


def copy(target: Path, source: Path = BUNDLED) -> Path:
    """A copy whose files may be changed; large files are linked until `own` is called on them."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".safetensors":
            os.link(file, target / file.name) if same_device(file, target) else shutil.copyfile(file, target / file.name)
        else:
            shutil.copyfile(file, target / file.name)
    return target


def same_device(file: Path, folder: Path) -> bool:
    return file.stat().st_dev == folder.stat().st_dev


def own(file: Path) -> Path:
    """Breaks the link to the original, so that the file can be written to."""
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    return file


def edit_json(file: Path, change) -> None:
    """Calls change(dict) on the file's JSON and writes it back."""
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def cut(file: Path, size: int) -> None:
    """Keeps the first `size` bytes; a negative size takes that many off the end."""
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:size])


def rewrite_header(file: Path, change) -> None:
    """Calls change(header dict) on a safetensors header; the data stays. A str from `change` becomes the header as it is."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    result = change(header)
    text = (result if isinstance(result, str) else json.dumps(header)).encode()
    file.unlink()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


def set_header_size(file: Path, size: int) -> None:
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(struct.pack("<Q", size) + data[8:])
