"""Cached results: each is stored under a hash of its recipe, so nothing is computed twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbart.files import write_whole

Recipe = Mapping[str, object]  # everything that a result depends on
Figures = dict[str, Any]  # what JSON holds


@dataclass(frozen=True)
class ResultCache:
    """A folder with one JSON file per recipe. The file holds the recipe, and its result or error."""

    folder: Path

    def get(self, recipe: Recipe, compute: Callable[[], Figures]) -> Figures:
        """The result of a recipe, computed if it is missing. A failure is recorded, and tried again next time."""
        file = self.folder / f"{key_of(recipe)}.json"
        found: Figures | None = json.loads(file.read_text(encoding="utf-8")).get("result") if file.is_file() else None
        if found is None:
            try:
                found = compute()
            except Exception as error:
                _write(file, recipe, {"error": describe(error)})
                raise
            _write(file, recipe, {"result": found})
        return found

    def forget(self, key: str) -> None:
        """Remove the result with this key, and every training on the texts with this key."""
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        for file in self.folder.glob("*.json"):
            if json.loads(file.read_text(encoding="utf-8"))["recipe"].get("texts") == key:
                file.unlink()


def _write(file: Path, recipe: Recipe, held: Figures) -> None:
    write_whole(file, json.dumps({"recipe": recipe, **held}, indent=1) + "\n")


def key_of(recipe: Recipe) -> str:
    """The same for equal recipes, whatever the order of their entries.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]


def describe(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
