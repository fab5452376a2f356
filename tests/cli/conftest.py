import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import checkpoint  # noqa: E402
import program  # noqa: E402


def pytest_collection_finish(session):
    if session.items and not program.BINARY.exists():
        pytest.exit(f"{program.BINARY} is not built", 1)


@pytest.fixture
def model(tmp_path):
    """A copy of the bundled model, to spoil."""
    return checkpoint.copy(tmp_path / "model")


@pytest.fixture(scope="module")
def server():
    with program.Server() as running:
        yield running
