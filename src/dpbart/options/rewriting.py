"""The request: which file to rewrite, and how to treat its columns and people.

Contradictory options are refused here, before any file is opened.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from decimal import Context, Decimal
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from dpbart.errors import BadParameter, BadTable
from dpbart.options.declare import AnyPath, Record, Strings, option

STANDARD = Path("-")  # standard input or output
ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1")
POLICIES = "drop, public or randomize:EPSILON"
DROP, PUBLIC, RANDOMIZE = "drop", "public", "randomize:"

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")  # of JSON, and not too long
_EXACT = Context(prec=99)  # more digits than such a number has


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def check_named_once(columns: Sequence[str]) -> None:
    """Refuse text columns that are named twice, or not at all."""
    if not columns or len(set(columns)) < len(columns):
        raise BadParameter("each text column must be named once. Pass --text-column NAME for each of them.")


OneOrMore = Annotated[Strings, BeforeValidator(_several, json_schema_input_type=str | Strings)]  # one name, or several


class TextOptions(Record):
    """Which columns hold the texts."""

    text_column: OneOrMore = option(
        ("text",),
        help="Column with the texts; in JSON and Parquet also inside an object, such as note.text. Repeatable: each "
        "text of a row is a release of its own.",
        example="note.text",
    )
    join_columns: bool = option(False, help="Join the text columns of a row into one text under one epsilon.")

    @model_validator(mode="after")
    def _check(self) -> TextOptions:
        columns = self.text_column
        check_named_once(columns)
        if self.join_columns and len(columns) < 2:
            raise BadParameter("--join-columns joins several text columns. Pass --text-column NAME for each of them.")
        return self

    @property
    def per_row(self) -> int:
        """Texts of a row. Each of them is a release."""
        return 1 if self.join_columns else len(self.text_column)


class LabelOptions(Record):
    """Which column holds labels, and what happens to them."""

    label_column: str | None = option(None, help="Column with the labels; requires --labels.")
    labels: str | None = option(
        None,
        metavar="drop|public|randomize:E",
        help="Drop the labels, release them unchanged (the card says so), or randomise them with their own epsilon E.",
        example="randomize:2",
    )
    label_set: Strings = option(
        (), metavar="A,B,...", separated=True, help="All possible labels, for randomize; public.", example=["yes", "no"]
    )
    label_file: AnyPath | None = option(
        None,
        help="The same, from a public file with one label per line.",
        http=False,
        resume=False,  # its labels are compared
    )

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, given: dict[str, Any]) -> dict[str, Any]:
        """The labels of a file are read at once, and become the label set."""
        file = given.get("label_file")
        if file is None:
            return given
        if given.get("label_set"):
            raise BadParameter("the label set must come from one place. Pass either --label-set or --label-file.")
        return {**given, "label_file": None, "label_set": read_label_file(Path(file))}

    @model_validator(mode="after")
    def _check(self) -> LabelOptions:
        if (self.label_column is None) != (self.labels is None):
            raise BadParameter(
                "a label column needs a policy, and a policy needs a label column. "
                f"Pass --label-column NAME with --labels {POLICIES}."
            )
        if self.labels is None:
            if self.label_set:
                raise BadParameter(
                    "a label set needs a label column. Pass --label-column NAME --labels randomize:EPSILON."
                )
            return self
        if self.epsilon is not None:
            self._check_set()
        elif self.labels not in (DROP, PUBLIC):
            raise BadParameter(f"labels must be {POLICIES}, got {self.labels!r}.")
        elif self.label_set:
            raise BadParameter("a label set is only for randomised labels. Pass --labels randomize:EPSILON with it.")
        return self

    def _check_set(self) -> None:
        if not self.label_set:
            raise BadParameter(
                "randomised labels need a set of labels that does not come from the private column. "
                "Pass --label-set a,b,c, or --label-file FILE with one public label per line."
            )
        check_different(self.label_set)
        from dpbart.privacy.mechanisms import Response  # imports numpy, and --help must not wait for it

        Response(self.epsilon or 0.0, len(self.label_set))

    @property
    def epsilon(self) -> float | None:
        """The epsilon of randomised labels; None if they are not randomised."""
        if self.labels is None or not self.labels.startswith(RANDOMIZE):
            return None
        try:
            return float(self.labels.removeprefix(RANDOMIZE))
        except ValueError:
            raise BadParameter(
                f"labels must be {POLICIES}, got {self.labels!r}. Pass, for example, randomize:2."
            ) from None


class PersonOptions(Record):
    """Who the people are, and what each of them may spend."""

    person_column: str | None = option(None, help="Column that identifies the person; the texts of a person add up.")
    person_budget: float | None = option(
        None, help="Total epsilon that a person may have spent after this run.", gt=0, resume=False
    )
    ledger: AnyPath | None = option(
        None, help="SQLite file that records what each person has spent; created if missing.", http=False
    )


class PeopleOptions(PersonOptions):
    """Whose texts they are, and what each person may spend."""

    join_documents: bool = option(False, help="Join all texts of a person into one document under one epsilon.")
    id_column: str | None = option(
        None, help="Column that identifies each text in the ledger, if you do not count by person."
    )
    missing_person: Literal["refuse", "own"] = option(
        "refuse", help="If a row has no id: refuse the file, or count the row as a separate person."
    )

    @model_validator(mode="after")
    def _check(self) -> PeopleOptions:
        if self.person_column is not None and self.id_column is not None:
            raise BadParameter("either people or texts can be counted, not both. Pass --person-column or --id-column.")
        if self.ids is None and (self.ledger is not None or self.person_budget is not None):
            raise BadParameter(
                "a ledger or a person budget needs ids. Pass --person-column NAME or, if each text counts "
                "separately, --id-column NAME."
            )
        if self.join_documents and self.person_column is None:
            raise BadParameter("--join-documents joins the texts of each person. Pass --person-column NAME with it.")
        return self

    @property
    def ids(self) -> str | None:
        """The column with the ids; None if nobody is counted."""
        return self.id_column if self.person_column is None else self.person_column

    @property
    def flag(self) -> str:
        """The option that names the column of the ids."""
        return "--person-column" if self.id_column is None else "--id-column"


class OutputFiles(Record):
    """The files next to an output, and what happens to an older one."""

    card: AnyPath | None = option(
        None, help="File for the privacy card (JSON); OUT.card.json by default.", http=False, resume=False
    )
    sign_key: AnyPath | None = option(
        None, help="Sign the card with this ed25519 private key (PEM).", http=False, resume=False
    )
    overwrite: bool = option(False, help="Replace an existing output.", http=False, resume=False)
    resume: bool = option(False, help="Resume an unfinished run of OUT, if there is one.", http=False, resume=False)

    def card_of(self, target: Path) -> Path | None:
        """The file of the card: next to the output by default; for standard output, none by default."""
        if self.card is not None or target == STANDARD:
            return self.card
        return target.with_name(target.name + ".card.json")


class OutputOptions(OutputFiles):
    """What the output holds, in which order, and the files next to it."""

    keep_columns: Strings = option(
        (),
        flags="--keep-column",
        help="Also release this column, unchanged and without protection. Repeatable. By default, the output has only "
        "the texts, and the labels if their policy releases them.",
    )
    keep_all: bool = option(
        False, help="Release every other column too, unchanged and without protection. The run and the card list them."
    )
    shuffle: bool = option(False, help="Write the rows in random order, with the texts and randomised labels alone.")
    central_epsilon: float | None = option(
        None,
        help="With --shuffle, instead of --epsilon: the epsilon for those who see only the output.",
        resume=False,  # the local epsilon that follows from it is compared
    )

    @model_validator(mode="after")
    def _check(self) -> OutputOptions:
        if self.central_epsilon is not None and not self.shuffle:
            raise BadParameter("a central epsilon is that of a shuffled output. Pass --shuffle with --central-epsilon.")
        return self


class Dialect(Record):
    """How files are read and written, as far as their names and first bytes do not say it."""

    delimiter: str | None = option(
        None, metavar="CHAR", help="Delimiter of a CSV file; by default, its header shows it."
    )
    encoding: str | None = option(
        None, metavar="NAME", help="utf-8, utf-16, cp1252 or latin-1; by default that of the byte order mark, or UTF-8."
    )
    format: str | None = option(
        None,
        metavar="NAME",
        help="Format of standard input and output: csv, jsonl, parquet, csv.gz, ...; by default one text per line.",
        http=False,
        resume=False,  # standard input cannot be read again
    )
    document: bool = option(False, help="Read a .txt file as one text instead of one text per line.")
    sheet: str | None = option(
        None,
        metavar="NAME",
        help="Sheet of an Excel workbook, by its name or number; by default the only one that has cells.",
        example="Feedback",
    )

    @model_validator(mode="before")
    @classmethod
    def _tab(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "delimiter": "\t"} if given.get("delimiter") == "\\t" else given  # few shells type a tab

    @model_validator(mode="after")
    def _check(self) -> Dialect:
        given = self.delimiter
        if given is not None and (len(given) != 1 or given in '"\r\n\0' or given.isalnum()):
            raise BadParameter(
                f"a delimiter must be one character such as ';', ',', '|' or '\\t', got {given!r}. "
                "Letters, digits, quotes and line ends do not delimit fields."
            )
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise BadParameter(f"encoding must be one of {', '.join(ENCODINGS)}, got {self.encoding!r}.")
        return self


class FileOptions(Record):
    """What is read, and what is written."""

    source: AnyPath = option(argument=True, metavar="IN", help="The file with the texts.", http=False, resume=False)
    target: AnyPath = option(argument=True, metavar="OUT", help="The file to write.", http=False, resume=False)


class Request(FileOptions):
    """A file to rewrite, and how.

    Request(Path("notes.csv"), Path("private.csv"), text_column="note", person_column="patient")
    """

    texts: TextOptions = TextOptions()
    label: LabelOptions = LabelOptions()
    people: PeopleOptions = PeopleOptions()
    output: OutputOptions = OutputOptions()
    dialect: Dialect = Dialect()

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)

    @model_validator(mode="after")
    def _check(self) -> Request:
        self._check_standard()
        self._check_columns()
        self._check_kept()
        if self.output.shuffle:
            self._check_shuffled()
        return self

    def _check_standard(self) -> None:
        if STANDARD not in (self.source, self.target):
            if self.dialect.format is not None:
                raise BadParameter(
                    "--format is for standard input and output, and neither is used. The ending of a file says its "
                    "format."
                )
            return
        if self.output.resume:
            raise BadParameter(
                "--resume needs files: standard input cannot be read again, and standard output cannot be continued. "
                "Name an input and an output file."
            )
        if self.people.ids is not None and self.source == STANDARD:
            raise BadParameter(
                f"{self.people.flag} needs a file: people are counted before the first text is released, and standard "
                "input can be read only once. Save the input to a file first."
            )

    def _check_columns(self) -> None:
        columns, label, ids = self.texts.text_column, self.label.label_column, self.people.ids
        if label is not None and label in columns:
            raise BadParameter(f"the label column must not be the text column, got '{label}' for both.")
        if ids is not None and ids in (*columns, label):
            raise BadParameter(
                f"{self.people.flag} must name another column than that of the texts or labels, got {ids!r}."
            )
        if self.texts.per_row > 1 and self.people.join_documents:
            raise BadParameter(
                f"--join-documents makes one text of each person, got {len(columns)} text columns. Pass --join-columns "
                "to join them."
            )

    def _check_kept(self) -> None:
        kept, people, keeps_all = set(self.output.keep_columns), self.people, self.output.keep_all
        if kept and keeps_all:
            raise BadParameter("either some or all other columns are kept. Pass --keep-column or --keep-all.")
        if self.label.labels == DROP and self.label.label_column in kept:
            raise BadParameter("--labels drop leaves the labels out. Do not name their column with --keep-column.")
        if self.keeps_others and self.output.shuffle:
            raise BadParameter("a shuffled output has no other columns. Leave out --keep-column and --keep-all.")
        if people.join_documents and (keeps_all or not self.other_columns <= {people.person_column}):
            raise BadParameter(
                "besides its text and label, a joined document can keep only the column of its person. Pass "
                f"--keep-column {people.person_column} for that one, and keep no other."
            )
        for whole, inside in product(kept, (*self.named_columns, *kept)):
            if inside.startswith(f"{whole}."):
                raise BadParameter(
                    f"{whole!r} holds the column {inside!r}, so it cannot be kept as a whole. Name the keys to "
                    f"keep, such as {inside}."
                )

    def _check_shuffled(self) -> None:
        if STANDARD in (self.source, self.target):
            raise BadParameter(
                "--shuffle needs files: the order is drawn when all rows are saved, and a run that is killed must find "
                "them again. Name an input and an output file."
            )
        if self.texts.per_row > 1:
            raise BadParameter(
                "--shuffle releases one text of each row, and its guarantee is for that. Name one --text-column or "
                "pass --join-columns."
            )
        if self.people.id_column is not None:
            raise BadParameter(
                "--shuffle leaves no id in the output, and its guarantee is for people. Pass --person-column with the "
                "column of the ids: the ledger counts by it, and the output does not hold it."
            )
        if self.label.labels == PUBLIC:
            raise BadParameter(
                "a public label would tell the rows of a shuffled output apart. Pass --labels drop, or "
                "--labels randomize:EPSILON."
            )

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns of texts, labels and ids."""
        others = (self.label.label_column, self.people.person_column, self.people.id_column)
        return (*self.texts.text_column, *(column for column in others if column is not None))

    @property
    def other_columns(self) -> set[str]:
        """The columns to keep that hold neither texts nor labels."""
        known = {*self.texts.text_column, self.label.label_column}
        return {column for column in self.output.keep_columns if column not in known}

    @property
    def keeps_others(self) -> bool:
        """Whether any column is to be kept that holds neither texts nor labels."""
        return self.output.keep_all or bool(self.other_columns)

    @property
    def card_file(self) -> Path | None:
        """The file of the card; None if there is none."""
        return self.output.card_of(self.target)


