"""Stored answers: who asks again with the same Idempotency-Key gets the same answer, without a second draw or charge.

An answer consists of private outputs, so it may be stored. The request is not. Of its key only a hash is kept, and of
its body an HMAC under that key, which tells two requests apart: without the key it says nothing about the texts.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpbart.files import OWN, create
from dpbart.web.problems import Problem

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
  key TEXT PRIMARY KEY,      -- SHA-256 of the Idempotency-Key
  request TEXT NOT NULL,     -- HMAC of the body under the Idempotency-Key
  run TEXT,                  -- in the ledger (NULL: without a ledger)
  upto INTEGER NOT NULL,     -- its last row in that run
  body TEXT NOT NULL,        -- the answer
  stored REAL NOT NULL       -- seconds since 1970
) WITHOUT ROWID
"""
_SHORTEST, _LONGEST = 16, 255  # characters of a key


@dataclass(frozen=True)
class Key:
    """An Idempotency-Key and the request it came with; neither can be read from it."""

    key: str
    request: str

    @classmethod
    def of(cls, given: str, body: bytes) -> Key:
        """The key of a request.

        Raises:
            Problem: The key is too short to be unique, or too long.
        """
        secret = _checked(given)
        return cls(hashlib.sha256(secret).hexdigest(), hmac.new(secret, body, "sha256").hexdigest())


def job_id(given: str | None) -> str:
    """The id of a new job: 32 hexadecimal digits. The same Idempotency-Key always gives the same ones."""
    if given is None:
        return secrets.token_hex(16)
    return hashlib.sha256(b"job " + _checked(given)).hexdigest()[:32]


def _checked(given: str) -> bytes:
    if not _SHORTEST <= len(given) <= _LONGEST or not given.isascii() or not given.isprintable():
        raise Problem(
            400,
            "bad-idempotency-key",
            f"an Idempotency-Key must have {_SHORTEST} to {_LONGEST} printable ASCII characters. Use a new UUID "
            "for each request.",
        )
    return given.encode()


@dataclass(frozen=True)
class Stored:
    """The answer to a request, and its last row in the ledger."""

    key: Key
    run: str | None
    upto: int
    body: str


class Answers:
    """A SQLite file of answers, readable by its owner only."""

    def __init__(self, file: Path, *, seconds: float) -> None:
        """Open the file, or create it. Answers older than `seconds` are not given any more."""
        if not file.exists():
            os.close(create(file, mode=OWN))  # SQLite gives its journal the same mode
        self._seconds, self._lock = seconds, threading.Lock()
        self._unsure: set[str] = set()  # keys whose answers are stored and may not be given yet
        self._connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")  # one sync for each batch of answers
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
        self._connection.execute(_TABLE)

    def find(self, key: Key) -> str | None:
        """The stored answer, if there is one.

        Raises:
            Problem: The key came with another request.
        """
        if key.key in self._unsure:
            return None
        query = "SELECT request, body FROM answers WHERE key = ? AND stored > ?"
        with self._lock:
            found = self._connection.execute(query, (key.key, time.time() - self._seconds)).fetchone()
        if found is None:
            return None
        check_same(key, found[0])
        return str(found[1])

    def stored(self) -> list[Stored]:
        """All stored answers."""
        with self._lock:
            found = self._connection.execute("SELECT key, request, run, upto, body FROM answers").fetchall()
        return [Stored(Key(key, request), run, upto, body) for key, request, run, upto, body in found]

    def put(self, answers: Sequence[Stored]) -> None:
        """Store answers in one transaction. They are given to nobody before they are confirmed.

        Raises:
            Problem: 503, because they cannot be stored, perhaps because the disk is full.
        """
        self._unsure.update(each.key.key for each in answers)
        now = time.time()
        rows = [(each.key.key, each.key.request, each.run, each.upto, each.body, now) for each in answers]
        if rows:
            self._change("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows)

    def confirm(self, answers: Sequence[Stored]) -> None:
        """What these answers spend is recorded: they may be given."""
        self._unsure.difference_update(each.key.key for each in answers)

    def sweep(self) -> None:
        """Delete the answers that are too old. If the clock was set back, those from the future count from now on."""
        now = time.time()
        self._change("UPDATE answers SET stored = ? WHERE stored > ?", [(now, now)])
        self._delete("DELETE FROM answers WHERE stored <= ?", [(now - self._seconds,)])

    def forget(self, keys: Sequence[Key]) -> None:
        """Delete answers."""
        if keys:
            self._delete("DELETE FROM answers WHERE key = ?", [(key.key,) for key in keys])
            self._unsure.difference_update(key.key for key in keys)

    def _delete(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Delete answers, also from the write-ahead log, where secure_delete does not reach."""
        before = self._connection.total_changes
        self._change(statement, rows)
        if self._connection.total_changes > before:
            with self._lock, suppress(sqlite3.Error):  # a full disk; the next deletion tries again
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                words = f"the server cannot store its answers: {error}. Nothing was released or charged."
                raise Problem(503, "not-stored", words) from None


def check_same(key: Key, request: str) -> None:
    """Refuse a key that came with another request before."""
    if not hmac.compare_digest(key.request, request):
        raise reused()


def reused() -> Problem:
    """A key that came with another request before."""
    return Problem(
        422,
        "idempotency-key-reused",
        "this Idempotency-Key came with another request before. Use a new key for each request.",
    )
