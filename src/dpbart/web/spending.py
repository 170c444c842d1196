"""What people have spent and have left, as the ledger knows it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbart.privacy.budget.ledger import Ledger
from dpbart.privacy.budget.listing import people_in
from dpbart.privacy.decimals import minus, written


def spending(file: Path, *, start: int, count: int) -> dict[str, Any]:
    """A page of people, and a summary of the whole ledger. Budgets are decimal strings, with every digit."""
    ledger = Ledger(file)
    try:
        summary, everybody = ledger.summary(), ledger.limit()
        people = people_in(file, start=start, count=count)
        return {
            "people": summary.people,
            "texts": summary.texts,
            "limit": _written(everybody.epsilon),
            "delta": written(everybody.delta),
            "most_spent": None if summary.most is None else written(summary.most[1].epsilon),
            "start": start,
            "spending": [_one(ledger, person) for person in people],
        }
    finally:
        ledger.close()


def left_of(file: Path | None, people: Iterable[str], budget: Decimal | None) -> list[dict[str, Any]]:
    """What each of these people has left, for a client whose request was refused."""
    if file is None:
        return []
    ledger = Ledger(file)
    try:
        return [_one(ledger, person, budget) for person in people]
    finally:
        ledger.close()


def _one(ledger: Ledger, person: str, budget: Decimal | None = None) -> dict[str, Any]:
    spent, limit = ledger.spent(person), ledger.limit(person)
    epsilon = Decimal(0) if spent is None else spent.epsilon
    most = min((each for each in (limit.epsilon, budget) if each is not None), default=None)
    return {
        "person": person,
        "texts": sum(entry.texts for entry in ledger.entries(person)),
        "spent": written(epsilon),
        "delta": written(limit.delta),
        "limit": _written(most),
        "left": None if most is None else written(max(Decimal(0), minus(most, epsilon))),
    }


def _written(value: Decimal | None) -> str | None:
    return None if value is None else written(value)
