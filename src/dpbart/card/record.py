"""What a privacy card states, as one typed record, and how it is read from JSON.

The fields follow NIST SP 800-226: unit, epsilon and delta, mechanism and proof, trust model, composition, side
channels, public data. The JSON schema follows from the record. A later version may add a field with a default, and must
not change or remove one: cards that exist must stay valid.

Reading is strict. JSON leaves open what a repeated key, NaN or 1e400 means, so two programs could read two different
guarantees from one signed file. All of these are refused, and so are unknown fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema

from dpbart.errors import BadTable, one_line
from dpbart.files import reason
from dpbart.privacy.facts import Facts, Figure
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee
from dpbart.privacy.shuffling.release import ShuffledRelease

FORMAT = 1
UNIT = "one whole text: any text could have been any other (local differential privacy, no trusted curator)"
TRUST_MODEL = (
    "local: a text is made private where it is stored, by somebody who may read it; the recipients of the output need "
    "not be trusted. Workers and the ledger belong to the same owner"
)
NOT_COVERED = (
    "columns other than the text, which are released unchanged (see 'other columns')",
    "the number of rows, their order, and the fact that a row exists",
    "several texts by one person beyond those counted under 'person': their epsilons and deltas add up",
    "the time that rewriting takes, and anything that can be learned on the machine where it runs",
)
# A shuffled output has two guarantees. The local one holds for everybody. The central one is smaller, and holds for
# those who see the output and nothing else. The ledger records the local one: it adds up releases that go to different
# people, and a central guarantee promises nothing to somebody who learns an order or sees an unshuffled output.
SHUFFLED_TRUST_MODEL = (
    "whoever runs the command sees the texts and the order of the rows, and must not pass on the order. The central "
    "guarantee holds for those who see the output alone, and counts the others as honest and unknown to them. The "
    "local guarantee holds for everybody, and needs no trust. Workers and the ledger belong to the owner of the texts"
)
SHUFFLED_NOT_COVERED = (
    "the number of rows, how many rows a person has, and the fact that somebody is among the people",
    "several texts by one person beyond those counted under 'person', and other outputs about the same people: the "
    "guarantees of all of them add up",
    "those who learn the order of the rows, or see the saved texts of an unfinished run: they have the local guarantee",
    "the time that rewriting takes, and anything that can be learned on the machine where it runs",
)
_OPEN = "the time and power that the computation takes are not hidden"
_CLOSED = (
    "randomness is drawn with exact arithmetic, so nothing leaks through floating-point rounding",
    "random bits come from the operating system and are not stored anywhere",
)
_LARGEST = 16 << 20  # bytes
_DIGITS = 20  # of a whole number
_DEEPEST = 16  # levels; a card has fewer than 6
_SHOWN = 200  # characters of a message about a card


def _infinite(stated: Any) -> object:
    """JSON has no infinity: an epsilon of null promises nothing."""
    nothing = stated == {"epsilon": None, "delta": 0} and not isinstance(stated["delta"], bool)  # False equals 0
    return NOTHING_PROMISED if nothing else stated


def _named(corpus: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if not isinstance(corpus.get("name"), str):
        raise ValueError("public data must have a name")
    return corpus


Count = Annotated[int, Field(ge=0)]
NotNegative = Annotated[float, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Corpus = Annotated[
    Mapping[str, JsonValue],
    AfterValidator(_named),
    WithJsonSchema({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}),
]
_EPSILON = {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "null: infinite, nothing is promised"}
_PROMISE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["epsilon", "delta"],
    "properties": {"epsilon": _EPSILON, "delta": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}},
}
Promise = Annotated[Guarantee, BeforeValidator(_infinite), WithJsonSchema(_PROMISE)]


@dataclass(frozen=True)
class Noise:
    """The channel that each text went through. The sampler is exact, so it adds no slack to epsilon or delta.

    The figures are those of the mechanism. A figure that it does not have is None, and is left out of the JSON.
    """

    mechanism: str
    proof: str
    sampler: str
    entropy: str
    slack_epsilon: NotNegative
    slack_delta: NotNegative
    bits: NotNegative | None  # about a text that get through, at most; None if infinite
    replay_of: Guarantee | None = None  # the budget of a replay, which promises nothing; None for any other run
    clip: str | None = None
    entries: Count | None = None  # of a latent
    sensitivity_l1: NotNegative | None = None
    sensitivity_l2: NotNegative | None = None
    scale: NotNegative | None = None  # of the noise on each entry
    options_log2: Annotated[float, Field(ge=1)] | None = None  # bits of a code
    kept: Annotated[float, Field(gt=0, le=1)] | None = None  # how often a code comes out as it went in
    near: Annotated[int, Field(ge=2)] | None = None  # public texts that count as the code of one text
    places: Annotated[int, Field(ge=2)] | None = None  # public texts that a code names, if more than one

    @classmethod
    def of(cls, facts: Facts) -> Noise:
        """The card's entry about a channel."""
        figures: dict[str, Any] = {**facts.figures, "slack_epsilon": 0.0, "slack_delta": 0.0}
        figures |= {name: getattr(facts, name) for name in ("mechanism", "proof", "sampler", "entropy", "replay_of")}
        return cls(bits=None if facts.bits == float("inf") else facts.bits, **figures)

    @property
    def figures(self) -> dict[str, Figure]:
        """What the mechanism's own check reads."""
        latent, code = ("clip", "entries", "sensitivity_l1", "sensitivity_l2", "scale"), ("options_log2", "kept")
        names = (*latent, *code, "near", "places")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class ModelLine:
    """The model and the public text it was trained on. None of it comes from private data."""

    name: str
    fingerprint: str  # the beginning of the SHA-256 of the weights
    variant: str
    length: Count
    decoding: str
    public_data: Sequence[Corpus]
    kept: Count | None = None  # columns of the latent that are used; None if there is no latent
    width: Count | None = None
    files: str | None = None  # a hash of everything that is loaded besides the weights
    reads: Count | None = None  # tokens of a text, at most; None if not stated
    writes: Count | None = None  # tokens for a text, at most; None if not stated
    language: str | None = None  # that it was trained on; None if not stated
    sentences: Count | None = None  # of its book that may come out; None if it has no book
    areas: Sequence[str] = ()  # of the book that the operator chose; all of it if there are neither areas nor topics
    topics: Sequence[str] = ()
    book_only: bool = False  # whether only sentences of the book can come out

    @property
    def identity(self) -> str:
        """The exact model: its name and fingerprint."""
        return f"{self.name}@{self.fingerprint}"


