"""Shuffled releases: what may be in one, what it promises, its rows, and their order.

A shuffled output has the new texts and, if they were randomised in the same release, the labels. Everything else stays
behind: ids, people, other columns and metadata. The rows are built here from saved texts and public names alone, so
nothing of the input's rows can come along: not the order of their keys, nor the categories of a column.

The texts may be larger than memory. So each row goes into one of at most 256 buckets, and each bucket is permuted on
its own. The result is one bucket after the other.

Every order of the n rows is equally likely. The buckets are drawn independently, all from the same distribution, and
given the buckets, every order of the rows in one is equally likely. So exchanging two rows before anything is drawn
changes no probability: an order and the same order with two rows exchanged are equally likely. Such exchanges lead from
any order to any other, so all n! have the same probability. Both draws are exact: the number of buckets is a power of
two, and Fisher-Yates rejects what would make a remainder too likely.

A run has one order, however often it is resumed. The file `order` is written last, whole or not at all. While it is
missing, no output has used the order that was being drawn, so everything is drawn again. Once the file exists, it
decides. It is deleted with the folder of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpbart.errors import BadParameter
from dpbart.files import OWN, create, whole_or_nothing
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.composition import Release
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.sampling import Entropy, SystemEntropy, draw_below
from dpbart.privacy.shuffling.release import ShuffledRelease, local_for, shuffled_release
from dpbart.rewrite.chosen import ChosenModel, Described, refuse_idle_delta
from dpbart.rewrite.durable.folder import BUCKET, ORDER, SavedTexts, damaged, folder_errors, rows_of
from dpbart.rewrite.durable.unfinished import UnfinishedRun
from dpbart.rewrite.plan import Outline, Plan
from dpbart.tables.batch import Batch, DictRows
from dpbart.tables.paths import only
from dpbart.tables.streams import ANY, FileBounds

WRITTEN_AT_ONCE = 1024  # rows: whatever the parts and buckets are
BUCKET_ROWS = 65_536  # the expected size of a bucket is at most this, up to 16 million rows
_MOST_BUCKETS = 256  # files that are open at once

Places = npt.NDArray[np.uint32]


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
    central = request.output.central_epsilon
    if central is not None and settings.epsilon is not None:
        raise BadParameter(
            "either the local or the central epsilon can be chosen. Pass --epsilon or --central-epsilon."
        )
    if central is not None and not central > 0:
        raise BadParameter(f"the central epsilon must be greater than 0, got {central}.")
    facts = ChosenModel(settings if central is None else settings.changed(epsilon=central)).channel.facts
    refuse_idle_delta(settings.delta, facts, used=Outline.of(request).uses_delta)
    if request.output.shuffle:
        check_mechanism(facts)


def promise(
    outline: Outline, described: Described, release: Release, texts: Mapping[str, int], *, rows: int
) -> ShuffledRelease | None:
    """What the shuffled output promises; None if it is not shuffled.

    `release` is what a text and its label spend, and `texts` the number of rows of each person; empty if each row
    counts as a person. Raises BadParameter if the mechanism gains nothing, or delta is not below 1 / people.
    """
    if not outline.request.output.shuffle:
        return None
    check_mechanism(described.facts)
    people, delta, remedy = len(texts) or rows, described.delta, "Pass --delta {delta}."
    check_delta_for(delta, texts=people, whose=f"{people} people in a shuffled output", remedy=remedy)
    alone = outline.labels is None or outline.labels.response is None
    return shuffled_release(
        Guarantee(float(release.epsilon), float(release.delta)),
        rows=rows,
        most_rows=max(texts.values(), default=1),
        delta=delta,
        options=described.facts.options if alone else None,
    )


def promise_to(people: int, facts: Facts, *, delta: float) -> ShuffledRelease:
    """What a shuffled output with one row for each of these people would promise. Raises as `promise` does."""
    if people < 1:
        raise BadParameter(f"people must be at least 1, got {people}.")
    check_mechanism(facts)
    check_delta_for(delta, texts=people, whose=f"{people:,} people", remedy="Pass --delta {delta}.")
    return shuffled_release(facts.guarantee, rows=people, most_rows=1, delta=delta, options=facts.options)


def with_local_epsilon(request: Request, settings: Settings, bounds: FileBounds = ANY) -> Settings:
    """The settings with the largest epsilon of a text that gives the wanted central epsilon, if one is wanted.

    The number of rows decides. It is public: everybody who has the output can count them.
    """
    central, outline = request.output.central_epsilon, Outline.of(request)
    if central is None:
        return settings
    check_budget(request, settings)
    table = outline.open_input(bounds)
    if outline.people is None:
        rows, most = table.visit() or 0, 1
    else:
        texts = outline.people.count(table)
        rows, most = (len(texts), 1) if request.people.join_documents else (texts.total(), max(texts.values()))
    epsilon = local_for(
        Guarantee(central, settings.delta),
        rows=rows,
        most_rows=most,
        options=ChosenModel(settings).options,
        label=0.0 if outline.labels is None else outline.labels.epsilon,
    )
    return settings.changed(epsilon=epsilon)


def shuffled_batches(plan: Plan, unfinished: UnfinishedRun) -> Iterator[Batch]:
    """The rows of the output. Batches have one size, wherever the parts and buckets end."""
    rows = shuffled(unfinished.folder, unfinished.saved)
    like = only(next(iter(plan.table.batches(1))).as_rows()[0], plan.columns)  # for the objects around a column
    first = 1
    while some := list(islice(rows, WRITTEN_AT_ONCE)):
        new, new_labels = zip(*some, strict=True)
        yield plan.written(DictRows(first, plan.outline.texts.columns[:1], [like] * len(some)), new, new_labels)
        first += len(some)


def shuffled(folder: Path, saved: SavedTexts) -> Iterator[tuple[list[str], str | None]]:
    """All rows of a run, complete, in its order, which is drawn on first use: new cells and any new labels."""
    with folder_errors(folder):
        if not (folder / ORDER).is_file():
            _draw(folder, saved, SystemEntropy())
    for number, places in enumerate(_order(folder)):
        rows = _bucket_rows(folder, number)
        if len(rows) != len(places):
            raise damaged(folder)
        for record in rows.take(pa.array(places)).to_batches():
            yield from rows_of(record)


def draw_order(count: int, entropy: Entropy) -> Places:
    """The numbers from 0 to count - 1 in a uniformly random order (Fisher and Yates 1938; Durstenfeld 1964)."""
    order = list(range(count))
    places = draw_below(np.arange(count, 1, -1, dtype=np.uint64), entropy)
    for last, place in zip(range(count - 1, 0, -1), places.tolist(), strict=True):
        order[last], order[place] = order[place], order[last]
    return np.array(order, np.uint32)


def _draw(folder: Path, saved: SavedTexts, entropy: Entropy) -> None:
    """Put each row into a random bucket, and draw the order of each bucket. The order is the last file to appear."""
    for bucket in folder.glob(f"{BUCKET}*"):  # left by a process that was killed
        bucket.unlink()
    buckets = _number_of_buckets(saved.rows)
    sizes = np.zeros(buckets, np.int64)
    with ExitStack() as opened:
        sinks: list[pa.RecordBatchStreamWriter] = []
        for part in saved.records():
            sinks = sinks or [_open_bucket(opened, _bucket(folder, number), part.schema) for number in range(buckets)]
            chosen = (entropy.words(part.num_rows) % np.uint64(buckets)).astype(np.int64)  # (rows,)
            counts = np.bincount(chosen, minlength=buckets)
            part, first = part.take(pa.array(np.argsort(chosen, kind="stable"))), 0
            for number in np.flatnonzero(counts):
                sinks[number].write_batch(part.slice(first, counts[number]))
                first += int(counts[number])
            sizes += counts
    with whole_or_nothing(folder / ORDER, mode=OWN) as partial, partial.open("wb") as handle:
        for size in sizes.tolist():
            handle.write(size.to_bytes(8, "little") + draw_order(size, entropy).astype("<u4").tobytes())


def _number_of_buckets(rows: int) -> int:
    """A power of two, so that the remainder of a random word is uniform.

    >>> [_number_of_buckets(rows) for rows in (1, 65_536, 65_537, 1_000_000, 10**9)]
    [1, 1, 2, 16, 256]
    """
    buckets = 1
    while buckets < _MOST_BUCKETS and rows > buckets * BUCKET_ROWS:
        buckets *= 2
    return buckets


def _bucket(folder: Path, number: int) -> Path:
    return folder / f"{BUCKET}{number:04}"


def _open_bucket(opened: ExitStack, file: Path, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
    """A new file that is synced when everything is closed, before the order is written."""
    handle = opened.enter_context(os.fdopen(create(file, mode=OWN), "wb"))
    opened.callback(os.fsync, handle)
    opened.callback(handle.flush)
    return opened.enter_context(pa.ipc.new_stream(handle, schema))


def _bucket_rows(folder: Path, number: int) -> pa.Table:
    try:
        with pa.OSFile(str(_bucket(folder, number))) as handle, pa.ipc.open_stream(handle) as stream:
            return stream.read_all()
    except (OSError, pa.ArrowException):
        raise damaged(folder) from None


def _order(folder: Path) -> Iterator[Places]:
    """The order of each bucket."""
    with (folder / ORDER).open("rb") as handle:
        while head := handle.read(8):
            size = int.from_bytes(head, "little")
            places = np.frombuffer(handle.read(4 * size), "<u4")
            if len(places) != size:
                raise damaged(folder)
            yield places
