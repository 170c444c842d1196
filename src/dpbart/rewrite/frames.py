"""Rewrite data in memory: a pandas frame, or batches from Hugging Face `datasets`.

Each call releases the texts it is given: rewriting the same frame twice spends the budget twice. The guarantee comes
back with the texts. A card and a ledger are written if they are asked for. As for files, what people spend is checked
first, then recorded, and only then are the texts returned.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbart.card.card import Card
from dpbart.card.record import RowFacts
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ids import normal_id
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Guarantee, exactly
from dpbart.rewrite.account import Account
from dpbart.rewrite.describe import describe_texts, model_settings, run_facts, sounds_like_free_text
from dpbart.rewrite.figures import guarantee_json
from dpbart.rewrite.people import People
from dpbart.rewrite.rewriter import Rewriter

if TYPE_CHECKING:
    import pandas

Columns = Mapping[str, Sequence[object]]
ATTRIBUTE = "dpbart"  # the key in the attrs of a frame


def rewrite_frame(
    frame: pandas.DataFrame,
    rewriter: Rewriter,
    *,
    text_column: str | Sequence[str] = "text",
    person_column: str | None = None,
    ledger: Path | str | None = None,
    card: Path | str | None = None,
) -> pandas.DataFrame:
    """A new frame with the texts rewritten; the index and the other columns stay the same.

    new = rewrite_frame(frame, Rewriter.load(epsilon=50), person_column="who", card="card.json")
    new.attrs["dpbart"]  # {"guarantee": ..., "person": ..., "recipe": ...}

    Args:
        frame: is not changed; a missing text counts as an empty one and is rewritten like any other.
        rewriter: its guarantee holds for each text.
        text_column: the column with the texts, or several. Then each cell is a release of its own.
        person_column: the column that identifies the person; the texts of a person add up.
        ledger: SQLite file that records what each person has spent; created if missing. Needs `person_column`.
        card: file for the privacy card (JSON), with its pages next to it. It is replaced if it exists.

    Raises:
        BadParameter: There is no such column, it holds something other than texts, or delta is not below 1 / texts.
        BadTable: A row has no id.
        BudgetExceeded: A person lacks budget; nothing is recorded or returned.
    """
    names = _columns(text_column)
    held = columns_of(frame, (*names, person_column))
    release = _Releases(rewriter, names, person_column, ledger, card)
    others = [str(name) for name in frame.columns if name not in names]
    new = release.rewrite(held, rows=len(frame), others=[*_index_names(frame), *others])
    changed = frame.assign(**new)
    changed.attrs = {**frame.attrs, ATTRIBUTE: release.attrs}
    return changed


def batch_function(
    rewriter: Rewriter,
    *,
    text_column: str | Sequence[str] = "text",
    person_column: str | None = None,
    ledger: Path | str | None = None,
    card: Path | str | None = None,
) -> BatchFunction:
    """A function for `map(batched=True)` of Hugging Face `datasets`: it returns new texts for a batch of columns.

    step = batch_function(Rewriter.load(epsilon=50), person_column="who", card="card.json")
    dataset.map(step, batched=True, load_from_cache_file=False)
    step.guarantee, step.attrs

    `datasets` stores the result on disk. Choose delta below 1 / texts: a batch does not know the number of rows. The
    other arguments are those of `rewrite_frame`. Each batch is a run of its own in the ledger. The card counts all
    batches so far, and needs one process (no `num_proc`).
    """
    return BatchFunction(_Releases(rewriter, _columns(text_column), person_column, ledger, card))


@dataclass(frozen=True)
class BatchFunction:
    """What `batch_function` makes: call it with a batch of columns."""

    releases: _Releases

    def __call__(self, columns: Columns) -> dict[str, list[str]]:
        rows = max((len(values) for values in columns.values()), default=0)
        others = [name for name in columns if name not in self.releases.names]
        return self.releases.rewrite(columns, rows=rows, others=others)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each text."""
        return self.releases.rewriter.facts.guarantee

    @property
    def attrs(self) -> dict[str, Any]:
        """The guarantee of each text and, so far, of a person, and the recipe."""
        return self.releases.attrs


