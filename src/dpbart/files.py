"""File helpers: atomic writes, hashes, and one-line errors."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dpbart.errors import BadTable

_BLOCK = 1 << 20  # bytes


class Digest(Protocol):
    """A digest object of `hashlib` or `hmac`."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def digest_of(file: Path, digest: Digest | None = None) -> str:
    """The digest of a file in hexadecimal: SHA-256 unless another one is given.

    That of a folder covers the name, the size and the content of each of its files, in the order of their names.
    """
    digest = hashlib.sha256() if digest is None else digest
    for each in visible_files(file) if file.is_dir() else [file]:
        if each is not file:
            digest.update(b"%s\0%d\0" % (os.fsencode(each.name), each.stat().st_size))
        with each.open("rb") as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def visible_files(folder: Path) -> list[Path]:
    """The files in a folder that are not hidden, in the order of their names."""
    return sorted(each for each in folder.iterdir() if not each.name.startswith(".") and each.is_file())


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """Write to a hidden file next to `path`. It is renamed if the block succeeds, and deleted if it fails.

    So a file at `path` is always complete, even after a power cut. A link stays a link, and leads to the new file.

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
        with suppress(OSError):  # already renamed, or the folder does not exist
            partial.unlink()


def partial_of(path: Path) -> tuple[Path, Path]:
    """The file that a path or link leads to, and a hidden file next to it for the new content."""
    target = Path(os.path.realpath(path))
    return target, target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def put_in_place(partial: Path, target: Path) -> None:
    """Rename a file to its final name, after its bytes are synced to disk."""
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # otherwise a power cut could leave an empty file under the name
    os.replace(partial, target)
    sync_folder(target.parent)


def put_folder_in_place(partial: Path, target: Path) -> None:
    """Rename a folder, whose files are synced, to its final name. A folder of that name is replaced."""
    sync_folder(partial)
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    if target.exists():
        os.replace(target, old)
    os.replace(partial, target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def write_whole(path: Path, content: str) -> None:
    """Write a text file completely or not at all."""
    with whole_or_nothing(path) as partial:
        partial.write_text(content, encoding="utf-8")


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new file name survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """The reason for a file system error, in a few words and without the path."""
    return error.strerror or "the file system failed"
