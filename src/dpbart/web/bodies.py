"""What a request may say. A constructed object is valid; anything else is refused with a problem."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dpbart import DEFAULT_MODEL
from dpbart.errors import BadParameter
from dpbart.privacy.budget.ids import normal_id
from dpbart.privacy.decimals import exactly
from dpbart.rewrite.settings import Settings
from dpbart.tables.batch import is_unicode
from dpbart.web.limits import Limits
from dpbart.web.problems import Problem

Fields = Mapping[str, Any]
SETTINGS = ("model", "epsilon", "delta", "mechanism", "length", "beams")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # the only way to write one in UTF-8
_REWRITE = (*SETTINGS, "texts", "people", "person_budget", "card")


@dataclass(frozen=True)
class RewriteBody:
    """The body of POST /v1/rewrite. Its texts are private: it has no repr that shows them."""

    settings: Settings
    texts: tuple[str, ...] = field(repr=False)
    people: tuple[str, ...] | None = None  # normal ids, one per text
    person_budget: float | None = None  # epsilon
    card: bool = False  # whether a card is wanted

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> RewriteBody:
        """Read the body.

        Raises:
            Problem: It is not JSON, or too many texts.
            BadParameter: A value is out of range.
        """
        given = read_object(body)
        refuse_unknown(given, _REWRITE)
        texts = _texts(given.get("texts"), limits)
        people = None if given.get("people") is None else _people(given["people"], len(texts))
        budget = number(given, "person_budget")
        if budget is not None and not budget > 0:
            raise BadParameter(f"person budget must be greater than 0, got {budget}.")
        return cls(settings_of(given), texts, people, budget, truth(given, "card"))

    @property
    def exact_budget(self) -> Decimal | None:
        """The person budget, with every digit."""
        return None if self.person_budget is None else exactly(self.person_budget)


def read_object(body: bytes) -> Fields:
    """A JSON object, with no value that JSON does not have."""
    try:
        given = json.loads(body, parse_constant=_no_constant)
        is_text = not _SURROGATE.search(body) or is_unicode(json.dumps(given, ensure_ascii=False))
    except (ValueError, RecursionError):  # the decoder's own words would quote the body
        raise Problem(400, "not-json", "the body must be JSON in UTF-8, and is not.") from None
    if not isinstance(given, dict):
        raise Problem(400, "not-json", "the body must be a JSON object, such as {...}.")
    if not is_text:
        raise Problem(400, "not-json", "the body has half a surrogate pair, which is not a character. Leave it out.")
    return given


def _no_constant(name: str) -> float:
    raise ValueError(name)


def refuse_unknown(given: Fields, known: tuple[str, ...]) -> None:
    """Refuse a field that nobody reads: it may be a misspelt one."""
    unknown = len(set(given) - set(known))  # their names are not repeated: somebody may have sent a text as a name
    if unknown:
        raise BadParameter(f"a request may have the fields {', '.join(known)}, and has {unknown} more. Leave them out.")


def settings_of(given: Fields) -> Settings:
    """The model and its budget."""
    delta = number(given, "delta")
    return Settings(
        model=string(given, "model") or DEFAULT_MODEL,
        epsilon=number(given, "epsilon"),
        delta=1e-5 if delta is None else delta,
        mechanism=string(given, "mechanism"),
        length=whole(given, "length"),
        beams=whole(given, "beams"),
    )


def number(given: Fields, name: str) -> float | None:
    """A number, or None if it is not given."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadParameter(f"{name} must be a number, got {type(value).__name__}.")
    if not abs(value) <= sys.float_info.max:
        raise BadParameter(f"{name} must be a number between -1e308 and 1e308.")
    return float(value)


def whole(given: Fields, name: str) -> int | None:
    """A whole number, or None if it is not given."""
    value = number(given, name)
    if value is not None and value != int(value):
        raise BadParameter(f"{name} must be a whole number, got {value}.")
    return None if value is None else int(value)


def string(given: Fields, name: str) -> str | None:
    """A string, or None if it is not given."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadParameter(f"{name} must be a string, got {type(value).__name__}.")
    return value


def truth(given: Fields, name: str) -> bool:
    """True or false; false if it is not given."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadParameter(f"{name} must be true or false, got {type(value).__name__}.")
    return value


def _texts(given: object, limits: Limits) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise BadParameter("texts must be a list of at least one string. Pass [text].")
    if len(given) > limits.texts:
        raise Problem(
            413,
            "too-many-texts",
            f"a request may have {limits.texts:,} texts, got {len(given):,}. Send several requests, or a file.",
        )
    for place, text in enumerate(given, start=1):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise BadParameter(f"texts must be strings, got {kind} as text {place}. Pass '' for a missing text.")
        if len(text) > limits.characters:
            words = f"a text may have {limits.characters:,} characters; text {place} has more."
            raise Problem(413, "text-too-long", words)
    return tuple(given)


def _people(given: object, texts: int) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) != texts:
        raise BadParameter(f"people must be a list with one id for each text, so {texts:,} in all.")
    ids = [normal_id(each) for each in given]
    for place, each in enumerate(ids, start=1):
        if not each:
            raise BadParameter(f"text {place} has no id in people. Give one.")
    return tuple(ids)
