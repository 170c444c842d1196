"""The folder of an unfinished run: `.OUT.dpbart` next to OUT, readable by its owner only.

It holds a lock, the run's settings, the saved texts and a secret. The secret is the key of the input's digest, which
shows on resume whether the input is the same. A plain hash would let anybody who guesses the private file confirm the
guess. The folder is deleted once the output is written.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import hmac
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadTable, NotResumable
from dpbart.files import digest_of, reason, sync_folder, visible_files, write_whole
from dpbart.rewrite.durable.saved import SavedTexts
from dpbart.tables.table import STANDARD

FORMAT = 1
INPUT = "the input"
_MANIFEST, _SECRET, _LOCK, _REFUSED = "run.json", "secret", "lock", "refused"

RunSettings = Mapping[str, object]
Stamp = tuple[int, ...]  # device, inode, size, modification time; while these are the same, so is the content


@dataclass
class UnfinishedRun:
    """An unfinished run and its folder, which is locked."""

    folder: Path
    run: str  # its name in the ledger
    saved: SavedTexts
    source: Path
    input: str  # the keyed digest of the input when the run began
    stamp: Stamp | None  # of the input when it was last known to be unchanged

    def check_input(self, *, again: bool = False) -> None:
        """Refuse an input that has changed since the run began.

        The file is read again if its stamp has changed or if `again` is set.

        Raises:
            BadTable: The input has changed; the message says how to continue.
        """
        now = stamp_of(self.source)
        if (again or now != self.stamp) and _digest(self.folder, self.source) != self.input:
            raise BadTable(
                f"{str(self.source)!r} was changed during the run. {self.saved.rows:,} texts from before that are "
                "saved; no output was written. Restore the input, then continue with --resume."
            )
        self.stamp = now

    @property
    def refused(self) -> int:
        """How many texts a budget has refused so far."""
        file = self.folder / _REFUSED
        return sum(map(int, file.read_text().split())) if file.is_file() else 0

    def refuse(self, texts: int) -> None:
        """Remember for the card how many texts were refused."""
        with suppress(OSError), (self.folder / _REFUSED).open("a") as file:
            file.write(f"{texts}\n")

    def remove(self) -> None:
        """Delete the folder. The manifest goes first: if this is interrupted, what is left is not a run."""
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def folder_of(target: Path) -> Path:
    """The folder of an output's unfinished run.

    >>> folder_of(Path("private.csv")).name
    '.private.csv.dpbart'
    """
    target = Path(os.path.realpath(target))
    return target.with_name(f".{target.name}.dpbart")


def check_unfinished(target: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether there is an unfinished run of this output to resume.

    Raises:
        BadTable: There is one, but the user asked neither to resume nor to overwrite it; or it is running now.
    """
    folder = folder_of(target)
    if not (folder / _MANIFEST).is_file():
        return False
    with _locked(folder, target):
        pass
    if not (resume or overwrite):
        saved = SavedTexts(folder).rows
        raise BadTable(
            f"{str(target)!r} has an unfinished run with {saved:,} texts saved. Pass --resume to continue it, "
            "or --overwrite to start again; what a ledger has recorded stays spent."
        )
    return resume


def stamp_of(source: Path) -> Stamp | None:
    """A stamp that changes when the file or a file of the folder changes; None for standard input or a missing file."""
    if source == STANDARD:
        return None
    try:
        held = [each.stat() for each in (source, *(visible_files(source) if source.is_dir() else ()))]
    except OSError:
        return None
    return tuple(part for each in held for part in (each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns))


