"""Release a whole collection: check everything, count the votes, add noise, and draw new rows from the noised counts.

    rows ──► reader, cells ──► votes ──► geometric noise ──► PRIVATE counts ──► rows of the book

Check, record, release, as in `rewrite`. The noised counts are the release. They are saved in the folder of the run
before any row is drawn, and then decide: drawing rows from them again is post-processing. A run can be killed at any
moment:

- Before the ledger records it: nothing was spent, and the votes were lost with the process.
- After the record, before the counts are saved: nobody has seen the counts of the dead process. `--resume` counts the
  votes again, and draws noise once more without charging again.
- After the counts are saved: they are never drawn again. `--resume` writes the output from them.

The votes themselves never reach a disk: without noise, they are as private as the texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from dpbart.card.card import Card, read_private_key
from dpbart.collect.cells import Cells, cells_of
from dpbart.collect.describe import ChosenBook, Terms, describe, notices, planned_card, run_settings
from dpbart.collect.rows import draw_rows
from dpbart.collect.votes import READ_AT_ONCE, KnownLabels, Poll, Voters, count_votes
from dpbart.errors import BadParameter, BadTable, NotPrepared, NotResumable
from dpbart.files import OWN, write_whole
from dpbart.models.code.book import Line
from dpbart.models.model import BookReader
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.rewriting import STANDARD
from dpbart.privacy import composition
from dpbart.privacy.facts import Private
from dpbart.privacy.guarantee import exactly
from dpbart.privacy.mechanisms.geometric import Counts
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import progress
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import Described
from dpbart.rewrite.durable.commit import STAYS_SPENT, check_card_place, durable_run, write_card
from dpbart.rewrite.durable.folder import COUNTS, damaged
from dpbart.rewrite.durable.unfinished import Stamp, UnfinishedRun, check_unfinished, stamp_of
from dpbart.rewrite.people import People
from dpbart.rewrite.plan import input_format
from dpbart.rewrite.rows import numbered
from dpbart.tables.batch import DictRows
from dpbart.tables.formats.format import Header
from dpbart.tables.formats.registry import format_of
from dpbart.tables.schema import FoundSchema, values_of
from dpbart.tables.streams import ANY, FileBounds
from dpbart.tables.table import Table, open_table
from dpbart.tables.writer import TableWriter, plan_writer


def synthesize_file(
    request: CollectionRequest, budget: CollectionBudget, *, tell: Callable[[str], None] | None = None
) -> Card:
    """Release a file as a whole: new rows that say what its people say together, and nobody's own.

    synthesize_file(CollectionRequest(Path("notes.csv"), Path("private.csv")), CollectionBudget(epsilon=1))

    Args:
        request: which file, and whose texts it holds.
        budget: which model and which part of its book, and the epsilon of each person.
        tell: is called with each line that the operator should read before anything is released.

    Returns:
        The privacy card, which is also written next to the output. It holds the noised counts.

    Raises:
        DpbartError: see `dpbart.errors`. `CollectionRequest(resume=True)` continues a run that was interrupted.
    """
    plan = plan_collection(request, budget)
    if tell is not None:
        for line in plan.notices:
            tell(line)
    return plan.run()


@dataclass(frozen=True)
class CollectionPlan:
    """A request whose files have been checked, ready to run. No weights are loaded yet."""

    request: CollectionRequest
    terms: Terms
    described: Described
    table: Table
    voters: Voters
    labels: KnownLabels | None
    account: Account
    output: AbstractContextManager[TableWriter]
    seen: Stamp | None  # the stamp of the input when it was checked
    resuming: bool  # whether there is a run to resume

    @property
    def notices(self) -> list[str]:
        """What the operator should read before anything is released, one line each."""
        return notices(self.request, self.terms, self.described, self._planned)

    @property
    def _planned(self) -> Card:
        return planned_card(self.terms, self.described, self.account, self._settings)

    @property
    def _settings(self) -> dict[str, object]:
        return dict(run_settings(self.request, self.terms, self.described))

    def run(self) -> Card:
        """Count, draw, and write. The complete output appears at the end, after its card."""
        request, identity = self.request, self.described.model.identity
        mechanism = self.described.facts.mechanism
        try:
            if request.target == STANDARD:  # there is nothing to resume
                self.account.begin(mechanism=mechanism, model=identity)
                reader, cells = read_book(self.terms)
                private = self._draw(reader, cells)
                if stamp_of(request.source) != self.seen:
                    raise BadTable(f"{str(request.source)!r} was changed during the run. Run the same command again.")
                self._record(self.account)
                card = self._write(private, reader.book.lines, cells)
                self.account.finish()
                return card
            with durable_run(
                self.account,
                request.source,
                request.target,
                self._settings,
                self.seen,
                mechanism=mechanism,
                model=identity,
                card=request.card_file,
                resume=self.resuming,
                overwrite=request.output.overwrite,
                stopped=how_to_resume,
            ) as (account, unfinished):
                plan = replace(self, account=account)
                reader, cells = read_book(self.terms)
                return plan._write(plan._released(unfinished, reader, cells), reader.book.lines, cells)
        finally:
            self.account.close()

    def _released(self, unfinished: UnfinishedRun, reader: BookReader, cells: Cells) -> Private[Counts]:
        """The noised counts of this run: those that it has saved, or new ones, paid for and then saved."""
        file, known, people = unfinished.folder / COUNTS, self.account.progress(), self.terms.people
        saved = file.is_file()
        if known is not None and (known.recorded != people if saved else known.safe > 0):
            raise NotResumable(
                f"the ledger and {str(unfinished.folder)!r} disagree on whether the counts of this run are saved: one "
                f"of the two is an older copy. {STAYS_SPENT}"
            )
        if saved:
            private = self._saved(file)
        else:
            private = self._draw(reader, cells)
            unfinished.check_input()  # counts of a changed input are neither recorded nor saved
            if known is None or not known.recorded:
                self._record(self.account)
            write_whole(file, json.dumps(private.values), mode=OWN)
        self.account.saved(people)
        return private

    def _saved(self, file: Path) -> Private[Counts]:
        try:
            return self.terms.mechanism.again(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise damaged(file.parent) from None

    def _draw(self, reader: BookReader, cells: Cells) -> Private[Counts]:
        """Count all votes, and add noise. Nobody has seen or paid for the result yet."""
        poll = Poll(self.voters, self.labels, reader, cells)
        with progress("Reading", total=self.voters.rows, unit="rows") as bar:
            tally = count_votes(self.table.batches(self.table.file.bounds.rows_of(READ_AT_ONCE)), poll, bar)
        return self.terms.mechanism.privatize(tally, SystemEntropy())

    def _record(self, account: Account) -> None:
        account.record(account.rows, before=0, upto=self.terms.people)

    def _write(self, private: Private[Counts], lines: Sequence[Line], cells: Cells) -> Card:
        """Draw the rows, write them, and write the card."""
        request, terms = self.request, self.terms
        with self.output as writer:
            for batch in written_rows(private, terms, lines, cells):
                writer.write(batch)
            output = writer.finish()
            card = describe(terms, self.described, self.account, private.values, settings=self._settings, output=output)
            write_card(card, request.card_file, request.output.sign_key, request.target)
        return card


def read_book(terms: Terms) -> tuple[BookReader, Cells]:
    """Load what reads the texts, and the parts of its book."""
    reader = terms.chosen.reader()
    cells = cells_of(reader.book, terms.cells)
    if len(cells) != terms.cells:
        raise NotPrepared(f"the book of '{terms.chosen.bundle.name}' does not fit its lines. Make the model again.")
    return reader, cells


def written_rows(private: Private[Counts], terms: Terms, lines: Sequence[Line], cells: Cells) -> Iterator[DictRows]:
    """The rows of the output, from the sealed counts and public things alone."""
    first = 1
    values = values_of(terms.label_values, "", None)
    entropy = SystemEntropy()
    for some in draw_rows(private, cells, people=terms.people, rows=terms.rows, entropy=entropy):
        texts: list[dict[str, object]] = [{terms.text_column: lines[sentence].sentence} for _, sentence in some]
        if terms.label_column is not None:
            for row, (label, _) in zip(texts, some, strict=True):
                row[terms.label_column] = values[label]
        yield DictRows(first, (terms.text_column,), texts)
        first += len(some)


def how_to_resume(folder: Path) -> str:
    """What is saved when a run is stopped, and how to continue."""
    saved = "The noised counts are" if (folder / COUNTS).is_file() else "The payment is"
    return f"Stopped. {saved} saved. To continue, give the same command with --resume."


def plan_collection(
    request: CollectionRequest, budget: CollectionBudget, *, bounds: FileBounds = ANY
) -> CollectionPlan:
    """Check the whole input, the budget and the output, and refuse anything that would fail before anything is spent.

    No weights are loaded. `bounds` say what reading the input may cost.
    """
    chosen, output = ChosenBook.of(budget), request.output
    if output.sign_key is not None:
        read_private_key(output.sign_key)  # refuse a key that cannot sign now, not after hours of work
    input_format(request.source, request.dialect)
    check_format(request)
    seen, target = stamp_of(request.source), request.target
    table, labels = _open(request, bounds)
    resuming = target != STANDARD and check_unfinished(target, resume=output.resume, overwrite=output.overwrite)
    replaceable = output.overwrite or resuming
    check_card_place(request.card_file, request.source, target, overwrite=replaceable)
    like = _like(table, request)
    writer, _ = plan_writer(target, like=like, columns=like.columns, overwrite=replaceable, bare=True)
    voters = Voters(people_of(request.people.person_column))
    table.visit(voters.see)  # refuses a row that cannot be read, or has no id
    terms = Terms.of(chosen, request.columns, people=voters.count, rows=request.rows)
    described = chosen.described(terms.mechanism)
    limit, ledger = request.people.person_budget, request.people.ledger
    account = open_account(voters, described, limit=limit, ledger=ledger, resuming=resuming)
    plan = CollectionPlan(request, terms, described, table, voters, labels, account, writer, seen, resuming)
    try:
        plan._planned.files()  # if its card cannot be made, the run must not begin
    except BaseException:
        account.close()
        raise
    return plan


def people_of(column: str | None) -> People | None:
    """How rows are assigned to people. A row without an id is refused: whose vote would it be?"""
    return None if column is None else People(column, remedy="Add one.")


def open_account(
    voters: Voters, described: Described, *, limit: float | None, ledger: Path | None, resuming: bool = False
) -> Account:
    """Who is charged: each person once, whatever and however much they wrote."""
    return Account.open(
        composition.Release((described.facts.event,)),
        voters.people,
        dict.fromkeys(voters.texts, 1),
        total=voters.count,
        delta=Decimal(0),
        budget=None if limit is None else exactly(limit),
        ledger=ledger,
        resuming=resuming,
    )


def check_format(request: CollectionRequest) -> None:
    """Refuse an output that cannot hold new rows, or not their labels."""
    format = format_of(request.target, request.dialect)
    if format.folder:
        raise BadTable("new rows have no names for the files of a folder. Name an output file, such as OUT.csv.")
    if request.columns.label_column is not None and format.texts_alone:
        raise BadParameter(
            "this output holds texts alone, and the labels would be lost. Name a .csv file or another table."
        )


def _open(request: CollectionRequest, bounds: FileBounds) -> tuple[Table, KnownLabels | None]:
    """The input with every column that the request names, and its labels."""
    columns, person = request.columns, request.people.person_column
    label = columns.label_column
    named = [column for column in (label, person) if column is not None]
    table = open_table(
        request.source, text_column=columns.text_column, named=named, dialect=request.dialect, bounds=bounds
    )
    if person is not None:
        table.require(person, option="--person-column")
    if label is None:
        return table, None
    table.require(label, option="--label-column")
    return table, KnownLabels(label, numbered(table.values(columns.label_values, label)))


def _like(table: Table, request: CollectionRequest) -> Table:
    """A table like the input for the writer, with public columns: their types follow from the given labels alone."""
    text, label, values = request.columns.text_column[0], request.columns.label_column, request.columns.label_values
    names = (text,) if label is None else (text, label)
    found = FoundSchema(names)
    rows = [dict(zip(names, ("", value), strict=False)) for value in values_of(values, "", None) or [""]]
    found.see(DictRows(1, (text,), rows))
    return replace(table, text_columns=(text,), header=Header(names, found.schema(), table.header.delimiter))
