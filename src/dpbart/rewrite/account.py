"""What a run charges, and to whom: for this run only, or in a ledger that also knows earlier runs."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from dpbart.card.record import PersonFacts
from dpbart.errors import BudgetExceeded
from dpbart.ledger.database import default_delta
from dpbart.ledger.ledger import Ledger, Progress, Run, utc_now
from dpbart.options.settings import DEFAULT_DELTA
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.composition import Composed, Release, compose
from dpbart.privacy.guarantee import exactly, written
from dpbart.rewrite.people import People, without_id


@dataclass(frozen=True)
class Account:
    """The charge per row, and the people who are charged."""

    release: Release  # what a row spends: each of its texts, and its label
    people: People | None  # how rows are assigned to people; None if each row counts as a separate person
    rows: Mapping[str, int]  # of each person in this run; empty without `people`
    delta: Decimal  # at which a person's spending is measured: the ledger's or, without a ledger, the run's
    budget: Decimal | None  # the most epsilon that a person may have spent after this run
    ledger: Ledger | None  # where spending is recorded, if anywhere
    run: str  # the name of this run in the ledger
    nonce: str = ""  # shared by the ledger and the folder of this run; empty if there is no folder

    @classmethod
    def open(
        cls,
        release: Release,
        people: People | None,
        rows: Mapping[str, int],
        *,
        total: int | None,
        delta: Decimal,
        budget: Decimal | None,
        ledger: Path | None,
        resuming: bool = False,
    ) -> Account:
        """An account that, as far as is known now, can pay for the whole run. A resumed run has already paid a part.

        A ledger is created last, so that a refused run does not create one. `total` is the number of all rows; None if
        it is not known yet.

        Raises:
            BudgetExceeded: A person lacks budget; nothing is recorded.
            BadParameter: delta is too large for this number of texts or people.
        """
        account = cls(release, people, rows, delta, budget, None, run=secrets.token_hex(8))
        if total is not None:
            account.check_delta(rows=total)
        if ledger is None:
            counted = len(rows) or total or 1
            if not release.delta and delta == exactly(DEFAULT_DELTA) and delta * counted >= 1:
                account = replace(account, delta=Decimal(0))  # pure releases have a guarantee without any delta
            whose = f"{counted} {'rows' if people is None else 'people'}"
            check_delta_for(float(account.delta), texts=counted, whose=whose, remedy="Pass --delta {delta}.")
            account._check_budget()
            return account
        known = Ledger(ledger) if ledger.is_file() and ledger.stat().st_size else None
        opened = known
        try:
            account = replace(account, delta=default_delta(len(rows)) if known is None else known.limit().delta)
            account._check_budget()
            opened = known or Ledger(ledger, create=True, people=len(rows))
            if not resuming:
                opened.check(release, rows, budget=budget, units=account.units)
        except BaseException:
            if opened is not None:
                opened.close()
            raise
        return replace(account, ledger=opened)

    def _check_budget(self) -> None:
        if self.budget is None or self.composed.epsilon <= self.budget:
            return
        person, _ = Counter(self.rows).most_common(1)[0]
        raise BudgetExceeded(
            f"{person!r} has {self.most_texts} texts, which together need epsilon {written(self.composed.epsilon)}; "
            f"--person-budget is {written(self.budget)}. Lower --epsilon, or join the texts with --join-documents."
        )

    @property
    def units(self) -> str:
        """What is counted: people, texts by their id, or single rows."""
        return "rows" if self.people is None else self.people.units(self.rows)

    @property
    def most_texts(self) -> int:
        """The most texts of one person in this run."""
        return self._most_rows * self.release.texts

    @property
    def _most_rows(self) -> int:
        return max(self.rows.values(), default=1)

    @cached_property
    def composed(self) -> Composed:
        """The guarantee of this run for the person with the most texts."""
        return compose({self.release: self._most_rows}, delta=self.delta)

    @cached_property
    def row(self) -> Composed:
        """The guarantee of this run for a row."""
        return compose({self.release: 1}, delta=self.delta)

    def check_delta(self, *, rows: int) -> None:
        """A text's delta must be below 1 / N: delta = 1 / N would allow publishing one text at random."""
        texts, delta = rows * self.release.texts, float(self.release.one_text.delta)
        check_delta_for(delta, texts=texts, whose=f"{texts} texts", remedy="Pass --delta {delta}.")

    def begin(self, *, mechanism: str, model: str) -> None:
        """Enter the run in the ledger before its first text. A resumed run is already there."""
        if self.ledger is not None:
            self.ledger.begin(Run(self.run, utc_now(), mechanism, model, self.release, self.units), nonce=self.nonce)

    def progress(self) -> Progress | None:
        """How far this run has come, as the ledger knows it; None without a ledger."""
        return None if self.ledger is None else self.ledger.progress(self.run)

    def renew(self, nonce: str) -> Account:
        """Change the nonce. After that, no other copy of the folder can continue this run."""
        if self.ledger is not None:
            self.ledger.advance(self.run, nonce=self.nonce, new=nonce)
        return replace(self, nonce=nonce)

    def record(self, people: Mapping[str, int], *, before: int, upto: int) -> None:
        """Record rows and their people, before any of the texts leaves the process.

        Raises:
            BudgetExceeded: A person lacks budget, because another run has spent it in the meantime.
        """
        if self.ledger is not None:
            self.ledger.record(self.run, people, before=before, upto=upto, budget=self.budget, nonce=self.nonce)

    def saved(self, rows: int) -> None:
        """Tell the ledger that this many rows are saved, so that they are never drawn again."""
        if self.ledger is not None:
            self.ledger.advance(self.run, nonce=self.nonce, safe=rows)

    def finish(self) -> None:
        """Tell the ledger that the output is written, so that this run is never resumed again."""
        if self.ledger is not None:
            self.ledger.advance(self.run, nonce=self.nonce, finished=utc_now())

    def close(self) -> None:
        if self.ledger is not None:
            self.ledger.close()

    def facts(self, *, rows: int) -> PersonFacts:
        """The card's facts about people."""
        composed = self.composed
        return PersonFacts(
            named_by="none" if self.people is None else self.people.column,
            counted=self.units,
            people=len(self.rows) or rows,
            without_id=rows if self.people is None else without_id(self.rows),
            most_texts=self.most_texts,
            guarantee=composed.guarantee if self.units == "people" else None,
            counted_guarantee=composed.guarantee,
            composition=composed.rule,
            budget=None if self.budget is None else float(self.budget),
            ledger="none: earlier releases are unknown" if self.ledger is None else f"recorded as run {self.run}",
        )
