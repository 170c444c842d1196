"""Compute a card's figures again, from its bounds and its promise alone, and rebuild the card from its JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from dpbart.errors import BadParameter
from dpbart.privacy.budget.composition import Composed, Release, compose
from dpbart.privacy.card.card import Card, ModelLine, PersonFacts, RunFacts, noise_of
from dpbart.privacy.card.shuffled import release_of
from dpbart.privacy.decimals import exactly, minus
from dpbart.privacy.event import Event
from dpbart.privacy.facts import NOT_PRIVATE, REPLAYED_ENTROPY, Facts
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee
from dpbart.privacy.mechanisms import Response, known

Held = Mapping[str, Any]  # a card that follows the schema

RELATIVE = 1e-9  # tolerance for figures that were floats, and for names of clips, which have 12 digits
_BITS = 1e-9  # absolute: a tiny number of bits is the difference of two large ones
_BUDGET = re.compile(r"\|eps:([^|]+)\|delta:([^|]+)\|")


def facts_of(card: Held) -> Facts:
    """The facts of the channel that the card describes.

    Raises:
        BadParameter: There is no such channel.
    """
    noise, promised = card["noise"], guarantee_of(card["guarantee"])
    mechanism = known(noise["mechanism"])
    if not promised.private and noise["entropy"] == REPLAYED_ENTROPY:
        return mechanism.recomputed(noise, _replayed_budget(card["recipe"])).replayed()
    if promised.private:
        promised = Guarantee(
            float(minus(exactly(promised.epsilon), exactly(card["label_epsilon"]))), promised.delta
        )  # of the text alone
    return mechanism.recomputed(noise, promised)


def composed_of(card: Held, facts: Facts) -> Composed:
    """What the person with the most texts gets, from what one text and its label spend."""
    label = label_event(card)
    events = (facts.event,) if label is None else (facts.event, label)
    delta = exactly(counted_of(card["person"])["delta"])
    return compose({Release(events): card["person"]["most_texts"]}, delta=delta)


def counted_of(person: Held) -> Held:
    """The guarantee of all texts with one id. On a card without it, every id was taken for a person."""
    counted: Held = person["guarantee"] if "counted_guarantee" not in person else person["counted_guarantee"]
    return counted


def label_event(card: Held) -> Event | None:
    """What a randomised label spends; None if labels are not randomised.

    Raises:
        BadParameter: The words about labels do not state the epsilon that the guarantee counts for them.
    """
    epsilon, words = card["label_epsilon"], card["labels"]
    stated = re.search(rf" by ([0-9]{{1,9}})-ary randomised response, epsilon {epsilon:.10g} of the guarantee", words)
    if words.startswith("randomised:") is not (epsilon > 0) or (epsilon > 0 and stated is None):
        raise BadParameter(f"label_epsilon is {epsilon:g}, which is NOT what 'labels' says.")
    if stated is None or not epsilon > 0:
        return None
    if card.get("label_options") not in (None, int(stated[1])):  # cards of version 0.1 do not have it
        raise BadParameter(f"label_options is {card['label_options']}, which is NOT what 'labels' says.")
    return Response(epsilon, int(stated[1])).facts.event


def wrong_figure(card: Held, facts: Facts) -> str | None:
    """The first figure about the noise that does not follow from the rest of the card, in words."""
    expected, stated = noise_of(facts), card["noise"]
    if card["private"] is not facts.guarantee.private:
        return f"'private' is {str(card['private']).lower()}, but the channel {_promise(facts.guarantee)}"
    if not same(card["guarantee"]["delta"], facts.guarantee.delta):
        return f"delta is {card['guarantee']['delta']:g}, but the mechanism gives {facts.guarantee.delta:g}"
    for name in sorted(expected.keys() | stated.keys()):
        if name not in stated or name not in expected:
            return f"noise.{name} {'is missing' if name in expected else 'does not belong to this mechanism'}"
        if not same(stated[name], expected[name], at_most=_BITS if name == "bits" else 0.0):
            return f"noise.{name} is {_short(stated[name])}, but {_short(expected[name])} follows from the rest"
    kept, length = card["model"].get("kept"), card["model"]["length"]
    if kept is not None and "entries" in stated and stated["entries"] not in (kept, kept * length):
        return f"noise.entries is {stated['entries']}, but the model sends {kept} columns of at most {length} rows"
    return None


def wrong_recipe(card: Held, facts: Facts) -> str | None:
    """The first part of the recipe that does not say what the card says, in words."""
    recipe, model = card["recipe"], card["model"]
    begin, end = facts.recipe.removesuffix(NOT_PRIVATE), f"model:{model['name']}@{model['fingerprint']}"
    end = f"|{end}|v:{card['version']}"
    if not recipe.startswith(f"{begin}|"):
        return f"it must begin with {_short(begin)}"
    if not recipe.endswith(end):
        return f"it must end with {_short(end)}"
    parts = recipe[len(begin) : -len(end)].split("|")
    if (NOT_PRIVATE.strip("|") in parts) is card["private"]:
        return "it must say NOT PRIVATE if the card does, and only then"
    stated = dict(part.partition(":")[::2] for part in parts)
    expected = {"len": str(model["length"])} if "len" in stated else {}
    if model.get("kept") is not None:
        expected["kept"] = f"{model['kept']}/{model['width']}"
    wrong = [name for name, value in expected.items() if stated.get(name) != value]
    return f"it must say {wrong[0]}:{expected[wrong[0]]}" if wrong else None


def rebuilt(card: Held, facts: Facts) -> Card:
    """The card as it was when it was written, for its pages."""
    whole = {name: value for name, value in card.items() if name in Card.__dataclass_fields__}
    person = dict(card["person"])
    for name in ("guarantee", "counted_guarantee"):
        person[name] = None if person[name] is None else guarantee_of(person[name])
    return Card(
        **{
            **whole,
            "guarantee": guarantee_of(card["guarantee"]),
            "person": PersonFacts(**person),
            "facts": facts,
            "model": ModelLine(**card["model"]),
            "run": RunFacts(**card["run"]),
            "shuffled": release_of(card.get("shuffled")),
        }
    )


def guarantee_of(stated: Held) -> Guarantee:
    """An epsilon of null is infinite.

    >>> guarantee_of({"epsilon": None, "delta": 0.0}).private
    False
    """
    if stated["epsilon"] is None:
        return NOTHING_PROMISED
    return Guarantee(float(stated["epsilon"]), float(stated["delta"]))


def same(stated: object, expected: object, *, relative: float = RELATIVE, at_most: float = 0.0) -> bool:
    """Whether a value on a card is the computed one, up to the rounding of floats.

    >>> same(0.1 + 0.2, 0.3), same(1, True), same(None, 1.0), same("a", "a")
    (True, False, False, True)
    """
    if isinstance(stated, bool) or isinstance(expected, bool):
        return stated is expected
    if isinstance(stated, int | float) and isinstance(expected, int | float):
        return math.isclose(stated, expected, rel_tol=relative, abs_tol=at_most)
    return type(stated) is type(expected) and stated == expected


def _replayed_budget(recipe: str) -> Guarantee:
    """The budget of a replay. Only its recipe still names it."""
    found = _BUDGET.search(recipe)
    if found is None:
        raise BadParameter("the recipe of a replay must name its epsilon and delta.")
    return Guarantee(float(found[1]), float(found[2]))


def _promise(guarantee: Guarantee) -> str:
    return f"gives {guarantee}" if guarantee.private else "promises nothing"


def _short(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else repr(value)[:80]
