"""Encodings of text files. Only a byte order mark or the user says which one a file has, never its content."""

from __future__ import annotations

import codecs
import json
from typing import BinaryIO

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

# What happens to bytes that are not in an encoding, and to characters that it lacks
DEFER = "dpbart-defer"  # reading: they become half a surrogate pair
REPLACE = "replace"  # writing: they become a question mark
ESCAPE = "dpbart-escape"  # writing JSON: they become escapes


def _deferred(error: UnicodeError) -> tuple[str, int]:
    # Half a surrogate pair stands for bad bytes until the check of their own row. A strict decoder works in blocks,
    # and would raise some rows too early.
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(DEFER, _deferred)
codecs.register_error(ESCAPE, _escaped)


def marked(first: bytes) -> str | None:
    """The encoding that the first bytes of a file announce; None without a byte order mark.

    >>> marked("id;text".encode("utf-16")), marked(b"id;text")
    ('utf-16', None)
    """
    return next((encoding for mark, encoding in _MARKS.items() if first.startswith(mark)), None)


def shown(encoding: str) -> str:
    """The name of an encoding in messages.

    >>> shown("utf-8-sig"), shown("cp1252")
    ('UTF-8', 'cp1252')
    """
    name = encoding.removesuffix("-sig")
    return name.upper() if name.startswith("utf") else name


def holds(text: str, encoding: str) -> bool:
    """Whether an encoding has every character of a string.

    >>> holds("café", "cp1252"), holds("→", "cp1252")
    (True, False)
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


class Encoder:
    """Writes strings to an open file. The byte order mark, if the encoding has one, comes first and only once."""

    def __init__(self, handle: BinaryIO, encoding: str, errors: str) -> None:
        self._handle = handle
        self._encoder = codecs.getincrementalencoder(encoding)(errors)

    def write(self, text: str) -> None:
        self._handle.write(self._encoder.encode(text))
