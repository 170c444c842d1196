"""The ledger: how much budget each person has spent.

A run records its texts here before any of them leaves the process, in one transaction per batch. A release that would
exceed a person's limit is refused and changes nothing. The ledger knows people only by their ids. It never holds a text
or a hash of a text.

What a person has spent is the epsilon of all their releases at one delta: the ledger's, or the person's own. That delta
is below 1 / (number of people in the ledger), over all runs: 1 / N would allow publishing one person's texts.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from dpbart.errors import BadLedger, BadParameter, BudgetExceeded, NotResumable
from dpbart.ledger.database import EVERYBODY, connect, one_line_errors, release_from, release_to, transaction
from dpbart.privacy.calibration import check_delta, check_delta_for
from dpbart.privacy.composition import Composed, Release, compose
from dpbart.privacy.guarantee import minus, written

Rows = Mapping[str, int]  # number of rows by person; each is a release, of one text or several
Held = tuple[tuple[str, int], ...]  # (run, number of texts) of one person


@dataclass(frozen=True)
class Run:
    """One run of `dpbart rewrite`: its model, and what each of its rows spends."""

    name: str
    begun: str
    mechanism: str
    model: str
    release: Release
    units: str = ""  # what was counted, such as "people"; empty if unknown


@dataclass(frozen=True)
class Entry:
    """The texts of one person in one run."""

    run: Run
    texts: int
    last: str  # date and time of the last release, UTC


@dataclass(frozen=True)
class Limit:
    """The most epsilon that a person may spend, if limited, and the delta at which spending is measured."""

    epsilon: Decimal | None
    delta: Decimal


@dataclass(frozen=True)
class Spending:
    """Everything that a ledger holds about one person."""

    person: str
    spent: Composed | None  # None if nothing was released about them
    limit: Limit
    entries: tuple[Entry, ...]  # oldest run first

    @property
    def texts(self) -> int:
        return sum(entry.texts for entry in self.entries)

    @property
    def epsilon(self) -> Decimal:
        """What was spent; 0 if nothing was."""
        return Decimal(0) if self.spent is None else self.spent.epsilon

    @property
    def left(self) -> Decimal | None:
        """What is left of the limit; None if there is no limit."""
        return None if self.limit.epsilon is None else minus(self.limit.epsilon, self.epsilon)


@dataclass(frozen=True)
class Progress:
    """How far a run has come. Rows that are recorded but not safe may be drawn again, once."""

    recorded: int  # rows
    safe: int  # rows whose new texts are saved
    nonce: str  # changes whenever the run is resumed
    finished: str | None  # date and time, UTC; None if the output is not written yet


@dataclass(frozen=True)
class Summary:
    """A summary of the whole ledger."""

    people: int
    texts: int
    runs: tuple[Entry, ...]
    most: tuple[str, Composed] | None  # the person who has spent most, and how much


class Ledger:
    """What each person has spent, in a SQLite file. Several processes may have it open at once.

    ledger = Ledger(Path("budgets.db"), create=True)
    ledger.set_limit(Decimal(100))
    print(ledger.spent("anna"), ledger.limit("anna"))
    """

    def __init__(self, file: Path, *, create: bool = False, people: int = 0) -> None:
        """Open a ledger. If it is created, its delta suits this number of people."""
        self.file = file
        self._connection = connect(file, create=create, people=people)
        self._runs: dict[str, Run] = {}  # a run never changes once it has begun

    def close(self) -> None:
        self._connection.close()

    def begin(self, run: Run, *, nonce: str = "") -> None:
        """Enter a run before its first text. A run that is already entered is not changed.

        The nonce is shared with the folder of the run. Without a folder, there is none.
        """
        with transaction(self._connection, self.file):
            self._check_units(run.units)
            self._connection.execute(
                "INSERT OR IGNORE INTO runs (run, begun, mechanism, model, events, units, nonce) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run.name, run.begun, run.mechanism, run.model, release_to(run.release), run.units, nonce),
            )

    def progress(self, run: str) -> Progress:
        """How far a run has come."""
        found = self._read("SELECT rows_upto, safe, nonce, finished FROM runs WHERE run = ?", run)
        if not found:
            raise BadLedger(
                f"the ledger {str(self.file)!r} does not know the run {run}. Name the ledger that the run began with."
            )
        return Progress(*found[0])

    def advance(
        self, run: str, *, nonce: str, new: str | None = None, safe: int | None = None, finished: str | None = None
    ) -> None:
        """Change the nonce of a run, the number of its rows that are saved, or the time when it finished."""
        with transaction(self._connection, self.file):
            self._check_nonce(run, nonce)
            self._connection.execute(
                "UPDATE runs SET nonce = coalesce(?, nonce), safe = coalesce(?, safe), "
                "finished = coalesce(?, finished) WHERE run = ?",
                (new, safe, finished, run),
            )

    def _check_nonce(self, run: str, nonce: str) -> None:
        if self.progress(run).nonce != nonce:
            raise NotResumable(
                f"run {run} was resumed from another copy of its folder, and this one must not continue: a text may be "
                "drawn only once for each payment. Let the other one finish, or start again with --overwrite; what the "
                "ledger has recorded stays spent."
            )

    def check(self, release: Release, rows: Rows, *, budget: Decimal | None = None, units: str = "") -> None:
        """Refuse a run that would exceed a limit, or that counts other units. `record` checks again."""
        self._check_units(units)
        self._check(release, rows, budget)

    def record(
        self, run: str, rows: Rows, *, before: int, upto: int, budget: Decimal | None = None, nonce: str = ""
    ) -> None:
        """Record the rows of a run from `before` to `upto`. If any person lacks budget, nothing is recorded.

        Rows are recorded in order, so their number identifies them. If a run dies after this and before its texts are
        saved, `progress` shows on resume that they are already paid for.
        """
        with transaction(self._connection, self.file):
            self._check_nonce(run, nonce)
            recorded = self.progress(run).recorded
            if before != recorded:
                raise BadLedger(f"run {run} must record rows after {recorded}, got {before}. Was its folder copied?")
            release, now = self._run(run).release, utc_now()
            new = self._check(release, rows, budget)
            self._connection.executemany(
                "INSERT INTO releases (person, run, texts, last) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET texts = texts + excluded.texts, last = excluded.last",
                [(person, run, count * release.texts, now) for person, count in rows.items()],
            )
            query = "UPDATE runs SET rows_upto = ?, people = people + ? WHERE run = ?"
            self._connection.execute(query, (upto, new, run))

    def entries(self, person: str) -> list[Entry]:
        """Everything released about a person, oldest run first."""
        query = "SELECT run, texts, last FROM releases JOIN runs USING (run) WHERE person = ? ORDER BY begun"
        return [Entry(self._run(run), texts, last) for run, texts, last in self._read(query, person)]

    def spent(self, person: str) -> Composed | None:
        """What a person has spent in total, at their delta; None if nothing was released about them."""
        held = self._held([person]).get(person)
        return None if held is None else compose(self._releases(held), delta=self.limit(person).delta)

    def limit(self, person: str = EVERYBODY) -> Limit:
        """The limit of a person: their own, or else the default for everybody."""
        everybody, own = self._limits([person])
        return own.get(person, everybody)

    def set_limit(self, epsilon: Decimal | None, person: str = EVERYBODY) -> None:
        """Set a person's limit, or the default for everybody without one. None removes it. Spent budget stays spent."""
        if epsilon is not None and not epsilon > 0:
            raise BadParameter(f"a limit must be greater than 0, got {epsilon}.")
        with transaction(self._connection, self.file):
            self._set(person, "epsilon", None if epsilon is None else str(epsilon))

    def set_delta(self, delta: Decimal, person: str = EVERYBODY) -> None:
        """Set the delta at which a person's spending is measured, or everybody's without one of their own."""
        check_delta(float(delta))
        with transaction(self._connection, self.file):
            self._check_delta(delta, self._people())
            self._set(person, "delta", str(delta))

    def _set(self, person: str, column: str, value: str | None) -> None:
        self._connection.execute("INSERT OR IGNORE INTO limits VALUES (?, NULL, NULL)", (person,))
        self._connection.execute(f"UPDATE limits SET {column} = ? WHERE person = ?", (value, person))
        self._connection.execute("DELETE FROM limits WHERE epsilon IS NULL AND delta IS NULL")

    def own_limits(self) -> int:
        """How many people have a limit of their own."""
        return self._number("SELECT count(*) FROM limits WHERE person != ''")

    def summary(self) -> Summary:
        """The runs, and who has spent most. People alike in releases and delta are grouped: millions are no problem."""
        runs = self._read(
            "SELECT run, coalesce(sum(texts), 0), coalesce(max(last), begun) "
            "FROM runs LEFT JOIN releases USING (run) GROUP BY run ORDER BY begun"
        )
        alike = self._read(
            "SELECT min(person) FROM (SELECT person, group_concat(run || ' ' || texts) AS held FROM releases "
            "GROUP BY person) LEFT JOIN limits USING (person) GROUP BY held, delta"
        )
        held = self._held([person for (person,) in alike])
        everybody, own = self._limits(list(held))
        deltas = {person: own.get(person, everybody).delta for person in held}
        totals = [(person, compose(self._releases(each), delta=deltas[person])) for person, each in held.items()]
        most = max(totals, key=lambda each: each[1].epsilon, default=None)
        entries = tuple(Entry(self._run(run), count, last) for run, count, last in runs)
        return Summary(self._people(), sum(entry.texts for entry in entries), entries, most)

    def _check(self, release: Release, rows: Rows, budget: Decimal | None) -> int:
        """Refuse a release that exceeds a limit or the number of people. Returns how many of its people are new."""
        held = self._held(list(rows))
        new = sum(person not in held for person in rows)
        everybody, own = self._limits(list(rows))
        deltas = self._read("SELECT DISTINCT delta FROM limits WHERE delta IS NOT NULL")
        self._check_delta(max(Decimal(delta) for (delta,) in deltas), self._people() + new)
        known: dict[tuple[Held, int, Decimal], Decimal] = {}  # many people have identical releases
        for person, count in rows.items():
            limit, before = own.get(person, everybody), held.get(person, ())
            most = min((each for each in (limit.epsilon, budget) if each is not None), default=None)
            if most is None:
                continue
            key = (before, count, limit.delta)
            if key not in known:
                known[key] = compose(self._releases(before) + Counter({release: count}), delta=limit.delta).epsilon
            if known[key] > most:
                raise self._exceeded(person, self._releases(before), Limit(most, limit.delta), known[key])
        return new

    def _check_units(self, units: str) -> None:
        """Refuse to mix people with texts or with rows without an id: nobody could say what a person has spent."""
        found = self._read("SELECT units FROM runs WHERE units NOT IN ('', ?) LIMIT 1", units)
        if units and found:
            raise BadLedger(
                f"the ledger {str(self.file)!r} counts {found[0][0]}, but this run counts {units}. Count the same as "
                "before, or name another ledger."
            )

    def _exceeded(self, person: str, held: Counter[Release], limit: Limit, after: Decimal) -> BudgetExceeded:
        before = compose(held, delta=limit.delta).epsilon if held else Decimal(0)
        most = limit.epsilon or Decimal(0)
        return BudgetExceeded(
            f"{person!r} has epsilon {written(minus(most, before))} left of {written(most)} at delta "
            f"{written(limit.delta)}; this release needs {written(minus(after, before))}. Nothing in this release was "
            "recorded. Lower --epsilon, or see 'dpbart budget show' and 'budget limit'."
        )

    def _check_delta(self, delta: Decimal, people: int) -> None:
        check_delta_for(
            float(delta),
            texts=people,
            whose=f"the {people:,} people in the ledger, over all its runs",
            remedy=f"Lower it with: dpbart budget limit {shlex.quote(str(self.file))} --delta {{delta}}",
        )

    def _people(self) -> int:
        return self._number("SELECT coalesce(sum(people), 0) FROM runs")

    def _held(self, people: list[str]) -> dict[str, Held]:
        held: dict[str, Held] = {}
        query = "SELECT person, run, texts FROM releases WHERE person IN (SELECT value FROM json_each(?)) ORDER BY 1, 2"
        for person, run, texts in self._read(query, json.dumps(people)):
            held[person] = (*held.get(person, ()), (run, texts))
        return held

    def _releases(self, held: Held) -> Counter[Release]:
        releases: Counter[Release] = Counter()
        for release, texts in ((self._run(run).release, texts) for run, texts in held):
            releases[release] += texts // release.texts
        return releases

    def _limits(self, people: list[str]) -> tuple[Limit, dict[str, Limit]]:
        """The default for everybody, and the limits of those of these people who have their own."""
        query = "SELECT person, epsilon, delta FROM limits WHERE person IN (SELECT value FROM json_each(?))"
        found = self._read(query, json.dumps([EVERYBODY, *people]))
        try:
            held = {
                person: (None if epsilon is None else Decimal(epsilon), None if delta is None else Decimal(delta))
                for person, epsilon, delta in found
            }
            most, usual = held.pop(EVERYBODY)
            if usual is None:
                raise ValueError("a ledger has a delta")
        except (KeyError, ValueError, InvalidOperation):
            raise BadLedger(f"the ledger {str(self.file)!r} is damaged at its limits. Restore a copy.") from None
        own = {person: Limit(epsilon or most, delta or usual) for person, (epsilon, delta) in held.items()}
        return Limit(most, usual), own

    def _run(self, name: str) -> Run:
        if name not in self._runs:
            query = "SELECT run, begun, mechanism, model, events, units FROM runs WHERE run = ?"
            found = self._read(query, name)
            try:
                run, begun, mechanism, model, events, units = found[0]
                self._runs[name] = Run(run, begun, mechanism, model, release_from(events), units)
            except (TypeError, ValueError, LookupError, InvalidOperation):  # no such run, or invalid figures
                raise BadLedger(f"the ledger {str(self.file)!r} is damaged at run {name}. Restore a copy.") from None
        return self._runs[name]

    def _read(self, query: str, *values: object) -> list[Any]:
        with one_line_errors(self.file):
            return self._connection.execute(query, values).fetchall()

    def _number(self, query: str) -> int:
        return int(self._read(query)[0][0])


