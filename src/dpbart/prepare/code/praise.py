"""Teach a reader to keep praise and blame apart.

A sentence encoder puts "the food was great" beside "the food was awful": both are about food. A classifier of reviews
then learns little from the sentences that come out. So the reader is changed a little, by labelled sentences:

- close reading: the direction of its vector along which the labels change is stretched;
- skimming: every word gets one more entry, how much it praises or blames. It is learned from public lines and the
  sentences, all labelled by that direction where nobody labelled them. In a long document it is the sum over all words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack
from scipy.sparse.linalg import lsqr

from dpbart.models.code.reader import PAD, Ids, unit
from dpbart.models.code.weights import Floats, floats_of
from dpbart.prepare.code.cover import vectors_of
from dpbart.prepare.code.reading import Taught, changed, framing

LANGUAGE = "English"  # of the labelled sentences
STRETCH = 1.0  # so much of the direction of praise is added to close reading
SHARE = 0.75  # the spread of praise over the sentences, in mean lengths of their bags of words
_RIDGE = 3.0  # of the regressions on vectors
_WORD_RIDGE = 5.0  # of the regression on words
_LABELS = {"+": 1.0, "-": -1.0, "0": 0.0}


class Labelled(NamedTuple):
    """Sentences that readers labelled.

    Attributes:
        sentences: public ones.
        labels: (sentences,), 1 for praise, -1 for blame, 0 for neither.
    """

    sentences: list[str]
    labels: Floats


def labelled() -> Labelled:
    """Sentences written for the book of mini-code. Language models labelled each; no word list was used."""
    rows = Path(__file__).with_name("praise.tsv").read_text(encoding="utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    return Labelled([sentence for _, sentence in cells], np.array([_LABELS[label] for label, _ in cells], np.float32))


def with_praise(taught: Taught, known: Labelled, lines: Sequence[str]) -> Taught:
    """A reader whose vectors tell praise from blame.

    Args:
        taught: the reader as it was taught.
        known: labelled sentences.
        lines: public lines.
    """
    reader, directions = taught
    sizes, weights = reader.sizes, reader.network.weights
    vectors = vectors_of(reader, known.sentences, title="Reading praise and blame")
    others = vectors_of(reader, lines, title="Reading public text")
    close = unit(vectors[:, : sizes.meaning])
    stretched = np.eye(sizes.meaning, dtype=np.float32) + STRETCH * _along(close, known.labels)
    guessed = others @ _slope(vectors, known.labels)
    ids = reader.ids(known.sentences)
    praise = _word_praise(ids, reader.ids(lines), known.labels, guessed - guessed.mean(), sizes.vocabulary)
    praise[[PAD, *framing(reader.tokenizer)]] = 0  # they are in every text and tell nothing
    lengths = np.linalg.norm(reader.network.words(ids), axis=1)
    praise *= SHARE * lengths.mean() / praise[ids].sum(1).std()
    new = {
        "out.weight": stretched @ floats_of(weights, "out.weight"),
        "out.bias": stretched @ floats_of(weights, "out.bias"),
        "bag.weight": np.concatenate([floats_of(weights, "bag.weight"), praise[:, None]], 1),
        "guess": np.zeros((sizes.words + 1, sizes.meaning), np.float32),  # learned when the rest is done
    }
    return Taught(changed(reader, new), directions @ stretched.T)


def _slope(vectors: Floats, labels: Floats) -> Floats:
    """How labels change with vectors, by ridge regression: (width,)."""
    there = vectors - vectors.mean(0)
    square = there.T @ there + _RIDGE * np.eye(vectors.shape[1], dtype=np.float32)
    found: Floats = np.linalg.solve(square, there.T @ (labels - labels.mean()))
    return found


def _along(vectors: Floats, labels: Floats) -> Floats:
    """The projection on the direction of praise, (width, width)."""
    direction = unit(_slope(vectors, labels)[None])
    found: Floats = direction.T @ direction
    return found


def _word_praise(own: Ids, others: Ids, labels: Floats, guessed: Floats, vocabulary: int) -> Floats:
    """How much each word praises, (vocabulary,): by ridge regression from the words of sentences and lines."""
    words = vstack([_words(own, vocabulary), _words(others, vocabulary)]).tocsr()
    wanted = np.concatenate([labels - labels.mean(), guessed])
    found: Floats = lsqr(words, wanted, damp=_WORD_RIDGE**0.5, iter_lim=200)[0].astype(np.float32)
    return found


def _words(ids: Ids, vocabulary: int) -> csr_array:
    """How often each word stands in each text, (texts, vocabulary)."""
    texts, places = np.nonzero(ids != PAD)
    return csr_array((np.ones(len(texts), np.float32), (texts, ids[texts, places])), shape=(len(ids), vocabulary))
