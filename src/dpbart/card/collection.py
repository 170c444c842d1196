"""A card of a whole collection: what it says in words, and what must follow from the rest of it.

The rows of such an output were drawn from noised counts, and from nothing else. The counts are on the card.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

from dpbart.card.record import CardFacts, CollectionFacts
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import few_digits
from dpbart.privacy.mechanisms import Geometric
from dpbart.privacy.scale import SEVERAL, level_of, odds

UNIT = (
    "one person: all their texts and labels could have been any others (central differential privacy, with a trusted "
    "curator)"
)
TRUST_MODEL = (
    "central: whoever runs the command holds all texts and is trusted with them; the recipients of the output need not "
    "be trusted. The ledger belongs to the same owner"
)
NOT_COVERED = (
    "the number of people, and the fact that somebody is among them",
    "other outputs about the same people: the guarantees of all of them add up",
    "whoever runs the command, and anything that can be learned on the machine where it runs",
    "what is true of most people of the collection: that is what it tells, and it holds for those outside it too",
)
LABEL_POLICY = "collection"
SHARE = 0.1  # of the people who write about a topic
TOLERANCE = 0.05  # an error of its share beyond this is no answer
_UNLIKELY = math.log(1e12)  # one honest card in so many has more noise than this

Lines = list[tuple[str, str]]


def noise_of(*, epsilon: float, labels: int, cells: int) -> Geometric:
    """The mechanism of a collection with this many labels (0 without a label column) and parts of the book."""
    return Geometric(epsilon, max(1, labels) * cells)


def least_people(*, epsilon: float, labels: int) -> int:
    """From how many people on a topic of 10% is told from noise, in each label: its share is right within 5 points.

    >>> least_people(epsilon=1.0, labels=0), least_people(epsilon=1.0, labels=7), least_people(epsilon=4.0, labels=0)
    (120, 839, 30)
    """
    alone = noise_of(epsilon=epsilon, labels=0, cells=1).share_error(1) / TOLERANCE
    return math.ceil(alone * max(1, labels))


def few_people_warning(*, people: int, epsilon: float, labels: int) -> str | None:
    """A warning if nothing can be told from noise; None if there are enough people."""
    least = least_people(epsilon=epsilon, labels=labels)
    if people >= least:
        return None
    each, fewer = (
        (f" with {labels:,} labels", ", a larger epsilon or fewer labels") if labels else ("", " or a larger epsilon")
    )
    return (
        f"TOO FEW PEOPLE: {people:,} at epsilon {few_digits(epsilon)}{each}. The output is mostly noise, and tells "
        f"little about anything. It takes about {least:,} people{fewer}."
    )


def counts_digest(counts: Sequence[Sequence[int]]) -> str:
    """A short digest of the released counts, for the recipe."""
    return hashlib.sha256(json.dumps([list(row) for row in counts]).encode()).hexdigest()[:16]


def recipe_parts(collection: CollectionFacts) -> dict[str, object]:
    """What the recipe says about a collection."""
    return {
        "people": collection.people,
        "rows": collection.rows,
        "cells": collection.cells,
        "labels": len(collection.label_values),
        "released": counts_digest(collection.counts),
    }


def labels_in_words(column: str | None, values: Sequence[str]) -> str:
    """The card's line about labels."""
    if column is None:
        return "no label column named"
    among = ", ".join(values[:20]) + (", ..." if len(values) > 20 else "")
    return f"drawn with the texts, from the same counts, in column '{column}'; the values were given in public: {among}"


def promise_in_words(epsilon: float) -> str:
    """What a collection promises.

    >>> print(promise_in_words(1.0))
    This collection as a whole has epsilon 1: no single person's texts change the probability of any released file by \
more than a factor 2.72. Rows are not rewritings of rows: no row belongs to anybody.
    """
    factor = f"a factor {_factor(epsilon)}" if epsilon < 700 else f"a factor e^{epsilon:g}"
    return (
        f"This collection as a whole has epsilon {few_digits(epsilon)}: no single person's texts change the "
        f"probability of any released file by more than {factor}. Rows are not rewritings of rows: no row belongs to "
        "anybody."
    )


