"""Compute the figures of a card again, from its bounds and its promise alone.

Only names and numbers are compared. The words on a card are those of the version that made it, and a later version may
choose others, so no check depends on them.
"""

from __future__ import annotations

import math

from dpbart.card.record import CardFacts, Noise
from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.composition import Composed, Release, compose
from dpbart.privacy.facts import NOT_PRIVATE, Facts
from dpbart.privacy.guarantee import Event, Guarantee, exactly, minus
from dpbart.privacy.mechanisms import Response, known
from dpbart.privacy.shuffling.release import shuffled_release

RELATIVE = 1e-9  # tolerance for figures that were floats, and for names of clips, which have 12 digits
_COMPOSED = 1 + 1e-7  # composition rounds epsilon up by less
_BITS = 1e-9  # absolute: a tiny number of bits is the difference of two large ones
_CLOSE = 1e-4  # relative: the search for a central epsilon ends within 1e-5, and may end elsewhere on another machine


def facts_of(card: CardFacts) -> Facts:
    """The facts of the channel that a card describes."""
    mechanism, promised = known(card.noise.mechanism), card.guarantee
    if card.noise.replay_of is not None:
        return mechanism.recomputed(card.noise.figures, card.noise.replay_of).replayed()
    if promised.private:  # of the text alone, without its label
        epsilon = minus(exactly(promised.epsilon), exactly(card.label_epsilon))
        promised = Guarantee(float(epsilon), promised.delta)
    return mechanism.recomputed(card.noise.figures, promised)


def label_event(card: CardFacts) -> Event | None:
    """What a randomised label spends; None if labels are not randomised."""
    epsilon, options = card.label_epsilon, card.label_options
    if len({card.label_policy == "randomize", epsilon > 0, options is not None}) > 1:
        raise BadParameter("label_policy, label_epsilon and label_options do NOT fit together.")
    return None if options is None else Response(epsilon, options).facts.event


