"""Shuffled releases: what may be in one, what it promises, and its rows.

A shuffled output has the new texts and, if they were randomised in the same release, the labels. Everything else stays
behind: ids, people, other columns and metadata. The rows are built here from saved texts and public names alone, so
nothing of the input's rows can come along: not the order of their keys, nor the categories of a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.release import ShuffledRelease, local_for, shuffled_release
from dpbart.rewrite.durable.shuffled import shuffled
from dpbart.rewrite.input import open_input
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.paths import only
from dpbart.tables.standard import STANDARD

if TYPE_CHECKING:
    from dpbart.privacy.budget.composition import Release
    from dpbart.privacy.facts import Facts
    from dpbart.rewrite.durable.unfinished import UnfinishedRun
    from dpbart.rewrite.job import Job
    from dpbart.rewrite.request import Request
    from dpbart.rewrite.settings import Described, Settings
    from dpbart.tables.table import Table

_WRITTEN_AT_ONCE = 1024  # rows: whatever the parts and buckets are


def check_request(request: Request) -> None:
    """Refuse what contradicts a shuffled release, before any file is opened."""
    if request.central_epsilon is not None and not request.shuffle:
        raise BadParameter("a central epsilon is that of a shuffled output. Pass --shuffle with --central-epsilon.")
    if not request.shuffle:
        return
    if STANDARD in (request.source, request.target):
        raise BadParameter(
            "--shuffle needs files: the order is drawn when all rows are saved, and a run that is killed must find "
            "them again. Name an input and an output file."
        )
    if request.split is not None or (len(request.text_columns) > 1 and not request.join_columns):
        raise BadParameter(
            "--shuffle releases one text of each row, and its guarantee is for that. Name one --text-column or pass "
            "--join-columns, and leave out --split."
        )
    if request.id_column is not None:
        raise BadParameter(
            "--shuffle leaves no id in the output, and its guarantee is for people. Pass --person-column with the "
            "column of the ids: the ledger counts by it, and the output does not hold it."
        )
    if request.policy is not None and request.policy.policy == "public":
        raise BadParameter(
            "a public label would tell the rows of a shuffled output apart. Pass --labels drop, or "
            "--labels randomize:EPSILON."
        )


def check_mechanism(facts: Facts) -> None:
    """Refuse a mechanism that gains nothing from shuffling, before the input is read."""
    guarantee, name = facts.guarantee, facts.mechanism
    if not guarantee.private:
        raise BadParameter(f"--shuffle needs private texts: nothing hides in an output that is {guarantee}.")
    if guarantee.delta > 0:
        raise BadParameter(
            f"--shuffle needs a mechanism of pure epsilon, got '{name}' with delta {guarantee.delta:g}. The delta of "
            "every row would add to that of the whole file. Choose a model with the mechanism 'response', or 'laplace'."
        )


def check_budget(request: Request, settings: Settings) -> None:
    """Refuse a budget or a mechanism that the model or the request does not allow, before the input is read."""
    central = request.central_epsilon
    if central is not None and settings.epsilon is not None:
        raise BadParameter(
            "either the local or the central epsilon can be chosen. Pass --epsilon or --central-epsilon."
        )
    if central is not None and not central > 0:
        raise BadParameter(f"the central epsilon must be greater than 0, got {central}.")
    facts = (settings if central is None else replace(settings, epsilon=central)).channel.facts
    if request.shuffle:
        check_mechanism(facts)


def output_columns(request: Request, table: Table) -> tuple[str, ...]:
    """The text column and, if labels are randomised, the label column."""
    randomized = request.policy is not None and request.policy.response is not None
    kept = {request.text_columns[0], *([request.label_column] if randomized else [])}
    return tuple(column for column in table.columns if column in kept)


def promise(
    request: Request, described: Described, release: Release, texts: Mapping[str, int], *, rows: int
) -> ShuffledRelease | None:
    """What the shuffled output promises; None if it is not shuffled.

    Args:
        request: what to do.
        described: how texts are made private.
        release: what a text and its label spend.
        texts: the number of rows of each person; empty if each row counts as a person.
        rows: of the output.

    Raises:
        BadParameter: The mechanism gains nothing, or delta is not below 1 / people.
    """
    if not request.shuffle:
        return None
    check_mechanism(described.facts)
    people, delta, remedy = len(texts) or rows, described.delta, "Pass --delta {delta}."
    check_delta_for(delta, texts=people, whose=f"{people} people in a shuffled output", remedy=remedy)
    alone = request.policy is None or request.policy.response is None
    return shuffled_release(
        Guarantee(float(release.epsilon), float(release.delta)),
        rows=rows,
        most_rows=max(texts.values(), default=1),
        delta=delta,
        options=described.facts.options if alone else None,
    )


def promise_to(people: int, facts: Facts, *, delta: float) -> ShuffledRelease:
    """What a shuffled output with one row for each of these people would promise.

    Raises:
        BadParameter: The mechanism gains nothing, or delta is not below 1 / people.
    """
    if people < 1:
        raise BadParameter(f"people must be at least 1, got {people}.")
    check_mechanism(facts)
    check_delta_for(delta, texts=people, whose=f"{people:,} people", remedy="Pass --delta {delta}.")
    return shuffled_release(facts.guarantee, rows=people, most_rows=1, delta=delta, options=facts.options)


def with_local_epsilon(request: Request, settings: Settings) -> Settings:
    """The settings with the largest epsilon of a text that gives the wanted central epsilon, if one is wanted.

    The number of rows decides. It is public: everybody who has the output can count them.
    """
    if request.central_epsilon is None:
        return settings
    check_budget(request, settings)
    table = open_input(request)
    if request.people is None:
        rows, most = table.visit() or 0, 1
    else:
        texts = request.people.count(table)
        rows, most = (len(texts), 1) if request.join_documents else (texts.total(), max(texts.values()))
    epsilon = local_for(
        Guarantee(request.central_epsilon, settings.delta),
        rows=rows,
        most_rows=most,
        options=settings.options,
        label=0.0 if request.policy is None else request.policy.epsilon,
    )
    return replace(settings, epsilon=epsilon)


def shuffled_batches(job: Job, unfinished: UnfinishedRun) -> Iterator[Batch]:
    """The rows of the output. Batches have one size, wherever the parts and buckets end."""
    rows, labels = shuffled(unfinished.folder, unfinished.saved), job.request.policy
    like = only(next(iter(job.table.batches(1))).as_rows()[0], job.columns)  # for the objects around a column
    first = 1
    while some := list(islice(rows, _WRITTEN_AT_ONCE)):
        new, new_labels = zip(*some, strict=True)
        released = job.pieces.written(Rows(first, job.request.text_columns[:1], [like] * len(some)), new)
        yield released if labels is None else labels.with_labels(released, new_labels, job.table)
        first += len(some)
