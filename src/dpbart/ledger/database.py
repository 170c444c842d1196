"""The ledger's SQLite file: its tables, opening it, and changing it in transactions.

It uses a rollback journal, not WAL, so that after a transaction there is only one file, which can be copied.
synchronous=EXTRA also syncs the folder. Otherwise, a power cut just after a commit could restore the old state, and a
text would be released without being recorded.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from dpbart.errors import BadLedger
from dpbart.files import OWN
from dpbart.files import create as new_file
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Event

FORMAT = 3  # another format is refused
SECONDS_TO_WAIT = 60.0  # for other processes to finish writing
EVERYBODY = ""  # the id of the default limit in the table of limits
APPLICATION = 0x64706274  # "dpbt": marks a SQLite file as a ledger
TABLES = """
CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  begun TEXT NOT NULL,       -- date and time, UTC
  mechanism TEXT NOT NULL,
  model TEXT NOT NULL,       -- name@fingerprint
  events TEXT NOT NULL,      -- JSON: what the texts of a row and their label spend, budgets as decimal strings
  rows_upto INTEGER NOT NULL DEFAULT 0,    -- recorded in total
  people INTEGER NOT NULL DEFAULT 0,       -- people whom this run recorded first
  units TEXT NOT NULL DEFAULT '',          -- what was counted: people or texts ('': unknown)
  nonce TEXT NOT NULL DEFAULT '',          -- shared with the folder of the unfinished run
  safe INTEGER NOT NULL DEFAULT 0,         -- rows whose new texts are saved
  finished TEXT                            -- date and time, UTC (NULL: the output is not written yet)
);
CREATE TABLE releases (
  person TEXT NOT NULL,
  run TEXT NOT NULL REFERENCES runs,
  texts INTEGER NOT NULL,
  last TEXT NOT NULL,        -- date and time, UTC
  PRIMARY KEY (person, run)
) WITHOUT ROWID;
CREATE TABLE limits (
  person TEXT PRIMARY KEY,   -- '' is the default for everybody, and has a delta
  epsilon TEXT,              -- the most (NULL: the default for everybody, or no limit)
  delta TEXT                 -- at which spending is measured (NULL: the default for everybody)
);
"""


def default_delta(people: int) -> Decimal:
    """The delta of a new ledger: 1e-5, or the largest power of ten that is at most a tenth of 1 / people.

    >>> [str(default_delta(people)) for people in (0, 9_999, 10_000, 2_000_000)]
    ['0.00001', '0.00001', '0.000001', '1E-8']
    """
    return Decimal(1).scaleb(-max(5, len(str(people)) + 1))


def release_to(release: Release) -> str:
    """A release as JSON, with every digit kept: its events or, if a row has several texts, how many and its events."""
    events = [[each.mechanism, str(each.epsilon), str(each.delta), each.parameter] for each in release.events]
    return json.dumps(events if release.texts == 1 else {"texts": release.texts, "events": events})


def release_from(held: str) -> Release:
    """Read a release from JSON. Raises ValueError, TypeError or KeyError if it is damaged."""
    read = json.loads(held)
    texts, stated = (1, read) if isinstance(read, list) else (int(read["texts"]), read["events"])
    events = tuple(
        Event(str(mechanism), Decimal(epsilon), Decimal(delta), None if parameter is None else float(parameter))
        for mechanism, epsilon, delta, parameter in stated
    )
    if not (isinstance(read, list) or 1 <= texts <= len(events)):
        raise ValueError("a release has an event for each text")
    return Release(events, texts)


def connect(file: Path, *, create: bool, people: int) -> sqlite3.Connection:
    """Open a ledger and check it. A new one gets a delta that suits this number of people."""
    if not create and not file.is_file():
        raise BadLedger(f"there is no ledger {str(file)!r}. Create one with 'dpbart rewrite --ledger FILE'.")
    _keep_to_owner(file, create=create)
    try:
        # No automatic transactions: the module would begin them too late to include the check.
        connection = sqlite3.connect(file, timeout=SECONDS_TO_WAIT, isolation_level=None)
    except sqlite3.Error as error:
        raise BadLedger(f"the ledger {str(file)!r} cannot be opened: {error}. Check the path.") from None
    try:
        with one_line_errors(file):
            connection.execute("PRAGMA synchronous = EXTRA")
            if create:
                _make(connection, people)
            _check(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def _keep_to_owner(file: Path, *, create: bool) -> None:
    """Create the file for its owner alone. An older file that everybody could read is closed to others.

    SQLite gives its journal the same mode.
    """
    if create and file.is_symlink() and not file.exists():
        raise BadLedger(f"the ledger {str(file)!r} is a link to a file that does not exist. Name a file.")
    with suppress(OSError):  # SQLite reports a file that cannot be created or opened
        if create:
            os.close(new_file(file, mode=OWN))
    with suppress(OSError):
        held = file.stat()
        if held.st_uid == os.geteuid() and held.st_mode & 0o007:
            file.chmod(stat.S_IMODE(held.st_mode) & ~0o007)


@contextmanager
def transaction(connection: sqlite3.Connection, file: Path) -> Iterator[None]:
    """Run the block as one transaction. It takes the write lock first, so no other process can write in between."""
    with one_line_errors(file):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def one_line_errors(file: Path) -> Iterator[None]:
    """Turn SQLite errors into BadLedger with a one-line message."""
    try:
        yield
    except sqlite3.Error as error:
        name, reason = repr(str(file)), str(error)
        if "locked" in reason:
            problem = f"{name} was held by another process for {SECONDS_TO_WAIT:g} seconds. Try again."
        elif "malformed" in reason or "not a database" in reason:
            problem = f"{name} is damaged, or not a dpbart ledger. Restore a copy, or name another file."
        else:
            problem = f"{name} cannot be used: {reason}."
        raise BadLedger(f"the ledger {problem} Nothing was recorded.") from None


def _make(connection: sqlite3.Connection, people: int) -> None:
    connection.execute("BEGIN IMMEDIATE")  # if two processes open an empty file, only one creates the tables
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO limits VALUES (?, NULL, ?)", (EVERYBODY, str(default_delta(people))))
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, file: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        raise BadLedger(f"{str(file)!r} is a SQLite file, but not a dpbart ledger. Name another file.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise BadLedger(
            f"the ledger {str(file)!r} must have format {FORMAT}, got {version}. "
            "Use the version of dpbart that wrote it, or name another file."
        )
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise BadLedger(f"the ledger {str(file)!r} is damaged. Restore a copy.")
