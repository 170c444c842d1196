"""The questions of the evidence commands. Their texts are public or made up, never private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import model_validator

from dpbart.errors import BadParameter
from dpbart.options.declare import AnyPath, Record, Strings, option
from dpbart.options.settings import Budget
from dpbart.privacy.calibration import check_epsilon
from dpbart.version import DEFAULT_MODEL


def budgets(given: Sequence[str]) -> tuple[float, ...]:
    """Several epsilons as numbers, ascending, each once.

    >>> budgets(["10", "4"])
    (4.0, 10.0)
    """
    try:
        numbers = sorted({float(each) for each in given})
    except ValueError:
        raise BadParameter("epsilon must be one or more numbers with commas, such as 1,4,10.") from None
    if not numbers:
        raise BadParameter("epsilon must be one or more numbers with commas, such as 1,4,10. Got none.")
    for number in numbers:
        check_epsilon(number)
    return tuple(numbers)


class AttackRequest(Record):
    """Which public texts to attack, and at which budgets.

    AttackRequest("reviews.csv", public=True, epsilon=("4", "10"))
    """

    file: AnyPath = option(argument=True, metavar="TEXTS", help="A file of public or made-up texts.", http=False)
    public: bool = option(
        False,
        help="The texts are public or made up. Required: an attack shows what is in them. Never attack private ones.",
    )
    text_column: str = option("text", help="Column with the texts.")
    author_column: str | None = option(None, help="Column with their authors: attack who wrote them.")
    attribute_column: str | None = option(None, help="Column with a sensitive attribute: attack that.")
    group_column: str | None = option(
        None,
        help="Column with groups that stay together, such as chapters, so that no attacker learns from the scene that "
        "is attacked.",
    )
    model: str = option(DEFAULT_MODEL, flags="-m --model", help="Model: a bundled name, a directory or a hub id.")
    epsilon: Strings = option(
        ("1", "4", "10", "20"),
        flags="-e --epsilon",
        metavar="E,E,...",
        separated=True,
        help="Budgets of one text, or of each person in a collection.",
    )
    release: Literal["single", "collection"] = option(
        "single", help="What is attacked: rewritten texts, or a collection that was synthesised from them."
    )
    candidates: int = option(100, help="Candidates among which a text is singled out.", ge=2)
    texts: int = option(1000, help="Most texts of the file to use; chosen at random, the same each time.", ge=1)
    plot: AnyPath | None = option(None, help="Also draw a picture: .png, .pdf or .svg.", http=False)

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets, ascending, each once."""
        return budgets(self.epsilon)

    @model_validator(mode="after")
    def _check(self) -> AttackRequest:
        if not self.public:
            raise BadParameter("an attack is for public or made-up texts only. If these are, pass --public.")
        budgets(self.epsilon)
        if (
            self.release == "collection"
            and (self.author_column, self.attribute_column, self.group_column) != (None,) * 3
        ):
            raise BadParameter(
                "a row of a collection has no author and no label to guess. Leave out --author-column, "
                "--attribute-column and --group-column."
            )
        return self


class AuditRequest(Budget):
    """Which release to audit, and for how long.

    AuditRequest("mini-code", epsilon=4, release="shuffled", people=500)
    """

    epsilon: float | None = option(
        flags="-e --epsilon",
        help="The claimed budget: of one text, or of each person in a collection.",
        example=4,
        allow_inf_nan=True,  # the mechanism checks it
        resume=False,
    )
    release: Literal["single", "shuffled", "collection"] = option(
        "single", help="What is released: single texts, a shuffled file, or a whole collection."
    )
    people: int | None = option(
        None, help="People in a shuffled file or a collection.  [default: 500 shuffled, 100 in a collection]", ge=3
    )
    trials: int | None = option(
        None,
        help="Releases of each of the two worlds. More show a larger epsilon.  [default: 20,000; 400 shuffled]",
        ge=20,
    )
    confidence: float = option(0.95, help="How often the lower bound must hold.", gt=0.5, lt=1)
    seconds: float = option(120.0, help="Stop after this time with the trials made so far.", gt=0)
    texts: AnyPath | None = option(
        None,
        help="Public or made-up texts, one on each line, among which the pair is searched. Never private ones: the "
        "pair is printed.",
        http=False,
    )
    card: AnyPath | None = option(
        None, help="A privacy card (JSON): audit only if it states this model, mechanism and budget.", http=False
    )
    control: bool = option(
        False, help="Break the promise on purpose: randomise as for twice the epsilon. The audit must catch it."
    )

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @model_validator(mode="after")
    def _check_audit(self) -> AuditRequest:
        if self.epsilon is None or self.epsilon == float("inf"):
            raise BadParameter("an audit needs the epsilon that is claimed. Pass --epsilon E.")
        if self.release == "single" and self.people is not None:
            raise BadParameter("people are those of a file. Leave out --people, or pass --release shuffled.")
        if self.release == "collection" and (self.mechanism is not None or self.book_only):
            raise BadParameter("a collection has its own mechanism. Leave out --mechanism and --book-only.")
        return self