@dataclass(frozen=True)
class RowFacts:
    """The texts of each row. Their number is public: it depends on the settings and never on a text."""

    columns: Annotated[Sequence[str], Field(min_length=1)]  # the text columns
    joined: bool  # whether they were joined into one text, in the first of them
    texts: Annotated[int, Field(ge=1, le=1_000_000)]  # in each row; each is a release of its own
    guarantee: Promise  # for all texts of one row, and its label

    @property
    def expected(self) -> int:
        """The number of texts that follows from the columns."""
        return 1 if self.joined else len(self.columns)


@dataclass(frozen=True)
class PersonFacts:
    """The guarantee for a person, who may have several texts, if it is known whose each text is.

    All of this comes from ids, which are not private: they are columns that are released unchanged.
    """

    named_by: str  # the column of the ids
    counted: str  # what the ids stand for, such as "people"
    people: Count  # how many of these were counted
    without_id: Count  # rows without an id; each was counted alone
    most_texts: Annotated[int, Field(ge=1)]  # the most texts with one id in this run
    guarantee: Promise | None  # for all texts of one person in this run; None if people are not known
    counted_guarantee: Promise  # for all texts with one id in this run
    composition: str  # the rule that gives the guarantee
    budget: NotNegative | None  # the most epsilon that a person was allowed
    ledger: str


@dataclass(frozen=True)
class CollectionFacts:
    """The release of a whole collection: the noised counts, from which every row was drawn."""

    people: Annotated[int, Field(ge=1)]  # who voted; public
    rows: Annotated[int, Field(ge=1)]  # of the output
    cells: Annotated[int, Field(ge=1)]  # parts of the model's book
    unit: Annotated[int, Field(ge=1)]  # the parts of one vote
    label_column: str | None
    label_values: Sequence[str]  # given in public
    counts: Sequence[Sequence[int]]  # (labels or 1, cells), in parts of a vote, with their noise


@dataclass(frozen=True)
class RunFacts:
    """The run itself. There is no hash of the input: it would let anybody who guesses the input confirm the guess."""

    engine: str
    refused: Count  # texts that a budget refused before it was raised and the run resumed
    versions: Mapping[str, str]  # of Python and of the packages used
    settings_sha256: Sha256
    output_sha256: Sha256 | None  # None for standard output
    # Cards of the first builds state these. No card states them now: the time depends on the texts.
    seconds: NotNegative | None = None
    rows_per_second: NotNegative | None = None


