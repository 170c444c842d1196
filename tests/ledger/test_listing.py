"""Looking up people in a ledger."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.ledger.ledger import Ledger, Listing, Run
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Event

ONE = Release((Event("laplace", Decimal(1), Decimal(0)),))
OPEN = Release((Event("none", Decimal("Infinity"), Decimal(0)),))
PEOPLE = [f"p{number:05d}" for number in range(20_000)]


def a_run(name: str, release: Release = ONE) -> Run:
    return Run(name, "2026-01-02T03:04:05+00:00", release.events[0].mechanism, "mini@abc", release)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "budgets.db", create=True, people=len(PEOPLE))
    made.begin(a_run("first"))
    return made


@pytest.fixture
def many(ledger: Ledger) -> Ledger:
    ledger.record("first", dict.fromkeys(PEOPLE, 1), before=0, upto=len(PEOPLE))
    return ledger


def steps(listing: Listing, *, start: int) -> int:
    """How much work a page is, in hundreds of instructions of SQLite."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    listing._connection.set_progress_handler(step, 100)
    listing.people(start=start, count=100)
    listing.number_of_texts()
    listing._connection.set_progress_handler(None, 0)
    return taken


def test_pages_hold_everybody_once_in_order(many: Ledger) -> None:
    listing = Listing(many.file)
    turned = [person for start in range(0, len(PEOPLE), 700) for person in listing.people(start=start, count=700)]
    assert turned == PEOPLE
    for start in (19_950, 100, 50, 3_000, 3_050, 0, 20_000):  # back, forth, and between two pages
        assert listing.people(start=start, count=100) == PEOPLE[start : start + 100]


def test_a_page_is_right_after_the_ledger_has_changed(many: Ledger) -> None:
    listing = Listing(many.file)
    assert listing.people(start=0, count=100) == PEOPLE[:100]
    assert (listing.number_of_people(), listing.number_of_texts()) == (20_000, 20_000)
    many.record("first", {"a new person at the front": 3}, before=20_000, upto=20_003)
    assert listing.people(start=100, count=2) == PEOPLE[99:101]
    assert (listing.number_of_people(), listing.number_of_texts()) == (20_001, 20_003)


def test_the_next_page_does_not_read_the_whole_ledger_again(many: Ledger) -> None:
    listing = Listing(many.file)
    whole = steps(listing, start=10_000)
    assert whole > 500  # it counts the texts and skips 10,000 people
    assert steps(listing, start=10_100) < whole / 20


def test_everything_about_a_person(ledger: Ledger) -> None:
    ledger.set_limit(Decimal(5))
    ledger.record("first", {"anna": 2, "ben": 1}, before=0, upto=3)
    found = Listing(ledger.file).spending("anna")
    assert (found.texts, found.epsilon, found.left) == (2, Decimal(2), Decimal(3))
    assert [(entry.run.name, entry.texts) for entry in found.entries] == [("first", 2)]


def test_who_has_only_a_limit_is_known_and_has_spent_nothing(ledger: Ledger) -> None:
    ledger.set_limit(Decimal(5), "anna")
    listing = Listing(ledger.file)
    assert [listing.knows(person) for person in ("anna", "Anna", "ben")] == [True, False, False]
    found = listing.spending("anna")
    assert (found.texts, found.spent, found.epsilon, found.left) == (0, None, Decimal(0), Decimal(5))
    ledger.record("first", {"ben": 1}, before=0, upto=1)
    assert listing.knows("ben")
    assert listing.spending("ben").left is None


def test_one_release_without_a_guarantee_is_noticed(ledger: Ledger) -> None:
    listing = Listing(ledger.file)
    ledger.begin(a_run("open", OPEN))
    assert listing.all_private()  # nothing was released yet
    ledger.record("open", {"anna": 1}, before=0, upto=1)
    assert not listing.all_private()
