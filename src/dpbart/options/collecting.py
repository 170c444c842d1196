"""The request for a release of a whole collection: which file, which columns, and whose texts they are.

Contradictory options are refused here, before any file is opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import model_validator

from dpbart.errors import BadParameter
from dpbart.options.declare import Record, Strings, option
from dpbart.options.rewriting import (
    STANDARD,
    Dialect,
    FileOptions,
    OneOrMore,
    OutputFiles,
    PersonOptions,
    check_different,
    check_named_once,
)
from dpbart.options.settings import BookBudget
from dpbart.privacy.calibration import check_epsilon


class CollectionBudget(BookBudget):
    """A model with a book, and the privacy budget of a whole collection.

    CollectionBudget(epsilon=1, areas=("health",))
    """

    epsilon: float = option(
        flags="-e --epsilon",
        help="Privacy budget of each person in the whole collection; smaller is more private.",
        example=1,
        allow_inf_nan=True,  # checked below
        resume=False,
    )

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @model_validator(mode="after")
    def _check(self) -> CollectionBudget:
        check_epsilon(self.epsilon)
        return self


class CollectionColumns(Record):
    """Which columns hold the texts and the labels."""

    text_column: OneOrMore = option(
        ("text",),
        help="Column with the texts; in JSON and Parquet also inside an object, such as note.text. Repeatable: all "
        "texts of a person share one vote.",
        example="note.text",
    )
    label_column: str | None = option(None, help="Column with the labels; requires --label-values.")
    label_values: Strings = option(
        (),
        metavar="A,B,...",
        separated=True,
        help="All labels that can come out; public, and never read off the file. A text with another label is not "
        "counted.",
        example=["yes", "no"],
    )

    @model_validator(mode="after")
    def _check(self) -> CollectionColumns:
        check_named_once(self.text_column)
        if (self.label_column is None) != (not self.label_values):
            raise BadParameter(
                "a label column needs the labels that can come out, and they need a column. Pass --label-column NAME "
                "with --label-values A,B,..."
            )
        if self.label_values:
            check_different(self.label_values)
        if self.label_column in self.text_column:
            raise BadParameter(f"the label column must not be the text column, got '{self.label_column}' for both.")
        return self


class CollectionRequest(FileOptions):
    """A collection to release as a whole, and how.

    CollectionRequest(Path("notes.csv"), Path("private.csv"), person_column="patient")
    """

    rows: int | None = option(None, help="Rows to write; by default as many as there are people.", ge=1)
    columns: CollectionColumns = CollectionColumns()
    people: PersonOptions = PersonOptions()
    output: OutputFiles = OutputFiles()
    dialect: Dialect = Dialect()

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @model_validator(mode="after")
    def _check(self) -> CollectionRequest:
        people, columns = self.people, self.columns
        if self.source == STANDARD:
            raise BadParameter(
                "a collection needs a file: its people are counted before anybody votes, and standard input can be "
                "read only once. Save the input to a file first."
            )
        if self.target != STANDARD and self.dialect.format is not None:
            raise BadParameter("--format is for standard output. The ending of a file says its format.")
        if self.target == STANDARD and self.output.resume:
            raise BadParameter("--resume needs a file: standard output cannot be continued. Name an output file.")
        if people.person_column is None and (people.ledger is not None or people.person_budget is not None):
            raise BadParameter("a ledger or a person budget needs ids. Pass --person-column NAME.")
        if people.person_column is not None and people.person_column in (*columns.text_column, columns.label_column):
            raise BadParameter(
                "--person-column must name another column than that of the texts or labels, got "
                f"{people.person_column!r}."
            )
        return self

    @property
    def card_file(self) -> Path | None:
        """The file of the card; None if there is none."""
        return self.output.card_of(self.target)
