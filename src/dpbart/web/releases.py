"""Check, record, release: what is answered is in the ledger first.

All requests of one server that spend the same are one run in the ledger, with its rows in the order of their release.
An answer with an Idempotency-Key is stored before it is recorded, together with its last row. If the server is killed
in between, the ledger has not reached that row: the answer was never sent, and is forgotten at the next start. If it is
killed later, the ledger has the row, and the answer is given to whoever asks with the same key.

An answer consists of private outputs, so it may be stored. The request is not. Of its key only a hash is kept, and of
its body an HMAC under that key, which tells two requests apart: without the key it says nothing about the texts.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import os
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dpbart.errors import BadLedger, DpbartError
from dpbart.files import OWN, create
from dpbart.ledger.ledger import Ledger, Run, utc_now
from dpbart.privacy.composition import Release
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import ChosenModel, Described
from dpbart.rewrite.describe import describe_texts, model_settings, run_facts
from dpbart.rewrite.figures import guarantee_json
from dpbart.rewrite.rewriter import Rewriting
from dpbart.web.figures import worst_json
from dpbart.web.guard import Problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ENGINE = "server, in one process"
_FILE = "rewritten.csv"
_UNITS = "people"
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
        secret = _checked(given)
        return cls(hashlib.sha256(secret).hexdigest(), hmac.new(secret, body, "sha256").hexdigest())


def job_id(given: str | None) -> str:
    """The id of a new job: 32 hexadecimal digits. The same Idempotency-Key always gives the same ones."""
    if given is None:
        return secrets.token_hex(16)
    return hashlib.sha256(b"job " + _checked(given)).hexdigest()[:32]


def file_hmac(given: str, file: BinaryIO) -> str:
    """An HMAC of an uploaded file under its Idempotency-Key: it tells files apart, and says nothing without the key.

    The file is read, and ready to be read again.
    """
    made = hmac.new(_checked(given), digestmod="sha256")
    file.seek(0)
    while part := file.read(1 << 20):
        made.update(part)
    file.seek(0)
    return made.hexdigest()


def _checked(given: str) -> bytes:
    if not _SHORTEST <= len(given) <= _LONGEST or not given.isascii() or not given.isprintable():
        words = f"an Idempotency-Key must have {_SHORTEST} to {_LONGEST} printable ASCII characters. Use a new UUID "
        raise Problem(400, "bad-idempotency-key", f"{words}for each request.")
    return given.encode()


@dataclass(frozen=True)
class Stored:
    """The answer to a request, and its last row in the ledger."""

    key: Key
    run: str | None
    upto: int
    body: str


class AnswerStore:
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
        """The stored answer, if there is one. Raises Problem if the key came with another request."""
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
        with self._lock:
            found = self._connection.execute("SELECT key, request, run, upto, body FROM answers").fetchall()
        return [Stored(Key(key, request), run, upto, body) for key, request, run, upto, body in found]

    def put(self, answers: Sequence[Stored]) -> None:
        """Store answers in one transaction. They are given to nobody before they are confirmed."""
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
    words = "this Idempotency-Key came with another request before. Use a new key for each request."
    return Problem(422, "idempotency-key-reused", words)


@dataclass(frozen=True)
class Rewritten:
    """How the answer to one request is written."""

    chosen: ChosenModel
    account: Account  # who is charged
    card: bool  # whether the client wants a card
    sign_key: Ed25519PrivateKey | None  # signs the card

    def body(self, rewriting: Rewriting, run: str | None) -> str:
        """The JSON of the answer. `run` is the name of the run in the ledger; None without one."""
        held = {
            "texts": list(rewriting.texts),
            "guarantee": guarantee_json(rewriting.guarantee),
            "recipe": rewriting.recipe,
            "model": self.chosen.settings.model,
            "worst": worst_json(self.account),
        }
        if self.card:
            held |= self._file(rewriting, run)
        return json.dumps(held, ensure_ascii=False)

    def check(self) -> None:
        """Write an answer before anything is spent: if it cannot be written, nothing may be released."""
        facts = self.chosen.described.facts
        self.body(Rewriting(("",), facts, facts.recipe), "none yet")

    def _file(self, rewriting: Rewriting, run: str | None) -> dict[str, Any]:
        """The new texts as a table, and its card. Both are strings, because every byte of them counts."""
        described, content, texts = self.chosen.described, _table(rewriting.texts), len(rewriting.texts)
        facts = run_facts(
            settings={**model_settings(described), "people": self.account.people is not None},
            output=hashlib.sha256(content.encode()).hexdigest(),
            engine=ENGINE,
            refused=0,
        )
        card = describe_texts(self.account, described, recipe=rewriting.recipe, texts=texts, run=facts)
        if run is not None:
            words = f"recorded as a part of run {run}, which other requests share; this card counts this request alone"
            card = replace(card, person=replace(card.person, ledger=words))
        files = card.files(self.sign_key)
        shown = {"json": files["json"], "html": files["html"]}
        return {"output": {"name": _FILE, "content": content}, "card": shown}


def _table(texts: Sequence[str]) -> str:
    """CSV with one column. Its lines end in CR LF (RFC 4180), so that the csv module quotes a text with either."""
    written = io.StringIO()
    csv.writer(written).writerows([["text"], *([text] for text in texts)])
    return written.getvalue()


@dataclass(frozen=True, eq=False)
class Charge:
    """What one request spends, and how its answer is stored."""

    described: Described
    people: Mapping[str, int]  # the number of texts of each
    budget: Decimal | None  # the most epsilon that each of them may have spent afterwards
    key: Key | None
    render: Callable[[Rewriting, str | None], str] = field(repr=False)  # `Rewritten.body`

    @property
    def release(self) -> Release:
        """What each text spends."""
        return Release((self.described.facts.event,))


Charged = tuple[Charge, Rewriting]
Outcome = str | DpbartError | Problem  # the body of the answer, or why there is none


@dataclass
class _Rows:
    """A run in the ledger, and how many of its rows are recorded."""

    run: str
    recorded: int = 0


class Recorder:
    """Records releases in the ledger, if there is one, and stores answers. For the thread that rewrites only."""

    def __init__(self, file: Path | None, answers: AnswerStore) -> None:
        self._file, self._answers = file, answers
        self._open: Ledger | None = None
        self._runs: dict[tuple[Release, str], _Rows] = {}

    @property
    def _ledger(self) -> Ledger | None:
        if self._open is None and self._file is not None:
            self._open = Ledger(self._file)  # SQLite wants it opened in the thread that uses it
        return self._open

    def check(self, charge: Charge) -> None:
        """Refuse what the budget does not allow, before any work is done for it."""
        if self._ledger is not None:
            self._ledger.check(charge.release, charge.people, budget=charge.budget, units=_UNITS)

    def record(self, charged: Sequence[Charged]) -> Mapping[Charge, Outcome]:
        """Record releases of one rewriter: all in one transaction or, if one of them is refused, each on its own.

        What a client is sent is what was stored: it is written once.
        """
        try:
            if len({charge.budget for charge, _ in charged}) <= 1:
                return self._record_together(charged)
        except (DpbartError, Problem) as error:
            # What cannot be written now is refused to all of them. To try again for each would take as long again.
            if len(charged) == 1 or isinstance(error, BadLedger | Problem):
                return {charge: error for charge, _ in charged}
        outcomes: dict[Charge, Outcome] = {}
        for each in charged:
            outcomes.update(self.record([each]))
        return outcomes

    def _record_together(self, charged: Sequence[Charged]) -> Mapping[Charge, str]:
        if not charged:
            return {}
        ledger, stored, bodies = self._ledger, list[Stored](), dict[Charge, str]()
        rows = None if ledger is None else self._rows(ledger, charged[0][0])
        run, upto = (None, 0) if rows is None else (rows.run, rows.recorded)
        for charge, rewriting in charged:
            upto += sum(charge.people.values())
            bodies[charge] = charge.render(rewriting, run)
            if charge.key is not None:
                stored.append(Stored(charge.key, run, upto, bodies[charge]))
        self._answers.put(stored)
        if ledger is None or rows is None:
            self._answers.confirm(stored)
            return bodies
        people: Counter[str] = Counter()
        for charge, _ in charged:
            people.update(charge.people)
        try:
            ledger.record(rows.run, people, before=rows.recorded, upto=upto, budget=charged[0][0].budget)
        except BaseException as error:
            if isinstance(error, BadLedger):  # perhaps it has recorded them nevertheless: go on with another run
                self._runs.clear()
            self._forget(stored)
            raise
        self._answers.confirm(stored)
        rows.recorded = upto
        return bodies

    def _forget(self, stored: Sequence[Stored]) -> None:
        """Delete answers that were refused. This server never gives them out: they are not confirmed."""
        try:
            self._answers.forget([each.key for each in stored])
        except Problem:  # a full disk: their run must never reach their rows, or the next server would give them
            self._runs.clear()

    def _rows(self, ledger: Ledger, charge: Charge) -> _Rows:
        """This server's run in the ledger for what the charge spends; begun on first use."""
        model = charge.described.model.identity
        place = (charge.release, model)
        if place not in self._runs:
            run = Run(secrets.token_hex(8), utc_now(), charge.described.facts.mechanism, model, charge.release, _UNITS)
            ledger.begin(run)
            self._runs[place] = _Rows(run.name)
        return self._runs[place]


def forget_unrecorded(file: Path | None, answers: AnswerStore) -> None:
    """Forget the answers that a killed server had stored, and neither recorded nor sent."""
    if file is not None:
        with closing(Ledger(file)) as ledger:
            answers.forget([each.key for each in answers.stored() if not _is_recorded(ledger, each)])


def _is_recorded(ledger: Ledger, stored: Stored) -> bool:
    if stored.run is None:
        return True
    try:
        return ledger.progress(stored.run).recorded >= stored.upto
    except BadLedger:  # another ledger, which knows nothing about it
        return False
