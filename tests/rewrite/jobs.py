"""Helpers that run a job with a loaded rewriter."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbart import Card, Rewriter
from dpbart.options.rewriting import Request
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter

PART = 8  # rows of a part, where a test makes them small


def inline(rewriter: Rewriter) -> Inline:
    """An engine that uses this rewriter."""
    return Inline(lambda: rewriter)


def run(request: Request, rewriter: Rewriter) -> Card:
    """Plan a job and run it in this process."""
    return plan(request, described(rewriter)).run(inline(rewriter))


def marked(texts: Sequence[str]) -> list[str]:
    """The texts, each with a unique mark."""
    return [f"{text} {secrets.token_hex(8)}" for text in texts]


def marking_rewriter(*, epsilon: float = 500, batch_size: int = 4) -> Rewriter:
    """A rewriter that returns each text with a unique mark."""
    return fake_rewriter(marked, epsilon=epsilon, delta=1e-9, batch_size=batch_size)


def shuffle_request(folder: Path, ending: str = ".csv", **changed: Any) -> Request:
    """A request to shuffle in.csv in a folder."""
    return Request(folder / "in.csv", folder / f"out{ending}", **{"shuffle": True, **changed})


def write_people(folder: Path, rows: int) -> Path:
    """Write in.csv with the texts of five people in turn; returns the folder."""
    people = "".join(f"p{number % 5},text {number}\n" for number in range(rows))
    (folder / "in.csv").write_text("who,text\n" + people)
    return folder
