"""A whole file: everything that can be refused is refused first, then batches flow, then the card is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from dpbart import __version__
from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.card import Card, ModelLine, NoiseFacts, page_beside
from dpbart.privacy.composition import Release, exactly
from dpbart.privacy.ledger import Ledger, utc_now
from dpbart.privacy.mechanisms import Mechanism
from dpbart.progress import progress
from dpbart.rewrite.account import Account
from dpbart.rewrite.people import People
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.rewrite.tables import STANDARD, Table, open_table
from dpbart.rewrite.writers import Writer, open_writer

LABEL_POLICIES = ("drop", "public")
NOT_PRIVATE_STAMP = "[NOT PRIVATE] "


@dataclass(frozen=True)
class Task:
    """What a user asks for, beside the model and the mechanism."""

    source: Path
    target: Path
    text_column: str = "text"
    label_column: str | None = None
    labels: str | None = None  # drop or public
    card: Path | None = None  # beside the output by default; standard output has none unless named
    overwrite: bool = False
    person_column: str | None = None
    id_column: str | None = None  # names the texts in a ledger, where each stands for itself
    missing_person: str = "refuse"
    person_budget: float | None = None  # epsilon
    ledger: Path | None = None

    def __post_init__(self) -> None:
        if (self.label_column is None) != (self.labels is None):
            raise BadParameter(
                "a label column and its policy must be given together. Pass --label-column NAME with "
                f"--labels {' or --labels '.join(LABEL_POLICIES)}."
            )
        if self.labels not in (None, *LABEL_POLICIES):
            raise BadParameter(f"labels must be one of {', '.join(LABEL_POLICIES)}, got {self.labels!r}.")
        if self.person_column is not None and self.id_column is not None:
            raise BadParameter("people or texts must be counted, not both. Pass --person-column or --id-column.")
        if self.people is None and (self.ledger is not None or self.person_budget is not None):
            raise BadParameter(
                "a ledger or a budget of people must know them. Pass --person-column NAME; or, where each text "
                "stands for itself, --id-column NAME."
            )
        if self.person_budget is not None and not self.person_budget > 0:
            raise BadParameter(f"person budget must be greater than 0, got {self.person_budget}.")

    @property
    def people(self) -> People | None:
        """How people are told apart, if they are."""
        if self.id_column is not None:
            return People(self.id_column, "--id-column", self.missing_person)
        return None if self.person_column is None else People(self.person_column, missing=self.missing_person)

    @property
    def card_file(self) -> Path | None:
        if self.card is not None or self.target == STANDARD:
            return self.card
        return self.target.with_name(self.target.name + ".card.json")


@dataclass(frozen=True)
class Job:
    """A task whose files have been looked at and found good."""

    task: Task
    table: Table
    columns: tuple[str, ...]  # of the output
    rows: int | None  # None: standard input, which is read only once
    output: AbstractContextManager[Writer]
    account: Account

    @property
    def texts_alone(self) -> bool:
        """Whether the output has no columns but the texts."""
        return self.task.target == STANDARD or self.task.target.suffix.lower() == ".txt"

    def run(self, rewriter: Rewriter) -> Card:
        """Rewrite every row, in order; the output appears whole, at the end, after its card."""
        done = 0
        rewriting = rewriter.rewrite([])
        self.account.begin(
            mechanism=rewriter.mechanism.name, model=f"{rewriter.bundle.name}@{rewriter.bundle.fingerprint}"
        )
        with self.output as writer, progress("Rewriting", total=self.rows, unit="texts") as bar:
            for batch in self.table.batches(rewriter.batch_size):
                if self.rows is None:
                    self.account.check_delta(rows=done + len(batch))
                rewriting = rewriter.rewrite(batch.texts())
                self.account.record(batch)
                writer.write(batch.with_texts(_stamped(rewriting, replayed=not rewriter.entropy.private)))
                done += len(batch)
                bar.advance(len(batch))
            if done == 0:
                raise BadTable("standard input has no rows. Give at least one line.")
            card = describe(rewriter, rewriting, rows=done, job=self)
            if self.task.card_file is not None:
                card.write(self.task.card_file)  # before the output takes its name: no output ever lacks its card
        return card


def plan(task: Task, mechanism: Mechanism, *, private: bool = True) -> Job:
    """Look at the input, all of it, and the output's place; refuse what cannot end well before anything is written.

    Args:
        task: what is asked for.
        mechanism: that makes a text private; its model is not needed yet.
        private: whether its entropy is; a replay's is not.
    """
    table = open_table(task.source, text_column=task.text_column)
    people = task.people
    if task.label_column is not None:
        table.require(task.label_column, option="--label-column")
    if task.label_column == task.text_column:
        raise BadParameter(f"the label column must not be the text column, got '{task.label_column}' for both.")
    if people is not None:
        table.require(people.column, option=people.option)
    if people is not None and people.column == task.text_column:
        raise BadParameter(f"{people.option} must not be the text column: a text must not get into a ledger.")
    _check_card_place(task)
    dropped = {task.label_column} if task.labels == "drop" else set()
    columns = tuple(column for column in table.columns if column not in dropped)
    writer = open_writer(task.target, like=table, columns=columns, overwrite=task.overwrite)
    texts = Counter[str]() if people is None else people.count(table)
    rows = table.count() if people is None else texts.total()
    account = Account.open(
        Release.of(mechanism, private=private),
        people,
        texts,
        budget=None if task.person_budget is None else exactly(task.person_budget),
        ledger=None if task.ledger is None else Ledger(task.ledger, create=True),
    )
    if rows is not None:
        account.check_delta(rows=rows)
    return Job(task, table, columns, rows, writer, account)


def describe(rewriter: Rewriter, last: Rewriting, *, rows: int, job: Job) -> Card:
    """The card of a run."""
    facts = rewriter.bundle.facts
    return Card(
        guarantee=last.guarantee,
        person=job.account.facts(rows=rows),
        noise=NoiseFacts.of(rewriter.mechanism, rewriter.clip, rewriter.entropy, entries=rewriter.entries),
        model=ModelLine(
            name=rewriter.bundle.name,
            fingerprint=rewriter.bundle.fingerprint,
            variant=facts.variant,
            length=rewriter.tokens.length,
            kept=len(rewriter.columns.kept),
            width=rewriter.columns.width,
            decoding=rewriter.search.recipe,
            public_data=facts.corpora,
        ),
        rows=rows,
        labels=_labels(job),
        other_columns=_other_columns(job),
        metrics="none was computed against the private texts",
        recipe=last.recipe,
        version=__version__,
        made=utc_now(),
    )


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


def _labels(job: Job) -> str:
    if job.task.labels is None:
        return "no label column named"
    if job.task.labels == "drop" or job.texts_alone:
        return f"dropped: column '{job.task.label_column}' is not in the output"
    return f"public: column '{job.task.label_column}' is released as it is, without protection"


def _other_columns(job: Job) -> list[str]:
    if job.texts_alone:
        return []
    named = [name for name in job.columns if name not in (job.task.text_column, job.task.label_column)]
    return [*named, "any further keys of single rows"] if job.table.format == "jsonl" else named


def _stamped(rewriting: Rewriting, *, replayed: bool) -> Sequence[str]:
    """A replay's texts say what they are, since its noise can be had from the seed."""
    return [NOT_PRIVATE_STAMP + text for text in rewriting.texts] if replayed else rewriting.texts
