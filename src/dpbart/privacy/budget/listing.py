"""Looking things up in a ledger: its people page by page, and everything about one of them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from dpbart.privacy.budget.composition import Composed
from dpbart.privacy.budget.database import one_line_errors
from dpbart.privacy.budget.ledger import Entry, Ledger, Limit
from dpbart.privacy.decimals import minus, written

State = tuple[int, int]  # changes whenever the ledger does


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


class Listing(Ledger):
    """A ledger that is open to be read. It answers from one page to the next without counting again."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._counted: State | None = None  # when the following two were found
        self._texts = 0
        self._end = (0, "")  # how many people come before the next page, and the last of them

    def people(self, *, start: int, count: int) -> list[str]:
        """The ids of `count` people who have spent something, in order, from number `start` on; the first one is 0."""
        self._count()
        before, last = self._end if self._end[0] <= start else (0, "")
        query = "SELECT DISTINCT person FROM releases WHERE person > ? ORDER BY person LIMIT ? OFFSET ?"
        with one_line_errors(self.file):
            found = [person for (person,) in self._connection.execute(query, (last, count, start - before))]
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
        with one_line_errors(self.file):
            runs = self._connection.execute("SELECT run FROM runs WHERE rows_upto > 0").fetchall()
        return all(self._run(run).release.epsilon.is_finite() for (run,) in runs)

    def knows(self, person: str) -> bool:
        """Whether anything was released about a person, or they have a limit of their own."""
        query = "SELECT person FROM releases WHERE person = ?1 UNION SELECT person FROM limits WHERE person = ?1"
        with one_line_errors(self.file):
            return self._connection.execute(query, (person,)).fetchone() is not None

    def spending(self, person: str) -> Spending:
        """What a person has spent. Somebody whom the ledger does not know has spent nothing."""
        return Spending(person, self.spent(person), self.limit(person), tuple(self.entries(person)))

    def _count(self) -> None:
        """Count again if the ledger has changed: with a million people, this reads the whole file."""
        with one_line_errors(self.file):
            (others,) = self._connection.execute("PRAGMA data_version").fetchone()  # other connections' changes
            now = (others, self._connection.total_changes)
            if now == self._counted:
                return
            (self._texts,) = self._connection.execute("SELECT coalesce(sum(texts), 0) FROM releases").fetchone()
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
