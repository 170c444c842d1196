"""What a request may say: flat, strict records that follow from the declared options.

A refusal quotes numbers that are out of range, and nothing else: a value may be a private text in the wrong place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, cast

from pydantic import Field
from starlette.datastructures import QueryParams

from dpbart.errors import BadParameter
from dpbart.ledger.ids import normal_id
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.declare import Flat, Record, Strings, flat_model, from_flat, leaves, option
from dpbart.options.evidence import AdviceRequest
from dpbart.options.rewriting import Dialect, Request
from dpbart.options.settings import Settings
from dpbart.options.topics import TopicsQuestion
from dpbart.privacy.guarantee import exactly
from dpbart.tables.batch import holds
from dpbart.web.guard import Limits, Problem

Fields = Mapping[str, Any]
MOST_TEXTS = 1_000_000  # of one person; beyond it, composition only multiplies
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # the only way to write one in UTF-8
_DIGITS = 12  # of a whole number in a query


class SentTexts(Record):
    """The texts of one request, and whose they are."""

    texts: Strings = option(help="The texts.", example=["I saw my doctor in Leeds."])
    people: Annotated[tuple[str | int | float, ...], Field(strict=False)] | None = option(
        None, help="The id of the person behind each text; required if the server has a ledger."
    )
    person_budget: float | None = option(
        None, help="The most epsilon that each of these people may have spent afterwards.", gt=0
    )
    card: bool = option(False, help="Whether the answer has a file of the new texts, and its card.")

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Nothing: the texts are private."""
        return []

    def check(self, limits: Limits, *, beams: int | None) -> None:
        """Refuse too many texts or beams, texts that are too long, and texts without a person."""
        if not self.texts:
            raise BadParameter("texts must be a list of at least one string. Pass [text].")
        if len(self.texts) > limits.texts:
            words = f"a request may have {limits.texts:,} texts, got {len(self.texts):,}. Send several, or a file."
            raise Problem(413, "too-many-texts", words)
        if len(self.texts) * (beams or 1) > limits.searched:
            words = f"a request may have {limits.searched:,} texts times beams, got {len(self.texts):,} times {beams}."
            raise Problem(413, "too-many-texts", f"{words} Send several, lower beams, or send a file.")
        for place, text in enumerate(self.texts, start=1):
            if len(text) > limits.characters:
                words = f"a text may have {limits.characters:,} characters; text {place} has more."
                raise Problem(413, "text-too-long", words)
        if self.people is not None and len(self.people) != len(self.texts):
            raise BadParameter(f"people must be a list with one id for each text, so {len(self.texts):,} in all.")
        for place, each in enumerate(self.ids or (), start=1):
            if not each:
                raise BadParameter(f"text {place} has no id in people. Give one.")

    @property
    def ids(self) -> tuple[str, ...] | None:
        """The people as the ledger knows them; None if nobody is counted."""
        return None if self.people is None else tuple(map(normal_id, self.people))

    @property
    def exact_budget(self) -> Decimal | None:
        """The person budget, with every digit."""
        return None if self.person_budget is None else exactly(self.person_budget)


class Expected(Record):
    """What whoever sends a file has been shown."""

    expected_epsilon: float | None = option(
        None,
        help="The epsilon that you expect. If anybody in the file gets a larger one, the job asks before it begins.",
        gt=0,
    )


class NoiseCounts(Record):
    """What else to tell about a budget."""

    texts: int | None = option(
        None, help="Also tell what this many texts of one person have together.", ge=1, le=MOST_TEXTS
    )
    people: int | None = option(
        None, help="Also tell what a shuffled output with one row for each of this many people promises.", ge=1
    )


class CollectionCounts(Record):
    """Whose collection to tell about."""

    people: int = option(help="How many people there are.", example=4000, ge=1)
    labels: int | None = option(None, help="How many labels their rows have.", ge=2)


class LedgerPage(Record):
    """Which people to show."""

    start: int = option(0, help="How many people to leave out.", ge=0)


class OnePerson(Record):
    """Whom to look for in the ledger."""

    person: str | int | float | None = option(None, help="The id of the person.", example="anna")


RewriteBody = flat_model(Settings, SentTexts, name="RewriteBody")
JobOptions = flat_model(Settings, Request, Expected, name="JobOptions")
CollectionOptions = flat_model(CollectionBudget, CollectionRequest, name="CollectionOptions")
ColumnsOptions = flat_model(Dialect, name="ColumnsOptions")
AdviceOptions = flat_model(AdviceRequest, name="AdviceOptions")
NoiseQuery = flat_model(Settings, NoiseCounts, name="NoiseQuery")
CollectionQuery = flat_model(CollectionBudget, CollectionCounts, name="CollectionQuery")
TopicsQuery = flat_model(TopicsQuestion, name="TopicsQuery")
ExamplesQuery = flat_model(Settings, name="ExamplesQuery")
LedgerQuery = flat_model(LedgerPage, name="LedgerQuery")
PersonBody = flat_model(OnePerson, name="PersonBody")
BODY_EXAMPLES: Mapping[type[Flat], Fields] = {
    RewriteBody: {"texts": ["I saw my doctor in Leeds."], "epsilon": 10, "people": ["anna"]},
    JobOptions: {"epsilon": 10, "text_column": "review"},
    CollectionOptions: {"epsilon": 1, "text_column": "review", "person_column": "author"},
    ColumnsOptions: {"encoding": "cp1252"},
    AdviceOptions: {"public": True, "texts_per_person": 3, "people": 4000},
    PersonBody: {"person": "anna"},
}


def read_object(body: bytes) -> Fields:
    """A JSON object, with no value that JSON does not have."""
    try:
        given = json.loads(body, parse_constant=_no_constant)
        is_text = not _SURROGATE.search(body) or holds(json.dumps(given, ensure_ascii=False))
    except (ValueError, RecursionError):  # the decoder's own words would quote the body
        raise Problem(400, "not-json", "the body must be JSON in UTF-8, and is not.") from None
    if not isinstance(given, dict):
        raise Problem(400, "not-json", "the body must be a JSON object, such as {...}.")
    if not is_text:
        raise Problem(400, "not-json", "the body has half a surrogate pair, which is not a character. Leave it out.")
    return given


def _no_constant(name: str) -> float:
    raise ValueError(name)


def read_texts(body: bytes, limits: Limits) -> tuple[Settings, SentTexts]:
    """The body of POST /v1/rewrite."""
    given = RewriteBody(**read_object(body)).given()
    settings, texts = from_flat(Settings, given), from_flat(SentTexts, given)
    texts.check(limits, beams=settings.beams)
    return settings, texts


def queried(model: type[Flat], query: QueryParams) -> dict[str, object]:
    """The options in a query, where every value is a string, and a list is a name that occurs several times."""
    known = {leaf.name: leaf for leaf in leaves(model)}
    given: dict[str, object] = {}
    for name, value in query.multi_items():
        parsed = _parsed(name, value, known[name].kind if name in known else None)
        given[name] = (*cast(Strings, given.get(name, ())), parsed) if name in known and known[name].many else parsed
    return model(**given).given()


def _parsed(name: str, value: str, kind: object) -> object:
    if kind is int:
        if not value.isdecimal() or len(value) > _DIGITS:
            raise BadParameter(f"{name} must be a whole number, at least 0.")
        return int(value)
    if kind is float:
        try:
            return float(value)
        except ValueError:
            raise BadParameter(f"{name} must be a number.") from None
    if kind is bool:
        if value not in ("true", "false"):
            raise BadParameter(f"{name} must be true or false.")
        return value == "true"
    return value
