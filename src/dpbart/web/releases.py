"""Check, record, release: what is answered is in the ledger first.

All requests of one server that spend the same are one run in the ledger, with its rows in the order of their release.
An answer with an Idempotency-Key is stored before it is recorded, together with its last row. If the server is killed
in between, the ledger has not reached that row: the answer was never sent, and is forgotten at the next start. If it is
killed later, the ledger has the row, and the answer is given to whoever asks with the same key.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from dpbart.errors import BadLedger, DpbartError
from dpbart.privacy.budget.composition import Release
from dpbart.privacy.budget.ledger import Ledger, Run, utc_now
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.settings import Described
from dpbart.web.answers import Answers, Key, Stored
from dpbart.web.problems import Problem

UNITS = "people"


@dataclass(frozen=True, eq=False)
class Charge:
    """What one request spends, and how its answer is stored.

    Attributes:
        described: the rewriter.
        people: the number of texts of each person.
        budget: the most epsilon that each of them may have spent afterwards.
        key: the Idempotency-Key, if there is one.
        render: writes the body of the answer, from the new texts and the name of the run in the ledger.
    """

    described: Described
    people: Mapping[str, int]
    budget: Decimal | None
    key: Key | None
    render: Callable[[Rewriting, str | None], str] = field(repr=False)

    @property
    def release(self) -> Release:
        """What each text spends."""
        return Release((self.described.facts.event,))

    @property
    def texts(self) -> int:
        return sum(self.people.values())


Charged = tuple[Charge, Rewriting]
Outcome = str | DpbartError | Problem  # the body of the answer, or why there is none


@dataclass
class _Rows:
    """A run in the ledger, and how many of its rows are recorded."""

    run: str
    recorded: int = 0


class Releases:
    """Records releases in the ledger, if there is one, and stores answers. For the thread that rewrites only."""

    def __init__(self, file: Path | None, answers: Answers) -> None:
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
            self._ledger.check(charge.release, charge.people, budget=charge.budget, units=UNITS)

    def record(self, charged: Sequence[Charged]) -> Mapping[Charge, Outcome]:
        """Record releases of one rewriter: all in one transaction or, if one of them is refused, each on its own.

        Returns:
            The answer to each, or why it is refused. What a client is sent is what was stored: it is written once.
        """
        alike = len({charge.budget for charge, _ in charged}) <= 1
        try:
            if alike:
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
            upto += charge.texts
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
        """Forget answers that were refused. They are not confirmed, so this server gives them to nobody in any case."""
        try:
            self._answers.forget([each.key for each in stored])
        except Problem:  # a full disk: their run must never reach their rows, or the next server would give them
            self._runs.clear()

    def _rows(self, ledger: Ledger, charge: Charge) -> _Rows:
        """The run of this server for what the charge spends. The ledger hears of it with its first release."""
        model = charge.described.model.identity
        place = (charge.release, model)
        if place not in self._runs:
            run = Run(secrets.token_hex(8), utc_now(), charge.described.facts.mechanism, model, charge.release, UNITS)
            ledger.begin(run)
            self._runs[place] = _Rows(run.name)
        return self._runs[place]


def forget_unrecorded(file: Path | None, answers: Answers) -> None:
    """Forget the answers that a killed server had stored, and neither recorded nor sent."""
    if file is None:
        return
    with closing(Ledger(file)) as ledger:
        answers.forget([each.key for each in answers.stored() if not _is_recorded(ledger, each)])


def _is_recorded(ledger: Ledger, stored: Stored) -> bool:
    if stored.run is None:
        return True
    try:
        return ledger.progress(stored.run).recorded >= stored.upto
    except BadLedger:  # another ledger, which knows nothing about it
        return False
