"""The saved texts of a run in random order, drawn once from the entropy of the operating system.

The texts may be larger than memory. So each row goes into one of at most 256 buckets, and each bucket is permuted by
itself. The result is the buckets, one after the other.

Every order of the n rows is equally likely. The buckets are drawn independently, all from the same distribution, and
given the buckets, every order of the rows in one is equally likely. So exchanging two rows before anything is drawn
changes no probability: an order and the same order with two rows exchanged are equally likely. Such exchanges lead from
any order to any other, so all n! have the same probability. Both draws are exact: the number of buckets is a power of
two, and Fisher-Yates rejects what would make a remainder too likely.

There is one order for a run, however often it is resumed. The file `order` is written last, whole or not at all. While
it is missing, nothing was written in the order that was being drawn, and everything is drawn again. Once it is there,
it decides. It is deleted with the folder of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpbart.errors import NotResumable
from dpbart.files import OWN, create, whole_or_nothing
from dpbart.privacy.sampling import Entropy, SystemEntropy
from dpbart.rewrite.durable.folder import BUCKET, ORDER, one_line_errors
from dpbart.rewrite.durable.saved import SavedTexts, rows_of

BUCKET_ROWS = 65_536  # expected in a bucket, at most, up to 16 million rows; above that, a bucket has more
_MOST_BUCKETS = 256  # files that are open at once
_WORD = 1 << 64

Places = npt.NDArray[np.uint32]


def shuffled(folder: Path, saved: SavedTexts) -> Iterator[tuple[str, str | None]]:
    """All rows in the order of this run, drawn now if it is not yet: new texts and, if there are any, new labels.

    Args:
        folder: of the run.
        saved: all rows of the run, complete.
    """
    with one_line_errors(folder):
        if not (folder / ORDER).is_file():
            _draw(folder, saved, SystemEntropy())
    for number, places in enumerate(_order(folder)):
        rows = _rows(folder, number)
        if len(rows) != len(places):
            raise _damaged(folder)
        for record in rows.take(pa.array(places)).to_batches():
            yield from rows_of(record)


def draw_order(count: int, entropy: Entropy) -> Places:
    """The numbers from 0 to count - 1 in a uniformly random order (Fisher and Yates 1938; Durstenfeld 1964)."""
    order = list(range(count))
    for last, place in zip(range(count - 1, 0, -1), _below(count, entropy), strict=True):
        order[last], order[place] = order[place], order[last]
    return np.array(order, np.uint32)


def _below(count: int, entropy: Entropy) -> list[int]:
    """For each number from count down to 2, a uniform one below it."""
    most = np.arange(count, 1, -1, dtype=np.uint64)
    # 2^64 is not a multiple of every number. Words in the last, incomplete multiple are drawn again.
    complete = np.array([_WORD - _WORD % int(each) - 1 for each in most], np.uint64)
    words = entropy.words(len(most)).copy()
    while (again := np.flatnonzero(words > complete)).size:
        words[again] = entropy.words(again.size)
    places: list[int] = (words % most).tolist()
    return places


def _draw(folder: Path, saved: SavedTexts, entropy: Entropy) -> None:
    """Put each row into a random bucket, and draw the order of each bucket. The order is the last file to appear."""
    for left in folder.glob(f"{BUCKET}*"):  # by a process that was killed
        left.unlink()
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
    opened.callback(_sync, handle)
    return opened.enter_context(pa.ipc.new_stream(handle, schema))


def _sync(handle: BinaryIO) -> None:
    handle.flush()
    os.fsync(handle.fileno())


def _rows(folder: Path, number: int) -> pa.Table:
    try:
        with pa.OSFile(str(_bucket(folder, number))) as handle, pa.ipc.open_stream(handle) as stream:
            return stream.read_all()
    except (OSError, pa.ArrowException):
        raise _damaged(folder) from None


def _order(folder: Path) -> Iterator[Places]:
    """The order of each bucket."""
    with (folder / ORDER).open("rb") as handle:
        while head := handle.read(8):
            size = int.from_bytes(head, "little")
            places = np.frombuffer(handle.read(4 * size), "<u4")
            if len(places) != size:
                raise _damaged(folder)
            yield places


def _damaged(folder: Path) -> NotResumable:
    return NotResumable(f"{str(folder)!r} is damaged. Start again with --overwrite.")
