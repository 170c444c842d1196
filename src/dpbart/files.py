"""File helpers: atomic writes, hashes, and one-line errors."""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dpbart.errors import BadTable

USUAL, OWN = 0o666, 0o600  # modes of new files: what the umask allows, or for the owner alone

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
    for part in visible_files(file) if file.is_dir() else [file]:
        if part is not file:
            digest.update(b"%s\0%d\0" % (os.fsencode(part.name), part.stat().st_size))
        with part.open("rb") as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def visible_files(folder: Path) -> list[Path]:
    """The files in a folder that are not hidden, in the order of their names."""
    return sorted(file for file in folder.iterdir() if not file.name.startswith(".") and file.is_file())


@contextmanager
def whole_or_nothing(path: Path, *, mode: int = USUAL) -> Iterator[Path]:
    """Write to a hidden file next to `path`. It is renamed if the block succeeds, and deleted if it fails.

    So a file at `path` is always complete, even after a power cut. A link stays a link, and leads to the new file.
    """
    target, partial = partial_of(path)
    with one_line_errors(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(create(partial, mode=mode, replacing=target))
        try:
            yield partial
            put_in_place(partial, target)
        finally:
            partial.unlink(missing_ok=True)


def write_whole(path: Path, content: str, *, mode: int = USUAL) -> None:
    """Write a text file completely or not at all."""
    with whole_or_nothing(path, mode=mode) as partial:
        partial.write_text(content, encoding="utf-8")


def write_together(contents: Mapping[Path, str], *, ready: Callable[[], None]) -> None:
    """Write several text files. `ready` is called once all of them are on disk, before the first gets its name.

    A link under one of the names is replaced, not followed: the program chose the name, not the user.

    Raises:
        BadTable: A file cannot be written. If it was raised before `ready` was called, no file has changed.
    """
    hidden: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            with one_line_errors(path):
                hidden[path] = _hidden(path)
                with open(create(hidden[path], replacing=path), "w", encoding="utf-8") as handle:
                    handle.write(content)
                    handle.flush()
                    os.fsync(handle.fileno())
        ready()
        for path, partial in hidden.items():
            with one_line_errors(path):
                put_in_place(partial, path)
    finally:
        for partial in hidden.values():
            with suppress(OSError):
                partial.unlink(missing_ok=True)


def create(file: Path, *, mode: int = USUAL, replacing: Path | None = None) -> int:
    """Create a new file and return its handle. A file or link that has the name already is never opened.

    Its permissions are `mode`, as far as the umask allows, or those of an existing file that it is `replacing`.
    """
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    if replacing is not None and replacing.is_file() and not replacing.is_symlink():
        os.fchmod(handle, stat.S_IMODE(replacing.stat().st_mode))
    return handle


def partial_of(path: Path) -> tuple[Path, Path]:
    """The file that a path or link leads to, and a hidden file next to it for the new content."""
    target = Path(os.path.realpath(path))
    return target, _hidden(target)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(16)}.partial")


def partials_of(target: Path) -> list[Path]:
    """The hidden files that killed processes have left next to this file, and not those of other files."""
    return list(target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 32}.partial"))


def put_in_place(partial: Path, target: Path) -> None:
    """Rename a file to its final name, after its bytes are synced to disk."""
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # otherwise a power cut could leave an empty file under the name
    os.replace(partial, target)
    sync_folder(target.parent)


def put_folder_in_place(partial: Path, target: Path) -> None:
    """Rename a folder, whose files are synced, to its final name. A folder of that name is replaced."""
    sync_folder(partial)
    old = _hidden(target)
    if target.exists():
        os.replace(target, old)
    os.replace(partial, target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def remove(path: Path) -> None:
    """Delete what a path or link leads to, if there is anything, so that it stays deleted after a power cut."""
    target, hidden = partial_of(path)
    with one_line_errors(path), suppress(FileNotFoundError):
        os.replace(target, hidden)  # one step, even for a folder with many files
        sync_folder(target.parent)
        delete(hidden)


def delete(path: Path) -> None:
    """Delete a file, or a folder with its files."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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


@contextmanager
def one_line_errors(path: Path, *, then: str = "") -> Iterator[None]:
    """Report in one line that a path cannot be written. `then` is a sentence about what that means."""
    try:
        yield
    except OSError as error:
        raise BadTable(f"{str(path)!r} cannot be written: {reason(error)}.{then and ' '}{then}") from None
