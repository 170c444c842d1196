"""Tables of texts, read as a stream.

The ending of a file selects its format; "-" is standard input, by default one text per line. A file is never held in
memory as a whole, so it may be larger than memory. Errors are one line and give the row number.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.files import reason
from dpbart.options.rewriting import Dialect
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import TEXT, Format, Header, Visitor, numbered
from dpbart.tables.formats.registry import codec_of, format_of
from dpbart.tables.paths import field_at
from dpbart.tables.schema import holds_texts, values_of
from dpbart.tables.streams import ANY, STANDARD, File, FileBounds, KeptFile, StandardInput

_VISITED_AT_ONCE = 1024  # rows
_COLUMNS_SHOWN = 30
_NAME_LENGTH = 40
_LOOKED_INTO = 100  # columns; in a wider table, objects are not replaced with their keys


@dataclass(frozen=True)
class Table:
    """A file of texts, or standard input. Make one with `open_table`."""

    file: File
    format: Format
    header: Header
    text_columns: tuple[str, ...]
    dialect: Dialect

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return self.header.columns

    @property
    def path(self) -> Path:
        """The file, or "-"."""
        return self.file.path

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return self.file.name

    def require(self, column: str, *, option: str) -> None:
        """Refuse a column that the table lacks. The message gives the command-line option that names one."""
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

        It is a header if the format says so, if a text column is in it, or if most of it, and at least two, are common
        names of columns. Otherwise a message shows only common names, and the requested name in another case.
        """
        usual = sum(map(_is_usual, self.columns))
        named = self.format.named or (usual > 1 and 2 * usual > len(self.columns))
        certain = named or any(name in self.columns for name in self.text_columns)
        return _is_name(name) if certain else _is_usual(name) or name.lower() == asked.lower()

    def values(self, labels: Sequence[str], column: str) -> list[object]:
        """Labels as the values of a column. Refuses labels that do not fit its type."""
        return values_of(labels, column, self.header.schema)

    def visit(self, *visitors: Visitor) -> int | None:
        """Read the whole file once, show every batch to each visitor in turn, and return the number of rows.

        Raises BadTable at the first broken row, so a caller can check all rows before it writes one. Standard input can
        be read only once: it is not read here, no visitor is called, and the number is None.
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
        """The rows in order, at most `size` at a time, read when needed. A broken row is refused in its turn."""
        if size < 1:
            raise BadParameter(f"size must be 1 or more, got {size}.")
        if self.file.source is not None:
            self.file.source.last_time()
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
    bounds: FileBounds = ANY,
) -> Table:
    """Open a table: find its format and its columns. Refuses one that lacks a row or a text column.

    Args:
        path: A file, a folder of .txt files, or "-" for standard input. In plain text on standard input, bytes that are
            not UTF-8 become U+FFFD.
        text_column: The column with the texts, or several. Plain text has only one, "text". In JSON and Parquet,
            "note.text" is the key "text" of the object "note".
        named: Other columns that the caller needs. They too may be inside objects.
        dialect: Settings that neither the name nor the first bytes of the file show.
        bounds: What reading the file may cost.
    """
    path, text_columns = Path(path), (text_column,) if isinstance(text_column, str) else text_column
    dialect = dialect or Dialect()
    file, format = _opened(path, dialect, bounds)
    table = _with_header(file, format, text_columns, named, dialect)
    for column in text_columns:
        table.require(column, option="--text-column")
    for column in text_columns if table.header.schema is not None else ():
        kind = field_at(table.header.schema, column).type
        if not holds_texts(kind):
            raise BadTable(
                f"column {column!r} of {table.name} must hold strings, got {kind}. "
                "Pass --text-column NAME with one that does."
            )
    if path != STANDARD and next(format.batches(file, text_columns=text_columns, size=1), None) is None:
        raise _no_rows(file)
    return table


def columns_of(path: Path, dialect: Dialect, bounds: FileBounds = ANY) -> tuple[str, ...]:
    """The columns of a file, from its header alone. An object is replaced with its keys, such as note.text."""
    file, format = _opened(path, dialect, bounds)
    columns = _with_header(file, format, (TEXT,), (), dialect).columns
    if len(columns) > _LOOKED_INTO:
        return columns
    inside = _with_header(file, format, (TEXT,), [f"{column}." for column in columns], dialect).columns
    keys: dict[str, list[str]] = {column: [] for column in columns}
    for column in inside:
        keys.get(column.partition(".")[0], []).extend([] if column in keys else [column])
    return tuple(name for column in columns for name in keys[column] or [column])


def _opened(path: Path, dialect: Dialect, bounds: FileBounds) -> tuple[File, Format]:
    """The file of a table, with the encoding of its byte order mark, and its format."""
    source = StandardInput() if path == STANDARD else _kept_open(path)
    format = format_of(path, dialect)
    codec = codec_of(path, dialect)
    file = File(path, codec, dialect.encoding, dialect.delimiter, bounds, dialect.sheet, source)
    # Plain lines on standard input are not read before the run begins: somebody may be typing them.
    if format.compressible and (path != STANDARD or dialect.format is not None):
        file = next(numbered(file, (one.detected() for one in [file]), place="at its beginning"))
    return file, format


def _kept_open(path: Path) -> KeptFile | None:
    """The file, opened; None for a folder. Refuses anything else, and what cannot be read."""
    try:
        mode = path.stat().st_mode  # first: opening a pipe would wait for its other end
        if stat.S_ISREG(mode):
            return KeptFile(path)
        if stat.S_ISDIR(mode):
            return None
        problem = "is not a file. To read a pipe, pass -."
    except FileNotFoundError:
        problem = "does not exist. Check the path."
    except PermissionError:
        problem = "may not be read: permission denied. Check who owns it."
    except OSError as error:
        problem = f"cannot be read: {reason(error)}."
    raise BadTable(f"{str(path)!r} {problem}")


def _with_header(
    file: File, format: Format, text_columns: tuple[str, ...], named: Sequence[str], dialect: Dialect
) -> Table:
    empty = file.path.is_file() and file.path.stat().st_size == 0
    header = None if empty else format.header(file, text_columns=text_columns, named=named)
    if header is None:
        raise _no_rows(file)
    table = Table(file, format, header, text_columns, dialect)
    twice = [column for column, times in Counter(table.columns).items() if times > 1]
    if twice:
        which = f" {twice[0]!r}" if table._may_show(twice[0], asked=text_columns[0]) else " of the same name"
        raise BadTable(f"{table.name} has more than one column{which}. Give each its own name.")
    return table


def _no_rows(file: File) -> BadTable:
    return BadTable(f"{file.name} has no rows. Give a file with at least one.")


@cache
def _usual_names() -> frozenset[str]:
    """Common names of columns, which tell nothing about anybody."""
    return frozenset(Path(__file__).with_name("usual_names.txt").read_text(encoding="utf-8").split())


def _is_usual(column: str) -> bool:
    """Whether it is a common name of columns, in any case, perhaps with a plural -s."""
    return not {column.lower(), column.lower().removesuffix("s")}.isdisjoint(_usual_names())


def _is_name(column: str) -> bool:
    """Whether a message may show it: one word, or several of which one is a common name of columns.

    >>> [_is_name(column) for column in ("review_body", "Customer feedback", "Anna Meier", "1947")]
    [True, True, False, False]
    """
    is_known = column.isidentifier() or any(map(_is_usual, column.split()))
    return is_known and len(column) <= _NAME_LENGTH
