"""How new texts become an output: check, record, release, in that order.

Texts are saved in parts. For each part, the ledger first records its people in one transaction, or refuses. Then the
part is saved to disk, and the ledger notes that it is safe. The output is written from saved parts only. A run can be
killed at any moment:

- Before the record: nothing was spent, and the new texts were lost with the process. `--resume` rewrites them.
- After the record, before the part is saved: the people have paid for texts that nobody has seen. Those texts were in
  the memory of a dead process, or in a temporary file that is deleted unread. `--resume` rewrites them without charging
  again, since this is the first release made from that record. The ledger knows the rows by run and row number.
- After the part is saved: somebody may have seen it, so it is never rewritten.

The second case must not happen twice: one payment, one draw. So a run can be resumed from one folder only, whoever has
copied it. The folder and the ledger share a nonce, which changes whenever the run is resumed, and the ledger refuses a
folder with another nonce. The new nonce is written to the folder first, next to the old one, and then to the ledger.
After a crash between the two, the ledger still has the old one, and after a later crash the new one. The folder has
both, and can resume. A folder that lacks a part that is safe is an older copy, and cannot resume.

The output and its card always belong together. All new files are complete on disk before one of them gets its name.
Then the old output is deleted, the card is replaced, and the new output gets its name last. If the process is killed in
between, there is no output, the run is unfinished, and `--resume` writes it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpbart.card.card import Card, pages_next_to, read_private_key
from dpbart.errors import BadTable, BudgetExceeded, NotResumable
from dpbart.files import delete, partials_of, remove
from dpbart.rewrite.account import Account
from dpbart.rewrite.durable.folder import NewTexts, holds_release
from dpbart.rewrite.durable.unfinished import RunSettings, Stamp, Stopped, UnfinishedRun, open_run
from dpbart.tables.streams import STANDARD

PART_ROWS = 8192
PART_SECONDS = 10.0  # the most work that a killed run has to repeat
STAYS_SPENT = "Start again with --overwrite; what the ledger has recorded stays spent."


def claim(account: Account, unfinished: UnfinishedRun, target: Path, *, mechanism: str, model: str) -> Account:
    """Make this folder the only one from which the run continues. A new run is entered in the ledger."""
    nonces = unfinished.nonces
    account = replace(account, run=unfinished.run, nonce=nonces[-1])
    account.begin(mechanism=mechanism, model=model)
    known = account.progress()
    if known is None:
        return account
    # A run that was killed after its output was written, and before its folder was deleted, has both.
    if known.finished is not None and not target.exists():
        raise NotResumable(
            f"run {unfinished.run} has finished on {known.finished}, so {str(unfinished.folder)!r} is a copy of its "
            f"folder. Its texts were released and are not drawn again. {STAYS_SPENT}"
        )
    if known.nonce not in nonces:
        raise NotResumable(
            f"{str(unfinished.folder)!r} is a copy or an older state of the folder of run {unfinished.run}, which was "
            f"resumed elsewhere. A text may be drawn only once for each payment. Resume that folder. {STAYS_SPENT}"
        )
    new = secrets.token_hex(16)
    unfinished.write_nonces(known.nonce, new)
    return replace(account, nonce=known.nonce).renew(new)


@contextmanager
def durable_run(
    account: Account,
    source: Path,
    target: Path,
    settings: RunSettings,
    seen: Stamp | None,
    *,
    mechanism: str,
    model: str,
    card: Path | None,
    resume: bool,
    overwrite: bool,
    stopped: Callable[[Path], str],
) -> Iterator[tuple[Account, UnfinishedRun]]:
    """Begin or resume a run in its folder. When the block ends, its output is written, and the folder is deleted.

    After an error, the folder stays if anything was recorded or saved and the run can be resumed. `stopped` says after
    Ctrl-C what is saved in the folder.
    """
    with open_run(target, source, settings, account.run, seen, resume=resume, overwrite=overwrite) as unfinished:
        account = claim(account, unfinished, target, mechanism=mechanism, model=model)
        clear_half_written(target, card)
        try:
            yield account, unfinished
        except BaseException as error:
            # If nothing was recorded or saved, or the run cannot be resumed, nothing is left behind. Ask the folder
            # and not `unfinished.saved`: a signal may arrive just after a part was renamed.
            known, once, words = account.progress(), source == STANDARD, stopped(unfinished.folder)
            kept = holds_release(unfinished.folder) or (known and known.recorded)
            if once or not kept:
                unfinished.remove()
            if (once or kept) and isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):
                raise Stopped(words) from None
            raise
        account.finish()
        unfinished.remove()


def write_card(card: Card, file: Path | None, sign_key: Path | None, target: Path) -> None:
    """Write the card of an output that is complete and has not got its name yet. Without a file, nothing is written.

    An output always lies next to its own card. So the old output goes before its card is replaced, and the new output
    gets its name last. In between there is no output, and --resume writes it.
    """
    if file is not None:
        key = None if sign_key is None else read_private_key(sign_key)
        card.write(file, key, ready=lambda: None if target == STANDARD else remove(target))


@dataclass
class PaidTexts:
    """The new texts of a run, collected into parts that are recorded and then saved."""

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
                f"saved in {str(self.unfinished.folder)!r}: one of the two is an older copy. {STAYS_SPENT}"
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
                try:
                    self.account.record(self.people, before=self.unfinished.saved.rows, upto=self.rows)
                except BudgetExceeded:
                    self.unfinished.refuse(len(self.unsaved.rows))
                    raise
            self.unfinished.saved.add(self.unsaved, recipe=recipe)
            self.account.saved(self.unfinished.saved.rows)
            self.unsaved, self.people = NewTexts(), Counter()
        self.began = time.monotonic()


def clear_half_written(target: Path, card: Path | None) -> None:
    """Delete partial results of a killed run. This run holds the lock, so nobody is writing one."""
    cards = () if card is None else (card, *pages_next_to(card))
    for file in (Path(os.path.realpath(target)), *cards):
        for partial in partials_of(file):
            delete(partial)


def check_card_place(file: Path | None, source: Path, target: Path, *, overwrite: bool) -> None:
    """Refuse a card that cannot be written, or that would replace something else."""
    if file is None:
        return
    if file.suffix != ".json":
        raise BadTable(
            f"the card must be a .json file, got {str(file)!r}. "
            "The pages for people are written next to it as .txt and .html."
        )
    if not file.parent.is_dir():
        raise BadTable(f"the folder of the card {str(file)!r} does not exist. Create it first.")
    for part in (file, *pages_next_to(file)):
        if part.resolve() in (source.resolve(), target.resolve()):
            raise BadTable(f"the card would replace {str(part)!r}, which is the input or output. Name another --card.")
        if part.is_dir() or (os.path.lexists(part) and not overwrite):
            raise BadTable(f"{str(part)!r} exists already. Pass --overwrite to replace it, or name another --card.")
