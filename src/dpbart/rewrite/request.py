"""The request: which file to rewrite, and how to treat its columns and people."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from dpbart.errors import BadParameter
from dpbart.rewrite.labels import POLICIES, Labels
from dpbart.rewrite.people import BY_TEXT, People
from dpbart.rewrite.pieces import MOST_PIECES, SENTENCES, Pieces, default_pieces
from dpbart.rewrite.shuffle import check_request as check_shuffle
from dpbart.tables.bounds import ANY, Bounds
from dpbart.tables.dialect import Dialect
from dpbart.tables.formats.registry import find_format
from dpbart.tables.table import STANDARD


@dataclass(frozen=True)
class Request:
    """A file to rewrite, and how. Contradictory settings are refused here, before any file is opened."""

    source: Path
    target: Path
    text_column: str | tuple[str, ...] = "text"  # one, or several
    join_columns: bool = False  # several text columns become one text, in the first of them
    split: str | None = None  # "sentences": each text is split into pieces
    pieces: int | None = None  # of each text; by default, from the number of tokens that the model reads
    keep_columns: tuple[str, ...] | None = None  # the other columns of the output; None: all of them
    label_column: str | None = None
    labels: str | None = None  # drop, public or randomize:EPSILON
    label_set: tuple[str, ...] = ()  # public; only for randomised labels
    card: Path | None = None  # next to the output by default; for standard output, none by default
    sign_key: Path | None = None  # an ed25519 private key that signs the card
    overwrite: bool = False
    resume: bool = False  # continue an unfinished run of the same output, if there is one
    person_column: str | None = None
    join_documents: bool = False
    id_column: str | None = None  # identifies texts in a ledger, if each text counts separately
    missing_person: str = "refuse"
    person_budget: float | None = None  # epsilon
    ledger: Path | None = None
    dialect: Dialect = field(default_factory=Dialect)  # what the names and first bytes of the files do not say
    shuffle: bool = False  # write the rows in random order, with texts and randomised labels alone
    central_epsilon: float | None = None  # of the shuffled output; the local epsilon follows from it
    bounds: Bounds = ANY  # what reading the input may cost

    def __post_init__(self) -> None:
        if (self.label_column is None) != (self.labels is None):
            raise BadParameter(
                "a label column needs a policy, and a policy needs a label column. "
                f"Pass --label-column NAME with --labels {POLICIES}."
            )
        if self.label_set and self.labels is None:
            raise BadParameter("a label set needs a label column. Pass --label-column NAME --labels randomize:EPSILON.")
        if self.policy is not None and self.policy.column in self.text_columns:
            raise BadParameter(f"the label column must not be the text column, got '{self.policy.column}' for both.")
        if self.resume and STANDARD in (self.source, self.target):
            raise BadParameter(
                "--resume needs files: standard input cannot be read again, and standard output cannot be continued. "
                "Name an input and an output file."
            )
        self._check_dialect()
        self._check_texts()
        self._check_people()
        self._check_kept()
        check_shuffle(self)

    def _check_texts(self) -> None:
        columns = self.text_columns
        if not columns or len(set(columns)) < len(columns):
            raise BadParameter("each text column must be named once. Pass --text-column NAME for each of them.")
        if self.join_columns and len(columns) < 2:
            raise BadParameter("--join-columns joins several text columns. Pass --text-column NAME for each of them.")
        if len(columns) > 1 and not self.join_columns and (self.join_documents or self.texts_alone):
            what = "--join-documents makes one text" if self.join_documents else "this output holds one text"
            whose = "person" if self.join_documents else "row"
            raise BadParameter(
                f"{what} of each {whose}, got {len(columns)} text columns. Pass --join-columns to join them."
            )
        if self.split not in (None, SENTENCES):
            raise BadParameter(f"split must be {SENTENCES}, got {self.split!r}.")
        if self.pieces is not None and self.split is None:
            raise BadParameter(f"--pieces is the number of pieces of a text that is split. Pass --split {SENTENCES}.")
        if self.pieces is not None and not 1 <= self.pieces <= MOST_PIECES:
            raise BadParameter(f"pieces must be from 1 to {MOST_PIECES:,}, got {self.pieces}.")

    def _check_kept(self) -> None:
        kept = set(self.keep_columns or ())
        if self.labels == "drop" and self.label_column in kept:
            raise BadParameter("--labels drop leaves the labels out. Do not name their column with --keep-column.")
        others = kept - {*self.text_columns, self.label_column}
        if others and (self.shuffle or self.texts_alone):
            what = "a shuffled output" if self.shuffle else "an output of texts alone"
            raise BadParameter(f"{what} has no other columns. Leave out --keep-column.")
        if self.join_documents and not others <= {self.person_column}:
            raise BadParameter(
                "besides its text and label, a joined document can keep only the column of its person. Leave out the "
                "other --keep-column."
            )
        named = (*self.text_columns, self.label_column, self.person_column, self.id_column, *kept)
        for whole, inside in product(kept, (name for name in named if name is not None)):
            if inside.startswith(f"{whole}."):
                raise BadParameter(
                    f"{whole!r} holds the column {inside!r}, so it cannot be kept as a whole. Name the keys to "
                    f"keep, such as {inside}."
                )

    def _check_dialect(self) -> None:
        if self.dialect.format is not None and STANDARD not in (self.source, self.target):
            raise BadParameter(
                "--format is for standard input and output, and neither is used. The ending of a file says its format."
            )
        source = find_format(self.source, self.dialect)
        if self.dialect.document and (source is None or not source.texts_alone):
            raise BadParameter(
                "--document is for .txt files and plain standard input. In any other input, a row is a text."
            )

    def _check_people(self) -> None:
        people = self.people
        if self.person_column is not None and self.id_column is not None:
            raise BadParameter("either people or texts can be counted, not both. Pass --person-column or --id-column.")
        if people is not None and self.source == STANDARD:
            raise BadParameter(
                f"{people.option} needs a file: people are counted before the first text is released, and standard "
                "input can be read only once. Save the input to a file first."
            )
        if people is None and (self.ledger is not None or self.person_budget is not None):
            raise BadParameter(
                "a ledger or a person budget needs ids. Pass --person-column NAME or, if each text counts "
                "separately, --id-column NAME."
            )
        if people is not None and people.column in (*self.text_columns, self.label_column):
            raise BadParameter(
                f"{people.option} must name another column than that of the texts or labels, got {people.column!r}."
            )
        if self.person_budget is not None and not self.person_budget > 0:
            raise BadParameter(f"person budget must be greater than 0, got {self.person_budget}.")
        if self.join_documents and self.person_column is None:
            raise BadParameter("--join-documents joins the texts of each person. Pass --person-column NAME with it.")

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The text columns, in the given order."""
        return (self.text_column,) if isinstance(self.text_column, str) else tuple(self.text_column)

    def kept(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Those columns of the input that are in the output.

        A joined document keeps the person and, unless dropped, the label. Joined columns keep the first of them.
        """
        texts = self.text_columns[:1] if self.join_columns else self.text_columns
        released = {*texts, *(() if self.labels == "drop" else (self.label_column,))}
        others = {self.person_column} if self.join_documents else set(columns)
        if self.keep_columns is not None:
            others &= set(self.keep_columns)
        others -= {*self.text_columns, self.label_column}
        return tuple(column for column in columns if column in released | others)

    @property
    def keeps_all(self) -> bool:
        """Whether everything but texts and labels stays: also keys that row 1 lacks, and which columns are an index."""
        return self.keep_columns is None and not self.shuffle and not self.join_documents

    def texts_of_row(self, *, reads: int) -> Pieces:
        """The texts of each row, if the model reads this many tokens of a text."""
        split = None if self.split is None else self.pieces or default_pieces(reads)
        return Pieces(self.text_columns, self.join_columns, split)

    @property
    def people(self) -> People | None:
        """How rows are assigned to people; None if they are not."""
        if self.id_column is not None:
            return People(self.id_column, BY_TEXT, self.missing_person)
        return None if self.person_column is None else People(self.person_column, missing=self.missing_person)

    @property
    def policy(self) -> Labels | None:
        """The label policy; None without a label column."""
        if self.label_column is None or self.labels is None:
            return None
        asked = Labels.of(self.label_column, self.labels, self.label_set)
        # If the output has only texts, no label is released, so none is charged.
        return Labels(asked.column, "drop") if self.texts_alone else asked

    @property
    def texts_alone(self) -> bool:
        """Whether the output has only texts and no other columns."""
        format = find_format(self.target, self.dialect)
        return format is not None and format.texts_alone

    @property
    def reading(self) -> str | None:
        """How the input is read, if users may expect something else."""
        format = find_format(self.source, self.dialect)
        return None if format is None else format.reading

    @property
    def card_file(self) -> Path | None:
        if self.card is not None or self.target == STANDARD:
            return self.card
        return self.target.with_name(self.target.name + ".card.json")
