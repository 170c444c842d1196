"""What a budget means, which models there are, and what people have spent: everything that needs no weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from dpbart.errors import BadParameter
from dpbart.ledger.ids import normal_id
from dpbart.ledger.ledger import Listing, Spending, entry_json
from dpbart.models.areas import areas_of
from dpbart.models.bundle import Bundle
from dpbart.models.families import family_of
from dpbart.privacy.composition import Release, compose
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee, exactly, rounded_up, written
from dpbart.privacy.scale import level_of
from dpbart.rewrite.account import Account
from dpbart.rewrite.figures import guarantee_json
from dpbart.version import DEFAULT_MODEL
from dpbart.web.bodies import PersonBody, read_object
from dpbart.web.guard import Problem

EXAMPLES = (
    "The room was clean and quiet, but the breakfast was cold and the coffee tasted burnt.",
    "My doctor changed my blood pressure pills last week and I have felt dizzy ever since.",
    "Please book me on the first train from Leeds to London on Friday morning.",
    "The new phone is fast and the camera is great, but the battery is empty by noon.",
    "I have paid the rent for May twice. Can you send the second payment back to my account?",
    "Our team lost again last night, although they played much better in the second half.",
)


def person_json(facts: Facts, *, texts: int, delta: Decimal) -> dict[str, Any]:
    """What so many texts of one person have together, as a ledger with this delta counts them."""
    composed = compose({Release((facts.event,)): texts}, delta=delta)
    return {
        "texts": texts,
        "guarantee": guarantee_json(composed.guarantee),
        "composition": composed.rule,
        "words": _person_words(facts.guarantee, composed.guarantee, texts),
    }


def _person_words(one: Guarantee, together: Guarantee, texts: int) -> str:
    """What several texts of one person have together, next to the budget of one.

    >>> _person_words(Guarantee(10.0, 0.0), Guarantee(100.0, 0.0), 10)
    'A person with 10 texts has epsilon 100, delta 0 for all of them: 10 times epsilon 10. The promise to this person \
is weak.'
    """
    if not one.private:
        return "There is no promise for one text at this setting, so there is none for a person."
    each, level = f"epsilon {one.epsilon:.10g}", level_of(together).name
    if texts == 1:
        return f"A person with one text has the budget of that text: {each}. The promise is {level}."
    is_less = together.epsilon < texts * one.epsilon * (1 - 1e-6)
    sum_of = f"{texts:,} times {each}"
    epsilon, delta = f"{rounded_up(together.epsilon, digits=3):,.10g}", written(exactly(together.delta))
    return (
        f"A person with {texts:,} texts has epsilon {epsilon}, delta {delta} for all of them: "
        f"{f'less than {sum_of}, because they are counted together' if is_less else sum_of}. The promise to this "
        f"person is {level}."
    )


def worst_json(account: Account) -> dict[str, Any]:
    """The weakest promise that anybody gets from these texts alone, and for what it is."""
    texts = account.most_texts
    return {"guarantee": guarantee_json(account.composed.guarantee), "texts": texts, "words": _worst_words(account)}


def _worst_words(account: Account) -> str:
    label = " with its label" if len(account.release.events) > account.release.texts else ""
    texts = account.most_texts
    if texts == 1:
        return f"one text{label}"
    whose = "a row" if texts == account.release.texts else "one person" if "people" in account.units else "one id"
    return f"all {texts:,} texts of {whose}{label and ' with their labels'}"


def models_json(bundles: Iterable[Bundle]) -> dict[str, Any]:
    """The models that the server offers."""
    return {"default": DEFAULT_MODEL, "models": [_model(each) for each in bundles]}


def _model(bundle: Bundle) -> dict[str, Any]:
    table, lines = (bundle.facts.code or {}).get("table", []), family_of(bundle).book(bundle)
    return {
        "name": bundle.name,
        "variant": bundle.facts.variant,
        "summary": family_of(bundle).summary(bundle),
        "length": bundle.facts.length,
        "mechanisms": list(family_of(bundle).mechanisms),
        "budgets": [float(row[0]) for row in table],  # that a code model was made for
        "sentences": len(lines),
        "areas": [asdict(each) for each in areas_of(lines)],
    }


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
        """Everything about the person whose id is in the body of a request."""
        person = normal_id(PersonBody(**read_object(body)).given().get("person"))
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
