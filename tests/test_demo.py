"""What a newcomer types first."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

from dpbart import DEFAULT_MODEL
from dpbart.models.bundle import Bundle
from dpbart.models.families import family_of

MODEL = Bundle.find(DEFAULT_MODEL)
DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


def test_the_demo_shows_originals_rewrites_and_the_card(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PRIVACY CARD" in done.stdout
    assert "original" in done.stdout
    cards = {card.name: json.loads(card.read_text()) for card in (tmp_path / "demo").glob("*.card.json")}
    assert {name: card["guarantee"]["epsilon"] for name, card in cards.items()} == {
        f"rewritten-{epsilon}.csv.card.json": epsilon for epsilon in (4, 10, 20, 50)
    }
    assert all(card["private"] for card in cards.values())
    originals = texts_of(tmp_path / "demo" / "texts.csv")
    assert (len(originals), max(len(text.split()) for text in originals) > 100) == (30, True)  # one is a long letter
    written = {epsilon: texts_of(tmp_path / "demo" / f"rewritten-{epsilon}.csv") for epsilon in (4, 10, 20, 50)}
    assert {len(texts) for texts in written.values()} == {30}
    assert not set(originals) & {*written[4], *written[10]}  # 10 bits do not carry a text
    # With --areas health, only its sentences come out, and the printed card says so.
    assert cards["rewritten-4.csv.card.json"]["model"]["areas"] == ["health"]
    assert "Only sentences of this area can come out: health" in done.stdout
    assert set(written[4]) <= {line.sentence for line in family_of(MODEL).book(MODEL) if line.area == "health"}


def planned(target: str) -> str:
    """What make would run in a fresh copy."""
    command = ["make", "--no-print-directory", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=DEMO.parent.parent, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_the_core_and_the_tests_the_rest() -> None:
    assert "--editable .\n" in planned("demo")
    assert "[" not in planned("demo")
    assert "--editable '.[all,dev]'" in planned("test")


def texts_of(file: Path) -> list[str]:
    with file.open(newline="") as rows:
        return [row["text"] for row in csv.DictReader(rows)]