@dataclass
class _Releases:
    """Texts that are released together, in one batch or several, and what they promise."""

    rewriter: Rewriter
    names: tuple[str, ...]  # of the text columns
    person_column: str | None
    ledger: Path | str | None
    card: Path | str | None
    rows: int = 0  # so far
    account: Account | None = None  # who was charged for them; None before the first batch
    process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        if self.ledger is not None and self.person_column is None:
            raise BadParameter("a ledger needs ids. Pass person_column.")
        if self.person_column in self.names:
            raise BadParameter("the person column must not be a text column. Pass another person_column.")

    @property
    def attrs(self) -> dict[str, Any]:
        """What a frame carries along: only what JSON has, so that it can be saved with the frame."""
        person = None if self.person_column is None or self.account is None else self.account.composed.guarantee
        return {
            "guarantee": guarantee_json(self.rewriter.facts.guarantee),
            "person": None if person is None else guarantee_json(person),  # for all texts of one person so far
            "recipe": self.rewriter.rewrite([]).recipe,
        }

    def rewrite(self, columns: Columns, *, rows: int, others: Sequence[str]) -> dict[str, list[str]]:
        """New texts for the text columns: checked, recorded in the ledger and on the card, and then returned."""
        old = {name: texts_of(columns.get(name), name) for name in self.names}
        people = Counter(self._ids(columns))
        texts, delta = (self.rows + rows) * len(self.names), self.rewriter.facts.guarantee.delta
        check_delta_for(delta, texts=texts, whose=f"{texts} texts", remedy="Load with delta={delta}.")
        if self.card is not None and os.getpid() != self.process:
            raise BadParameter("a card counts the rows of one process. Leave out num_proc, or the card.")
        account = self._account(people)
        before = Counter[str]() if self.account is None else Counter(self.account.rows)
        so_far = replace(account, rows=before + people)
        try:
            if self.card is not None:
                self._card(so_far, rows=self.rows + rows, others=others).files()  # if it cannot be made, spend nothing
            new = {name: list(self.rewriter.rewrite(texts).texts) for name, texts in old.items()}
            if people:
                account.begin(mechanism=self.rewriter.facts.mechanism, model=self.rewriter.model.line.identity)
                account.record(people, before=0, upto=rows)
                account.finish()
        finally:
            account.close()
        self.rows, self.account = self.rows + rows, so_far
        if self.card is not None:
            self._card(so_far, rows=self.rows, others=others).write(Path(self.card))
        return new

    def _ids(self, columns: Columns) -> list[str]:
        if self.person_column is None:
            return []
        if self.person_column not in columns:
            raise BadParameter(f"there is no column {self.person_column!r}. Pass person_column.")
        ids = [normal_id(value) for value in columns[self.person_column]]
        if "" in ids:
            raise BadTable(f"row {ids.index('') + 1} has no id in column {self.person_column!r}. Add one.")
        return ids

    def _account(self, people: Mapping[str, int]) -> Account:
        """Who is charged for a batch. Raises BudgetExceeded if somebody lacks budget."""
        return Account.open(
            Release((self.rewriter.facts.event,) * len(self.names), len(self.names)),
            None if self.person_column is None else People(self.person_column),
            people,
            total=None,
            delta=exactly(self.rewriter.described.delta),
            budget=None,
            ledger=None if self.ledger is None else Path(self.ledger),
        )

    def _card(self, account: Account, *, rows: int, others: Sequence[str]) -> Card:
        """The card of so many rows, of all batches."""
        described, recipe = self.rewriter.described, self.rewriter.rewrite([]).recipe
        settings = {**model_settings(described), "text column": list(self.names), "person column": self.person_column}
        run = run_facts(settings=settings, output=None, engine="in memory", refused=0)
        return replace(
            describe_texts(account, described, recipe=recipe, texts=rows, run=run),
            row=RowFacts(self.names, joined=False, texts=len(self.names), guarantee=account.row.guarantee),
            other_columns=list(others),
            free_text_columns=[name for name in others if sounds_like_free_text(name) and name != self.person_column],
        )


def columns_of(frame: pandas.DataFrame, names: Sequence[str | None]) -> dict[str, list[object]]:
    """Those of the named columns that a frame has, as lists. A missing value is None."""
    there = [name for name in names if name is not None and name in frame.columns]
    return {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in there}


def _columns(text_column: str | Sequence[str]) -> tuple[str, ...]:
    columns = (text_column,) if isinstance(text_column, str) else tuple(text_column)
    if not columns or len(set(columns)) < len(columns):
        raise BadParameter("each text column must be named once. Pass text_column with different names.")
    return columns


def texts_of(values: Sequence[object] | None, column: str) -> list[str]:
    """The texts of a column; a missing one is empty. Refuses other values."""
    if values is None:
        raise BadParameter(f"there is no column {column!r}. Pass text_column.")
    # A missing text is None or a NaN, which is not equal to itself.
    texts = ["" if value is None or value != value else value for value in values]
    if not all(isinstance(text, str) for text in texts):
        raise BadParameter(f"column {column!r} must hold texts, got other values. Convert them to strings first.")
    return [str(text) for text in texts]


def _index_names(frame: pandas.DataFrame) -> list[str]:
    """The levels of an index that says more than the number of a row."""
    if frame.index.names == [None] and frame.index.equals(frame.reset_index(drop=True).index):
        return []
    return ["the index" if name is None else str(name) for name in frame.index.names]
