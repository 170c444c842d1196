"""A whole file: refuse first what can be refused, then rewrite batch by batch, then write card and output."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import islice

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.budget.composition import Release
from dpbart.privacy.card.card import Card, RunFacts, pages_beside
from dpbart.privacy.card.signing import read_private_key
from dpbart.privacy.decimals import exactly
from dpbart.progress import progress
from dpbart.rewrite.account import Account
from dpbart.rewrite.describe import describe, run_facts, run_settings
from dpbart.rewrite.durable.commit import Releases
from dpbart.rewrite.durable.saved import Parts
from dpbart.rewrite.durable.stopping import Stopped, asked_to_stop
from dpbart.rewrite.durable.unfinished import Touched, Work, check_unfinished, open_work, touched
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Engine
from dpbart.rewrite.joined import Joined, one_label_a_person
from dpbart.rewrite.request import Request
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.settings import Described, Settings
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import STANDARD, Table, open_table
from dpbart.tables.writer import Writer, plan_writer

NOT_PRIVATE_STAMP = "[NOT PRIVATE] "
_WRITTEN_AT_ONCE = 1024  # rows


@dataclass(frozen=True)
class Job:
    """A request whose files have been checked, and what rewrites them."""

    request: Request
    described: Described
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # of the output; None: standard input, which is read only once
    output: AbstractContextManager[Writer]
    account: Account
    documents: Mapping[str, int]  # of each person in the input
    seen: Touched | None  # the input as it was when it was checked
    unfinished: bool = False  # whether there is a run to resume

    def run(self, engine: Engine) -> Card:
        """Rewrite every row, in order; the output appears whole, at the end, after its card.

        Args:
            engine: its workers have the rewriter that the job was planned for.
        """
        try:
            return self._run_to_stream(engine) if self.request.target == STANDARD else self._run_to_file(engine)
        finally:
            self.account.close()

    def _run_to_stream(self, engine: Engine) -> Card:
        """Texts leave with every batch, so each is recorded before it is written; there is nothing to resume."""
        source, done, recipe, began = self._source(), 0, "", time.monotonic()
        self._begin()
        with self.output as writer, progress("Rewriting", total=self.rows, unit="texts") as bar:
            for batch, rewriting in engine.map(self._batches(source, done=0)):
                texts = self._checked(rewriting)
                self.account.record(Counter(self._people(batch, source)), before=done, upto=done + len(batch))
                writer.write(batch.with_texts(texts))
                done, recipe = done + len(batch), rewriting.recipe
                bar.advance(len(batch))
        seconds, settings = time.monotonic() - began, run_settings(self)
        run = run_facts(drawn=done, seconds=seconds, settings=settings, output=None, engine=engine.name, refused=0)
        return self._finished(rows=done, recipe=recipe, run=run)

    def _run_to_file(self, engine: Engine) -> Card:
        with open_work(
            self.request.target,
            self.request.source,
            run_settings(self),
            run=self.account.run,
            resume=self.unfinished,
            overwrite=self.request.overwrite,
            seen=self.seen,
        ) as work:
            job = replace(self, account=replace(self.account, run=work.run))
            job._begin()
            began, start = time.monotonic(), work.parts.rows
            try:
                job._fill_parts(engine, work)
                card = job._write_output(work, engine.name, work.parts.rows - start, time.monotonic() - began)
            except BaseException as error:
                # If nothing was recorded or saved, or it cannot be resumed, nothing is left behind. Ask the folder, not
                # `work.parts`: a signal may come just after a part got its name.
                saved = Parts(work.folder).rows
                if not (saved or job.account.recorded()[1]) or self.request.source == STANDARD:
                    work.remove()
                elif isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):  # while merging
                    raise Stopped(_how_to_resume(saved, self.rows, self.request)) from None
                raise
            work.remove()
            return card

    def _begin(self) -> None:
        self.account.begin(mechanism=self.described.facts.mechanism, model=self.described.model.identity)

    def _fill_parts(self, engine: Engine, work: Work) -> None:
        source, releases, recipe = self._source(), Releases(self.account, work), work.parts.recipe
        labels, entropy, start = self.request.policy, self.described.entropy, work.parts.rows
        with (
            asked_to_stop() as stop,
            progress("Rewriting", total=self.rows, unit="texts", start=start) as bar,
            closing(engine.map(self._batches(source, done=start))) as rewritten,
        ):
            for batch, rewriting in rewritten:
                texts, recipe = self._checked(rewriting), rewriting.recipe
                new_labels = None if labels is None else labels.randomized(batch, entropy)
                releases.add(texts, new_labels, self._people(batch, source), recipe=recipe)
                bar.advance(len(batch))
                if stop():
                    releases.make_safe(recipe=recipe)
                    raise Stopped(_how_to_resume(work.parts.rows, self.rows, self.request))
            releases.make_safe(recipe=recipe)

    def _checked(self, rewriting: Rewriting) -> Sequence[str]:
        """New texts, made by the channel that was planned and paid for. Those of a replay say what they are."""
        if rewriting.facts != self.described.facts:
            raise BadParameter("a job must run with the rewriter that it was planned for. Plan it again.")
        replayed = self.described.replay_seed is not None
        return [NOT_PRIVATE_STAMP + text for text in rewriting.texts] if replayed else rewriting.texts

    def _batches(self, source: Table | Joined, *, done: int) -> Iterator[Batch]:
        """The batches after the rows that are done."""
        for batch in source.batches(self.described.batch_size):
            if batch.first <= done:
                continue
            if self.rows is None:
                self.account.check_delta(rows=batch.first - 1 + len(batch))
            yield batch

    def _write_output(self, work: Work, engine: str, drawn: int, seconds: float) -> Card:
        """All rows of the input, the new texts in place of the old ones."""
        work.check_input()
        new, labels = work.parts.read(), self.request.policy
        with self.output as writer:
            for batch in self._rows_again(work):
                texts, new_labels = zip(*islice(new, len(batch)), strict=True)
                released = batch.with_texts(texts)
                writer.write(released if labels is None else labels.with_labels(released, new_labels, self.table))
            work.check_input(again=True)
            run = run_facts(
                drawn=drawn,
                seconds=seconds,
                settings=run_settings(self),
                output=writer.finish(),
                engine=engine,
                refused=work.refused,
            )
            return self._finished(rows=work.parts.rows, recipe=work.parts.recipe, run=run)

    def _rows_again(self, work: Work) -> Iterator[Batch]:
        """The input once more; standard input has nothing but texts, and those are all new."""
        if self.request.source != STANDARD:
            yield from self._source().batches(_WRITTEN_AT_ONCE)
            return
        for first in range(1, work.parts.rows + 1, _WRITTEN_AT_ONCE):
            count = min(_WRITTEN_AT_ONCE, work.parts.rows + 1 - first)
            yield Rows(first, self.request.text_column, [{self.request.text_column: ""}] * count)

    def _finished(self, *, rows: int, recipe: str, run: RunFacts) -> Card:
        if rows == 0:
            raise BadTable("standard input has no rows. Give at least one line.")
        card, request = describe(self, recipe=recipe, rows=rows, run=run), self.request
        if request.card_file is not None:
            # Before the output takes its name: no output ever lacks its card.
            card.write(request.card_file, None if request.sign_key is None else read_private_key(request.sign_key))
        return card

    def _people(self, batch: Batch, source: Table | Joined) -> list[str]:
        if isinstance(source, Joined):
            return source.ids(batch)
        return [] if self.request.people is None else self.request.people.of(batch)

    def _source(self) -> Table | Joined:
        people = self.request.people
        if not self.request.join_documents or people is None:
            return self.table
        beside = tuple(column for column in self.columns if column != self.request.text_column)
        typed = format_of(self.request.target).typed
        return Joined(self.table, people, self.documents, beside, self.described.reads, typed)


def rewrite_file(
    request: Request,
    settings: Settings,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> Card:
    """Rewrite a file: check everything, then rewrite, record and save batch by batch, then write card and output.

    rewrite_file(Request(Path("notes.csv"), Path("private.csv")), Settings(epsilon=2500))

    Args:
        request: which file, and how its columns and people are treated.
        settings: which model, and under which budget.
        engine: "local" or "ray".
        workers: processes or Ray actors; what is worth it by default.
        address: of a Ray cluster.

    Returns:
        The privacy card, which is also written next to the output.

    Raises:
        DpbartError: of the family in `dpbart.errors`; what was saved by then is resumed with `Request(resume=True)`.
    """
    choose_engine(engine, settings, workers=workers or 1, address=address)  # refuses what makes no sense
    job = plan(request, settings.described)
    return job.run(choose_engine(engine, settings, workers=workers, rows=job.rows, address=address))


def plan(request: Request, described: Described) -> Job:
    """Check the input, all of it, and the output's place; refuse what cannot end well before anything is written.

    Args:
        request: what is asked for.
        described: what will rewrite it. No weights are needed yet.
    """
    if request.sign_key is not None:
        read_private_key(request.sign_key)  # a key that cannot sign is refused before the work, not after it
    seen = touched(request.source)
    table = open_table(request.source, text_column=request.text_column)
    people, labels = request.people, request.policy
    if labels is not None:
        table.require(labels.column, option="--label-column")
        labels.check(table)
    if people is not None:
        table.require(people.column, option=people.option)
    unfinished = request.target != STANDARD and check_unfinished(
        request.target, resume=request.resume, overwrite=request.overwrite
    )
    # What stands in the place of the output of an unfinished run, or of its card, is that run's own.
    replaceable = request.overwrite or unfinished
    _check_card_place(request, overwrite=replaceable)
    columns = _columns(request, table)
    writer, visitors = plan_writer(request.target, like=table, columns=columns, overwrite=replaceable)
    if request.join_documents and people is not None and labels is not None and labels.policy != "drop":
        visitors = [*visitors, one_label_a_person(people, labels.column)]
    # One pass over the input: it counts rows and people, and refuses any row that cannot be read, joined or written.
    documents = Counter[str]() if people is None else people.count(table, *visitors)
    texts, rows = documents, table.visit(*visitors) if people is None else documents.total()
    if request.join_documents:
        texts, rows = Counter(dict.fromkeys(documents, 1)), len(documents)
    account = Account.open(
        _release(described, request),
        people,
        texts,
        rows=rows,
        budget=None if request.person_budget is None else exactly(request.person_budget),
        ledger=request.ledger,
        unfinished=unfinished,
    )
    return Job(request, described, table, columns, rows, writer, account, documents, seen, unfinished)


def _release(described: Described, request: Request) -> Release:
    """What one text spends, together with its label. A replayed label promises nothing, like a replayed text."""
    label = None if request.policy is None else request.policy.event
    return Release((described.facts.event,) if label is None else (described.facts.event, label))


def _columns(request: Request, table: Table) -> tuple[str, ...]:
    """Those of the output: a joined document keeps the person and, unless dropped, the label."""
    dropped = {request.label_column} if request.labels == "drop" else set()
    joined = {request.person_column, request.text_column, request.label_column}
    kept = joined if request.join_documents else set(table.columns)
    return tuple(column for column in table.columns if column in kept - dropped)


def _how_to_resume(done: int, rows: int | None, request: Request) -> str:
    if request.source == STANDARD:
        return "Stopped. Standard input cannot be read again: nothing was written."
    of = "" if rows is None else f" of {rows:,}"
    return f"Stopped. {done:,}{of} texts are saved. To continue, give the same command with --resume."


def _check_card_place(request: Request, *, overwrite: bool) -> None:
    file = request.card_file
    if file is None:
        return
    if file.suffix != ".json":
        raise BadTable(
            f"the card {str(file)!r} must end in .json; the pages to read are written next to it, as .txt and .html."
        )
    if not file.parent.is_dir():
        raise BadTable(f"the folder of the card {str(file)!r} does not exist. Make it first.")
    for part in (file, *pages_beside(file)):
        if part.resolve() in (request.source.resolve(), request.target.resolve()):
            raise BadTable(f"the card would replace {str(part)!r}, which is the input or output. Name another --card.")
        if part.is_dir() or (part.exists() and not overwrite):
            raise BadTable(f"{str(part)!r} exists already. Pass --overwrite to replace it, or name another --card.")
