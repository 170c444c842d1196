"""How new texts are saved: check, record, release, in that order.

Texts are saved in parts. For each part, the ledger first records its people in one transaction, or refuses. Then the
part is saved to disk, and the ledger notes that it is safe. The output is written from saved parts only. A run can be
killed at any moment:

- Before the record: nothing was spent, and the new texts were lost with the process. `--resume` rewrites them.
- After the record, before the part is saved: the people have paid for texts that nobody has seen. Those texts were in
  the memory of a dead process, or in a temporary file that is deleted unread. `--resume` rewrites them without charging
  again, since this is the first release made from that record. The ledger knows the rows by run and row number.
- After the part is saved: somebody may have seen it, so it is never rewritten.

The second case must not happen twice, so a run can be resumed from one folder only (`claim.py`). If the folder lacks a
part that is safe, it is an older copy, and the run cannot resume.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpbart.errors import BudgetExceeded, NotResumable
from dpbart.rewrite.account import Account
from dpbart.rewrite.durable.saved import NewTexts
from dpbart.rewrite.durable.unfinished import UnfinishedRun

PART_ROWS = 8192
PART_SECONDS = 10.0  # the most work that a killed run has to repeat


@dataclass
class Releases:
    """The new texts of a run, collected into parts, recorded and saved."""

    account: Account
    unfinished: UnfinishedRun
    recorded: int = 0  # rows that the ledger has recorded
    unsaved: NewTexts = field(default_factory=NewTexts)
    people: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        known, saved = self.account.progress(), self.unfinished.saved.rows
        if known is None:
            return
        self.recorded = known.recorded
        if saved not in (known.safe, known.recorded):
            raise NotResumable(
                f"the ledger has {known.recorded:,} texts of this run, {known.safe:,} of them safe, but {saved:,} are "
                f"saved in {str(self.unfinished.folder)!r}: one of the two is an older copy. "
                "Start again with --overwrite; what the ledger recorded stays spent."
            )
        self.account.saved(saved)  # a part that was saved just before a crash

    @property
    def rows(self) -> int:
        """All rows rewritten so far, saved or not."""
        return self.unfinished.saved.rows + len(self.unsaved.rows)

    def add(
        self, rows: Sequence[list[str]], labels: Sequence[str] | None, people: Sequence[str], *, recipe: str
    ) -> None:
        """Add the next batch, and save the part if it is full."""
        self.unsaved.rows += rows
        self.unsaved.labels += labels or ()
        self.people.update(people)
        # A part that was recorded and then lost must end at the same row again, so that each row is paid for once.
        full = len(self.unsaved.rows) >= PART_ROWS or time.monotonic() - self.began >= PART_SECONDS
        if self.rows == self.recorded or (full and self.rows > self.recorded):
            self.save(recipe=recipe)

    def save(self, *, recipe: str) -> None:
        """Check, record, release. An incomplete copy of a part that was recorded and then lost is not saved."""
        if self.unsaved.rows and self.rows >= self.recorded:
            self.unfinished.check_input()  # texts from a changed input are neither recorded nor saved
            if self.rows > self.recorded:
                self._record()
            self.unfinished.saved.add(self.unsaved, recipe=recipe)
            self.account.saved(self.unfinished.saved.rows)
            self.unsaved, self.people = NewTexts(), Counter()
        self.began = time.monotonic()

    def _record(self) -> None:
        try:
            self.account.record(self.people, before=self.unfinished.saved.rows, upto=self.rows)
        except BudgetExceeded:
            self.unfinished.refuse(len(self.unsaved.rows))
            raise
