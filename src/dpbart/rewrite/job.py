"""A whole file: everything that can be refused is refused first, then batches flow, then the card is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.card import Card, page_beside
from dpbart.privacy.composition import Release, exactly
from dpbart.privacy.ledger import Ledger
from dpbart.privacy.mechanisms import Mechanism
from dpbart.progress import progress
from dpbart.rewrite.account import Account
from dpbart.rewrite.batches import Batch
from dpbart.rewrite.describe import describe
from dpbart.rewrite.joined import Joined, check_one_label_a_person
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.rewrite.tables import STANDARD, Table, open_table
from dpbart.rewrite.task import Task
from dpbart.rewrite.writers import Writer, open_writer

NOT_PRIVATE_STAMP = "[NOT PRIVATE] "


@dataclass(frozen=True)
class Job:
    """A task whose files have been looked at and found good."""

    task: Task
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # of the output; None: standard input, which is read only once
    output: AbstractContextManager[Writer]
    account: Account

    @property
    def texts_alone(self) -> bool:
        """Whether the output has no columns but the texts."""
        return self.task.target == STANDARD or self.task.target.suffix.lower() == ".txt"

    def run(self, rewriter: Rewriter) -> Card:
        """Rewrite every row, in order; the output appears whole, at the end, after its card."""
        self._check_same(rewriter)
        done = 0
        rewriting = rewriter.rewrite([])
        self.account.begin(
            mechanism=rewriter.mechanism.name, model=f"{rewriter.bundle.name}@{rewriter.bundle.fingerprint}"
        )
        source = self._source(rewriter)
        with self.output as writer, progress("Rewriting", total=self.rows, unit="texts") as bar:
            for batch in source.batches(rewriter.batch_size):
                if self.rows is None:
                    self.account.check_delta(rows=done + len(batch))
                rewriting = rewriter.rewrite(batch.texts())
                new = self._released(batch, rewriting, rewriter)
                self.account.record(batch, source)
                writer.write(new)
                done += len(batch)
                bar.advance(len(batch))
            if done == 0:
                raise BadTable("standard input has no rows. Give at least one line.")
            card = describe(rewriter, rewriting, rows=done, job=self)
            if self.task.card_file is not None:
                card.write(self.task.card_file)  # before the output takes its name: no output ever lacks its card
        return card

    def _source(self, rewriter: Rewriter) -> Table | Joined:
        people = self.task.people
        if not self.task.join_documents or people is None:
            return self.table
        beside = tuple(column for column in self.columns if column != self.task.text_column)
        typed = self.table.format == "parquet" and self.task.target.suffix.lower() == ".parquet"
        return Joined(self.table, people, people.count(self.table), beside, rewriter.tokens.length, typed)

    def _released(self, batch: Batch, rewriting: Rewriting, rewriter: Rewriter) -> Batch:
        """The rows that leave: new texts, and new labels where they are randomised."""
        new = batch.with_texts(_stamped(rewriting, replayed=not rewriter.entropy.private))
        policy = self.task.policy
        labels = None if policy is None else policy.randomized(batch, rewriter.entropy, self.table)
        return new if policy is None or labels is None else new.with_column(policy.column, labels)

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
    table = open_table(task.source, text_column=task.text_column)
    people, labels = task.people, task.policy
    if labels is not None:
        table.require(labels.column, option="--label-column")
        labels.check(table)
    if people is not None:
        table.require(people.column, option=people.option)
    _check_card_place(task)
    columns = _columns(task, table)
    writer = open_writer(task.target, like=table, columns=columns, overwrite=task.overwrite)
    texts = Counter[str]() if people is None else people.count(table)
    rows = table.count() if people is None else texts.total()
    if task.join_documents and people is not None:
        if labels is not None and labels.policy != "drop":
            check_one_label_a_person(table, people, labels.column)
        texts, rows = Counter(dict.fromkeys(texts, 1)), len(texts)
    account = Account.open(
        Release.of(mechanism, private=private, label=_label_epsilon(task)),
        people,
        texts,
        budget=None if task.person_budget is None else exactly(task.person_budget),
        ledger=None if task.ledger is None else Ledger(task.ledger, create=True),
    )
    if rows is not None:
        account.check_delta(rows=rows)
    return Job(task, table, columns, rows, writer, account)


def _columns(task: Task, table: Table) -> tuple[str, ...]:
    """Those of the output: a joined document keeps the person and, unless dropped, the label."""
    dropped = {task.label_column} if task.labels == "drop" else set()
    kept = {task.person_column, task.text_column, task.label_column} if task.join_documents else set(table.columns)
    return tuple(column for column in table.columns if column in kept - dropped)


def _label_epsilon(task: Task) -> float:
    return 0.0 if task.policy is None else task.policy.epsilon


def _check_card_place(task: Task) -> None:
    file = task.card_file
    if file is None:
        return
    if file.suffix != ".json":
        raise BadTable(f"the card {str(file)!r} must end in .json; the page to read stands beside it, ending in .txt.")
    if not file.parent.is_dir():
        raise BadTable(f"the folder of the card {str(file)!r} does not exist. Make it first.")
    for part in (file, page_beside(file)):
        if part.resolve() in (task.source.resolve(), task.target.resolve()):
            raise BadTable(f"the card would replace {str(part)!r}, which is the input or output. Name another --card.")
        if part.is_dir() or (part.exists() and not task.overwrite):
            raise BadTable(f"{str(part)!r} exists already. Pass --overwrite to replace it, or name another --card.")


def _stamped(rewriting: Rewriting, *, replayed: bool) -> Sequence[str]:
    """A replay's texts say what they are, since its noise can be had from the seed."""
    return [NOT_PRIVATE_STAMP + text for text in rewriting.texts] if replayed else rewriting.texts
