"""The hidden folder of a run: it belongs to the user who runs dpbart, and holds nothing but dpbart's own files.

In a shared place such as /tmp, somebody else may have put a folder or a link under its name. Neither is used, and no
file that dpbart did not write is ever deleted.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.files import OWN, reason

MANIFEST, SECRET, NONCE, LOCK, REFUSED = "run.json", "secret", "nonce", "lock", "refused"
ORDER, BUCKET = "order", "bucket-"  # of shuffled rows
_NAMES = (MANIFEST, SECRET, NONCE, LOCK, REFUSED, ORDER)
_OURS = re.compile(rf"({'|'.join(map(re.escape, _NAMES))}|\d{{6}}-\d{{12}}\.arrow|{BUCKET}\d{{4}}|\..*\.partial)")


def folder_of(target: Path) -> Path:
    """The folder of an output's unfinished run.

    >>> folder_of(Path("private.csv")).name
    '.private.csv.dpbart'
    """
    target = Path(os.path.realpath(target))
    return target.with_name(f".{target.name}.dpbart")


def make_folder(folder: Path) -> None:
    """Create the folder, or make sure that an existing one may be used."""
    with one_line_errors(folder):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        check_folder(folder)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not ours. One that others could read is closed to them.

    Raises:
        BadTable: It is a link, belongs to another user, or holds a file that dpbart did not write.
    """
    held = folder.lstat()
    wrong = None
    if stat.S_ISLNK(held.st_mode):
        wrong = "a link"
    elif not stat.S_ISDIR(held.st_mode):
        wrong = "a file"
    elif held.st_uid != os.geteuid():
        wrong = "one that belongs to another user"
    if wrong is not None:
        raise BadTable(
            f"{str(folder)!r} must be a folder of your own, got {wrong}. Move it elsewhere, or name another output."
        )
    if stat.S_IMODE(held.st_mode) != 0o700:
        folder.chmod(0o700)
    foreign = sorted(name for name in os.listdir(folder) if not _OURS.fullmatch(name))
    if foreign:
        raise BadTable(
            f"{str(folder)!r} holds {foreign[0]!r}, which dpbart did not write. "
            "Move it elsewhere, or name another output."
        )


def clear_folder(folder: Path) -> None:
    """Delete our files except for the lock. The manifest goes first: what is left without it is not a run."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for file in folder.iterdir():
        if file.name != LOCK and _OURS.fullmatch(file.name):
            file.unlink()


def remove_folder(folder: Path) -> None:
    """Delete our files, and the folder if nothing else is in it."""
    with suppress(OSError):
        clear_folder(folder)
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def identity(folder: Path) -> list[int]:
    """What a copy of the folder does not share: the inode of its lock, and when that was created.

    Nothing changes the lock after its creation, and no program can set the time of the last change.
    """
    held = (folder / LOCK).stat()
    return [held.st_ino, held.st_ctime_ns]


@contextmanager
def locked(folder: Path, target: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises BadTable if another run holds it."""
    with one_line_errors(folder):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWN)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that has just ended deletes its folder; then this lock would protect nothing.
            held = (folder / LOCK).exists() and os.path.samestat(os.fstat(handle), os.stat(folder / LOCK))
        except BlockingIOError:
            held = False
        if not held:
            raise BadTable(f"another run is writing {str(target)!r}. Wait for it, or name another output.")
        yield
    finally:
        os.close(handle)


@contextmanager
def one_line_errors(folder: Path) -> Iterator[None]:
    """Report an error of the file system in one line."""
    try:
        yield
    except OSError as error:
        raise BadTable(f"{str(folder)!r} cannot be written: {reason(error)}. Nothing was released.") from None
