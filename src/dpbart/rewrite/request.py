"""What a user asks for, beside the model and the mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadParameter
from dpbart.rewrite.labels import POLICIES, Labels
from dpbart.rewrite.people import People
from dpbart.tables.formats.registry import find_format
from dpbart.tables.table import STANDARD


@dataclass(frozen=True)
class Request:
    """A file to rewrite, and how. What contradicts itself is refused here, before any file is looked at."""

    source: Path
    target: Path
    text_column: str = "text"
    label_column: str | None = None
    labels: str | None = None  # drop, public or randomize:EPSILON
    label_set: tuple[str, ...] = ()  # public; for randomised labels
    card: Path | None = None  # beside the output by default; standard output has none unless named
    sign_key: Path | None = None  # an ed25519 private key that signs the card
    overwrite: bool = False
    resume: bool = False  # go on with an unfinished run of the same output, if there is one
    person_column: str | None = None
    join_documents: bool = False
    id_column: str | None = None  # names the texts in a ledger, where each stands for itself
    missing_person: str = "refuse"
    person_budget: float | None = None  # epsilon
    ledger: Path | None = None

    def __post_init__(self) -> None:
        if (self.label_column is None) != (self.labels is None):
            raise BadParameter(
                "a label column and its policy must be given together. "
                f"Pass --label-column NAME with --labels {POLICIES}."
            )
        if self.label_set and self.labels is None:
            raise BadParameter(
                "a set of labels needs their column. Pass --label-column NAME --labels randomize:EPSILON."
            )
        if self.policy is not None and self.policy.column == self.text_column:
            raise BadParameter(f"the label column must not be the text column, got '{self.text_column}' for both.")
        if self.resume and STANDARD in (self.source, self.target):
            raise BadParameter(
                "standard input cannot be read again, and what went to standard output is gone. "
                "Name files to be able to --resume."
            )
        self._check_people()

    def _check_people(self) -> None:
        people = self.people
        if self.person_column is not None and self.id_column is not None:
            raise BadParameter("people or texts must be counted, not both. Pass --person-column or --id-column.")
        if people is None and (self.ledger is not None or self.person_budget is not None):
            raise BadParameter(
                "a ledger or a budget of people must know them. Pass --person-column NAME; or, where each text "
                "stands for itself, --id-column NAME."
            )
        if people is not None and people.column in (self.text_column, self.label_column):
            raise BadParameter(f"{people.option} must name another column than the text and the label: ids are kept.")
        if self.person_budget is not None and not self.person_budget > 0:
            raise BadParameter(f"person budget must be greater than 0, got {self.person_budget}.")
        if self.join_documents and self.person_column is None:
            raise BadParameter("documents are joined for each person. Pass --person-column NAME with --join-documents.")

    @property
    def people(self) -> People | None:
        """How people are told apart, if they are."""
        if self.id_column is not None:
            return People(self.id_column, "--id-column", self.missing_person)
        return None if self.person_column is None else People(self.person_column, missing=self.missing_person)

    @property
    def policy(self) -> Labels | None:
        """What happens to the labels, if there are any."""
        if self.label_column is None or self.labels is None:
            return None
        asked = Labels.of(self.label_column, self.labels, self.label_set)
        # Where the output has texts alone, no label is released, and none is paid for.
        return Labels(asked.column, "drop") if self.texts_alone else asked

    @property
    def texts_alone(self) -> bool:
        """Whether the output has no columns but the texts."""
        format = find_format(self.target)
        return format is not None and format.texts_alone

    @property
    def card_file(self) -> Path | None:
        if self.card is not None or self.target == STANDARD:
            return self.card
        return self.target.with_name(self.target.name + ".card.json")
