"""The folder of a run that is not finished: `.OUT.dpbart` beside OUT, for its owner's eyes only.

It holds a lock, the run's settings, the parts that are safe, and a secret: to know the input again, its digest is keyed
with the secret, since a plain hash of a private file would tell whoever guesses the file that the guess is right. All
of it goes when the output is there.
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
from dpbart.files import digest_of, reason, sync_folder, write_whole
from dpbart.rewrite.durable.saved import Parts
from dpbart.tables.table import STANDARD

FORMAT = 1
INPUT = "the input"
_MANIFEST, _SECRET, _LOCK, _REFUSED = "run.json", "secret", "lock", "refused"

RunSettings = Mapping[str, object]
Touched = tuple[int, ...]  # file, size and time of the last change: as long as these stay, so does the content


@dataclass
class Work:
    """A run's own folder, locked."""

    folder: Path
    run: str
    parts: Parts
    source: Path
    input: str  # its keyed digest when the run began
    touched: Touched | None  # when it was last known to be the same

    def check_input(self, *, again: bool = False) -> None:
        """Refuse an input that is another than when the run began. It is read again where it was touched, or if asked.

        Raises:
            BadTable: Says how to go on.
        """
        now = touched(self.source)
        if (again or now != self.touched) and _digest(self.folder, self.source) != self.input:
            raise BadTable(
                f"{str(self.source)!r} was changed while it was rewritten. {self.parts.rows:,} texts from before are "
                "safe, and the output is not written. Put the input back, and go on with --resume."
            )
        self.touched = now

    @property
    def refused(self) -> int:
        """Texts that a budget has refused so far."""
        file = self.folder / _REFUSED
        return sum(map(int, file.read_text().split())) if file.is_file() else 0

    def refuse(self, texts: int) -> None:
        """Remember, for the card, that so many texts were refused."""
        with suppress(OSError), (self.folder / _REFUSED).open("a") as file:
            file.write(f"{texts}\n")

    def remove(self) -> None:
        """All of it; first what makes it a run, in case this is cut short."""
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def folder_of(target: Path) -> Path:
    """Where the unfinished run of an output is.

    >>> folder_of(Path("private.csv")).name
    '.private.csv.dpbart'
    """
    target = Path(os.path.realpath(target))
    return target.with_name(f".{target.name}.dpbart")


def check_unfinished(target: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether there is an unfinished run of this output to go on with.

    Raises:
        BadTable: There is one, and neither is it to go on nor to be thrown away; or it is running now.
    """
    folder = folder_of(target)
    if not (folder / _MANIFEST).is_file():
        return False
    with _locked(folder, target):
        pass
    if not (resume or overwrite):
        safe = Parts(folder).rows
        raise BadTable(
            f"{str(target)!r} has an unfinished run, of which {safe:,} texts are safe. Pass --resume to go on with it, "
            "or --overwrite to begin anew; what a ledger has recorded stays spent."
        )
    return resume


def touched(source: Path) -> Touched | None:
    """What tells that a file was changed, without reading it; None of standard input, and of a file that is gone."""
    try:
        held = None if source == STANDARD else source.stat()
    except OSError:
        return None
    return None if held is None else (held.st_dev, held.st_ino, held.st_size, held.st_mtime_ns)


@contextmanager
def open_work(
    target: Path, source: Path, settings: RunSettings, *, run: str, resume: bool, overwrite: bool, seen: Touched | None
) -> Iterator[Work]:
    """The folder of this run, made or found again, and locked as long as it is open.

    Args:
        target: the output.
        source: the input.
        settings: all that must not change in the middle of a run.
        run: a name for a new run.
        resume: whether to go on with the run that is there.
        overwrite: whether a run or an output that is there may be thrown away.
        seen: the input as it was `touched` when the run was planned.

    Raises:
        NotResumable: The input or a setting has changed; says which.
        BadTable: Another run is writing this output, or has done so since it was looked at; the input has changed
            since then; or the folder cannot be written.
    """
    folder = folder_of(target)
    with _told(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    with _locked(folder, target):
        _check_no_other(folder, target, resume=resume, overwrite=overwrite)
        try:
            with _told(folder):
                _clear_half_written(folder, target)
                run, digest = (_checked if resume else _begin)(folder, source, settings, run)
            if touched(source) != seen:
                raise BadTable(f"{str(source)!r} was changed after it was looked at. Give the same command again.")
        except BaseException:
            if not resume:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        yield Work(folder, run, Parts(folder), source, digest, seen)


def _check_no_other(folder: Path, target: Path, *, resume: bool, overwrite: bool) -> None:
    """Between a look at the place and the lock, another run may have come and gone: its work is not thrown away."""
    unfinished = (folder / _MANIFEST).is_file()
    if not unfinished if resume else not overwrite and (unfinished or target.exists()):
        if not unfinished:
            shutil.rmtree(folder, ignore_errors=True)  # made just now
        raise BadTable(f"another run has written {str(target)!r} in the meantime. Look at it, or name another output.")


def _clear_half_written(folder: Path, target: Path) -> None:
    """Outputs that a run was killed in the middle of; the lock is ours, so nobody is writing one."""
    name = Path(os.path.realpath(target)).name
    for file in folder.parent.glob(f".{glob.escape(name)}.*.partial"):
        file.unlink()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadTable(f"{str(folder)!r} cannot be written: {reason(error)}. Nothing was released.") from None


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    with _told(folder):
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that ended just now took its folder along, and this would be the lock of nothing.
            held = (folder / _LOCK).exists() and os.path.samestat(os.fstat(handle), os.stat(folder / _LOCK))
        except BlockingIOError:
            held = False
        if not held:
            raise BadTable(f"another run is writing {str(target)!r}. Wait for it, or name another output.")
        yield
    finally:
        os.close(handle)


def _begin(folder: Path, source: Path, settings: RunSettings, run: str) -> tuple[str, str]:
    """Throw away what is there, but for the lock, and write the new run down; gives it and the input's digest."""
    (folder / _MANIFEST).unlink(missing_ok=True)  # first: with it and without some parts, a run could seem to go on
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
    """The run that is there and the digest of its input; input and settings must be the same."""
    try:
        held = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        before, run, form = dict(held["settings"]), str(held["run"]), held["format"]
        now = json.loads(json.dumps({**settings, INPUT: _digest(folder, source)}))
    except (ValueError, KeyError, TypeError, OSError):
        raise NotResumable(f"{str(folder)!r} is damaged. Begin anew with --overwrite.") from None
    if form != FORMAT:
        raise NotResumable(f"{str(folder)!r} is of another version of dpbart. Begin anew with --overwrite.")
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if changed:
        # The values of settings may be shown; of the input there is a digest, which says nothing.
        told = [
            name if name == INPUT else f"{name} ({before.get(name)}, now {now.get(name)})" for name in sorted(changed)
        ]
        raise NotResumable(
            f"the unfinished run cannot go on, since this has changed: {'; '.join(told)}. "
            "Put it back, or begin anew with --overwrite; what a ledger has recorded stays spent."
        )
    return run, str(now[INPUT])


def _digest(folder: Path, source: Path) -> str:
    if source == STANDARD:
        return "standard input"
    return digest_of(source, hmac.new((folder / _SECRET).read_bytes(), digestmod=hashlib.sha256))
