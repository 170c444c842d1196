"""The hidden folder of a run: its files and its lock, and the new texts that are saved in it.

The folder belongs to the user who runs dpbart, and holds only files of dpbart. In a shared place such as /tmp, somebody
else may have put a folder or a link under its name. Neither is used, and no file that dpbart did not write is deleted.

New texts are saved in numbered parts until the output is written. A part is written to a temporary file, synced, and
then renamed, so a part with its final name is always complete. It holds new texts and, if labels are randomised, new
labels. It holds nothing from the input. The release of a whole collection saves its noised counts instead.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadTable, NotResumable
from dpbart.files import OWN, one_line_errors, whole_or_nothing

MANIFEST, SECRET, NONCE, LOCK, REFUSED = "run.json", "secret", "nonce", "lock", "refused"
ORDER, BUCKET = "order", "bucket-"  # of shuffled rows
COUNTS = "counts.json"  # of a collection, with their noise
_PART = ".arrow"
_NAMES = (MANIFEST, SECRET, NONCE, LOCK, REFUSED, ORDER, COUNTS)
_OURS = re.compile(
    rf"({'|'.join(map(re.escape, _NAMES))}|\d{{6}}-\d{{12}}{re.escape(_PART)}|{BUCKET}\d{{4}}|\..*\.partial)"
)


def folder_of(target: Path) -> Path:
    """The folder of an output's unfinished run.

    >>> folder_of(Path("private.csv")).name
    '.private.csv.dpbart'
    """
    target = Path(os.path.realpath(target))
    return target.with_name(f".{target.name}.dpbart")


def make_folder(folder: Path) -> None:
    """Create the folder, or make sure that an existing one may be used."""
    with folder_errors(folder):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        check_folder(folder)


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not ours. If others could read it, take that right away."""
    found, wrong = folder.lstat(), None
    if stat.S_ISLNK(found.st_mode):
        wrong = "a link"
    elif not stat.S_ISDIR(found.st_mode):
        wrong = "a file"
    elif found.st_uid != os.geteuid():
        wrong = "one that belongs to another user"
    if wrong is not None:
        raise BadTable(
            f"{str(folder)!r} must be a folder of your own, got {wrong}. Move it elsewhere, or name another output."
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
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
    """What a copy of the folder lacks: the inode of the lock, and when it was created.

    Nothing changes the lock after its creation, and no program can set the time of the last change (ctime).
    """
    lock = (folder / LOCK).stat()
    return [lock.st_ino, lock.st_ctime_ns]


@contextmanager
def locked(folder: Path, target: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises BadTable if another run holds it."""
    with folder_errors(folder):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, OWN)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that has just ended deletes its folder; then this lock would protect nothing.
            ours = (folder / LOCK).exists() and os.path.samestat(os.fstat(handle), os.stat(folder / LOCK))
        except BlockingIOError:
            ours = False
        if not ours:
            raise BadTable(f"another run is writing {str(target)!r}. Wait for it, or name another output.")
        yield
    finally:
        os.close(handle)


def folder_errors(folder: Path) -> AbstractContextManager[None]:
    """Report in one line that the folder cannot be written."""
    return one_line_errors(folder, then="Nothing was released.")


def damaged(folder: Path) -> NotResumable:
    """The error for a folder whose files contradict each other."""
    return NotResumable(f"{str(folder)!r} is damaged. Start again with --overwrite.")


def holds_release(folder: Path) -> bool:
    """Whether something is saved that somebody may have seen, so that it must not be drawn again."""
    return (folder / COUNTS).is_file() or SavedTexts(folder).rows > 0


@dataclass
class NewTexts:
    """New texts that are not saved yet, as rows, and their new labels if those are randomised."""

    rows: list[list[str]] = field(default_factory=list)  # the new cells of each row
    labels: list[str] = field(default_factory=list)


class SavedTexts:
    """The saved parts in a folder, in order. Files are named NUMBER-ROWS.arrow; ROWS is the total up to that part."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, sorted(folder.glob(f"*{_PART}"))
        if [int(file.stem.partition("-")[0]) for file in self._files] != list(range(1, len(self._files) + 1)):
            raise NotResumable(f"saved texts are missing in {str(folder)!r}. Start again with --overwrite.")

    @property
    def rows(self) -> int:
        """How many rows are saved."""
        return int(self._files[-1].stem.partition("-")[2]) if self._files else 0

    @property
    def recipe(self) -> str:
        """The recipe of the texts in the last part; empty if there is no part."""
        if not self._files:
            return ""
        with pa.OSFile(str(self._files[-1])) as handle, pa.ipc.open_file(handle) as part:
            return str(part.schema.metadata[b"recipe"].decode())

    def add(self, new: NewTexts, *, recipe: str) -> None:
        """Save the next rows as one part. When this returns, they survive a power cut."""
        columns = {"texts": pa.array(new.rows, pa.large_list(pa.large_string()))}
        if new.labels:
            columns["label"] = pa.array(new.labels, pa.large_string())
        record = pa.record_batch(columns).replace_schema_metadata({"recipe": recipe})
        rows = self.rows + record.num_rows
        file = self._folder / f"{len(self._files) + 1:06}-{rows:012}{_PART}"
        try:
            with whole_or_nothing(file, mode=OWN) as partial, pa.ipc.new_file(partial, record.schema) as part:
                part.write_batch(record)
        except BadTable as error:
            raise BadTable(
                f"{error} {self.rows:,} texts are saved in its folder. Free some space, then continue with --resume."
            ) from None
        self._files.append(file)

    def read(self) -> Iterator[tuple[list[str], str | None]]:
        """All rows in order: the new cells, and the new label if there is one."""
        for record in self.records():
            yield from rows_of(record)

    def records(self) -> Iterator[pa.RecordBatch]:
        """The parts in order, read one at a time."""
        for file in self._files:
            with pa.OSFile(str(file)) as handle, pa.ipc.open_file(handle) as part:
                yield part.get_batch(0).replace_schema_metadata(None)


def rows_of(record: pa.RecordBatch) -> Iterator[tuple[list[str], str | None]]:
    """The rows of a part: the new cells, and the new label if there is one."""
    rows = record.column(0).to_pylist()
    labels = record.column(1).to_pylist() if record.num_columns > 1 else [None] * len(rows)
    return zip(rows, labels, strict=True)
