"""What a card says about a shuffled output, in words, and how that is checked.

Two guarantees stand side by side. The local one holds for everybody. The central one is smaller, and holds for those
who see the output and nothing else. The ledger records the local one. It adds up releases that go to different people,
and some of them may learn an order, or see an output that was not shuffled. A central guarantee promises them nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.amplification import LOCAL
from dpbart.privacy.shuffling.release import ShuffledRelease, shuffled_release

if TYPE_CHECKING:
    from dpbart.privacy.card.card import PersonFacts
    from dpbart.privacy.facts import Facts

TRUST_MODEL = (
    "whoever runs the command sees the texts and the order of the rows, and must not pass on the order. The central "
    "guarantee holds for those who see the output alone, and counts the others as honest and unknown to them. The "
    "local guarantee holds for everybody, and needs no trust. Workers and the ledger belong to the owner of the texts"
)
NOT_COVERED = (
    "the number of rows, how many rows a person has, and the fact that somebody is among the people",
    "several texts by one person beyond those counted under 'person', and other outputs about the same people: the "
    "guarantees of all of them add up",
    "those who learn the order of the rows, or see the saved texts of an unfinished run: they have the local guarantee",
    "the time that rewriting takes, and anything that can be learned on the machine where it runs",
)
_CLOSE = 1e-4  # relative: the search for an epsilon ends within 1e-5, and may end elsewhere on another machine


def lines(shuffling: ShuffledRelease, local: Guarantee, person: PersonFacts, *, rows: int) -> list[tuple[str, str]]:
    """The lines of the pages: both guarantees, and who is trusted for what."""
    whose = whose_rows(shuffling, people=person.guarantee is not None)
    whose += " (group privacy)" if shuffling.most_rows > 1 else ""
    bound = "shuffling gains nothing here" if shuffling.rule == LOCAL else f"by the {shuffling.rule} bound"
    alone = f"to those who see only the output, {rows:,} rows in random order; {bound}"
    return [
        ("Local", f"{local} for each row, whoever sees it and whatever they know; the ledger counts this one"),
        ("Central", f"{shuffling.guarantee} for {whose}, {alone}"),
        ("Known rows", f"{shuffling.known_guarantee} to those who also know {shuffling.known:,} of these rows"),
    ]


def whose_rows(shuffling: ShuffledRelease, *, people: bool) -> str:
    """Whom the central guarantee is for, if people are known or only rows and their ids are."""
    if shuffling.most_rows == 1:
        return "one person" if people else "one row"
    return f"all rows of {'one person' if people else 'one id'}, at most {shuffling.most_rows:,}"


def central_words(shuffling: ShuffledRelease) -> str:
    """The central guarantee for the top of the card."""
    if shuffling.rule == LOCAL:
        return "The rows are in random order, but they are too few for a smaller epsilon."
    central = shuffling.guarantee
    whose = "a person" if shuffling.most_rows > 1 else "a row"
    return (
        f"Epsilon {central.epsilon:.4g}, delta {central.delta:.4g} for {whose}, to those who see only this output. Its "
        "rows are in random order, so the others hide each one."
    )


def wrong_shuffling(card: Mapping[str, Any], facts: Facts) -> str | None:
    """What about the shuffled output does not follow from the rest of the card, in words; None if all of it does.

    Raises:
        BadParameter: No shuffled output has these figures.
    """
    stated, person, rows = card["shuffled"], card["person"], card["rows"]
    if card["other_columns"]:
        return "a shuffled output has no other columns"
    if not card["label_epsilon"] and card["labels"].startswith("public:"):
        return "a shuffled output has no public labels"
    check_delta_for(stated["delta"], texts=person["people"], whose=f"{person['people']} people", remedy="")
    expected = shuffled_release(
        Guarantee(card["guarantee"]["epsilon"], card["guarantee"]["delta"]),
        rows=rows,
        most_rows=person["most_texts"],
        delta=stated["delta"],
        options=None if card["label_epsilon"] else facts.options,
    )
    for name in ("most_rows", "rule", "known"):
        if stated[name] != getattr(expected, name):
            return f"{name} is {stated[name]}, but {getattr(expected, name)} follows from the rest"
    for name in ("guarantee", "row_guarantee", "known_guarantee"):
        found: Guarantee = getattr(expected, name)
        for part in ("epsilon", "delta"):
            value, right = stated[name][part], getattr(found, part)
            if value is None or abs(value - right) > _CLOSE * right:
                return f"{name}.{part} is {value}, but {right:.6g} follows from the rest"
    return None


def release_of(stated: Mapping[str, Any] | None) -> ShuffledRelease | None:
    """The facts of a shuffled output from the JSON of a card."""
    if stated is None:
        return None
    held: dict[str, Any] = {
        name: Guarantee(value["epsilon"], value["delta"]) if isinstance(value, Mapping) else value
        for name, value in stated.items()
    }
    return ShuffledRelease(**held)
