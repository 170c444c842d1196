"""Release the collection in a pandas frame as a whole.

Each call draws new noise: releasing one frame twice spends the budget twice. As for files, what people spend is checked
first, then recorded, and only then are the rows returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.collect.describe import ChosenBook, Terms, describe, planned_card
from dpbart.collect.synthesize import open_account, people_of, read_book, written_rows
from dpbart.collect.votes import READ_AT_ONCE, KnownLabels, Poll, Voters
from dpbart.errors import BadParameter, BadTable
from dpbart.options.collecting import CollectionBudget, CollectionColumns
from dpbart.options.declare import compared
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.describe import model_settings
from dpbart.rewrite.figures import guarantee_json
from dpbart.rewrite.frames import ATTRIBUTE, columns_of, texts_of
from dpbart.rewrite.rows import numbered
from dpbart.tables.batch import DictRows
from dpbart.tables.schema import values_of

if TYPE_CHECKING:
    import pandas


def synthesize_frame(
    frame: pandas.DataFrame,
    budget: CollectionBudget,
    *,
    text_column: str | Sequence[str] = "text",
    label_column: str | None = None,
    label_values: Sequence[str] = (),
    person_column: str | None = None,
    rows: int | None = None,
    ledger: Path | str | None = None,
    card: Path | str | None = None,
) -> pandas.DataFrame:
    """A new frame that says what the people of a frame say together. None of its rows belongs to anybody.

    new = synthesize_frame(frame, CollectionBudget(epsilon=1), person_column="who", card="card.json")
    new.attrs["dpbart"]  # {"guarantee": ..., "person": ..., "recipe": ...}

    Args:
        frame: is not changed. Without a person column, each of its rows counts as a person.
        budget: which model and which part of its book, and the epsilon of each person.
        text_column: the column with the texts, or several. All texts of a person share one vote.
        label_column: the column with the labels, if the new rows should have some.
        label_values: all labels that can come out; public, and never read off the frame.
        person_column: the column that identifies the person.
        rows: how many rows to draw; as many as there are people by default.
        ledger: SQLite file that records what each person has spent; created if missing. Needs `person_column`.
        card: file for the privacy card (JSON), with its pages next to it. It is replaced if it exists.

    Raises:
        BadParameter: There is no such column, it holds something other than texts, or the model has no book.
        BadTable: A row has no id, or there are no rows.
        BudgetExceeded: A person lacks budget; nothing is recorded or returned.
    """
    import pandas

    columns = CollectionColumns(
        text_column=(text_column,) if isinstance(text_column, str) else tuple(text_column),
        label_column=label_column,
        label_values=tuple(label_values),
    )
    if ledger is not None and person_column is None:
        raise BadParameter("a ledger needs ids. Pass person_column.")
    if rows is not None and rows < 1:
        raise BadParameter(f"rows must be at least 1, got {rows}.")
    held = _held(frame, columns, person_column)
    chosen, voters = ChosenBook.of(budget), Voters(people_of(person_column))
    for batch in _batches(held, columns):
        voters.see(batch)
    if not voters.count:
        raise BadTable("the frame has no rows. Give one with at least one.")
    terms = Terms.of(chosen, columns, people=voters.count, rows=rows)
    described = chosen.described(terms.mechanism)
    settings = {**model_settings(described), **compared(columns), "person column": person_column}
    account = open_account(voters, described, limit=None, ledger=None if ledger is None else Path(ledger))
    try:
        planned_card(terms, described, account, settings).files()  # if it cannot be made, spend nothing
        reader, cells = read_book(terms)
        labels = (
            None if label_column is None else KnownLabels(label_column, numbered(values_of(label_values, "", None)))
        )
        poll = Poll(voters, labels, reader, cells)
        for batch in _batches(held, columns):
            poll.add(batch)
        private = terms.mechanism.privatize(poll.tally(), SystemEntropy())
        account.begin(mechanism=described.facts.mechanism, model=described.model.identity)
        account.record(account.rows, before=0, upto=voters.count)
        account.finish()
    finally:
        account.close()
    made = describe(terms, described, account, private.values, settings=settings, output=None)
    if card is not None:
        made.write(Path(card))
    names = [columns.text_column[0], *([] if label_column is None else [label_column])]
    new = pandas.DataFrame(
        list(chain.from_iterable(each.rows for each in written_rows(private, terms, reader.book.lines, cells)))
    )
    new = new[names]
    guarantee = guarantee_json(made.guarantee)
    new.attrs = {
        ATTRIBUTE: {
            "guarantee": guarantee,
            "person": None if made.person.guarantee is None else guarantee,
            "recipe": made.recipe,
        }
    }
    return new


def _held(frame: pandas.DataFrame, columns: CollectionColumns, person_column: str | None) -> dict[str, list[object]]:
    """The named columns of a frame."""
    others = [name for name in (columns.label_column, person_column) if name is not None]
    held = columns_of(frame, (*columns.text_column, *others))
    for name in others:
        if name not in held:
            raise BadParameter(f"there is no column {name!r}. Name one that the frame has.")
    return {**held, **{name: list(texts_of(held.get(name), name)) for name in columns.text_column}}


def _batches(held: dict[str, list[object]], columns: CollectionColumns) -> Iterator[DictRows]:
    rows = len(held[columns.text_column[0]])
    for first in range(0, rows, READ_AT_ONCE):
        some = zip(*(values[first : first + READ_AT_ONCE] for values in held.values()), strict=True)
        yield DictRows(first + 1, columns.text_column, [dict(zip(held, row, strict=True)) for row in some])
