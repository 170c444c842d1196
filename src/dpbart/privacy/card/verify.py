"""What can be checked of a card by somebody who has it and perhaps the output, and has not seen the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbart.errors import BadParameter, BadTable
from dpbart.files import digest_of, reason
from dpbart.privacy.budget.composition import Release, compose, exactly
from dpbart.privacy.calibration import gaussian_delta
from dpbart.privacy.card.card import FORMAT
from dpbart.privacy.card.signing import SIGNATURE, read_public_key, signed_by

_ROUNDING = 1 + 1e-9  # of figures that were floats
_NO_PROMISE = "the card promises nothing: NOT PRIVATE"
_NO_SENSE = "the card lacks figures, or they make no sense"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it holds, None where it could not be told."""

    name: str
    held: bool | None
    words: str


def verify(file: Path, *, key: Path | None = None, output: Path | None = None) -> list[Check]:
    """Check a card's arithmetic (of a text, and of a person's texts), its signature, and the output it belongs to.

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
    """Whether noise of this scale gives the guarantee that is stated, at this sensitivity."""
    try:
        noise, promised = card["noise"], card["guarantee"]
        if not card["private"] or promised["epsilon"] is None:
            return Check("noise", None, _NO_PROMISE)
        epsilon = (promised["epsilon"] - card["label_epsilon"]) * _ROUNDING
        if noise["mechanism"] == "gaussian":
            sigma = noise["scale"] / noise["sensitivity_l2"] * _ROUNDING
            held = gaussian_delta(sigma=sigma, epsilon=epsilon) <= promised["delta"] * _ROUNDING
        else:
            held = noise["scale"] * epsilon * _ROUNDING >= noise["sensitivity_l1"]
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return Check("noise", False, _NO_SENSE)
    return Check(
        "noise", held, f"a scale of {noise['scale']:.6g} {'gives' if held else 'does NOT give'} what is promised"
    )


def _person(card: Mapping[str, Any]) -> Check:
    """Whether so many texts of one person come together to what is stated for a person."""
    try:
        noise, one, person = card["noise"], card["guarantee"], card["person"]
        if not card["private"] or one["epsilon"] is None:
            return Check("person", None, _NO_PROMISE)
        multiplier = noise["scale"] / noise["sensitivity_l2"] if noise["mechanism"] == "gaussian" else None
        budget = (exactly(one["epsilon"]), exactly(one["delta"]))
        least = compose({Release(*budget, multiplier, exactly(card["label_epsilon"])): person["most_texts"]}).guarantee
        promised, texts = person["guarantee"], person["most_texts"]
        held = promised["epsilon"] * _ROUNDING >= least.epsilon and promised["delta"] * _ROUNDING >= least.delta
    except (KeyError, TypeError, ValueError, ArithmeticError, BadParameter):
        return Check("person", False, _NO_SENSE)
    return Check("person", held, f"{texts} of a person's texts {'have' if held else 'do NOT have'} what is promised")


def _signature(card: Mapping[str, Any], key: Path | None) -> Check:
    if SIGNATURE not in card:
        words = "the card is not signed"
        return Check("signature", None if key is None else False, words)
    public = None if key is None else read_public_key(key)
    held = signed_by(card, public)
    if not held:
        return Check("signature", False, "does NOT fit: the card was changed, or signed with another key")
    whose = "the key inside the card; whose it is was not checked, pass --key" if key is None else "the key given"
    return Check("signature", True, f"fits {whose}")


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
