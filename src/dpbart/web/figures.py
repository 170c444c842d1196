"""What a budget means, and which models there are: everything that needs no weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from dpbart import DEFAULT_MODEL
from dpbart.models.bundle import Bundle
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import A_MILLION_LOG2, in_words, level_of


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
