"""All table formats. The ending of a file selects its format; "-" is standard input or output."""

from __future__ import annotations

from pathlib import Path

from dpbart.errors import BadTable
from dpbart.tables.formats.delimited import Delimited
from dpbart.tables.formats.format import Format
from dpbart.tables.formats.json_lines import JsonLines
from dpbart.tables.formats.parquet import Parquet
from dpbart.tables.formats.plain_text import PlainText, StandardStream

STANDARD = Path("-")
FORMATS: tuple[Format, ...] = (
    Delimited(".csv", ","),
    Delimited(".tsv", "\t"),
    JsonLines(),
    Parquet(),
    PlainText(),
)


def find_format(path: Path) -> Format | None:
    """The format of a file or of "-"; None if the ending is unknown."""
    if path == STANDARD:
        return StandardStream()
    return next((format for format in FORMATS if path.suffix.lower() in format.endings), None)


def format_of(path: Path) -> Format:
    """The format of a file or of "-".

    >>> format_of(Path("reviews.CSV")).endings
    ('.csv',)

    Raises:
        BadTable: If the ending is unknown.
    """
    format = find_format(path)
    if format is None:
        endings = ", ".join(ending for each in FORMATS for ending in each.endings)
        raise BadTable(f"the ending of {str(path)!r} must be one of {endings}, got {path.suffix!r}. Convert it first.")
    return format
