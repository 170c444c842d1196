"""The page of broken promises names its tests, and they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent
PAGE = (REPOSITORY / "docs" / "conformance.md").read_text()
NAMED = re.findall(r"^- `(tests/[\w/]+\.py)::(test_\w+)`$", PAGE, re.MULTILINE)


def functions_of(file: str) -> set[str]:
    tree = ast.parse((REPOSITORY / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED) == PAGE.count("::") > 17
    assert [f"{file}::{name}" for file, name in NAMED if name not in functions_of(file)] == []


def test_each_of_the_nineteen_entries_has_its_parts() -> None:
    entries = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    assert [int(entry.split(".")[0]) for entry in entries] == list(range(1, 20))
    for entry in entries:
        assert "**Elsewhere:**" in entry
        assert "**dpbart:**" in entry
        assert "::test_" in entry


def test_every_conformance_test_is_on_the_page() -> None:
    files = [file for file in Path(__file__).parent.glob("test_*.py") if file.name != Path(__file__).name]
    written = {
        f"tests/conformance/{file.name}::{name}"
        for file in files
        for name in functions_of(f"tests/conformance/{file.name}")
    }
    assert sorted(written - {f"{file}::{name}" for file, name in NAMED}) == []
