"""A whole file: everything that can be refused is refused first, then batches flow, then the card is written."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import islice

from dpbart import __version__
from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.budget.composition import Release, exactly
from dpbart.privacy.card.card import Card, RunFacts, pages_beside
from dpbart.privacy.card.signing import read_private_key
from dpbart.privacy.mechanisms import Mechanism
from dpbart.progress import progress
from dpbart.rewrite.account import Account
from dpbart.rewrite.describe import describe, run_facts
from dpbart.rewrite.durable.commit import Releases
from dpbart.rewrite.durable.stopping import Stopped, asked_to_stop
from dpbart.rewrite.durable.unfinished import Settings, Touched, Work, check_unfinished, open_work, touched
from dpbart.rewrite.engines.processes import Engine, Inline
from dpbart.rewrite.joined import Joined, one_label_a_person
from dpbart.rewrite.request import Task
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import STANDARD, Table, open_table
from dpbart.tables.writer import Writer, plan_writer

NOT_PRIVATE_STAMP = "[NOT PRIVATE] "
_WRITTEN_AT_ONCE = 1024  # rows


@dataclass(frozen=True)
class Job:
    """A task whose files have been looked at and found good."""

    task: Task
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # of the output; None: standard input, which is read only once
    output: AbstractContextManager[Writer]
    account: Account
    documents: Mapping[str, int]  # of each person in the input
    seen: Touched | None  # the input as it was looked at
    unfinished: bool = False  # whether there is a run to go on with

    def run(self, rewriter: Rewriter, engine: Engine | None = None) -> Card:
        """Rewrite every row, in order; the output appears whole, at the end, after its card.

        Args:
            rewriter: that tells what is promised, and does the work unless an engine does.
            engine: whose workers have the same rewriter; this process by default.
        """
        self._check_same(rewriter)
        engine = Inline(rewriter) if engine is None else engine
        run = self._run_to_stream if self.task.target == STANDARD else self._run_in_parts
        try:
            return run(rewriter, engine)
        finally:
            self.account.close()

    def _run_to_stream(self, rewriter: Rewriter, engine: Engine) -> Card:
        """Texts leave with every batch, so each is recorded before it is written; there is nothing to resume."""
        source, done, recipe, began = self._source(rewriter), 0, "", time.monotonic()
        self.account.begin(mechanism=rewriter.mechanism.name, model=_model(rewriter))
        with self.output as writer, progress("Rewriting", total=self.rows, unit="texts") as bar:
            for batch, rewriting in engine.map(self._batches(source, rewriter.batch_size, done=0)):
                self.account.record(Counter(self._people(batch, source)), before=done, upto=done + len(batch))
                writer.write(batch.with_texts(_stamped(rewriting, replayed=not rewriter.entropy.private)))
                done, recipe = done + len(batch), rewriting.recipe
                bar.advance(len(batch))
        seconds = time.monotonic() - began
        run = run_facts(
            drawn=done, seconds=seconds, settings=_settings(self, rewriter), output=None, engine=engine.name, refused=0
        )
        return self._finished(rewriter, rows=done, recipe=recipe, run=run)

    def _run_in_parts(self, rewriter: Rewriter, engine: Engine) -> Card:
        with open_work(
            self.task.target,
            self.task.source,
            _settings(self, rewriter),
            run=self.account.run,
            resume=self.unfinished,
            overwrite=self.task.overwrite,
            seen=self.seen,
        ) as work:
            job = replace(self, account=replace(self.account, run=work.run))
            job.account.begin(mechanism=rewriter.mechanism.name, model=_model(rewriter))
            began, start = time.monotonic(), work.parts.rows
            try:
                job._fill_parts(rewriter, engine, work)
                pace = (work.parts.rows - start, time.monotonic() - began)
                card = job._write_output(rewriter, work, engine.name, *pace)
            except BaseException as error:
                # Nothing is recorded and nothing safe, or it cannot be gone on with: then nothing is left behind.
                if not (work.parts.rows or job.account.recorded()[1]) or self.task.source == STANDARD:
                    work.remove()
                elif isinstance(error, KeyboardInterrupt) and not isinstance(
                    error, Stopped
                ):  # at once, or while merging
                    raise Stopped(_how_to_go_on(work.parts.rows, self.rows, self.task)) from None
                raise
            work.remove()
            return card

    def _fill_parts(self, rewriter: Rewriter, engine: Engine, work: Work) -> None:
        source, releases, recipe = self._source(rewriter), Releases(self.account, work), work.parts.recipe
        replayed, start = not rewriter.entropy.private, work.parts.rows
        with (
            asked_to_stop() as stop,
            progress("Rewriting", total=self.rows, unit="texts", start=start) as bar,
            closing(engine.map(self._batches(source, rewriter.batch_size, done=start))) as rewritten,
        ):
            for batch, rewriting in rewritten:
                labels = None if self.task.policy is None else self.task.policy.randomized(batch, rewriter.entropy)
                texts, recipe = _stamped(rewriting, replayed=replayed), rewriting.recipe
                releases.add(texts, labels, self._people(batch, source), recipe=recipe)
                bar.advance(len(batch))
                if stop():
                    releases.make_safe(recipe=recipe)
                    raise Stopped(_how_to_go_on(work.parts.rows, self.rows, self.task))
            releases.make_safe(recipe=recipe)

    def _batches(self, source: Table | Joined, size: int, *, done: int) -> Iterator[Batch]:
        """The batches after the rows that are done."""
        for batch in source.batches(size):
            if batch.first <= done:
                continue
            if self.rows is None:
                self.account.check_delta(rows=batch.first - 1 + len(batch))
            yield batch

    def _write_output(self, rewriter: Rewriter, work: Work, engine: str, drawn: int, seconds: float) -> Card:
        """All rows of the input, the new texts in place of the old ones."""
        work.check_input()
        new = work.parts.read()
        with self.output as writer:
            for batch in self._rows_again(rewriter, work):
                texts, labels = zip(*islice(new, len(batch)), strict=True)
                released = batch.with_texts(texts)
                writer.write(
                    released if self.task.policy is None else self.task.policy.with_labels(released, labels, self.table)
                )
            work.check_input(again=True)
            run = run_facts(
                drawn=drawn,
                seconds=seconds,
                settings=_settings(self, rewriter),
                output=writer.finish(),
                engine=engine,
                refused=work.refused,
            )
            return self._finished(rewriter, rows=work.parts.rows, recipe=work.parts.recipe, run=run)

    def _rows_again(self, rewriter: Rewriter, work: Work) -> Iterator[Batch]:
        """The input once more; standard input has nothing but texts, and those are all new."""
        if self.task.source != STANDARD:
            yield from self._source(rewriter).batches(_WRITTEN_AT_ONCE)
            return
        for first in range(1, work.parts.rows + 1, _WRITTEN_AT_ONCE):
            count = min(_WRITTEN_AT_ONCE, work.parts.rows + 1 - first)
            yield Rows(first, self.task.text_column, [{self.task.text_column: ""}] * count)

    def _finished(self, rewriter: Rewriter, *, rows: int, recipe: str, run: RunFacts) -> Card:
        if rows == 0:
            raise BadTable("standard input has no rows. Give at least one line.")
        card = describe(rewriter, recipe=recipe, rows=rows, job=self, run=run)
        if self.task.card_file is not None:
            # Before the output takes its name: no output ever lacks its card.
            card.write(
                self.task.card_file, None if self.task.sign_key is None else read_private_key(self.task.sign_key)
            )
        return card

    def _people(self, batch: Batch, source: Table | Joined) -> list[str]:
        if isinstance(source, Joined):
            return source.ids(batch)
        return [] if self.task.people is None else self.task.people.of(batch)

    def _source(self, rewriter: Rewriter) -> Table | Joined:
        people = self.task.people
        if not self.task.join_documents or people is None:
            return self.table
        beside = tuple(column for column in self.columns if column != self.task.text_column)
        typed = format_of(self.task.target).typed
        return Joined(self.table, people, self.documents, beside, rewriter.tokens.length, typed)

    def _check_same(self, rewriter: Rewriter) -> None:
        used = Release.of(rewriter.mechanism, private=rewriter.entropy.private, label=_label_epsilon(self.task))
        if used != self.account.release:
            raise BadParameter("a job must run with the mechanism that it was planned for. Plan it again.")


def plan(task: Task, mechanism: Mechanism, *, private: bool = True) -> Job:
    """Look at the input, all of it, and the output's place; refuse what cannot end well before anything is written.

    Args:
        task: what is asked for.
        mechanism: that makes a text private; its model is not needed yet.
        private: whether its entropy is; a replay's is not.
    """
    if task.sign_key is not None:
        read_private_key(task.sign_key)  # a key that cannot sign is refused before the work, not after it
    seen = touched(task.source)
    table = open_table(task.source, text_column=task.text_column)
    people, labels = task.people, task.policy
    if labels is not None:
        table.require(labels.column, option="--label-column")
        labels.check(table)
    if people is not None:
        table.require(people.column, option=people.option)
    unfinished = task.target != STANDARD and check_unfinished(task.target, resume=task.resume, overwrite=task.overwrite)
    # What stands in the place of the output of an unfinished run, or of its card, is that run's own.
    replaceable = task.overwrite or unfinished
    _check_card_place(task, overwrite=replaceable)
    columns = _columns(task, table)
    writer, visitors = plan_writer(task.target, like=table, columns=columns, overwrite=replaceable)
    if task.join_documents and people is not None and labels is not None and labels.policy != "drop":
        visitors = [*visitors, one_label_a_person(people, labels.column)]
    # One pass over the input: it counts rows and people, and refuses any row that cannot be read, joined or written.
    documents = Counter[str]() if people is None else people.count(table, *visitors)
    texts, rows = documents, table.visit(*visitors) if people is None else documents.total()
    if task.join_documents:
        texts, rows = Counter(dict.fromkeys(documents, 1)), len(documents)
    account = Account.open(
        Release.of(mechanism, private=private, label=_label_epsilon(task)),
        people,
        texts,
        rows=rows,
        budget=None if task.person_budget is None else exactly(task.person_budget),
        ledger=task.ledger,
        unfinished=unfinished,
    )
    return Job(task, table, columns, rows, writer, account, documents, seen, unfinished)


def _columns(task: Task, table: Table) -> tuple[str, ...]:
    """Those of the output: a joined document keeps the person and, unless dropped, the label."""
    dropped = {task.label_column} if task.labels == "drop" else set()
    kept = {task.person_column, task.text_column, task.label_column} if task.join_documents else set(table.columns)
    return tuple(column for column in table.columns if column in kept - dropped)


def _settings(job: Job, rewriter: Rewriter) -> Settings:
    """All that must be the same when a run goes on. The engine may change, and so may the budget of people."""
    task, release = job.task, job.account.release
    return {
        "text column": task.text_column,
        "label column": task.label_column,
        "labels": task.labels,
        "label set": list(task.label_set),
        "person column": task.person_column,
        "id column": task.id_column,
        "missing person": task.missing_person,
        "join documents": task.join_documents,
        "ledger": None if task.ledger is None else str(task.ledger.resolve()),
        "mechanism": rewriter.mechanism.name,
        "epsilon": str(release.epsilon),
        "delta": str(release.delta),
        "model": _model(rewriter),
        "clip": rewriter.clip.name,
        "columns and tokenizer": _small_files(rewriter),
        "length": rewriter.tokens.length,
        "decoding": rewriter.search.recipe,
        "batch size": rewriter.batch_size,
        "version": __version__,
    }


def _model(rewriter: Rewriter) -> str:
    return f"{rewriter.bundle.name}@{rewriter.bundle.fingerprint}"


def _small_files(rewriter: Rewriter) -> str:
    """What a model is beside its weights, which its fingerprint tells."""
    digest = hashlib.sha256(repr(tuple(rewriter.columns.kept)).encode())
    digest.update((rewriter.bundle.folder / "tokenizer.json").read_bytes())
    return digest.hexdigest()[:12]


def _how_to_go_on(done: int, rows: int | None, task: Task) -> str:
    if task.source == STANDARD:
        return "Stopped. Standard input cannot be read again: nothing was written."
    of = "" if rows is None else f" of {rows:,}"
    return f"Stopped. {done:,}{of} texts are safe. To go on, give the same command with --resume."


def _label_epsilon(task: Task) -> float:
    return 0.0 if task.policy is None else task.policy.epsilon


def _check_card_place(task: Task, *, overwrite: bool) -> None:
    file = task.card_file
    if file is None:
        return
    if file.suffix != ".json":
        raise BadTable(
            f"the card {str(file)!r} must end in .json; the pages to read stand beside it, ending in .txt and .html."
        )
    if not file.parent.is_dir():
        raise BadTable(f"the folder of the card {str(file)!r} does not exist. Make it first.")
    for part in (file, *pages_beside(file)):
        if part.resolve() in (task.source.resolve(), task.target.resolve()):
            raise BadTable(f"the card would replace {str(part)!r}, which is the input or output. Name another --card.")
        if part.is_dir() or (part.exists() and not overwrite):
            raise BadTable(f"{str(part)!r} exists already. Pass --overwrite to replace it, or name another --card.")


def _stamped(rewriting: Rewriting, *, replayed: bool) -> Sequence[str]:
    """A replay's texts say what they are, since its noise can be had from the seed."""
    return [NOT_PRIVATE_STAMP + text for text in rewriting.texts] if replayed else rewriting.texts
