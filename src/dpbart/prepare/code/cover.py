"""Which sentences a book has, and in which order: those first that cover public text best.

A book is ordered greedily. The next sentence is the one that most raises the mean, over public texts, of the cosine
with the nearest sentence so far (facility location). A gain can only fall while the book grows, so most gains need not
be computed again.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpbart.models.code.book import Places
from dpbart.models.code.foreign import ForeignReader
from dpbart.models.code.reader import DocumentReader, Reader
from dpbart.models.code.weights import Floats
from dpbart.progress import progress

SAME = 0.95  # a cosine above this: two sentences say the same
_UNRELATED = 0.15  # the cosine that every text has with some sentence
_ENTRIES = 1 << 28  # cosines kept in memory, of two bytes each
_AT_ONCE = 1_024
_BATCH = 64


def vectors_of(reader: DocumentReader, sentences: Sequence[str], *, title: str) -> Floats:
    """Unit vectors of public sentences, (sentences, vector), with progress.

    Batches are as long as their sentences, which is faster than the fixed shape that private text needs.
    """
    found = np.zeros((len(sentences), reader.width), np.float32)
    with progress(title, total=len(sentences), unit="sentences") as bar:
        for first in range(0, len(sentences), _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, len(sentences)))
            order = sorted(numbers, key=lambda number: len(sentences[number]))  # little padding
            for start in range(0, len(order), _BATCH):
                part = order[start : start + _BATCH]
                found[part] = _read(reader, [sentences[number] for number in part])
            bar.advance(len(order))
    return found


def _read(reader: DocumentReader, sentences: Sequence[str]) -> Floats:
    if isinstance(reader, Reader):
        return reader.public_sentences(sentences)
    return reader.encoder.vectors(sentences) if isinstance(reader, ForeignReader) else reader.sentences(sentences)


def different(vectors: Floats) -> Places:
    """The numbers of the sentences without near-duplicates: of those that say the same, the first."""
    kept = np.ones(len(vectors), bool)
    with progress("Comparing sentences", total=len(vectors), unit="sentences") as bar:
        for first in range(0, len(vectors), _AT_ONCE):
            part = vectors[first : first + _AT_ONCE]
            near = part @ vectors[: first + len(part)].T > SAME  # (part, all up to here)
            for row, other in np.argwhere(near).tolist():
                if other < first + row and kept[other]:
                    kept[first + row] = False
            bar.advance(len(part))
    return np.flatnonzero(kept)


def most_texts(sentences: int) -> int:
    """How many texts `cover` can compare so many sentences with."""
    return max(1, _ENTRIES // max(sentences, 1))


def cover(sentences: Floats, texts: Floats, *, count: int, own: Places | None = None) -> Places:
    """The numbers of `count` sentences, in the order of a book.

    Args:
        sentences: unit vectors, (sentences, vector).
        texts: unit vectors of public texts, (texts, vector); at most `most_texts`.
        count: how many sentences to choose.
        own: (texts,), which sentence each text is, or -1. No sentence covers itself: an odd one would else be chosen
            early.
    """
    near = np.empty((len(sentences), len(texts)), np.float16)
    with progress("Choosing sentences", total=count, unit="sentences") as bar:
        for first in range(0, len(sentences), _AT_ONCE):
            near[first : first + _AT_ONCE] = sentences[first : first + _AT_ONCE] @ texts.T
        if own is not None:
            near[own[own >= 0], np.flatnonzero(own >= 0)] = -1
        best = np.full(len(texts), _UNRELATED, np.float32)
        heap = [(-_gain(row, best), number) for number, row in enumerate(near)]
        heapq.heapify(heap)
        chosen: list[int] = []
        while len(chosen) < count:
            number = heap[0][1]
            gain = _gain(near[number], best)
            heapq.heapreplace(heap, (-gain, number))
            if heap[0][1] == number:  # still the largest
                heapq.heappop(heap)
                chosen.append(number)
                np.maximum(best, near[number], out=best)
                bar.advance(1)
    return np.array(chosen, np.int64)


def covered(sentences: Floats, texts: Floats) -> float:
    """The mean cosine of texts with their nearest sentence."""
    nearest = [(texts[first : first + _AT_ONCE] @ sentences.T).max(1) for first in range(0, len(texts), _AT_ONCE)]
    return float(np.concatenate(nearest).mean())


def _gain(near: npt.NDArray[np.float16], best: Floats) -> float:
    """By how much a sentence raises the sum of the best cosines."""
    return float(np.maximum(near - best, 0).sum())
