"""The parts of a workbook, which is a ZIP archive of XML files: refused before a parser unpacks them into memory."""

from __future__ import annotations

import zipfile
from typing import IO, BinaryIO
from xml.parsers import expat

from dpbart.errors import BadTable
from dpbart.tables.file import File

_BLOCK = 1 << 16  # bytes
_IN_MEMORY = 4  # a workbook may unpack to one part in four of what other files may: its strings are held in memory


def check_parts(source: BinaryIO, file: File) -> None:
    """Refuse a workbook that unpacks to too much, or whose XML defines entities: a few bytes of them can be gigabytes.

    Raises:
        BadTable: It does.
        zipfile.BadZipFile: It is not a workbook.
    """
    with zipfile.ZipFile(source) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())  # zipfile reads no more than that of a part
        file.bounds.check(unpacked, file.name, parts=_IN_MEMORY)
        for part in archive.infolist():
            with archive.open(part) as opened:
                if _declares_types(opened):
                    raise BadTable(f"{file.name} has a part with a DOCTYPE, which no workbook has. Save it again.")


class _Known(Exception):
    """The first element begins, or a document type does."""


def _declares_types(part: IO[bytes]) -> bool:
    """Whether an XML file has a document type. It would come before the first element, so no more is read."""
    parser, found = expat.ParserCreate(), False

    def declared(*_: object) -> None:
        nonlocal found
        found = True
        raise _Known

    def begun(*_: object) -> None:
        raise _Known

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = declared, begun
    try:
        while block := part.read(_BLOCK):
            parser.Parse(block)
    except (_Known, expat.ExpatError):  # what is not XML, such as a picture, has no document type
        pass
    return found
