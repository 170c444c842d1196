"""Unfinished runs: begin one, stop it, and resume it with the same input and settings.

The folder of a run is `.OUT.dpbart` next to OUT, readable by its owner only. It holds a lock, the settings, the saved
texts and a secret. The secret is the key of the input's digest, which shows on resume whether the input is the same.
A plain hash would let anybody who guesses the private file confirm the guess. The folder is deleted once the output is
written. Ctrl-C stops a run between two batches, after the finished texts are saved.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dpbart.errors import BadTable, NotResumable
from dpbart.files import OWN, create, digest_of, sync_folder, visible_files, write_whole
from dpbart.rewrite.durable.folder import (
    COUNTS,
    MANIFEST,
    NONCE,
    REFUSED,
    SECRET,
    SavedTexts,
    check_folder,
    clear_folder,
    damaged,
    folder_errors,
    folder_of,
    identity,
    locked,
    make_folder,
    remove_folder,
)
from dpbart.tables.streams import STANDARD

FORMAT = 3
INPUT, LEDGER = "the input", "ledger"  # names of settings

RunSettings = Mapping[str, object]
Stamp = tuple[int, ...]  # device, inode, size, modification time; while these are the same, so is the content


class Stopped(KeyboardInterrupt):
    """The user stopped the run; the message says what is saved and how to continue."""


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C was pressed. A second Ctrl-C stops at once."""
    if threading.current_thread() is not threading.main_thread():  # other threads cannot set a handler
        yield lambda: False
        return
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def how_to_resume(done: int, rows: int | None, source: Path) -> str:
    """What is saved when a run is stopped, and how to continue."""
    if source == STANDARD:
        return "Stopped. Standard input cannot be read again: nothing was written."
    of = "" if rows is None else f" of {rows:,}"
    return f"Stopped. {done:,}{of} texts are saved. To continue, give the same command with --resume."


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
        """Refuse an input that has changed since the run began. It is read if its stamp has changed, or `again`."""
        now = stamp_of(self.source)
        if (again or now != self.stamp) and _digest(self.folder, self.source) != self.input:
            raise BadTable(
                f"{str(self.source)!r} was changed during the run. {self.saved.rows:,} texts from before that are "
                "saved; no output was written. Restore the input, then continue with --resume."
            )
        self.stamp = now

    @property
    def nonces(self) -> tuple[str, ...]:
        """The nonces that the ledger may have for this folder. The current one is last."""
        return tuple((self.folder / NONCE).read_text().split())

    def write_nonces(self, *nonces: str) -> None:
        """Replace the nonces. When this returns, they survive a power cut."""
        write_whole(self.folder / NONCE, "\n".join(nonces), mode=OWN)

    @property
    def refused(self) -> int:
        """How many texts a budget has refused so far."""
        file = self.folder / REFUSED
        return int(file.read_text()) if file.is_file() else 0

    def refuse(self, texts: int) -> None:
        """Remember for the card how many texts were refused."""
        with suppress(OSError):
            write_whole(self.folder / REFUSED, f"{self.refused + texts}\n", mode=OWN)

    def remove(self) -> None:
        """Delete the folder. The manifest goes first: if this is interrupted, what is left is not a run."""
        remove_folder(self.folder)


def check_unfinished(target: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether there is an unfinished run of this output to resume. Refuses one that is running now."""
    folder = folder_of(target)
    if os.path.lexists(folder):
        check_folder(folder)
    if not (folder / MANIFEST).is_file():
        return False
    with locked(folder, target):
        pass
    if not (resume or overwrite):
        drawn, saved = (folder / COUNTS).is_file(), SavedTexts(folder).rows
        what = "its counts drawn and saved" if drawn else f"{saved:,} texts saved"
        raise BadTable(
            f"{str(target)!r} has an unfinished run with {what}. Pass --resume to continue it, "
            "or --overwrite to start again; what a ledger has recorded stays spent."
        )
    return resume


def stamp_of(source: Path) -> Stamp | None:
    """A stamp that changes when the file or a file of the folder changes; None for standard input or a missing file."""
    if source == STANDARD:
        return None
    try:
        found = [file.stat() for file in (source, *(visible_files(source) if source.is_dir() else ()))]
    except OSError:
        return None
    return tuple(part for one in found for part in (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns))


@contextmanager
def open_run(
    target: Path, source: Path, settings: RunSettings, run: str, seen: Stamp | None, *, resume: bool, overwrite: bool
) -> Iterator[UnfinishedRun]:
    """Create or find the folder of this run, and hold its lock while it is open.

    The settings must not change during a run. `run` is the name of a new one, and `seen` the stamp of the input when
    the run was planned.

    Raises:
        NotResumable: The input or a setting has changed; the message says which.
        BadTable: Another run is writing this output or has written it since the run was planned; the input has changed
            since then; or the folder cannot be written.
    """
    folder = folder_of(target)
    make_folder(folder)
    with locked(folder, target):
        _check_no_other(folder, target, resume=resume, overwrite=overwrite)
        try:
            with folder_errors(folder):
                run, digest = (_checked if resume else _begin)(folder, source, settings, run)
            if stamp_of(source) != seen:
                raise BadTable(f"{str(source)!r} has changed since it was checked. Run the same command again.")
        except BaseException:
            if not resume:
                remove_folder(folder)
            raise
        yield UnfinishedRun(folder, run, SavedTexts(folder), source, digest, seen)


def _check_no_other(folder: Path, target: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse if another run has written this output between the plan and the lock: its work must not be lost."""
    unfinished = (folder / MANIFEST).is_file()
    if not unfinished if resume else not overwrite and (unfinished or target.exists()):
        if not unfinished:
            remove_folder(folder)  # just created by this run
        raise BadTable(f"another run has written {str(target)!r} in the meantime. Check it, or name another output.")


def _begin(folder: Path, source: Path, settings: RunSettings, run: str) -> tuple[str, str]:
    """Clear the folder except for the lock, and start a new run. Returns its name and the input's digest."""
    clear_folder(folder)
    with open(create(folder / SECRET, mode=OWN), "wb") as handle:
        handle.write(secrets.token_bytes(32))
        os.fsync(handle.fileno())
    write_whole(folder / NONCE, secrets.token_hex(16), mode=OWN)
    digest = _digest(folder, source)
    manifest = {"format": FORMAT, "run": run, "lock": identity(folder), "settings": {**settings, INPUT: digest}}
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=2), mode=OWN)
    sync_folder(folder.parent)
    return run, digest


def _checked(folder: Path, source: Path, settings: RunSettings, _: str) -> tuple[str, str]:
    """The name of the existing run and the digest of its input, if input and settings are unchanged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        before, run = dict(manifest["settings"]), str(manifest["run"])
        form, lock = manifest["format"], manifest.get("lock")
        now = json.loads(json.dumps({**settings, INPUT: _digest(folder, source)}))
        (folder / NONCE).read_text()
    except (ValueError, KeyError, TypeError, OSError):
        raise damaged(folder) from None
    if form != FORMAT:
        raise NotResumable(f"{str(folder)!r} was made by another version of dpbart. Start again with --overwrite.")
    if settings.get(LEDGER) is None and lock != identity(folder):
        raise NotResumable(
            f"{str(folder)!r} is a copy of the folder of a run without a ledger, or was restored. Nobody knows which "
            "of its texts were released since. Resume the original folder, or start again with --overwrite."
        )
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
    return digest_of(source, hmac.new((folder / SECRET).read_bytes(), digestmod=hashlib.sha256))
