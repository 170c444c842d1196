"""What a budget means, and which models there are: everything that needs no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from dpbart import DEFAULT_MODEL
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.privacy.budget.composition import Release, compose
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import A_MILLION_LOG2, in_words, level_of
from dpbart.rewrite.shuffle import promise_to

_MOST_TEXTS = 1_000_000  # of one person; beyond it, composition only multiplies


def guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee. JSON has no infinity, so the epsilon of a release that is not private is null."""
    return {
        "epsilon": guarantee.epsilon if guarantee.private else None,
        "delta": guarantee.delta,
        "private": guarantee.private,
        "level": level_of(guarantee).name,
        "words": str(guarantee),
    }


def noise_json(facts: Facts) -> dict[str, Any]:
    """What `dpbart noise` says about a channel, in figures and in the same words."""
    kept = facts.figures.get("kept")
    return {
        "mechanism": facts.mechanism,
        "guarantee": guarantee_json(facts.guarantee),
        "figures": {name: _finite(value) for name, value in facts.figures.items()},
        "bits": _finite(facts.bits),
        "kept_of_100": 100 * kept if isinstance(kept, float) else None,
        "right_of_two": facts.right_of_two,
        "right_of_a_million": facts.right_of_many(candidates_log2=A_MILLION_LOG2),
        "words": [{"name": name, "words": words} for name, words in in_words(facts)],
    }


def person_json(facts: Facts, *, texts: int, delta: Decimal) -> dict[str, Any]:
    """What so many texts of one person have together, as a ledger with this delta counts them."""
    if not 1 <= texts <= _MOST_TEXTS:
        raise BadParameter(f"texts must be from 1 to {_MOST_TEXTS:,}, got {texts}.")
    composed = compose({Release((facts.event,)): texts}, delta=delta)
    return {"texts": texts, "guarantee": guarantee_json(composed.guarantee), "composition": composed.rule}


def shuffled_json(facts: Facts, *, people: int, delta: float) -> dict[str, Any]:
    """What a shuffled output with one row for each of these people promises."""
    promised = promise_to(people, facts, delta=delta)
    return {
        "people": people,
        "guarantee": guarantee_json(promised.guarantee),
        "rule": promised.rule,
        "known": promised.known,
        "known_guarantee": guarantee_json(promised.known_guarantee),
    }


def models_json(bundles: Iterable[Bundle]) -> dict[str, Any]:
    """The models that the server offers."""
    return {"default": DEFAULT_MODEL, "models": [_model(each) for each in bundles]}


def _model(bundle: Bundle) -> dict[str, Any]:
    table = (bundle.facts.code or {}).get("table", [])
    return {
        "name": bundle.name,
        "variant": bundle.facts.variant,
        "summary": bundle.family.summary(bundle),
        "length": bundle.facts.length,
        "mechanisms": list(bundle.family.mechanisms),
        "budgets": [float(row[0]) for row in table],  # that a code model was made for
    }


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
