"""All table formats. The ending of a file selects its format; the user says that of standard input and output."""

from __future__ import annotations

from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.options.rewriting import Dialect
from dpbart.tables.formats.delimited import Delimited
from dpbart.tables.formats.excel import Excel
from dpbart.tables.formats.format import Format
from dpbart.tables.formats.json import JsonArray, JsonLines
from dpbart.tables.formats.parquet import Parquet
from dpbart.tables.formats.texts import Document, Folder, PlainText, StandardStream
from dpbart.tables.streams import CODECS, STANDARD

_TABLES = (Delimited(".csv", ",;\t|"), Delimited(".tsv", "\t"), JsonLines(), JsonArray(), Parquet(), Excel())
FORMATS: tuple[Format, ...] = (*_TABLES, PlainText())
_PLAIN = Dialect()


def find_format(path: Path, dialect: Dialect = _PLAIN) -> Format | None:
    """The format of a file, of a folder or of "-"; None if the ending is unknown."""
    name, codec = _name(path, dialect)
    if path != STANDARD and (path.is_dir() or not (name.suffix or path.exists())):
        return Folder()
    format = next((format for format in FORMATS if name.suffix.lower() in format.endings), None)
    if not isinstance(format, PlainText):
        return None if format is not None and codec is not None and not format.compressible else format
    if dialect.document:
        return Document()
    return StandardStream() if path == STANDARD else format


def codec_of(path: Path, dialect: Dialect = _PLAIN) -> str | None:
    """Arrow's name of the compression of a file or of "-"; None if it is not compressed.

    >>> codec_of(Path("notes.csv.gz")), codec_of(Path("notes.csv"))
    ('gzip', None)
    """
    return _name(path, dialect)[1]


def format_of(path: Path, dialect: Dialect = _PLAIN) -> Format:
    """The format of a file, of a folder or of "-". Refuses an unknown ending, and an unknown --format.

    >>> format_of(Path("reviews.CSV")).endings
    ('.csv',)
    """
    format = find_format(path, dialect)
    if format is not None:
        return format
    endings = [ending for known in FORMATS for ending in known.endings]
    if path == STANDARD:
        names = ", ".join(ending.removeprefix(".") for ending in endings)
        raise BadParameter(f"--format must be one of {names}, got {dialect.format!r}. Text may be compressed: csv.gz.")
    raise BadTable(
        f"the ending of {str(path)!r} must be one of {', '.join(endings)}, got {path.suffix!r}. "
        f"Text files may be compressed ({', '.join(CODECS)}). Convert it first."
    )


def _name(path: Path, dialect: Dialect) -> tuple[Path, str | None]:
    """The name without the ending of its compression, and that compression."""
    name = Path(f"-.{dialect.format or 'txt'}") if path == STANDARD else path
    codec = CODECS.get(name.suffix.lower())
    return (name, None) if codec is None else (name.with_suffix(""), codec)