def read_label_file(file: Path) -> tuple[str, ...]:
    """The labels of a public file, one per line."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise BadTable(
            f"the label file {str(file)!r} cannot be read. Give a UTF-8 file with one label per line."
        ) from None
    return tuple(line.strip() for line in lines if line.strip())


def normal_form(label: object) -> str:
    """A label as it is compared: a missing one is empty, and a number or boolean has one form.

    >>> [normal_form(label) for label in (1, 1.0, " 1 ", "1e0", Decimal("1.0"), True, "True", None, "01", "Yes")]
    ['1', '1', '1', '1', '1', 'true', 'true', '', '01', 'Yes']
    """
    if isinstance(label, float) and label != label:  # NaN stands for a gap in a column of numbers
        return ""
    if isinstance(label, bool | int | float | Decimal | None):
        text = "" if label is None else str(label)
    else:
        text = json.dumps(label, sort_keys=True) if isinstance(label, list | dict) else str(label)
    text = unicodedata.normalize("NFC", text.strip())
    if text.lower() in ("true", "false"):
        return text.lower()
    if not _NUMBER.fullmatch(text):
        return text
    number = _EXACT.create_decimal(text).normalize(_EXACT)
    return str(number) if number else "0"  # not -0


def check_different(labels: Sequence[object]) -> None:
    """Refuse a label set in which two labels have the same normal form."""
    if len(labels) < 2 or len({normal_form(label) for label in labels}) != len(labels):
        raise BadParameter(
            f"a label set must have at least two labels, all different, got {len(labels)}. "
            "1, 1.0 and '1' are one label, and so are true and True."
        )
