"""Checks of a card for somebody who has the card, and perhaps the output, but has not seen the run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbart.errors import BadParameter, BadTable
from dpbart.files import digest_of, reason
from dpbart.privacy.budget.composition import Release, compose
from dpbart.privacy.card.card import FORMAT
from dpbart.privacy.card.signing import SIGNATURE, read_public_key, signed_by
from dpbart.privacy.decimals import exactly, minus
from dpbart.privacy.event import Event
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import MECHANISMS, Response

_ROUNDING = 1 + 1e-9  # tolerance for figures that were floats
_COMPOSED = 1 + 1e-7  # composition rounds epsilon up by less
_NO_PROMISE = "the card promises nothing: NOT PRIVATE"
_NO_SENSE = "figures on the card are missing or invalid"


@dataclass(frozen=True)
class Check:
    """The result of one check: whether it held, or None if it could not be decided."""

    name: str
    held: bool | None
    words: str


def verify(file: Path, *, key: Path | None = None, output: Path | None = None) -> list[Check]:
    """Check a card's arithmetic (for a text, and for all texts of a person), its signature and its output.

    Raises:
        BadTable: The card or the output cannot be read.
    """
    card = _read(file)
    return [_noise(card), _person(card), _signature(card, key), _output(card, output)]


def _read(file: Path) -> Mapping[str, Any]:
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadTable(f"the card {str(file)!r} cannot be read as JSON. Give OUT.card.json.") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT or not isinstance(card.get("noise"), dict):
        raise BadTable(f"{str(file)!r} is not a privacy card of format {FORMAT}. Give OUT.card.json, or update dpbart.")
    return card


def _noise(card: Mapping[str, Any]) -> Check:
    """Whether the mechanism's figures give the stated guarantee."""
    try:
        if not card["private"] or card["guarantee"]["epsilon"] is None:
            return Check("noise", None, _NO_PROMISE)
        mechanism, stated = MECHANISMS.get(card["noise"]["mechanism"]), card["noise"]
        if mechanism is None:
            return Check("noise", False, f"the mechanism {str(stated['mechanism'])[:40]!r} is unknown")
        held = mechanism.holds(stated, _of_the_text(card))
    except (KeyError, TypeError, ValueError, ArithmeticError, BadParameter):
        return Check("noise", False, _NO_SENSE)
    return Check("noise", held, f"the figures {'give' if held else 'do NOT give'} the guarantee on the card")


def _person(card: Mapping[str, Any]) -> Check:
    """Whether a person's texts compose to the guarantee stated for a person."""
    try:
        if not card["private"] or card["guarantee"]["epsilon"] is None:
            return Check("person", None, _NO_PROMISE)
        mechanism, label = MECHANISMS[card["noise"]["mechanism"]], card["label_epsilon"]
        events = [mechanism.event_of(card["noise"], _of_the_text(card))]
        options = card.get("label_options")  # cards of version 0.1 do not have it
        bits = None if options is None else math.log2(options)
        events += [Event(Response.name, exactly(label), Decimal(0), bits)] if label else []
        person = card["person"]
        promised, texts = person.get("counted_guarantee", person["guarantee"]), person["most_texts"]
        least = compose({Release(tuple(events)): texts}, delta=exactly(promised["delta"])).guarantee
        held = (
            person["guarantee"] in (None, promised)
            and promised["epsilon"] * _COMPOSED >= least.epsilon
            and promised["delta"] * _ROUNDING >= least.delta
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, BadParameter):
        return Check("person", False, _NO_SENSE)
    whose = "with one id" if person["guarantee"] is None else "of one person"
    return Check("person", held, f"{texts} texts {whose} {'have' if held else 'do NOT have'} the guarantee on the card")


def _of_the_text(card: Mapping[str, Any]) -> Guarantee:
    """The card's guarantee without the label's part."""
    promised = card["guarantee"]
    return Guarantee(float(minus(exactly(promised["epsilon"]), exactly(card["label_epsilon"]))), promised["delta"])


def _signature(card: Mapping[str, Any], key: Path | None) -> Check:
    if SIGNATURE not in card:
        words = "the card is not signed"
        return Check("signature", None if key is None else False, words)
    public = None if key is None else read_public_key(key)
    held = signed_by(card, public)
    if not held:
        return Check("signature", False, "does NOT match: the card was changed, or signed with another key")
    which = "the key inside the card; its owner was not checked (pass --key)" if key is None else "the given key"
    return Check("signature", True, f"matches {which}")


def _output(card: Mapping[str, Any], output: Path | None) -> Check:
    if output is None:
        return Check("output", None, "not checked: pass --output FILE")
    try:
        digest = digest_of(output)
    except OSError as error:
        raise BadTable(f"{str(output)!r} cannot be read: {reason(error)}.") from None
    run = card.get("run")
    held = isinstance(run, dict) and run.get("output_sha256") == digest
    return Check("output", held, "is the file of this card" if held else "is NOT the file of this card")