@contextmanager
def open_run(
    target: Path, source: Path, settings: RunSettings, *, run: str, resume: bool, overwrite: bool, seen: Stamp | None
) -> Iterator[UnfinishedRun]:
    """Create or find the folder of this run, and hold its lock while it is open.

    Args:
        target: the output.
        source: the input.
        settings: everything that must not change during a run.
        run: the name of a new run.
        resume: whether to continue the existing run.
        overwrite: whether an existing run or output may be deleted.
        seen: the stamp of the input when the run was planned.

    Raises:
        NotResumable: The input or a setting has changed; the message says which.
        BadTable: Another run is writing this output or has written it since the run was planned; the input has changed
            since then; or the folder cannot be written.
    """
    folder = folder_of(target)
    with _one_line_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    with _locked(folder, target):
        _check_no_other(folder, target, resume=resume, overwrite=overwrite)
        try:
            with _one_line_errors(folder):
                _clear_half_written(folder, target)
                run, digest = (_checked if resume else _begin)(folder, source, settings, run)
            if stamp_of(source) != seen:
                raise BadTable(f"{str(source)!r} has changed since it was checked. Run the same command again.")
        except BaseException:
            if not resume:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        yield UnfinishedRun(folder, run, SavedTexts(folder), source, digest, seen)


def _check_no_other(folder: Path, target: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse if another run has written this output between the plan and the lock: its work must not be lost."""
    unfinished = (folder / _MANIFEST).is_file()
    if not unfinished if resume else not overwrite and (unfinished or target.exists()):
        if not unfinished:
            shutil.rmtree(folder, ignore_errors=True)  # just created by this run
        raise BadTable(f"another run has written {str(target)!r} in the meantime. Check it, or name another output.")


def _clear_half_written(folder: Path, target: Path) -> None:
    """Delete partial outputs of a killed run. This run holds the lock, so nobody is writing one."""
    name = Path(os.path.realpath(target)).name
    for file in folder.parent.glob(f".{glob.escape(name)}.*.partial"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


@contextmanager
def _one_line_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadTable(f"{str(folder)!r} cannot be written: {reason(error)}. Nothing was released.") from None


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    with _one_line_errors(folder):
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that has just ended deletes its folder; then this lock would protect nothing.
            held = (folder / _LOCK).exists() and os.path.samestat(os.fstat(handle), os.stat(folder / _LOCK))
        except BlockingIOError:
            held = False
        if not held:
            raise BadTable(f"another run is writing {str(target)!r}. Wait for it, or name another output.")
        yield
    finally:
        os.close(handle)


def _begin(folder: Path, source: Path, settings: RunSettings, run: str) -> tuple[str, str]:
    """Clear the folder except for the lock, and start a new run. Returns its name and the input's digest."""
    (folder / _MANIFEST).unlink(missing_ok=True)  # first: a manifest without all its parts would look resumable
    for file in folder.iterdir():
        if file.name != _LOCK:
            file.unlink()
    with open(os.open(folder / _SECRET, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(secrets.token_bytes(32))
        os.fsync(handle.fileno())
    digest = _digest(folder, source)
    held = {"format": FORMAT, "run": run, "settings": {**settings, INPUT: digest}}
    write_whole(folder / _MANIFEST, json.dumps(held, indent=2))
    sync_folder(folder.parent)
    return run, digest


def _checked(folder: Path, source: Path, settings: RunSettings, _: str) -> tuple[str, str]:
    """The existing run's name and its input's digest. Its input and settings must be unchanged."""
    try:
        held = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        before, run, form = dict(held["settings"]), str(held["run"]), held["format"]
        now = json.loads(json.dumps({**settings, INPUT: _digest(folder, source)}))
    except (ValueError, KeyError, TypeError, OSError):
        raise NotResumable(f"{str(folder)!r} is damaged. Start again with --overwrite.") from None
    if form != FORMAT:
        raise NotResumable(f"{str(folder)!r} was made by another version of dpbart. Start again with --overwrite.")
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed:
        # Settings may be shown with their values; the input has only a digest, which says nothing.
        named = [
            name if name == INPUT else f"{name} ({before.get(name)}, now {now.get(name)})" for name in sorted(changed)
        ]
        raise NotResumable(
            f"the unfinished run cannot resume, because this has changed: {'; '.join(named)}. "
            "Change it back, or start again with --overwrite; what a ledger has recorded stays spent."
        )
    return run, str(now[INPUT])


def _digest(folder: Path, source: Path) -> str:
    if source == STANDARD:
        return "standard input"
    return digest_of(source, hmac.new((folder / _SECRET).read_bytes(), digestmod=hashlib.sha256))
