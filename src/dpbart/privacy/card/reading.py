"""Read a card from its JSON file, strictly: what is read here is what everybody else reads, or it is refused.

JSON leaves open what a repeated key, NaN or 1e400 means. Two programs could read two different guarantees from one
signed file, so all of these are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpbart.errors import BadTable
from dpbart.files import reason
from dpbart.privacy.card.card import FORMAT

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_LARGEST = 16 << 20  # bytes
_DIGITS = 20  # of a whole number
_DEEPEST = 16  # levels; a card has fewer than 6
_SHOWN = 200  # characters of a message about a card


class _Refused(ValueError):
    """Valid JSON that has no single meaning."""


def read_card(file: Path) -> dict[str, Any]:
    """The JSON object of a card.

    Raises:
        BadTable: The file cannot be read, is not JSON, could be read in two ways, or is not a card of this format.
    """
    try:
        with file.open("rb") as handle:
            raw = handle.read(_LARGEST + 1)
    except OSError as error:
        raise BadTable(f"the card {str(file)!r} cannot be read: {reason(error)}. Give OUT.card.json.") from None
    try:
        if len(raw) > _LARGEST:
            raise _Refused(f"it has more than {_LARGEST >> 20} MB")
        card = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_number,
        )
        _check_depth(card)
    except _Refused as error:
        raise BadTable(f"the card {str(file)!r} is refused: {error}. Ask for the original card.") from None
    except (ValueError, RecursionError):
        raise BadTable(f"the card {str(file)!r} cannot be read as JSON. Give OUT.card.json.") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT or not isinstance(card.get("noise"), dict):
        raise BadTable(f"{str(file)!r} is not a privacy card of format {FORMAT}. Give OUT.card.json, or update dpbart.")
    return card


def schema_problem(card: Mapping[str, Any]) -> str | None:
    """Where a card departs from card.schema.json, in one line; None if it follows it."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(card))
    if error is None:
        return None
    place = ".".join(str(each) for each in error.absolute_path)
    return printable(f"{place}: {error.message}" if place else error.message)


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    schema = resources.files("dpbart.privacy.card").joinpath("card.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(schema))


def printable(words: str) -> str:
    """Words from a card as one short line that a terminal can show safely.

    >>> printable("a" + chr(27) + "b")
    'a?b'
    """
    line = "".join(letter if letter.isprintable() else "?" for letter in words[:_SHOWN])
    return line if len(words) <= _SHOWN else f"{line} ..."


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the key {printable(twice)!r} occurs more than once in one object")
    return held


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise _Refused("it has a number that is too large")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _Refused("it has a number that is too large")
    return value


def _no_number(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a number in JSON")


def _check_depth(card: object) -> None:
    level: list[object] = [card]
    for _ in range(_DEEPEST):
        level = [
            each
            for held in level
            for each in (held.values() if isinstance(held, dict) else held if isinstance(held, list) else ())
        ]
    if level:
        raise _Refused(f"it is nested more than {_DEEPEST} levels deep")
