"""What a budget means, in figures and in words, as JSON. The command line and the server say the same."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from dpbart.card.figures import named_sentences
from dpbart.card.pages import chosen_in_words
from dpbart.card.record import may_have_own_words
from dpbart.models.families import family_of
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee, rounded_up
from dpbart.privacy.scale import A_MILLION, in_words, level_of
from dpbart.privacy.shuffling.release import OWN_CODE, ShuffledRelease, needs_own_code
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.shuffle import promise_to


def guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee. JSON has no infinity, so the epsilon of a release that is not private is null."""
    return {
        "epsilon": guarantee.epsilon if guarantee.private else None,
        "delta": guarantee.delta,
        "private": guarantee.private,
        "level": level_of(guarantee).name,
        "words": str(guarantee),
    }


def noise_words(facts: Facts, chosen: ChosenModel | None) -> tuple[tuple[str, str], ...]:
    """What a budget means for a channel and, if its model has a book, for that."""
    promise, rest = in_words(facts)[:2], in_words(facts)[2:]
    return (*promise, *([] if chosen is None else _book(chosen)), *rest)


def _book(chosen: ChosenModel) -> list[tuple[str, str]]:
    lines, use, facts = family_of(chosen.bundle).book(chosen.bundle), chosen.use, chosen.channel.facts
    if not lines:
        return []
    named = named_sentences(facts)
    if may_have_own_words(facts.recipe):
        codes = "; a code names some of them, or holds a text's own words"
    else:
        codes = "" if named is None else f"; a code chooses among {named:,} of them"
    count = len(use.chosen(lines, model=chosen.bundle.name))
    return [("Book", f"{chosen_in_words(use.areas, use.topics)}: {count:,} sentences{codes}")]


def noise_json(facts: Facts, chosen: ChosenModel | None) -> dict[str, Any]:
    """What a budget means for a channel, and for the model that it belongs to."""
    kept = facts.figures.get("kept")
    return {
        "mechanism": facts.mechanism,
        "guarantee": guarantee_json(facts.guarantee),
        "figures": {name: _finite(value) for name, value in facts.figures.items()},
        "bits": _finite(facts.bits),
        "kept_of_100": 100 * kept if isinstance(kept, float) else None,
        "right_of_two": facts.right_of_two,
        "right_of_a_million": facts.right_of_many(candidates=A_MILLION),
        "words": _lines(noise_words(facts, chosen)),
    }


def shuffled_json(facts: Facts, *, people: int, delta: float) -> dict[str, Any]:
    """What a shuffled output with one row for each of these people promises."""
    promised = promise_to(people, facts, delta=delta)
    return {
        "people": people,
        "guarantee": guarantee_json(promised.guarantee),
        "rule": promised.rule,
        "known": promised.known,
        "known_guarantee": guarantee_json(promised.known_guarantee),
        "words": _lines(shuffled_words(promised, facts)),
    }


def shuffled_words(shuffled: ShuffledRelease, facts: Facts) -> tuple[tuple[str, str], ...]:
    """The central guarantee, next to the local one, who is trusted for what, and what it rests on besides."""
    own_code = needs_own_code(shuffled.rule, facts.recipe)
    return (
        ("Shuffled", f"{_few_digits(shuffled.guarantee)} to those who see only the shuffled output"),
        (
            "Known rows",
            f"{_few_digits(shuffled.known_guarantee)} to those who also know {shuffled.known:,} of the rows",
        ),
        (
            "Trust",
            "Whoever shuffles sees the order of the rows. The guarantee of one text holds for them and for everybody "
            "else. The shuffled one counts the other people as honest and unknown.",
        ),
        *([("Needs", f"{OWN_CODE[0].upper()}{OWN_CODE[1:]}.")] if own_code else []),
    )


def _few_digits(guarantee: Guarantee) -> str:
    """Rounded up, so that nobody takes the bound for exact.

    >>> _few_digits(Guarantee(0.52341, 1e-06))
    '(epsilon 0.524, delta 1e-06)'
    """
    return f"(epsilon {rounded_up(guarantee.epsilon, digits=3):g}, delta {guarantee.delta:g})"


def _lines(words: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "words": said} for name, said in words]


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
