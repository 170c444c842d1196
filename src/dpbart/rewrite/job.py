"""Rewrite a whole file: check everything first, then rewrite batch by batch, then write the card and the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from dpbart.card.card import Card, read_private_key
from dpbart.errors import BadParameter, BadTable
from dpbart.options.rewriting import DROP, STANDARD, Request
from dpbart.options.settings import Settings
from dpbart.privacy.guarantee import exactly
from dpbart.privacy.sampling import ReplaySeed
from dpbart.progress import progress
from dpbart.rewrite import shuffle
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import ChosenModel, Described, refuse_idle_delta
from dpbart.rewrite.describe import describe, planned_card, run_facts, run_settings
from dpbart.rewrite.durable.commit import PaidTexts, check_card_place, durable_run, write_card
from dpbart.rewrite.durable.folder import SavedTexts
from dpbart.rewrite.durable.unfinished import (
    Stopped,
    UnfinishedRun,
    asked_to_stop,
    check_unfinished,
    how_to_resume,
    stamp_of,
)
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Engine
from dpbart.rewrite.language import Impression
from dpbart.rewrite.notices import notices
from dpbart.rewrite.people import Joined, one_label_per_person
from dpbart.rewrite.plan import Outline, Plan
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.rows import Work
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.formats.registry import format_of
from dpbart.tables.streams import ANY, FileBounds
from dpbart.tables.table import Table
from dpbart.tables.writer import TableWriter, plan_writer

NOT_PRIVATE_STAMP = "[NOT PRIVATE] "


@dataclass(frozen=True)
class NewRows:
    """What is released of a batch, and to whom it is charged."""

    batch: Batch
    rows: list[list[str]]  # the new cells of each row
    labels: list[str] | None  # None if they are not randomised
    people: Sequence[str]  # of each row; empty if nobody is counted
    recipe: str


@dataclass(frozen=True)
class Job(Plan):
    """A plan that can run."""

    def run(self, engine: Engine) -> Card:
        """Rewrite every row, in order. The complete output appears at the end, after its card."""
        try:
            if self.request.target != STANDARD:
                return self._run_to_file(engine)
            # Each batch is recorded and then written at once, so there is nothing to resume.
            self.account.begin(mechanism=self.described.facts.mechanism, model=self.described.model.identity)
            card = self._write_at_once(engine)
            self.account.finish()
            return card
        finally:
            self.account.close()

    def _run_to_file(self, engine: Engine) -> Card:
        request, described = self.request, self.described
        with durable_run(
            self.account,
            request.source,
            request.target,
            run_settings(self),
            self.seen,
            mechanism=described.facts.mechanism,
            model=described.model.identity,
            card=request.card_file,
            resume=self.resuming,
            overwrite=request.output.overwrite,
            stopped=lambda folder: how_to_resume(SavedTexts(folder).rows, self.rows, request.source),
        ) as (account, unfinished):
            job = replace(self, account=account)
            return (
                job._write_at_once(engine) if request.source == STANDARD else job._save_then_write(engine, unfinished)
            )

    def _write_at_once(self, engine: Engine) -> Card:
        """Write each batch as soon as it is recorded. Standard input has no other way: it cannot be read again."""
        done, recipe = 0, ""
        with self.output as writer, self._rewritten(engine) as batches:
            for new in batches:
                self.account.record(Counter(new.people), before=done, upto=done + len(new.batch))
                writer.write(self.written(new.batch, new.rows, new.labels))
                done, recipe = done + len(new.batch), new.recipe
            return self._finish(writer, engine.name, done, recipe, refused=0)

    def _save_then_write(self, engine: Engine, unfinished: UnfinishedRun) -> Card:
        """Record and save all rows part by part, so that the run can resume, and then write the output."""
        self._save_rows(engine, unfinished)
        saved = unfinished.saved
        unfinished.check_input()
        released = shuffle.shuffled_batches(self, unfinished) if self.shuffling else self._saved_batches(unfinished)
        with self.output as writer:
            for batch in released:
                writer.write(batch)
            unfinished.check_input(again=True)
            return self._finish(writer, engine.name, saved.rows, saved.recipe, refused=unfinished.refused)

    def _save_rows(self, engine: Engine, unfinished: UnfinishedRun) -> None:
        releases, recipe = PaidTexts(self.account, unfinished), unfinished.saved.recipe
        with asked_to_stop() as stop, self._rewritten(engine, start=unfinished.saved.rows) as batches:
            for new in batches:
                recipe = new.recipe
                releases.add(new.rows, new.labels, new.people, recipe=recipe)
                if stop():
                    releases.save(recipe=recipe)
                    raise Stopped(how_to_resume(unfinished.saved.rows, self.rows, self.request.source))
            releases.save(recipe=recipe)

    @contextmanager
    def _rewritten(self, engine: Engine, *, start: int = 0) -> Iterator[Iterator[NewRows]]:
        """The new rows of each batch after the first `start` rows. Nobody has seen or paid for them yet."""
        source, labels, entropy = self._source(), self.outline.labels, self.described.entropy

        def rows() -> Iterator[NewRows]:
            for work, rewriting in answers:
                batch, new = work.batch, self._checked(rewriting)
                if isinstance(entropy, ReplaySeed):
                    entropy.go_to(batch.first)
                new_labels = None if labels is None else labels.randomized(batch, self.table, entropy)
                yield NewRows(batch, new, new_labels, self._people(batch, source), rewriting.recipe)
                bar.advance(len(batch))

        with (
            progress("Rewriting", total=self.rows, unit="texts", start=start) as bar,
            closing(engine.map(self._batches(source, done=start))) as answers,
        ):
            yield rows()

    def _checked(self, rewriting: Rewriting) -> list[list[str]]:
        """The new cells of each row, if they went through the planned channel. A replay marks them as not private."""
        if rewriting.facts != self.described.facts:
            raise BadParameter("a job must run with the rewriter it was planned for, got another one. Plan it again.")
        stamp = "" if self.described.replay_seed is None else NOT_PRIVATE_STAMP
        return [[stamp + cell for cell in row] for row in self.outline.texts.rows(rewriting.texts)]

    def _people(self, batch: Batch, source: Table | Joined) -> list[str]:
        if isinstance(source, Joined):
            return source.ids(batch)
        return [] if self.outline.people is None else self.outline.people.of(batch)

    def _batches(self, source: Table | Joined, *, done: int) -> Iterator[Work]:
        """The batches that are still to be rewritten."""
        for batch in source.batches(self.described.batch_size):
            if batch.first <= done:
                continue
            if self.rows is None:
                self.account.check_delta(rows=batch.first - 1 + len(batch))
                for see in self.visitors:
                    see(batch)
            yield Work(batch, self.outline.texts)

    def _saved_batches(self, unfinished: UnfinishedRun) -> Iterator[Batch]:
        """All rows of the input, with the new texts in place of the old ones."""
        new = unfinished.saved.read()
        for batch in self._source().batches(self.bounds.rows_of(shuffle.WRITTEN_AT_ONCE)):
            rows, labels = zip(*islice(new, len(batch)), strict=True)
            yield self.written(batch, rows, labels)

    def _finish(self, writer: TableWriter, engine: str, rows: int, recipe: str, *, refused: int) -> Card:
        """Complete the output, and write its card."""
        request, settings, output = self.request, run_settings(self), writer.finish()
        if rows == 0:
            raise BadTable("standard input has no rows. Give at least one line.")
        run = run_facts(settings=settings, output=output, engine=engine, refused=refused)
        card = describe(self, recipe=recipe, rows=rows, run=run)
        write_card(card, request.card_file, request.output.sign_key, request.target)
        return card

    def _source(self) -> Table | Joined:
        people, texts = self.outline.people, self.outline.texts
        if not self.request.people.join_documents or people is None:
            return self.table
        others = tuple(column for column in self.columns if column not in texts.columns)
        typed = format_of(self.request.target, self.request.dialect).typed
        return Joined(self.table, people, self.documents, others, self.described.reads, typed)


def rewrite_file(
    request: Request,
    settings: Settings,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Card:
    """Rewrite a file: check everything, rewrite and save batch by batch, then write the card and the output.

    rewrite_file(Request(Path("notes.csv"), Path("private.csv")), Settings(epsilon=50))

    Args:
        request: which file, and how to treat its columns and people.
        settings: which model, and its privacy budget.
        engine: "local" or "ray".
        workers: number of processes or Ray actors; chosen by the number of rows if left out.
        address: the address of a Ray cluster.
        tell: is called with each line that the operator should read before anything is released. If the texts are
            plainly not in the model's language, one line says so. It alone is computed from the texts: show it only to
            people who may read them.

    Returns:
        The privacy card, which is also written next to the output.

    Raises:
        DpbartError: see `dpbart.errors`. If texts were saved by then, `Request(resume=True)` continues the run.
    """
    # Refuse bad arguments before reading the input.
    choose_engine(engine, ChosenModel(settings), workers=workers or 1, address=address)
    chosen = ChosenModel(shuffle.with_local_epsilon(request, settings))
    impression = Impression()
    job = plan(request, chosen.described, watch=() if tell is None else (impression.see,))
    if tell is not None:
        another = impression.notice(job.described.model)
        for line in (*notices(job), *([] if another is None else [another])):
            tell(line)
    return job.run(choose_engine(engine, chosen, workers=workers, rows=job.rows, address=address))


def plan(request: Request, described: Described, *, bounds: FileBounds = ANY, watch: Sequence[Visitor] = ()) -> Job:
    """Check the whole input and the output's path, and refuse anything that would fail before writing anything.

    No weights are loaded yet. `bounds` say what reading the input may cost. Visitors that `watch` see the input, unless
    it is standard input, and are no part of the plan.
    """
    outline, output = Outline.of(request), request.output
    refuse_idle_delta(described.delta, described.facts, used=outline.uses_delta)
    if output.sign_key is not None:
        read_private_key(output.sign_key)  # refuse a key that cannot sign now, not after hours of work
    seen = stamp_of(request.source)
    table, people, labels = outline.open_input(bounds), outline.people, outline.labels
    target, columns = request.target, outline.kept(table.columns)
    resuming = target != STANDARD and check_unfinished(target, resume=output.resume, overwrite=output.overwrite)
    # An output or card at the path of an unfinished run was written by that run, so it may be replaced.
    replaceable, bare = output.overwrite or resuming, not output.keep_all
    check_card_place(request.card_file, request.source, target, overwrite=replaceable)
    writer, visitors = plan_writer(target, like=table, columns=columns, overwrite=replaceable, bare=bare)
    if request.people.join_documents and people is not None and labels is not None and labels.policy != DROP:
        visitors = [*visitors, one_label_per_person(people, labels.column)]
    if labels is not None:
        visitors = [*visitors, *labels.visitors(table)]
    # One pass over the input: it counts rows and people, and refuses any row that cannot be read, joined or written.
    documents = Counter[str]() if people is None else people.count(table, *visitors, *watch)
    counted, rows = documents, table.visit(*visitors, *watch) if people is None else documents.total()
    if request.people.join_documents:
        counted, rows = Counter(dict.fromkeys(documents, 1)), len(documents)
    release, budget = outline.release(described), request.people.person_budget
    promise = shuffle.promise(outline, described, release, counted, rows=rows or 1)
    account = Account.open(
        release,
        people,
        counted,
        total=rows,
        delta=exactly(described.delta),
        budget=None if budget is None else exactly(budget),
        ledger=request.people.ledger,
        resuming=resuming,
    )
    job = Job(
        outline, described, bounds, table, columns, rows, writer, account, documents, seen, visitors, resuming, promise
    )
    try:
        planned_card(job).files()  # if its card cannot be made, the run must not begin
    except BaseException:
        account.close()
        raise
    return job
