from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    """As Goo et al. 2018 publish ATIS and Snips."""
    folder = tmp_path / "intents"
    for part, count in (("train", 6), ("valid", 2), ("test", 4)):
        (folder / part).mkdir(parents=True)
        labels = [("book", "play")[row % 2] for row in range(count)]
        (folder / part / "label").write_text("".join(f"{label}\n" for label in labels))
        (folder / part / "seq.in").write_text("".join(f"please {label} {part} {i}\n" for i, label in enumerate(labels)))
        (folder / part / "seq.out").write_text("O O O O\n" * count)
    return folder