def summary(card: CardFacts, collection: CollectionFacts) -> Lines:
    """The lines at the top of the card that differ from those of rewritten texts."""
    promised, labels = card.person.counted_guarantee, len(collection.label_values)
    level, few = (
        level_of(promised),
        few_people_warning(people=collection.people, epsilon=promised.epsilon, labels=labels),
    )
    named = f", in {labels:,} labels that were given in public" if labels else ""
    return [
        ("Promise", f"{level.name.upper()}. {promise_in_words(promised.epsilon)}"),
        *([] if few is None else [("Warning", few)]),
        ("To whom", to_whom(card, collection)),
        ("In words", f"{level.meaning} {odds(promised, what=SEVERAL)}"),
        (
            "Read and written",
            f"The texts of {collection.people:,} people were counted in {collection.cells:,} parts of a public book"
            f"{named}, and noise was added to every count. {collection.rows:,} rows were drawn from the noised counts.",
        ),
    ]


def to_whom(card: CardFacts, collection: CollectionFacts) -> str:
    """To whom the promise is made."""
    if card.person.guarantee is None:
        return (
            f"The person behind each of {collection.people:,} rows of the input, for that row alone. It is not known "
            "which rows belong to one person, and somebody with several rows is promised less."
        )
    return f"Each of {collection.people:,} people in the column '{card.person.named_by}', for all of their texts."


def wrong_collection(card: CardFacts, facts: Facts) -> str | None:
    """What does not fit together in the facts about a collection, in words; None if all of it does."""
    stated = card.collection
    if stated is None:
        return "the mechanism is that of a whole collection, and the card states none" if facts.whole else None
    if not facts.whole:
        return "the mechanism is not that of a whole collection"
    labels, model = len(stated.label_values), card.model
    pairs = {
        "collection.people": (stated.people, card.person.people),
        "collection.rows": (stated.rows, card.rows),
        "collection.unit": (2 * stated.unit, facts.figures["sensitivity_l1"]),
        "noise.entries": (facts.figures["entries"], max(1, labels) * stated.cells),
        "collection.counts": ([len(row) for row in stated.counts], [stated.cells] * max(1, labels)),
        "person.most_texts": (card.person.most_texts, 1),  # one vote
        "row.texts": (card.row.texts, 1),
        "label_policy": (card.label_policy, "none" if stated.label_column is None else LABEL_POLICY),
        "other_columns": (list(card.other_columns), []),
        "shuffled": (card.shuffled, None),
        "model.book_only": (model.book_only, True),
    }
    for name, (value, expected) in pairs.items():
        if value != expected:
            return f"{name} does not fit the rest of the card"
    if (stated.label_column is None) != (labels == 0) or len(set(stated.label_values)) < labels:
        return "the label values must be different, and need a column"
    if model.sentences is None or stated.cells > model.sentences:
        return f"{stated.cells:,} parts of the book need as many sentences"
    said = dict(part.partition(":")[::2] for part in card.recipe.split("|"))
    wrong = [name for name, value in recipe_parts(stated).items() if said.get(name) != str(value)]
    if wrong:
        return f"the recipe must say {wrong[0]}:{recipe_parts(stated)[wrong[0]]}"
    if sum(map(sum, stated.counts)) > stated.people * stated.unit + _most_noise(facts):
        return f"{stated.people:,} people can NOT have so many votes"
    return None


def _most_noise(facts: Facts) -> float:
    """A bound on the sum of the noise of all counts, which one honest card in 10^12 exceeds.

    With t = the scale times max(sqrt(8 n L), 2 sqrt(2) L), the sum of n such noises exceeds t with probability e^-L at
    most (Chernoff: the logarithm of the moment generating function of one is at most 2 (s scale)^2 for
    s scale <= 1 / sqrt(2)).
    """
    entries, scale = float(facts.figures["entries"]), float(facts.figures["scale"])
    return scale * max(math.sqrt(8 * entries * _UNLIKELY), math.sqrt(8) * _UNLIKELY)


def _factor(epsilon: float) -> str:
    """e^epsilon with three digits, rounded up."""
    return few_digits(math.exp(epsilon)) if epsilon > 3 else f"{math.ceil(math.exp(epsilon) * 100 - 1e-9) / 100:g}"
