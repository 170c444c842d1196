"""Rewrite a whole file: check everything first, then rewrite batch by batch, then write the card and the output."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import islice

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.budget.composition import Release
from dpbart.privacy.card.card import Card, RunFacts
from dpbart.privacy.card.signing import read_private_key
from dpbart.privacy.decimals import exactly
from dpbart.privacy.sampling import ReplaySeed
from dpbart.privacy.shuffling.release import ShuffledRelease
from dpbart.progress import progress
from dpbart.rewrite import shuffle
from dpbart.rewrite.account import Account
from dpbart.rewrite.describe import check_card, describe, run_facts, run_settings
from dpbart.rewrite.durable.claim import claim
from dpbart.rewrite.durable.commit import Releases
from dpbart.rewrite.durable.results import check_card_place, clear_half_written, remove_old_output
from dpbart.rewrite.durable.saved import SavedTexts
from dpbart.rewrite.durable.stopping import Stopped, asked_to_stop, how_to_resume
from dpbart.rewrite.durable.unfinished import Stamp, UnfinishedRun, check_unfinished, open_run, stamp_of
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Engine
from dpbart.rewrite.input import open_input
from dpbart.rewrite.joined import Joined, one_label_per_person
from dpbart.rewrite.notices import notices
from dpbart.rewrite.pieces import Pieces, Work
from dpbart.rewrite.request import Request
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.settings import Described, Settings
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import STANDARD, Table
from dpbart.tables.writer import Writer, plan_writer

NOT_PRIVATE_STAMP = "[NOT PRIVATE] "
_WRITTEN_AT_ONCE = 1024  # rows


@dataclass(frozen=True)
class Job:
    """A request with its files checked, ready to run."""

    request: Request
    described: Described
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # of the output; None for standard input, which can be read only once
    output: AbstractContextManager[Writer]
    account: Account
    documents: Mapping[str, int]  # per person, in the input
    seen: Stamp | None  # the stamp of the input when it was checked
    visitors: Sequence[Visitor] = ()  # refuse rows; they have seen the whole input, unless it is standard input
    resuming: bool = False  # whether there is a run to resume
    shuffling: ShuffledRelease | None = None  # what the shuffled output promises; None if it is not shuffled

    @property
    def pieces(self) -> Pieces:
        """How a row becomes texts."""
        return self.request.texts_of_row(reads=self.described.reads)

    def run(self, engine: Engine) -> Card:
        """Rewrite every row, in order. The complete output appears at the end, after its card.

        Args:
            engine: runs the rewriter that the job was planned for.
        """
        try:
            return self._run_to_stream(engine) if self.request.target == STANDARD else self._run_to_file(engine)
        finally:
            self.account.close()

    def _run_to_stream(self, engine: Engine) -> Card:
        """Each batch is recorded and then written at once, so there is nothing to resume."""
        self.account.begin(mechanism=self.described.facts.mechanism, model=self.described.model.identity)
        card = self._run_once(engine)
        self.account.finish()
        return card

    def _run_once(self, engine: Engine) -> Card:
        """Write each batch as soon as it is recorded. Standard input has no other way: it cannot be read again."""
        source, done, recipe, began = self._source(), 0, "", time.monotonic()
        labels, entropy = self.request.policy, self.described.entropy
        with self.output as writer, progress("Rewriting", total=self.rows, unit="texts") as bar:
            for work, rewriting in engine.map(self._batches(source, done=0)):
                batch, rows = work.batch, self._checked(rewriting)
                self.account.record(Counter(self._people(batch, source)), before=done, upto=done + len(batch))
                released = self.pieces.written(batch, rows)
                new = None if labels is None else labels.randomized(batch, self.table, entropy)
                if labels is not None and new is not None:
                    released = labels.with_labels(released, new, self.table)
                writer.write(released)
                done, recipe = done + len(batch), rewriting.recipe
                bar.advance(len(batch))
            seconds, output = time.monotonic() - began, writer.finish()
            run = run_facts(
                rewritten=done,
                seconds=seconds,
                settings=run_settings(self),
                output=output,
                engine=engine.name,
                refused=0,
            )
            return self._finished(rows=done, recipe=recipe, run=run)

    def _run_to_file(self, engine: Engine) -> Card:
        with open_run(
            self.request.target,
            self.request.source,
            run_settings(self),
            run=self.account.run,
            resume=self.resuming,
            overwrite=self.request.overwrite,
            seen=self.seen,
        ) as unfinished:
            facts, model = self.described.facts, self.described.model
            account = claim(
                self.account, unfinished, self.request.target, mechanism=facts.mechanism, model=model.identity
            )
            job = replace(self, account=account)
            clear_half_written(self.request)
            began, start = time.monotonic(), unfinished.saved.rows
            try:
                if self.request.source == STANDARD:
                    card = job._run_once(engine)
                else:
                    job._rewrite_rows(engine, unfinished)
                    rewritten, seconds = unfinished.saved.rows - start, time.monotonic() - began
                    card = job._write_output(unfinished, engine.name, rewritten, seconds)
            except BaseException as error:
                # If nothing was recorded or saved, or the run cannot be resumed, nothing is left behind. Ask the folder
                # and not `unfinished.saved`: a signal may arrive just after a part was renamed.
                saved, known = SavedTexts(unfinished.folder).rows, account.progress()
                once, kept = self.request.source == STANDARD, saved or (known and known.recorded)
                if once or not kept:
                    unfinished.remove()
                if (once or kept) and isinstance(error, KeyboardInterrupt) and not isinstance(error, Stopped):
                    raise Stopped(how_to_resume(saved, self.rows, self.request.source)) from None
                raise
            account.finish()
            unfinished.remove()
            return card

    def _rewrite_rows(self, engine: Engine, unfinished: UnfinishedRun) -> None:
        source, releases, recipe = self._source(), Releases(self.account, unfinished), unfinished.saved.recipe
        labels, entropy, start = self.request.policy, self.described.entropy, unfinished.saved.rows
        with (
            asked_to_stop() as stop,
            progress("Rewriting", total=self.rows, unit="texts", start=start) as bar,
            closing(engine.map(self._batches(source, done=start))) as rewritten,
        ):
            for work, rewriting in rewritten:
                batch, rows, recipe = work.batch, self._checked(rewriting), rewriting.recipe
                if isinstance(entropy, ReplaySeed):
                    entropy.go_to(batch.first)
                new_labels = None if labels is None else labels.randomized(batch, self.table, entropy)
                releases.add(rows, new_labels, self._people(batch, source), recipe=recipe)
                bar.advance(len(batch))
                if stop():
                    releases.save(recipe=recipe)
                    raise Stopped(how_to_resume(unfinished.saved.rows, self.rows, self.request.source))
            releases.save(recipe=recipe)

    def _checked(self, rewriting: Rewriting) -> list[list[str]]:
        """The new cells of each row, if they went through the planned channel. A replay marks them as not private."""
        if rewriting.facts != self.described.facts:
            raise BadParameter("a job must run with the rewriter it was planned for, got another one. Plan it again.")
        stamp = "" if self.described.replay_seed is None else NOT_PRIVATE_STAMP
        return [[stamp + cell for cell in row] for row in self.pieces.rows(rewriting.texts)]

    def _batches(self, source: Table | Joined, *, done: int) -> Iterator[Work]:
        """The batches that are still to be rewritten."""
        for batch in source.batches(self.described.batch_size):
            if batch.first <= done:
                continue
            if self.rows is None:
                self.account.check_delta(rows=batch.first - 1 + len(batch))
                for see in self.visitors:
                    see(batch)
            yield Work(batch, self.pieces)

    def _write_output(self, unfinished: UnfinishedRun, engine: str, rewritten: int, seconds: float) -> Card:
        unfinished.check_input()
        rows = shuffle.shuffled_batches(self, unfinished) if self.request.shuffle else self._released(unfinished)
        with self.output as writer:
            for released in rows:
                writer.write(released)
            unfinished.check_input(again=True)
            run = run_facts(
                rewritten=rewritten,
                seconds=seconds,
                settings=run_settings(self),
                output=writer.finish(),
                engine=engine,
                refused=unfinished.refused,
            )
            return self._finished(rows=unfinished.saved.rows, recipe=unfinished.saved.recipe, run=run)

    def _released(self, unfinished: UnfinishedRun) -> Iterator[Batch]:
        """All rows of the input, with the new texts in place of the old ones."""
        new, labels = unfinished.saved.read(), self.request.policy
        for batch in self._source().batches(self.request.bounds.rows_of(_WRITTEN_AT_ONCE)):
            rows, new_labels = zip(*islice(new, len(batch)), strict=True)
            released = self.pieces.written(batch, rows)
            yield released if labels is None else labels.with_labels(released, new_labels, self.table)

    def _finished(self, *, rows: int, recipe: str, run: RunFacts) -> Card:
        if rows == 0:
            raise BadTable("standard input has no rows. Give at least one line.")
        card, request = describe(self, recipe=recipe, rows=rows, run=run), self.request
        if request.card_file is not None:
            key = None if request.sign_key is None else read_private_key(request.sign_key)
            # An output always lies next to its own card. So the old output goes before its card is replaced, and the
            # new output gets its name last. In between there is no output, and --resume writes it.
            card.write(request.card_file, key, ready=lambda: remove_old_output(request))
        return card

    def _people(self, batch: Batch, source: Table | Joined) -> list[str]:
        if isinstance(source, Joined):
            return source.ids(batch)
        return [] if self.request.people is None else self.request.people.of(batch)

    def _source(self) -> Table | Joined:
        people = self.request.people
        if not self.request.join_documents or people is None:
            return self.table
        others = tuple(column for column in self.columns if column not in self.request.text_columns)
        typed = format_of(self.request.target, self.request.dialect).typed
        reads = self.described.reads * (self.pieces.split or 1)
        return Joined(self.table, people, self.documents, others, reads, typed)


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
        tell: is called with each line that a user should read before anything is released.

    Returns:
        The privacy card, which is also written next to the output.

    Raises:
        DpbartError: see `dpbart.errors`. If texts were saved by then, `Request(resume=True)` continues the run.
    """
    choose_engine(
        engine, settings, workers=workers or 1, address=address
    )  # refuse bad arguments before reading the input
    settings = shuffle.with_local_epsilon(request, settings)
    job = plan(request, settings.described)
    if tell is not None:
        for line in notices(job):
            tell(line)
    return job.run(choose_engine(engine, settings, workers=workers, rows=job.rows, address=address))


