"""Drawn texts become safe, in the order check, record, release.

For each part: the ledger records its people in one transaction (or refuses), then the part is made safe on disk, and
only from safe parts is the output written. A run can be killed at any moment:

- before the record: nothing was spent, and what was drawn is gone with the process. It is drawn on `--resume`.
- after the record and before the part is safe: the people have paid for texts that nobody has seen, as they were in
  the memory of a process that is dead, or in a temporary file that is overwritten unread. To draw them on
  `--resume` is the first release that comes of the record, so it is not charged again: the ledger knows by the run and
  its number of rows that they are paid for.
- after the part is safe: it may have been seen, and is never drawn again.

The ledger can be ahead of the parts by the last transaction and no more. More than that is a folder or a ledger brought
back from a copy: there, texts may have been seen that the parts do not have, and the run cannot go on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpbart.errors import BudgetExceeded, NotResumable
from dpbart.rewrite.account import Account
from dpbart.rewrite.durable.saved import Drawn
from dpbart.rewrite.durable.unfinished import Work

PART_ROWS = 8192
PART_SECONDS = 10.0  # the most work that a killed run does again


@dataclass
class Releases:
    """The texts of a run on their way into parts."""

    account: Account
    work: Work
    paid: int = 0  # rows that the ledger has recorded
    drawn: Drawn = field(default_factory=Drawn)
    people: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        before, self.paid = self.account.recorded()
        safe = self.work.parts.rows
        if self.account.ledger is not None and safe not in (before, self.paid):
            raise NotResumable(
                f"the ledger has {self.paid:,} texts of this run, but {safe:,} are safe in {str(self.work.folder)!r}: "
                "one of them is an older copy. Begin anew with --overwrite; what the ledger has recorded stays spent."
            )

    @property
    def rows(self) -> int:
        """Rows that are safe, and those that are not yet."""
        return self.work.parts.rows + len(self.drawn.texts)

    def add(self, texts: Sequence[str], labels: Sequence[str] | None, people: Sequence[str], *, recipe: str) -> None:
        """Take the next batch."""
        self.drawn.texts += texts
        self.drawn.labels += labels or ()
        self.people.update(people)
        # A part that was paid for and lost ends where it ended then, so that no row is paid for twice or not at all.
        full = len(self.drawn.texts) >= PART_ROWS or time.monotonic() - self.began >= PART_SECONDS
        if self.rows == self.paid or (full and self.rows > self.paid):
            self.make_safe(recipe=recipe)

    def make_safe(self, *, recipe: str) -> None:
        """Check, record, release. Half of a part that was paid for and lost is no part, and is let go."""
        if self.drawn.texts and self.rows >= self.paid:
            self.work.check_input()  # texts of other rows than the run began with are not recorded, and not safe
            if self.rows > self.paid:
                self._record()
            self.work.parts.add(self.drawn, recipe=recipe)
            self.drawn, self.people = Drawn(), Counter()
        self.began = time.monotonic()

    def _record(self) -> None:
        try:
            self.account.record(self.people, before=self.work.parts.rows, upto=self.rows)
        except BudgetExceeded:
            self.work.refuse(len(self.drawn.texts))
            raise