class Listing(Ledger):
    """A ledger that is open to be read. It answers from one page to the next without counting again."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._counted = (-1, -1)  # the changes to the file when the following two were found: by others, by this one
        self._texts = 0
        self._end = (0, "")  # how many people come before the next page, and the last of them

    def people(self, *, start: int, count: int) -> list[str]:
        """The ids of `count` people who have spent something, in order, from number `start` on; the first one is 0."""
        self._count()
        before, last = self._end if self._end[0] <= start else (0, "")
        query = "SELECT DISTINCT person FROM releases WHERE person > ? ORDER BY person LIMIT ? OFFSET ?"
        found = [person for (person,) in self._read(query, last, count, start - before)]
        if found:
            self._end = (start + len(found), found[-1])
        return found

    def number_of_people(self) -> int:
        """How many people have spent something."""
        return self._people()

    def number_of_texts(self) -> int:
        """How many texts were released."""
        self._count()
        return self._texts

    def all_private(self) -> bool:
        """Whether every release in the ledger has a guarantee."""
        runs = self._read("SELECT run FROM runs WHERE rows_upto > 0")
        return all(self._run(run).release.epsilon.is_finite() for (run,) in runs)

    def knows(self, person: str) -> bool:
        """Whether anything was released about a person, or they have a limit of their own."""
        query = "SELECT person FROM releases WHERE person = ?1 UNION SELECT person FROM limits WHERE person = ?1"
        return bool(self._read(query, person))

    def spending(self, person: str) -> Spending:
        """What a person has spent. Somebody whom the ledger does not know has spent nothing."""
        return Spending(person, self.spent(person), self.limit(person), tuple(self.entries(person)))

    def _count(self) -> None:
        """Count again if the ledger has changed: with a million people, this reads the whole file."""
        others = self._number("PRAGMA data_version")  # changes by other connections
        now = (others, self._connection.total_changes)
        if now != self._counted:
            self._texts = self._number("SELECT coalesce(sum(texts), 0) FROM releases")
            self._counted, self._end = now, (0, "")


def entry_json(entry: Entry) -> dict[str, object]:
    """The texts of one run, for programs. Budgets are decimal strings, and those of each text."""
    run, text = entry.run, entry.run.release.one_text
    return {
        "run": run.name,
        "begun": run.begun,
        "last": entry.last,
        "texts": entry.texts,
        "mechanism": run.mechanism,
        "epsilon": written(text.epsilon),
        "delta": written(text.delta),
        "model": run.model,
    }


def utc_now() -> str:
    """Date and time, in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
