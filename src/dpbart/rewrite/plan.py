"""What a request means, worked out once, and the plan of a run: a request whose files have been checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadParameter
from dpbart.options.rewriting import DROP, Dialect, Request
from dpbart.privacy.composition import Release
from dpbart.privacy.shuffling.release import ShuffledRelease
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import Described
from dpbart.rewrite.durable.unfinished import Stamp
from dpbart.rewrite.people import People
from dpbart.rewrite.rows import Labels, RowTexts
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Format, Visitor
from dpbart.tables.formats.registry import find_format
from dpbart.tables.streams import ANY, FileBounds
from dpbart.tables.table import Table, open_table
from dpbart.tables.writer import TableWriter


def input_format(source: Path, dialect: Dialect) -> Format | None:
    """The format of the input; None if its ending is unknown. Refuses an option that contradicts it."""
    format = find_format(source, dialect)
    if dialect.document and (format is None or not format.texts_alone):
        raise BadParameter(
            "--document is for .txt files and plain standard input. In any other input, a row is a text."
        )
    if dialect.sheet is not None and (format is None or not format.sheets):
        raise BadParameter("--sheet is for Excel workbooks, and the input is none. Leave it out.")
    return format


@dataclass(frozen=True)
class Outline:
    """What a request means: everything that is known before a file is opened."""

    request: Request
    texts: RowTexts  # of each row
    labels: Labels | None  # what happens to labels; None without a label column
    people: People | None  # how rows are assigned to people; None if they are not
    texts_alone: bool  # whether the output has only texts and no other columns
    reading: str | None  # how the input is read, if users may expect something else

    @classmethod
    def of(cls, request: Request) -> Outline:
        """Work out what a request means. Refuses an option that contradicts the format of the input or output."""
        source = input_format(request.source, request.dialect)
        target = find_format(request.target, request.dialect)
        alone = target is not None and target.texts_alone
        texts = RowTexts(request.texts.text_column, request.texts.join_columns)
        if alone and texts.per_row > 1:
            raise BadParameter(
                f"this output holds one text of each row, got {texts.per_row} text columns. Pass --join-columns to "
                "join them."
            )
        if alone and request.keeps_others:
            raise BadParameter("an output of texts alone has no other columns. Leave out --keep-column and --keep-all.")
        # If the output has only texts, no label is released, so none is charged.
        labels, people = Labels.of_options(request.label, released=not alone), People.of_options(request.people)
        return cls(request, texts, labels, people, alone, None if source is None else source.reading)

    @property
    def uses_delta(self) -> bool:
        """Whether delta counts if a text has none: for shuffled rows, or for several releases that no ledger counts."""
        people = self.request.people
        several = self.texts.per_row > 1 or (self.people is not None and not people.join_documents)
        labelled = self.labels is not None and self.labels.event is not None
        return self.request.output.shuffle or (people.ledger is None and (several or labelled))

    def release(self, described: Described) -> Release:
        """What the texts of a row and their label spend together."""
        label = None if self.labels is None else self.labels.event
        events = (described.facts.event,) * self.texts.per_row + (() if label is None else (label,))
        return Release(events, self.texts.per_row)

    def open_input(self, bounds: FileBounds = ANY) -> Table:
        """The input, with every column that the request names."""
        request, kept = self.request, self.request.output.keep_columns
        table = open_table(
            request.source,
            text_column=self.texts.columns,
            named=[*request.named_columns[len(self.texts.columns) :], *kept],
            dialect=request.dialect,
            bounds=bounds,
        )
        if self.labels is not None:
            table.require(self.labels.column, option="--label-column")
            self.labels.check(table)
        if self.people is not None:
            table.require(self.people.column, option=self.people.option)
        for column in kept:
            table.require(column, option="--keep-column")
        return table

    def kept(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Those columns of the input that are in the output.

        Those are the texts and, unless dropped, the label; in a shuffled output, the label only if it is randomised.
        Others stay only if the request says so. Joined columns keep the first of them.
        """
        request, label = self.request, self.request.label
        released = set(self.texts.written_columns)
        if request.output.shuffle:
            randomized = self.labels is not None and self.labels.response is not None
            released |= {label.label_column} if randomized and label.label_column else set()
            return tuple(column for column in columns if column in released)
        if label.label_column is not None and label.labels != DROP:
            released.add(label.label_column)
        others = set(columns if request.output.keep_all else request.output.keep_columns)
        others -= {*self.texts.columns, label.label_column}
        return tuple(column for column in columns if column in released | others)


@dataclass(frozen=True)
class Plan:
    """A request with its files checked, ready to run."""

    outline: Outline
    described: Described
    bounds: FileBounds  # what reading the input may cost
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # of the output; None for standard input, which can be read only once
    output: AbstractContextManager[TableWriter]
    account: Account
    documents: Mapping[str, int]  # per person, in the input
    seen: Stamp | None  # the stamp of the input when it was checked
    visitors: Sequence[Visitor] = ()  # refuse rows; they have seen the whole input, unless it is standard input
    resuming: bool = False  # whether there is a run to resume
    shuffling: ShuffledRelease | None = None  # what the shuffled output promises; None if it is not shuffled

    @property
    def request(self) -> Request:
        return self.outline.request

    def written(self, batch: Batch, rows: Sequence[Sequence[str]], labels: Sequence[str | None] | None) -> Batch:
        """A batch with the new cells of its rows, and with their new labels if those are randomised."""
        released = self.outline.texts.written(batch, rows)
        if self.outline.labels is None or labels is None:
            return released
        return self.outline.labels.with_labels(released, labels, self.table)
