"""The privacy card of a run: what is guaranteed, how, for which unit, and what is not covered.

Its fields follow NIST SP 800-226 (unit, epsilon and delta, mechanism and proof, trust model, composition, side
channels, public data). It is written as JSON for programs (see card.schema.json) and as pages for people.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.files import write_together
from dpbart.privacy.card.lines import groups
from dpbart.privacy.card.page import html_page
from dpbart.privacy.card.signing import SIGNATURE, sign
from dpbart.privacy.card.summary import free_text_warning, summary
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import level_of
from dpbart.privacy.shuffling.release import ShuffledRelease

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = 1
UNIT = "one whole text: any text could have been any other (local differential privacy, no trusted curator)"
TRUST_MODEL = (
    "local: a text is made private where it is stored, by somebody who may read it; the recipients of the output need "
    "not be trusted. Workers and the ledger belong to the same owner"
)
_CLOSED = (
    "randomness is drawn with exact arithmetic, so nothing leaks through floating-point rounding",
    "random bits come from the operating system and are not stored anywhere",
)
NOT_COVERED = (
    "columns other than the text, which are released unchanged (see 'other columns')",
    "the number of rows, their order, and the fact that a row exists",
    "several texts by one person beyond those counted under 'person': their epsilons and deltas add up",
    "the time that rewriting takes, and anything that can be learned on the machine where it runs",
)


@dataclass(frozen=True)
class ModelLine:
    """The model and the public text it was trained on. None of it comes from private data."""

    name: str
    fingerprint: str
    variant: str
    length: int
    decoding: str
    public_data: Sequence[Mapping[str, object]]
    kept: int | None = None  # columns of the latent that are used; None if there is no latent
    width: int | None = None
    files: str | None = None  # a hash of everything that is loaded besides the weights
    reads: int | None = None  # tokens of a text, at most; None if not stated
    writes: int | None = None  # tokens for a text, at most; None if not stated
    language: str | None = None  # that it was trained on; None if not stated

    @property
    def identity(self) -> str:
        """The exact model: its name and fingerprint."""
        return f"{self.name}@{self.fingerprint}"


@dataclass(frozen=True)
class PersonFacts:
    """The guarantee for a person, who may have several texts, if it is known whose each text is.

    All of this comes from ids, which are not private: they are columns that are released unchanged.
    """

    named_by: str  # the column of the ids
    counted: str  # what the ids stand for, such as "people"
    people: int  # how many of these were counted
    without_id: int  # rows without an id; each was counted alone
    most_texts: int  # the most texts with one id in this run
    guarantee: Guarantee | None  # for all texts of one person in this run; None if people are not known
    counted_guarantee: Guarantee  # for all texts with one id in this run
    composition: str  # the rule that gives the guarantee
    budget: float | None  # the most epsilon that a person was allowed
    ledger: str

    def lines(self) -> list[tuple[str, str]]:
        """The lines of the pages about people."""
        if self.guarantee is not None:
            return [
                ("Person", f"{self.guarantee} for all texts of one person, at most {self.most_texts:,} in this run"),
                ("People", f"{self.people:,}, identified by {self.named_by}"),
            ]
        column = "" if self.counted == "rows" else f", identified by {self.named_by}"
        return [
            ("Person", "no guarantee is stated: it is not known which texts belong to one person"),
            ("Counted", f"{self.people:,} {self.counted}{column}"),
            ("Same id", f"{self.counted_guarantee} for all texts with one id, at most {self.most_texts:,} in this run"),
            ("No id", f"{self.without_id:,} rows, each counted alone"),
        ]


@dataclass(frozen=True)
class RunFacts:
    """The run itself. There is no hash of the input: it would let anybody who guesses the input confirm the guess."""

    engine: str
    refused: int  # texts that a budget refused before it was raised and the run resumed
    seconds: float | None  # of the process that finished the run; None if the output is shuffled
    rows_per_second: float | None  # of the same process
    versions: Mapping[str, str]  # of Python and of the packages used
    settings_sha256: str
    output_sha256: str | None  # None for standard output


@dataclass(frozen=True)
class Card:
    """The whole card. `guarantee` is the final one: it includes everything that could weaken it."""

    guarantee: Guarantee
    person: PersonFacts
    facts: Facts  # of the channel that each text went through
    model: ModelLine
    run: RunFacts
    rows: int
    labels: str
    label_epsilon: float  # the part of the guarantee that a randomised label spends
    label_options: int | None  # how many labels a randomised one is chosen from
    other_columns: Sequence[str]
    metrics: str
    recipe: str
    version: str
    made: str  # date and time, UTC
    unit: str = UNIT
    trust_model: str = TRUST_MODEL
    not_covered: Sequence[str] = NOT_COVERED
    free_text_columns: Sequence[str] = ()  # released as they are, although their names sound like free text
    shuffled: ShuffledRelease | None = None  # what a shuffled output promises; None if it is not shuffled

    def as_dict(self) -> dict[str, object]:
        """The content of the JSON. An infinite epsilon or number of bits is null, and then `private` is false."""
        whole = {"format": FORMAT, "private": self.guarantee.private, **asdict(self)}
        del whole["facts"]
        whole |= {"noise": noise_of(self.facts), "side_channels": self.side_channels}
        return {name: _finite(value) for name, value in whole.items()}

    @property
    def side_channels(self) -> tuple[str, ...]:
        """Other ways in which a text might leak, open or closed."""
        open_ones = ("the time and power that the computation takes are not hidden",)
        return open_ones if not self.guarantee.private else (*open_ones, *_CLOSED)

    def as_json(self, key: Ed25519PrivateKey | None = None) -> str:
        """One JSON object, signed if there is a key."""
        held = self.as_dict()
        if key is not None:
            held[SIGNATURE] = sign(held, key)
        return json.dumps(held, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @property
    def title(self) -> str:
        return "PRIVACY CARD" if self.guarantee.private else "PRIVACY CARD: THIS OUTPUT IS NOT PRIVATE"

    @property
    def warnings(self) -> list[str]:
        """What somebody should look at before the output is shared."""
        return [free_text_warning(self.free_text_columns)] if self.free_text_columns else []

    def as_text(self) -> str:
        """The page for a terminal: the summary first, then all facts by group."""
        top = "".join(f"{name + ':':<20}{value}\n" for name, value in summary(self))
        top += "".join(f"WARNING: {each}\n" for each in self.warnings)
        covered = "".join(f"  - {each}\n" for each in self.not_covered)
        body = "".join(
            f"\n{title}\n{'-' * len(title)}\n" + "".join(f"{each.name + ':':<15}{each.value}\n" for each in facts)
            for title, facts in groups(self)
        )
        return f"{self.title}\n{'=' * len(self.title)}\n{top}\nNot covered:\n{covered}{body}"

    def as_html(self) -> str:
        """The page for a browser, self-contained and without scripts."""
        return html_page(
            title=self.title,
            level=level_of(self.person.counted_guarantee),
            summary=summary(self),
            warnings=self.warnings,
            not_covered=self.not_covered,
            groups=groups(self),
        )

    def write(
        self, file: Path, key: Ed25519PrivateKey | None = None, *, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Write the JSON to the file, and the pages next to it. Each is written completely or not at all.

        Args:
            file: where the JSON goes.
            key: signs the JSON.
            ready: called when all three are on disk, before the first of them appears under its name.

        Raises:
            BadTable: A file cannot be written.
        """
        text, page = pages_next_to(file)
        write_together({text: self.as_text(), page: self.as_html(), file: self.as_json(key)}, ready=ready)


def pages_next_to(file: Path) -> tuple[Path, Path]:
    """The paths of the text and HTML pages, next to the card's JSON.

    >>> [page.name for page in pages_next_to(Path("out.csv.card.json"))]
    ['out.csv.card.txt', 'out.csv.card.html']
    """
    return file.with_suffix(".txt"), file.with_suffix(".html")


def noise_of(facts: Facts) -> dict[str, object]:
    """The JSON's object about the channel. The sampler is exact, so it adds no slack to epsilon or delta."""
    held = {
        "mechanism": facts.mechanism,
        "proof": facts.proof,
        **facts.figures,
        "sampler": facts.sampler,
        "entropy": facts.entropy,
        "slack_epsilon": 0.0,
        "slack_delta": 0.0,
        "bits": facts.bits,
    }
    return {name: _finite(value) for name, value in held.items()}


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