def plan(request: Request, described: Described) -> Job:
    """Check the whole input and the output's path, and refuse anything that would fail before writing anything.

    Args:
        request: what to do.
        described: the rewriter that will do it. No weights are loaded yet.
    """
    if request.sign_key is not None:
        read_private_key(request.sign_key)  # refuse a key that cannot sign now, not after hours of work
    seen = stamp_of(request.source)
    table, people, labels = open_input(request), request.people, request.policy
    resuming = request.target != STANDARD and check_unfinished(
        request.target, resume=request.resume, overwrite=request.overwrite
    )
    # An output or card at the path of an unfinished run was written by that run, so it may be replaced.
    replaceable = request.overwrite or resuming
    check_card_place(request, overwrite=replaceable)
    columns = shuffle.output_columns(request, table) if request.shuffle else request.kept(table.columns)
    writer, visitors = plan_writer(
        request.target, like=table, columns=columns, overwrite=replaceable, bare=not request.keeps_all
    )
    if request.join_documents and people is not None and labels is not None and labels.policy != "drop":
        visitors = [*visitors, one_label_per_person(people, labels.column)]
    if labels is not None:
        visitors = [*visitors, *labels.visitors(table)]
    # One pass over the input: it counts rows and people, and refuses any row that cannot be read, joined or written.
    documents = Counter[str]() if people is None else people.count(table, *visitors)
    counted, rows = documents, table.visit(*visitors) if people is None else documents.total()
    if request.join_documents:
        counted, rows = Counter(dict.fromkeys(documents, 1)), len(documents)
    shuffling = shuffle.promise(request, described, _release(described, request), counted, rows=rows or 1)
    account = Account.open(
        _release(described, request),
        people,
        counted,
        total=rows,
        delta=exactly(described.delta),
        budget=None if request.person_budget is None else exactly(request.person_budget),
        ledger=request.ledger,
        resuming=resuming,
    )
    job = Job(request, described, table, columns, rows, writer, account, documents, seen, visitors, resuming, shuffling)
    try:
        check_card(job)
    except BaseException:
        account.close()
        raise
    return job


def _release(described: Described, request: Request) -> Release:
    """What the texts of a row and their label spend together."""
    label = None if request.policy is None else request.policy.event
    texts = request.texts_of_row(reads=described.reads).per_row
    return Release((described.facts.event,) * texts + (() if label is None else (label,)), texts)
