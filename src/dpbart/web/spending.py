"""What people have spent and have left, as the ledger knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from dpbart.errors import BadParameter
from dpbart.privacy.budget.ids import normal_id
from dpbart.privacy.budget.listing import Listing, Spending, entry_json
from dpbart.privacy.decimals import written
from dpbart.web.bodies import read_object, refuse_unknown
from dpbart.web.problems import Problem

Told = TypeVar("Told")


class Spenders:
    """The people of one ledger. It is opened once, because that checks the whole file, and read by one thread."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, "people")
        self._open: Listing | None = None

    async def page(self, *, start: int, count: int) -> dict[str, Any]:
        """Some people, and a summary of the whole ledger. Budgets are decimal strings, with every digit."""
        return await self._ask(lambda listing: _page(listing, start=start, count=count))

    async def person(self, body: bytes) -> dict[str, Any]:
        """Everything about the person whose id is in the body of a request.

        Raises:
            Problem: There is no ledger, or it does not know the person.
        """
        given = read_object(body)
        refuse_unknown(given, ("person",))
        person = normal_id(given.get("person"))
        if not person:
            raise BadParameter('person must be an id, got none. Pass {"person": ID}.')
        return await self._ask(lambda listing: _everything(listing, person))

    async def delta(self) -> Decimal | None:
        """At which spending is measured; None without a ledger."""
        return None if self._file is None else await self._ask(lambda listing: listing.limit().delta)

    async def left(self, people: Iterable[str], budget: Decimal | None) -> list[dict[str, Any]]:
        """What each of these people has left, for a client whose request was refused."""
        if self._file is None:
            return []
        return await self._ask(lambda listing: [_one(_within(listing.spending(each), budget)) for each in people])

    async def _ask(self, act: Callable[[Listing], Told]) -> Told:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: act(self._listing()))

    def _listing(self) -> Listing:
        if self._file is None:
            raise Problem(404, "no-ledger", "this server has no ledger. Start it with --ledger FILE.")
        if self._open is None:
            self._open = Listing(self._file)  # SQLite wants it opened in the thread that uses it
        return self._open


def _page(listing: Listing, *, start: int, count: int) -> dict[str, Any]:
    everybody = listing.limit()
    return {
        "people": listing.number_of_people(),
        "texts": listing.number_of_texts(),
        "limit": _written(everybody.epsilon),
        "delta": written(everybody.delta),
        "private": listing.all_private(),
        "start": start,
        "spending": [_one(listing.spending(person)) for person in listing.people(start=start, count=count)],
    }


def _everything(listing: Listing, person: str) -> dict[str, Any]:
    if not listing.knows(person):
        words = f"nobody with the id {person!r} is in the ledger. Check the id: ids are case-sensitive."
        raise Problem(404, "no-such-person", words)
    found = listing.spending(person)
    return {
        **_one(found),
        "composition": None if found.spent is None else found.spent.rule,
        "runs": [entry_json(each) for each in found.entries],
    }


def _within(spending: Spending, budget: Decimal | None) -> Spending:
    """The same spending, measured against the smaller of its limit and the budget of a request."""
    most = min((each for each in (spending.limit.epsilon, budget) if each is not None), default=None)
    return replace(spending, limit=replace(spending.limit, epsilon=most))


def _one(spending: Spending) -> dict[str, Any]:
    return {
        "person": spending.person,
        "texts": spending.texts,
        "spent": written(spending.epsilon),
        "delta": written(spending.limit.delta),
        "limit": _written(spending.limit.epsilon),
        "left": _written(spending.left),
    }


def _written(value: Decimal | None) -> str | None:
    return None if value is None else written(value)
