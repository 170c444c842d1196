"""Tables of texts, read as a stream: CSV, TSV, JSON lines, Parquet, and plain text with one text a line.

The format follows from the ending of the file; "-" is standard input, one text a line. A file is never held
in memory whole, and may be larger than it. What is wrong with a table is told in one line, by row number.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from dpbart.errors import BadParameter, BadTable
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.lines import TEXT, TextFormat, read_columns, read_rows, read_standard_input
from dpbart.tables.formats.parquet import holds_texts, read_batches, read_schema

Format = TextFormat | Literal["parquet"]

STANDARD = Path("-")
_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
}
_CHECKED_AT_ONCE = 1024  # rows
_COLUMNS_SHOWN = 20
_NAME_LENGTH = 40


@dataclass(frozen=True)
class Table:
    """A file of texts, or standard input. Make one with `open_table`."""

    path: Path
    format: Format
    columns: tuple[str, ...]
    text_column: str

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return "standard input" if self.path == STANDARD else repr(str(self.path))

    def require(self, column: str, *, option: str) -> None:
        """Refuse a column that is not there.

        Raises:
            BadTable: Lists those that are, and the command line's option to name one, such as "--text-column".
        """
        if column in self.columns:
            return
        if not all(_is_name(name) for name in self.columns):
            raise BadTable(
                f"{self.name} has no column {column!r}, and its first line does not look like names of columns. "
                f"Give it a header, or pass {option} NAME."
            )
        has = ", ".join(self.columns[:_COLUMNS_SHOWN])
        more = f" and {len(self.columns) - _COLUMNS_SHOWN} more" if len(self.columns) > _COLUMNS_SHOWN else ""
        raise BadTable(
            f"{self.name} has no column {column!r}. It has: {has}{more}. Pass {option} NAME with one of them."
        )

    def count(self) -> int | None:
        """Read the whole file once, and give its number of rows; None for standard input, which is read only once.

        Raises:
            BadTable: At the first row that is broken; so nothing need be written before all of it is known good.
        """
        if self.path == STANDARD:
            return None
        return sum(len(batch) for batch in self.batches(_CHECKED_AT_ONCE))

    def batches(self, size: int) -> Iterator[Batch]:
        """The rows in order, `size` at a time, read as they are asked for.

        The last batch may have fewer; of Parquet, also one that ends with its row group.

        Raises:
            BadParameter: If size is less than 1.
            BadTable: On reaching a row that is broken; the batches before it have been given.
        """
        if size < 1:
            raise BadParameter(f"size must be 1 or more, got {size}.")
        if self.format == "parquet":
            return read_batches(self.path, text_column=self.text_column, size=size)
        if self.path == STANDARD:
            return _gathered(read_standard_input(), self.text_column, size)
        return _gathered(read_rows(self.path, self.format, self.text_column), self.text_column, size)


def open_table(path: Path | str, *, text_column: str = TEXT) -> Table:
    """Look at a table: its type, its columns, and that it has a row.

    Args:
        path: A file, or "-" for standard input, whose bytes that are not UTF-8 become U+FFFD.
        text_column: The column with the texts. Plain text and standard input have one, "text".

    Raises:
        BadTable: If the table cannot be read, has no rows, or lacks the column.
    """
    path = Path(path)
    if path == STANDARD:
        table = Table(path, "txt", (TEXT,), text_column)
        table.require(text_column, option="--text-column")
        return table
    _check_file(path)
    format = format_of(path)
    columns = _columns(path, format) if path.stat().st_size else None
    if columns is None:
        raise _no_rows(path)
    table = Table(path, format, columns, text_column)
    _check_unique(table)
    table.require(text_column, option="--text-column")
    _check_text_type(table)
    if next(table.batches(1), None) is None:
        raise _no_rows(path)
    return table


def format_of(path: Path) -> Format:
    """The format that the ending of a file stands for.

    >>> format_of(Path("reviews.CSV"))
    'csv'

    Raises:
        BadTable: If it stands for none.
    """
    format = _FORMATS.get(path.suffix.lower())
    if format is None:
        endings = ", ".join(_FORMATS)
        raise BadTable(f"the ending of {str(path)!r} must be one of {endings}, got {path.suffix!r}. Convert it first.")
    return format


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
        problem = f"cannot be read: {error.strerror}."
    raise BadTable(f"{str(path)!r} {problem}")


def _columns(path: Path, format: Format) -> tuple[str, ...] | None:
    return tuple(read_schema(path).names) if format == "parquet" else read_columns(path, format)


def _no_rows(path: Path) -> BadTable:
    return BadTable(f"{str(path)!r} has no rows. Give a file with at least one.")


def _check_unique(table: Table) -> None:
    twice = [column for column, times in Counter(table.columns).items() if times > 1]
    if twice:
        named = f" {twice[0]!r}" if _is_name(twice[0]) else " of the same name"
        raise BadTable(f"{table.name} has more than one column{named}. Give each its own name.")


def _is_name(column: str) -> bool:
    """Whether it may be shown: a file without a header has private words in its first line.

    >>> _is_name("review_body"), _is_name("Anna Meier"), _is_name("1947")
    (True, False, False)
    """
    return column.isidentifier() and len(column) <= _NAME_LENGTH


def _check_text_type(table: Table) -> None:
    if table.format != "parquet":
        return
    kind = read_schema(table.path).field(table.text_column).type
    if not holds_texts(kind):
        raise BadTable(
            f"column {table.text_column!r} of {table.name} must hold strings, got {kind}. "
            "Pass --text-column NAME with one that does."
        )


def _gathered(rows: Iterator[dict[str, object]], text_column: str, size: int) -> Iterator[Rows]:
    first = 1
    while some := list(islice(rows, size)):
        yield Rows(first, text_column, some)
        first += len(some)
