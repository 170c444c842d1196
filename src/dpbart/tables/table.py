"""Tables of texts, read as a stream.

The ending of a file selects its format; "-" is standard input, by default one text per line. A file is never held in
memory as a whole, so it may be larger than memory. Errors are one line and give the row number.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.files import reason
from dpbart.tables.batch import Batch
from dpbart.tables.bounds import ANY, Bounds
from dpbart.tables.dialect import Dialect
from dpbart.tables.file import File
from dpbart.tables.formats.format import TEXT, Format, Visitor
from dpbart.tables.formats.lines import numbered
from dpbart.tables.formats.registry import codec_of, format_of
from dpbart.tables.schema import holds_texts, values_of
from dpbart.tables.standard import STANDARD as STANDARD
from dpbart.tables.standard import StandardInput
from dpbart.tables.structs import field_at

_VISITED_AT_ONCE = 1024  # rows
_COLUMNS_SHOWN = 20
_NAME_LENGTH = 40
_LOOKED_INTO = 100  # columns; in a wider table, objects are not replaced by their keys
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

    file: File
    format: Format
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    dialect: Dialect

    @property
    def path(self) -> Path:
        """The file, or "-"."""
        return self.file.path

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return self.file.name

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

        Names are certain if the format has them, or if a text column is among them. Otherwise only those are shown
        that say nothing: usual names of columns, and the one that was asked for, in other capitals.
        """
        certain = self.format.named or any(name in self.columns for name in self.text_columns)
        return _is_name(name) if certain else name.lower() in {*_USUAL_NAMES, asked.lower()}

    def schema(self) -> pa.Schema | None:
        """The Arrow types of the columns; None if only the rows show them."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema | None:
        # Once: the beginning of standard input cannot be read again during a run.
        return self.format.schema(self.file, self.text_columns)

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
        for batch in self.batches(self.file.bounds.rows_of(_VISITED_AT_ONCE)):
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
        if self.file.standard is not None:
            self.file.standard.for_good()
        return self._while_going(self.format.batches(self.file, text_columns=self.text_columns, size=size))

    def _while_going(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.file.bounds.going()
            yield batch


def open_table(
    path: Path | str,
    *,
    text_column: str | tuple[str, ...] = TEXT,
    named: Sequence[str] = (),
    dialect: Dialect | None = None,
    bounds: Bounds = ANY,
) -> Table:
    """Open a table: find its format and its columns, and make sure that it has a row.

    Args:
        path: A file, a folder of .txt files, or "-" for standard input. In plain text on standard input, bytes that are
            not UTF-8 become U+FFFD.
        text_column: The column with the texts, or several. Plain text has only one, "text". In JSON and Parquet,
            "note.text" is the key "text" of the object "note".
        named: Other columns that the caller needs. They too may be inside objects.
        dialect: What the name and the first bytes of the file do not say.
        bounds: What reading the file may cost.

    Raises:
        BadTable: If the table cannot be read, has no rows, or lacks the column.
    """
    path, text_columns = Path(path), (text_column,) if isinstance(text_column, str) else text_column
    table = _with_columns(path, text_columns, named, dialect or Dialect(), bounds)
    for column in text_columns:
        table.require(column, option="--text-column")
    for column in text_columns:
        _check_text_type(table, column)
    if path != STANDARD and next(table.batches(1), None) is None:
        raise BadTable(f"{table.name} has no rows. Give a file with at least one.")
    return table


def columns_of(path: Path, dialect: Dialect, bounds: Bounds = ANY) -> tuple[str, ...]:
    """The columns of a file, from its names alone. An object is replaced by its keys, such as note.text.

    Raises:
        BadTable: If its names cannot be read.
    """
    columns = _with_columns(path, (TEXT,), (), dialect, bounds).columns
    if len(columns) > _LOOKED_INTO:
        return columns
    inside = _with_columns(path, (TEXT,), [f"{column}." for column in columns], dialect, bounds).columns
    keys: dict[str, list[str]] = {column: [] for column in columns}
    for column in inside:
        keys.get(column.partition(".")[0], []).extend([] if column in keys else [column])
    return tuple(each for column in columns for each in keys[column] or [column])


def _with_columns(
    path: Path, text_columns: tuple[str, ...], named: Sequence[str], dialect: Dialect, bounds: Bounds
) -> Table:
    if path != STANDARD:
        _check_file(path)
    format = format_of(path, dialect)
    file = _file(path, format, dialect, bounds)
    empty = path.is_file() and path.stat().st_size == 0
    columns = None if empty else format.columns(file, (*text_columns, *named))
    if columns is None:
        raise BadTable(f"{file.name} has no rows. Give a file with at least one.")
    table = Table(file, format, columns, text_columns, dialect)
    _check_unique(table)
    return table


def _file(path: Path, format: Format, dialect: Dialect, bounds: Bounds) -> File:
    standard = StandardInput() if path == STANDARD else None
    file = File(path, codec_of(path, dialect), dialect.encoding, dialect.delimiter, standard, bounds)
    # Plain lines on standard input are not read before the run begins: somebody may be typing them.
    look = format.compressible and (standard is None or dialect.format is not None)
    return next(numbered(file, (each.detected() for each in [file]), place="at its beginning")) if look else file


def _check_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            path.open("rb").close()
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return
        problem = "is not a file. To read a pipe, pass -."
    except FileNotFoundError:
        problem = "does not exist. Check the path."
    except PermissionError:
        problem = "may not be read: permission denied. Check who owns it."
    except OSError as error:
        problem = f"cannot be read: {reason(error)}."
    raise BadTable(f"{str(path)!r} {problem}")


def _check_unique(table: Table) -> None:
    twice = [column for column, times in Counter(table.columns).items() if times > 1]
    if twice:
        named = f" {twice[0]!r}" if table._may_show(twice[0], asked=table.text_columns[0]) else " of the same name"
        raise BadTable(f"{table.name} has more than one column{named}. Give each its own name.")


def _is_name(column: str) -> bool:
    """Whether a message may show it: in a file without a header, the first line is private.

    >>> _is_name("review_body"), _is_name("Anna Meier"), _is_name("1947")
    (True, False, False)
    """
    return column.isidentifier() and len(column) <= _NAME_LENGTH


def _check_text_type(table: Table, column: str) -> None:
    schema = table.schema()
    kind = None if schema is None else field_at(schema, column).type
    if kind is not None and not holds_texts(kind):
        raise BadTable(
            f"column {column!r} of {table.name} must hold strings, got {kind}. "
            "Pass --text-column NAME with one that does."
        )
