"""A pytest plugin: leaves out the tests that conformance_now.txt puts off, and complains about names there that match nothing."""
import re
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("conformance_now.txt")


def read_later() -> dict[str, re.Pattern]:
    """Pattern by node as written; "*" stands for any text, and a node without parameters means all of them."""
    later = {}
    for line in LIST.read_text().splitlines():
        words = line.split(None, 2)
        if words and words[0] == "later":
            pattern = ".*".join(re.escape(part) for part in words[1].split("*"))
            later[words[1]] = re.compile(pattern + r"(\[.*)?$", re.S)
    return later


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    later = read_later()
    files = {item.nodeid.split("::")[0] for item in items}
    for node, pattern in later.items():
        if node.split("::")[0] in files and not any(pattern.match(item.nodeid) for item in items):
            raise pytest.UsageError(f"{LIST.name}: '{node}' matches no test")
    put_off = [i for i in items if any(p.match(i.nodeid) for p in later.values())]
    if put_off:
        config.hook.pytest_deselected(items=put_off)
        items[:] = [i for i in items if i not in put_off]