@dataclass(frozen=True)
class PageDigests:
    """The SHA-256 of the pages. `card verify` compares them, because a later version may word a page differently."""

    txt: Sha256
    html: Sha256


@dataclass(frozen=True)
class Signature:
    """Of the JSON without this field, with sorted keys, without blanks, in ASCII. Key and value are in base64."""

    algorithm: Literal["ed25519"]
    public_key: str
    value: str


@dataclass(frozen=True)
class CardFacts:
    """Everything that a card states. `guarantee` is the final one: it includes everything that could weaken it."""

    __pydantic_config__ = ConfigDict(
        title="Privacy card of dpbart", extra="forbid", strict=True, allow_inf_nan=False, regex_engine="python-re"
    )

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]  # not Literal[1], which true equals
    private: bool
    guarantee: Promise  # of each text, and its label if that is randomised
    person: PersonFacts
    noise: Noise
    model: ModelLine
    run: RunFacts
    rows: Count
    row: RowFacts
    labels: str
    label_policy: Annotated[str, Field(pattern="^(none|drop|public|randomize|collection)$")]
    label_epsilon: NotNegative  # the part of the guarantee that a randomised label spends
    label_options: Annotated[int, Field(ge=2)] | None  # how many labels a randomised one is chosen from
    other_columns: Sequence[str]  # released as they are
    free_text_columns: Sequence[str]  # released as they are, although their names sound like free text
    shuffled: ShuffledRelease | None  # what a shuffled output promises; None if it is not shuffled
    metrics: str
    recipe: str
    version: str
    made: str  # date and time, UTC
    unit: str
    trust_model: str
    side_channels: Sequence[str]
    not_covered: Sequence[str]
    collection: CollectionFacts | None = None  # None if the texts were rewritten one by one
    pages: PageDigests | None = None  # None until the pages are written
    signature: Signature | None = None

    @property
    def texts(self) -> int:
        """All texts of all rows."""
        return self.rows * self.row.texts

    @property
    def own_words(self) -> bool:
        """Whether words of a text itself can come out of a model with a book."""
        return may_have_own_words(self.recipe)


def may_have_own_words(recipe: str) -> bool:
    """Whether a code may be the wording of a text, and not only places in a book.

    >>> may_have_own_words("mech:response|eps:50|form:wording|len:38"), may_have_own_words("mech:response|form:book")
    (True, False)
    """
    return "form:wording" in recipe.split("|")


def side_channels(*, private: bool) -> tuple[str, ...]:
    """Other ways in which a text might leak, open or closed."""
    return (_OPEN, *_CLOSED) if private else (_OPEN,)


class _Refused(ValueError):
    """Valid JSON that has no single meaning."""


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a card's file. Refused if it could be read in two ways, or has another format."""
    try:
        with file.open("rb") as handle:
            raw = handle.read(_LARGEST + 1)
    except OSError as error:
        raise BadTable(f"the card {str(file)!r} cannot be read: {reason(error)}. Give OUT.card.json.") from None
    try:
        if len(raw) > _LARGEST:
            raise _Refused(f"it has more than {_LARGEST >> 20} MB")
        stated = json.loads(
            raw.decode(), object_pairs_hook=_unique, parse_int=_whole, parse_float=_finite, parse_constant=_no_number
        )
        _check_depth(stated)
    except _Refused as error:
        raise BadTable(f"the card {str(file)!r} is refused: {error}. Ask for the original card.") from None
    except (ValueError, RecursionError):
        raise BadTable(f"the card {str(file)!r} cannot be read as JSON. Give OUT.card.json.") from None
    if not isinstance(stated, dict) or stated.get("format") != FORMAT or not isinstance(stated.get("noise"), dict):
        raise BadTable(f"{str(file)!r} is not a privacy card of format {FORMAT}. Give OUT.card.json, or update dpbart.")
    return stated


def shortened(words: str) -> str:
    """Words from a card as one short line that a terminal can show safely.

    >>> shortened("a" + chr(27) + "b")
    'a\\\\x1bb'
    """
    line = one_line(words[: _SHOWN + 1])
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ..."


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    stated = dict(pairs)
    if len(stated) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the key '{shortened(twice)}' occurs more than once in one object")
    return stated


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


def _check_depth(stated: object) -> None:
    level: list[object] = [stated]
    for _ in range(_DEEPEST):
        parts = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [inner for part in parts for inner in part]
    if level:
        raise _Refused(f"it is nested more than {_DEEPEST} levels deep")