def composed_person(card: CardFacts, facts: Facts) -> Composed:
    """What the person with the most texts gets, from what one text and its label spend."""
    return _composed(card, facts, rows=card.person.most_texts // card.row.texts)


def wrong_row(card: CardFacts, facts: Facts) -> str | None:
    """What does not fit together in the facts about a row, in words."""
    row = card.row
    if row.texts != row.expected:
        return f"a row has {row.expected} texts, but the card says {row.texts}"
    exact = card.person.composition == composed_person(card, facts).rule
    if not composes(row.guarantee, _composed(card, facts, rows=1), exact=exact):
        return f"{row.texts} texts of one row do NOT have the guarantee on the card"
    return None


def composes(stated: Guarantee, composed: Composed, *, exact: bool) -> bool:
    """Whether the stated guarantee is the composed one or, if another version had a coarser rule, a weaker one."""
    least = composed.guarantee
    if exact:
        return same(stated.epsilon, least.epsilon, relative=_COMPOSED - 1) and same(stated.delta, least.delta)
    return stated.epsilon * _COMPOSED >= least.epsilon and stated.delta * (1 + RELATIVE) >= least.delta


def within_budget(card: CardFacts) -> bool:
    """Whether a person stayed within the budget on the card, if there is one."""
    budget = card.person.budget
    return budget is None or card.person.counted_guarantee.epsilon <= budget * _COMPOSED


def _composed(card: CardFacts, facts: Facts, *, rows: int) -> Composed:
    label = label_event(card)
    release = Release((facts.event,) * card.row.texts + (() if label is None else (label,)), card.row.texts)
    return compose({release: rows}, delta=exactly(card.person.counted_guarantee.delta))


def wrong_figure(card: CardFacts, facts: Facts) -> str | None:
    """The first figure about the noise that does not follow from the rest of the card, in words."""
    promised = facts.guarantee
    if len({card.private, card.guarantee.private, promised.private}) > 1:
        channel = f"gives {promised}" if promised.private else "promises nothing"
        return f"'private' is {str(card.private).lower()}, but the channel {channel}"
    if not same(card.guarantee.delta, promised.delta):
        return f"delta is {card.guarantee.delta:g}, but the mechanism gives {promised.delta:g}"
    expected, stated = _numbers(Noise.of(facts)), _numbers(card.noise)
    for name in sorted(expected.keys() | stated.keys()):
        if name not in stated or name not in expected:
            return f"noise.{name} {'is missing' if name in expected else 'does not belong to this mechanism'}"
        if not same(stated[name], expected[name], at_most=_BITS if name == "bits" else 0.0):
            return f"noise.{name} is {_short(stated[name])}, but {_short(expected[name])} follows from the rest"
    kept, length, entries = card.model.kept, card.model.length, card.noise.entries
    if kept is not None and entries is not None and entries not in (kept, kept * length):
        return f"noise.entries is {entries}, but the model sends {kept} columns of at most {length} rows"
    return None


def _numbers(noise: Noise) -> dict[str, object]:
    """What is compared: everything but the words, which are proof, sampler and entropy."""
    slack = {"slack_epsilon": noise.slack_epsilon, "slack_delta": noise.slack_delta}
    return {**noise.figures, **slack, "bits": noise.bits, "replay_of": noise.replay_of}


def wrong_recipe(card: CardFacts, facts: Facts) -> str | None:
    """The first part of the recipe that does not say what the card says, in words.

    A recipe has parts such as "eps:10", and ends with the model and the version.
    """
    noise, model, end = card.noise, card.model, f"|model:{card.model.identity}|v:{card.version}"
    if not card.recipe.endswith(end):
        return f"it must end with {_short(end)}"
    parts = card.recipe.removesuffix(end).split("|")
    if (NOT_PRIVATE.strip("|") in parts) is card.private:
        return "it must say NOT PRIVATE if the card does, and only then"
    stated = dict(part.partition(":")[::2] for part in parts)
    if len(stated) < len(parts):
        return "it must say everything once"
    budget = noise.replay_of or facts.guarantee
    expected = {"mech": noise.mechanism, "eps": budget.epsilon, "delta": budget.delta}
    optional = {"clip": noise.clip, "bits": noise.options_log2, "near": noise.near, "places": noise.places}
    optional["len"] = model.length
    expected |= {name: value for name, value in optional.items() if name in stated}
    if model.kept is not None:
        expected["kept"] = f"{model.kept}/{model.width}"
    wrong = [name for name, value in expected.items() if not _says(stated.get(name), value)]
    return f"it must say {wrong[0]}:{_short(expected[wrong[0]]).strip(chr(39))}" if wrong else None


def wrong_book(card: CardFacts, facts: Facts) -> str | None:
    """What does not fit together in the facts about a model's book, in words."""
    model, noise = card.model, card.noise
    for names in (model.areas, model.topics):
        if len(set(names)) < len(names) or "" in names:
            return "each area and each topic must be named once"
    if model.sentences is None:
        return "areas, topics and book_only need a book, and the card states no sentences"
    if card.own_words:
        if model.book_only:
            return "only sentences of the book can come out, but the recipe says that a code may be wording"
        if noise.near is not None or noise.places is not None:
            return "a code that may be wording has neither near nor places"
        return None
    named = named_sentences(facts)
    if named is not None and named > model.sentences:
        return f"{model.sentences:,} sentences can come out, but a code names one of {named:,}"
    return None


def named_sentences(facts: Facts) -> int | None:
    """Among how many sentences of a book a code of places chooses; None for a mechanism that has no such codes.

    With several places, each can also say nothing.
    """
    if facts.options is None:
        return None
    near, places = int(facts.figures.get("near", 1)), int(facts.figures.get("places", 1))
    values = near << (facts.options.bit_length() - 1) // places
    return values - (near if places > 1 else 0)


def _says(part: str | None, value: object) -> bool:
    """Whether a part of a recipe states a value. Numbers have 10 digits there."""
    if part is None or value is None or isinstance(value, str):
        return part == value
    try:
        return same(float(part), value)
    except ValueError:
        return False


def wrong_shuffling(card: CardFacts, facts: Facts) -> str | None:
    """What about a shuffled output does not follow from the rest of the card, in words; None if all of it does."""
    stated, people = card.shuffled, card.person.people
    if stated is None:
        return None
    if card.row.texts != 1:
        return f"a row of a shuffled output has one text, but the card says {card.row.texts}"
    if card.other_columns:
        return "a shuffled output has no other columns"
    if card.label_policy == "public":
        return "a shuffled output has no public labels"
    check_delta_for(stated.delta, texts=people, whose=f"{people} people", remedy="")
    expected = shuffled_release(
        card.guarantee,
        rows=card.rows,
        most_rows=card.person.most_texts,
        delta=stated.delta,
        options=None if card.label_epsilon else facts.options,
    )
    for name in ("most_rows", "rule", "known"):
        if getattr(stated, name) != getattr(expected, name):
            return f"{name} is {getattr(stated, name)}, but {getattr(expected, name)} follows from the rest"
    for name in ("guarantee", "row_guarantee", "known_guarantee"):
        for part in ("epsilon", "delta"):
            value, right = getattr(getattr(stated, name), part), getattr(getattr(expected, name), part)
            if abs(value - right) > _CLOSE * right:
                return f"{name}.{part} is {value}, but {right:.6g} follows from the rest"
    return None


def same(stated: object, expected: object, *, relative: float = RELATIVE, at_most: float = 0.0) -> bool:
    """Whether a value on a card is the computed one, up to the rounding of floats.

    >>> same(0.1 + 0.2, 0.3), same(1, True), same(None, 1.0), same("a", "a"), same("a", "b")
    (True, False, False, True, False)
    >>> same(1.0, 1 + 5e-8), same(1.0, 1 + 5e-8, relative=1e-7), same(1e-12, 2e-12), same(1e-12, 2e-12, at_most=1e-9)
    (False, True, False, True)
    """
    if isinstance(stated, bool) or isinstance(expected, bool):
        return stated is expected
    if isinstance(stated, int | float) and isinstance(expected, int | float):
        return math.isclose(stated, expected, rel_tol=relative, abs_tol=at_most)
    return type(stated) is type(expected) and stated == expected


def _short(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else repr(value)[:80]
