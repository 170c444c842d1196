"""What is released of a row: its texts and its label.

A row may have several text columns. Each cell is a text of its own, or all cells are joined into one. The number of
texts of a row is public: it depends on the options and never on the row.

A label is dropped, published or randomised. A label of the file and a label of the public set are the same if their
normal forms are: blanks around it do not count, true, True and TRUE are one label, and so are 1, 1.0 and "1" (any
number as JSON writes it; "01" is a word). A label set is first converted to the type of its column, so that 1 stands
for true in a column of booleans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.errors import BadTable
from dpbart.options.rewriting import DROP, LabelOptions, check_different, normal_form
from dpbart.privacy.guarantee import Event, few_digits
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import Entropy
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.table import Table


@dataclass(frozen=True)
class RowTexts:
    """How many texts a row has."""

    columns: tuple[str, ...]  # the text columns, in the given order
    joined: bool = False  # whether they become one text, in the first of them

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The columns that get a new text."""
        return self.columns[:1] if self.joined else self.columns

    @property
    def per_row(self) -> int:
        """Texts of a row. Each of them is a release."""
        return len(self.written_columns)

    def texts(self, batch: Batch) -> list[str]:
        """The texts to rewrite: those of the first row, then those of the next."""
        cells = batch.texts()
        return [join_cells(row) for row in in_rows(cells, len(batch.text_columns))] if self.joined else cells

    def rows(self, new: Sequence[str]) -> list[list[str]]:
        """The new cells of each row, from the new texts."""
        return in_rows(new, self.per_row)

    def written(self, batch: Batch, rows: Sequence[Sequence[str]]) -> Batch:
        """The batch with its new cells. A column that was joined into another is empty."""
        empty = [""] * (len(batch.text_columns) - self.per_row)
        return batch.with_texts([cell for row in rows for cell in (*row, *empty)])


@dataclass(frozen=True)
class Work:
    """A batch on its way through an engine, and the texts that are rewritten for it."""

    batch: Batch
    row_texts: RowTexts

    @property
    def first(self) -> int:
        return self.batch.first

    def texts(self) -> list[str]:
        return self.row_texts.texts(self.batch)


def join_cells(cells: Sequence[str]) -> str:
    """Texts as one, separated by a space. Empty ones leave no space."""
    return " ".join(filter(None, cells))


def in_rows(values: Sequence[str], size: int) -> list[list[str]]:
    """Values in rows of the same size.

    >>> in_rows(["a", "b", "c", "d"], 2)
    [['a', 'b'], ['c', 'd']]
    """
    return [list(values[start : start + size]) for start in range(0, len(values), size)]


@dataclass(frozen=True)
class Labels:
    """A column of labels and its policy: "drop", "public", or randomised response."""

    column: str
    policy: str
    response: Response | None = None
    labels: tuple[str, ...] = ()  # the public set that a randomised label is chosen from

    @classmethod
    def of_options(cls, asked: LabelOptions, *, released: bool = True) -> Labels | None:
        """What happens to the labels; None without a label column. Labels that are not released are dropped."""
        if asked.label_column is None or asked.labels is None:
            return None
        if not released:
            return cls(asked.label_column, DROP)
        response = None if asked.epsilon is None else Response(asked.epsilon, len(asked.label_set))
        return cls(asked.label_column, asked.labels, response, asked.label_set)

    @property
    def epsilon(self) -> float:
        """The epsilon that a label spends in addition to its text."""
        return 0.0 if self.response is None else self.response.epsilon

    @property
    def event(self) -> Event | None:
        """What a label spends, in the form that composition needs; None if it spends nothing."""
        return None if self.response is None else self.response.facts.event

    @property
    def words(self) -> str:
        """The card's line about labels."""
        if self.policy == DROP:
            return f"dropped: column '{self.column}' is not in the output"
        if self.response is None:
            return f"public: column '{self.column}' is released unchanged, without protection"
        among = ", ".join(self.labels[:20]) + (", ..." if len(self.labels) > 20 else "")
        return (
            f"randomised: column '{self.column}' by {len(self.labels)}-ary randomised response, epsilon "
            f"{few_digits(self.epsilon)} of the guarantee; the public label set is: {among}"
        )

    def randomized(self, batch: Batch, table: Table, entropy: Entropy) -> list[str] | None:
        """New labels for a batch, or None if they are not randomised."""
        if self.response is None:
            return None
        private = self.response.privatize([(n,) for n in self._numbers(batch, self._numbered(table))], entropy)
        return [self.labels[number] for number in private.values]

    def with_labels(self, batch: Batch, labels: Sequence[str | None], table: Table) -> Batch:
        """The batch with its randomised labels, in the type of the column."""
        if self.response is None:
            return batch
        written = dict(zip(self.labels, table.values(self.labels, self.column), strict=True))
        return batch.with_column(self.column, [written[label] for label in labels if label is not None])

    def check(self, table: Table) -> None:
        """Refuse a set that the type of the column cannot hold, before anything is written."""
        if self.response is not None:
            self._numbered(table)

    def visitors(self, table: Table) -> list[Visitor]:
        """A table visitor that refuses a row with a label outside the set; none if labels are not randomised."""
        if self.response is None:
            return []
        known = self._numbered(table)
        return [lambda batch: self._numbers(batch, known)]

    def _numbered(self, table: Table) -> dict[str, int]:
        return numbered(table.values(self.labels, self.column))

    def _numbers(self, batch: Batch, known: dict[str, int]) -> list[int]:
        numbers = [known.get(normal_form(value), -1) for value in batch.column(self.column)]
        if -1 in numbers:  # the message does not show the label: it is private
            row = batch.first + numbers.index(-1)
            raise BadTable(
                f"row {row} has a label in column {self.column!r} that is not in the label set. "
                "Correct the row, or add the label to --label-set or --label-file."
            )
        return numbers


def numbered(labels: Sequence[object]) -> dict[str, int]:
    """The number of each label of a public set, in the type of its column, by its normal form."""
    check_different(labels)
    return {normal_form(label): number for number, label in enumerate(labels)}