class AdviceRequest(Record):
    """Public texts like the private ones, and what is known about the private file.

    AdviceRequest("public.csv", public=True, texts_per_person=3, people=4000, out="advice.html")
    """

    file: AnyPath = option(argument=True, metavar="TEXTS", help="Public or made-up texts like yours.", http=False)
    public: bool = option(
        False,
        help="These texts are public or made up, and not the private ones. Required: the advice shows what is in them.",
    )
    text_column: str = option("text", help="Column with the texts.")
    label_column: str | None = option(
        None, help="Column with the labels, if a classifier is to learn them from the output."
    )
    texts_per_person: int = option(help="How many texts one person gives, at most.", example=3, ge=1, le=10_000)
    people: int = option(help="How many people the private file has.", example=4000, ge=2, le=10_000_000)
    trusted_curator: bool = option(False, help="Somebody is trusted with all private texts.")
    model: str = option(DEFAULT_MODEL, flags="-m --model", help="Model: a bundled name, a directory or a hub id.")
    judge: str | None = option(
        None,
        metavar="DIR|HUB-ID",
        help="Sentence encoder that judges similarity. Default: the one inside the code model, which flatters it.",
        http=False,
    )
    out: AnyPath = option(help="The page with the advice (HTML). Its figures are kept next to it.", http=False)

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @model_validator(mode="after")
    def _check(self) -> AdviceRequest:
        if not self.public:
            raise BadParameter(
                "advice is measured on public or made-up texts only, never on the private ones. If these are public, "
                "pass --public."
            )
        if self.label_column == self.text_column:
            raise BadParameter(f"the label column must not be the text column, got '{self.text_column}' for both.")
        return self


class ClaimedEpsilon(Record):
    """Somebody else's claim, and the length of a document.

    ClaimedEpsilon("dp-prompt", temperature=1.5, clip=("0", "10"), length=120)
    """

    method: (
        Literal[
            "per-token",
            "per-word",
            "per-sentence",
            "metric",
            "exponential",
            "dp-prompt",
            "dp-paraphrase",
            "dp-mlm",
            "santext",
            "custext",
            "dp-st",
            "adept",
        ]
        | None
    ) = option(None, help="The method that makes the claim.")
    epsilon: float | None = option(None, flags="-e --epsilon", help="The epsilon that it states for one unit.", gt=0)
    temperature: float | None = option(None, help="Of the softmax that tokens are drawn from.", gt=0)
    clip: Strings = option(
        (), metavar="LOW,HIGH", separated=True, help="What its logits are clipped to.", example=["0", "10"]
    )
    diameter: float | None = option(None, help="For metric privacy: the largest distance of two words.", gt=0)
    dimensions: int | None = option(None, help="For adept: entries of the vector that is noised.", ge=1)
    length: int = option(1, help="Units in the document: tokens, words, sentences, triples or sequences.", ge=1)

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @property
    def range(self) -> tuple[float, float] | None:
        """The range of the logits; None if they are not clipped."""
        try:
            low, high = map(float, self.clip)
        except ValueError:
            low, high = 0.0, 0.0
        if self.clip and not -1e308 < low < high < 1e308:
            raise BadParameter("clip must be two numbers, the smaller one first. Pass --clip LOW,HIGH, such as 0,10.")
        return (low, high) if self.clip else None

    @model_validator(mode="after")
    def _check_claim(self) -> ClaimedEpsilon:
        _ = self.range  # refused at once if it is none
        return self
