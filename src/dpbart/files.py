"""Files: written whole or not at all, hashed, and their errors told in one line."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dpbart.errors import BadTable

_BLOCK = 1 << 20  # bytes


class Digest(Protocol):
    """What `hashlib` and `hmac` make."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def digest_of(file: Path, digest: Digest | None = None) -> str:
    """The digest of a file in hexadecimal: SHA-256 unless another one is given."""
    digest = hashlib.sha256() if digest is None else digest
    with file.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """Write to a hidden neighbour, which takes the name when the block ends well and is deleted when it does not.

    A file that has its name is whole, and stays whole after a power cut. A link stays a link, to the new file.

    Raises:
        BadTable: The file cannot be written.
    """
    target, partial = partial_of(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        put_in_place(partial, target)
    except OSError as error:
        raise BadTable(f"{str(path)!r} cannot be written: {reason(error)}.") from None
    finally:
        with suppress(OSError):  # not there, or no folder to be in
            partial.unlink()


def partial_of(path: Path) -> tuple[Path, Path]:
    """The file that a path or link leads to, and a hidden file next to it in which to write its new content."""
    target = Path(os.path.realpath(path))
    return target, target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def put_in_place(partial: Path, target: Path) -> None:
    """Give a file its name, once its bytes are safe on disk."""
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # else a power cut could leave the name on an empty file
    os.replace(partial, target)
    sync_folder(target.parent)


def write_whole(path: Path, content: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_or_nothing(path) as partial:
        partial.write_text(content, encoding="utf-8")


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in a folder survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """Why the file system refused, in a few words and without the path."""
    return error.strerror or "the file system failed"
