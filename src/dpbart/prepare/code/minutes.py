"""How many minutes each part of a model took, over all runs of the command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpbart.files import write_whole


class Minutes:
    """Minutes by part, kept in the training folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "minutes.json"
        self.spent: dict[str, float] = json.loads(self._file.read_text()) if self._file.is_file() else {}

    def facts(self) -> dict[str, object]:
        return {"minutes_spent": self.spent}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time inside the block, also if it is interrupted."""
        began, before = time.monotonic(), self.spent.get(part, 0.0)
        try:
            yield
        finally:
            self.spent[part] = round(before + (time.monotonic() - began) / 60, 2)
            write_whole(self._file, json.dumps(self.spent))
