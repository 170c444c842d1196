"""Files that stand under their name only when they are whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbart.errors import BadTable


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """A hidden neighbour to write to; it takes the name when the block ends well, and is gone when it does not.

    Raises:
        BadTable: If the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        os.replace(partial, path)
    except OSError as error:
        raise BadTable(f"{str(path)!r} cannot be written: {error.strerror or 'the file system failed'}.") from error
    finally:
        with suppress(OSError):  # not there, or no folder to be in
            partial.unlink()


def write_whole(path: Path, content: str) -> None:
    with whole_or_nothing(path) as partial:
        partial.write_text(content, encoding="utf-8")
