"""What a newcomer types first."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


def test_the_demo_shows_originals_rewrites_and_the_card(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PRIVACY CARD" in done.stdout
    assert "original" in done.stdout
    cards = sorted((tmp_path / "demo").glob("*.card.json"))
    assert len(cards) == 4
    assert sorted(json.loads(card.read_text())["private"] for card in cards) == [False, True, True, True]
    originals = texts_of(tmp_path / "demo" / "texts.csv")
    unchanged = {}
    for card in cards:
        rewritten = texts_of(card.with_name(card.name.removesuffix(".card.json")))
        assert len(rewritten) == 30
        unchanged[card.name] = sum(old == new for old, new in zip(originals, rewritten, strict=True))
    assert unchanged["rewritten-none.csv.card.json"] >= 20  # the model can copy
    assert unchanged["rewritten-10.csv.card.json"] == 0  # 10 bits do not carry a text


def planned(target: str) -> str:
    """What make would run in a fresh copy."""
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=DEMO.parent.parent, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_what_users_need_and_the_tests_the_rest() -> None:
    assert "--editable .\n" in planned("demo")
    assert "[dev]" not in planned("demo")
    assert "--editable '.[dev]'" in planned("test")


def texts_of(file: Path) -> list[str]:
    with file.open(newline="") as rows:
        return [row["text"] for row in csv.DictReader(rows)]
