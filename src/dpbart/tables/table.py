"""Tables of texts, read as a stream.

The ending of a file selects its format; "-" is standard input, one text per line. A file is never held in memory as a
whole, so it may be larger than memory. Errors are one line and give the row number.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.files import reason
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import TEXT, Format, Visitor
from dpbart.tables.formats.registry import STANDARD as STANDARD
from dpbart.tables.formats.registry import format_of
from dpbart.tables.schema import holds_texts, values_of

_VISITED_AT_ONCE = 1024  # rows
_COLUMNS_SHOWN = 20
_NAME_LENGTH = 40
_USUAL_NAMES = frozenset(
    [
        "author",
        "body",
        "category",
        "class",
        "comment",
        "content",
        "created",
        "customer",
        "data",
        "date",
        "description",
        "document",
        "email",
        "gender",
        "group",
        "id",
        "index",
        "intent",
        "key",
        "label",
        "message",
        "name",
        "note",
        "number",
        "patient",
        "person",
        "post",
        "product",
        "question",
        "rating",
        "reply",
        "review",
        "score",
        "sentence",
        "sentiment",
        "source",
        "stars",
        "subject",
        "summary",
        "target",
        "text",
        "time",
        "timestamp",
        "title",
        "topic",
        "tweet",
        "type",
        "user",
        "user_id",
        "value",
    ]
)


@dataclass(frozen=True)
class Table:
    """A file of texts, or standard input. Make one with `open_table`."""

    path: Path
    format: Format
    columns: tuple[str, ...]
    text_column: str

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return "standard input" if self.path == STANDARD else repr(str(self.path))

    def require(self, column: str, *, option: str) -> None:
        """Refuse a column that the table lacks.

        Raises:
            BadTable: Lists the table's columns, and the command-line option that names one, such as "--text-column".
        """
        if column in self.columns:
            return
        shown = [name for name in self.columns if self._may_show(name, asked=column)]
        if not shown:
            raise BadTable(
                f"{self.name} has no column {column!r}, and its first line may be a private row instead of names. "
                f"Give it a header, or pass {option} NAME."
            )
        has, more = ", ".join(shown[:_COLUMNS_SHOWN]), len(self.columns) - len(shown[:_COLUMNS_SHOWN])
        raise BadTable(
            f"{self.name} has no column {column!r}. It has: {has}{f' and {more} more' if more else ''}. "
            f"Pass {option} NAME with one of them."
        )

    def _may_show(self, name: str, *, asked: str) -> bool:
        """Whether a message may show the name of a column. In a file without a header, the first line is private.

        Names are certain if the format has them, or if the text column is among them. Otherwise only those are shown
        that say nothing: usual names of columns, and the one that was asked for, in other capitals.
        """
        certain = self.format.named or self.text_column in self.columns
        return _is_name(name) if certain else name.lower() in {*_USUAL_NAMES, asked.lower()}

    def schema(self) -> pa.Schema | None:
        """The Arrow types of the columns; None if only the rows show them."""
        return self.format.schema(self.path, self.text_column)

    def values(self, labels: Sequence[str], column: str) -> list[object]:
        """Labels as the values of a column. Refuses labels that do not fit its type."""
        return values_of(labels, column, self.schema())

    def visit(self, *visitors: Visitor) -> int | None:
        """Read the whole file once, show every batch to each visitor in turn, and return the number of rows.

        Standard input can be read only once: it is not read here, no visitor is called, and the number is None.

        Raises:
            BadTable: At the first broken row. So a caller can make sure that all rows are good before it writes one.
        """
        if self.path == STANDARD:
            return None
        rows = 0
        for batch in self.batches(_VISITED_AT_ONCE):
            for see in visitors:
                see(batch)
            rows += len(batch)
        return rows

    def batches(self, size: int) -> Iterator[Batch]:
        """The rows in order, at most `size` at a time, read when they are needed.

        Raises:
            BadParameter: If size is less than 1.
            BadTable: At the first broken row, after the batches before it.
        """
        if size < 1:
            raise BadParameter(f"size must be 1 or more, got {size}.")
        return self.format.batches(self.path, text_column=self.text_column, size=size)


def open_table(path: Path | str, *, text_column: str = TEXT) -> Table:
    """Open a table: find its format and its columns, and make sure that it has a row.

    Args:
        path: A file, or "-" for standard input, where bytes that are not UTF-8 become U+FFFD.
        text_column: The column with the texts. Plain text and standard input have only one, "text".

    Raises:
        BadTable: If the table cannot be read, has no rows, or lacks the column.
    """
    path = Path(path)
    if path != STANDARD:
        _check_file(path)
    format = format_of(path)
    empty = path != STANDARD and path.stat().st_size == 0
    columns = None if empty else format.columns(path)
    if columns is None:
        raise _no_rows(path)
    table = Table(path, format, columns, text_column)
    _check_unique(table)
    table.require(text_column, option="--text-column")
    _check_text_type(table)
    if path != STANDARD and next(table.batches(1), None) is None:
        raise _no_rows(path)
    return table


def _check_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            path.open("rb").close()
            return
        problem = (
            "is a directory. Name a file in it." if stat.S_ISDIR(mode) else "is not a file. To read a pipe, pass -."
        )
    except FileNotFoundError:
        problem = "does not exist. Check the path."
    except PermissionError:
        problem = "may not be read: permission denied. Check who owns it."
    except OSError as error:
        problem = f"cannot be read: {reason(error)}."
    raise BadTable(f"{str(path)!r} {problem}")


def _no_rows(path: Path) -> BadTable:
    return BadTable(f"{str(path)!r} has no rows. Give a file with at least one.")


def _check_unique(table: Table) -> None:
    twice = [column for column, times in Counter(table.columns).items() if times > 1]
    if twice:
        named = f" {twice[0]!r}" if table._may_show(twice[0], asked=table.text_column) else " of the same name"
        raise BadTable(f"{table.name} has more than one column{named}. Give each its own name.")


def _is_name(column: str) -> bool:
    """Whether a message may show it: in a file without a header, the first line is private.

    >>> _is_name("review_body"), _is_name("Anna Meier"), _is_name("1947")
    (True, False, False)
    """
    return column.isidentifier() and len(column) <= _NAME_LENGTH


def _check_text_type(table: Table) -> None:
    schema = table.schema()
    kind = None if schema is None else schema.field(table.text_column).type
    if kind is not None and not holds_texts(kind):
        raise BadTable(
            f"column {table.text_column!r} of {table.name} must hold strings, got {kind}. "
            "Pass --text-column NAME with one that does."
        )
