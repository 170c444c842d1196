"""Work that is kept: each result under a hash of the recipe that made it, so that nothing is computed twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbart.files import write_whole

Recipe = Mapping[str, object]
Found = dict[str, Any]  # what JSON holds


@dataclass(frozen=True)
class Cells:
    """A folder with a JSON file for each recipe: the recipe, and its result or its error."""

    folder: Path

    def result(self, recipe: Recipe) -> Found | None:
        """What this recipe gave; None where it was not computed, or failed."""
        file = self._file(recipe)
        if not file.is_file():
            return None
        held: Found | None = json.loads(file.read_text(encoding="utf-8")).get("result")
        return held

    def get(self, recipe: Recipe, compute: Callable[[], Found]) -> Found:
        """The result of a recipe, computed only if it is not there. A failure is recorded, and tried again."""
        found = self.result(recipe)
        if found is None:
            try:
                found = compute()
            except Exception as error:
                self._write(recipe, {"error": describe(error)})
                raise
            self._write(recipe, {"result": found})
        return found

    def forget(self, recipe: Recipe) -> None:
        """Compute it anew when it is asked for."""
        self._file(recipe).unlink(missing_ok=True)

    def forget_learned_from(self, texts: str) -> None:
        """Train anew on texts of this key, when it is asked for."""
        for file in self.folder.glob("*.json"):
            if json.loads(file.read_text(encoding="utf-8"))["recipe"].get("texts") == texts:
                file.unlink(missing_ok=True)

    def _write(self, recipe: Recipe, held: Found) -> None:
        write_whole(self._file(recipe), json.dumps({"recipe": recipe, **held}, indent=1) + "\n")

    def _file(self, recipe: Recipe) -> Path:
        return self.folder / f"{key_of(recipe)}.json"


def key_of(recipe: Recipe) -> str:
    """The same for the same recipe, in whatever order it was put together.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]


def describe(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
