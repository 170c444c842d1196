"""The reader: a whole document as one unit vector, in a shape that does not depend on its length.

A document is read as a fixed number of padded windows, cut at the ends of sentences where possible. All windows are
skimmed: a bag of their words, which keeps who and where, praise and blame. A public number of them is read closely by a
small transformer, which knows what they mean. For the others, the bag says what they probably mean. A vector holds both
parts. Every window is always computed, empty or not.

The reader learns from a larger public sentence encoder (prepare/code/reading.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpbart.models.code.closely import CloseReading
from dpbart.models.code.tokens import WordPieces
from dpbart.models.code.weights import Arrays, Floats, Table, below, floats_of

Ids = npt.NDArray[np.int64]

PAD = 0  # the id of [PAD]
BATCH = 8  # windows read closely at once: always as many, so that a vector never depends on its neighbours
_SKIMMED = 64  # windows skimmed at once
_WHOLE = 64  # a text of at most this many words is worded as a whole
_GUESSED = np.float32(0.4)  # weight of a token in a window that is only skimmed, beside 1 in one that is read closely
_SENTENCES = 16  # of a longer text, compared for the one to be worded
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|<br />|\n")


@dataclass(frozen=True)
class Documents:
    """What was read of some texts, as unit vectors or zeros.

    Attributes:
        whole: (texts, vector), of each text.
        windows: (texts, closely, vector), of the windows that were read closely, in order; zeros for empty ones.
    """

    whole: Floats
    windows: Floats


class DocumentReader(Protocol):
    """A sentence encoder that reads whole documents in constant shapes."""

    @property
    def tokenizer_file(self) -> str:
        """The text of its tokenizer.json."""

    @property
    def width(self) -> int:
        """Entries of a vector."""

    def documents(self, texts: Sequence[str], *, closely: int) -> Documents:
        """Read whole texts, at most `closely` windows of each closely."""

    def sentences(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of short texts, one window each, (texts, vector)."""


@dataclass(frozen=True)
class ReaderSizes:
    """All sizes of a reader."""

    vocabulary: int = 30_522
    width: int = 384
    layers: int = 3
    heads: int = 8
    head: int = 32  # entries of a head
    inner: int = 896
    windows: int = 16
    window: int = 34  # ids in one window, with begin and end
    meaning: int = 192  # entries of the output from close reading
    words: int = 64  # entries of the output from the bag of words
    share: float = 0.8  # of close reading in a cosine


class ReaderNetwork:
    """Ids of windows to unit vectors: one from close reading, one from the bag of words."""

    def __init__(self, sizes: ReaderSizes, weights: Arrays) -> None:
        """Load.

        Args:
            sizes: all sizes.
            weights: as they are stored.
        """
        self.sizes, self.weights = sizes, weights
        self._embed, self._bag = Table.stored(weights, "embed.weight"), Table.stored(weights, "bag.weight")
        self._place, self._closely = floats_of(weights, "place"), CloseReading(sizes, weights)
        self._out, self._guess = _Linear(below(weights, "out.")), floats_of(weights, "guess")

    def meaning(self, ids: Ids) -> Floats:
        """Read windows (n, at most window) closely: unit vectors (n, meaning); zeros for windows without a token."""
        there = ids != PAD
        some = there.any(1, keepdims=True)
        kept = (self._states(ids) * there[..., None]).sum(1)
        found: Floats = unit(self._out(kept / np.maximum(there.sum(1, keepdims=True), 1).astype(np.float32))) * some
        return found

    def parts(self, ids: Ids) -> Floats:
        """What each token of windows (n, at most window) adds to both vectors, (n, tokens, meaning + words).

        Close reading ends with a mean over tokens, and skimming is a sum, so both can be taken apart.
        """
        closely = self._states(ids) @ self._out.matrix
        found: Floats = np.concatenate([closely, self._bag.rows(ids)], -1) * (ids != PAD)[..., None]
        return found

    def _states(self, ids: Ids) -> Floats:
        """The last states of the tokens of windows, (n, tokens, width)."""
        windows, tokens = ids.shape
        there = ids != PAD
        seen = there | ~there.any(1, keepdims=True)  # an empty window attends to its padding
        first = self._embed.rows(ids) + self._place[:tokens]
        return self._closely(first.reshape(windows * tokens, -1), seen).reshape(windows, tokens, -1)

    def guessed(self, bags: Floats) -> Floats:
        """What close reading would probably give for windows with these bags of words, unit vectors (..., meaning)."""
        return unit(bags @ self._guess)

    def words(self, ids: Ids) -> Floats:
        """Skim windows (..., window): sums of the vectors of their words (..., words)."""
        flat = ids.reshape(-1, ids.shape[-1])
        sums = np.empty((len(flat), self.sizes.words), np.float32)
        for first in range(0, len(flat), _SKIMMED):
            part = flat[first : first + _SKIMMED]
            weights = self._bag.scale[part, 0] * (part != PAD)  # (part, window)
            whole = self._bag.whole[part].astype(np.float32)  # (part, window, words)
            sums[first : first + len(part)] = (weights.astype(np.float32)[:, None] @ whole)[:, 0]
        return sums.reshape(*ids.shape[:-1], -1)


class _Linear:
    def __init__(self, weights: Arrays) -> None:
        self.matrix = np.ascontiguousarray(floats_of(weights, "weight").T)  # (inputs, outputs)
        self._bias = floats_of(weights, "bias")

    def __call__(self, rows: Floats) -> Floats:
        found: Floats = rows @ self.matrix
        found += self._bias
        return found


@dataclass(frozen=True)
class Reader:
    """A reader with its tokenizer."""

    tokenizer: WordPieces
    network: ReaderNetwork

    @property
    def sizes(self) -> ReaderSizes:
        return self.network.sizes

    @property
    def tokenizer_file(self) -> str:
        return self.tokenizer.file

    @property
    def width(self) -> int:
        return self.sizes.meaning + self.sizes.words

    def documents(self, texts: Sequence[str], *, closely: int) -> Documents:
        """Skim all windows of each text, and read the most typical ones closely."""
        ids = self.windows(texts)  # (texts, windows, window)
        words = self.network.words(ids)  # (texts, windows, words)
        bags, bag = unit(words), unit(words.sum(1))
        filled = (ids != PAD).any(2)
        typical = np.where(filled, np.einsum("twv,tv->tw", bags, bag), -2.0)
        chosen = np.sort(np.argsort(-typical, axis=1, kind="stable")[:, :closely], axis=1)  # (texts, closely)
        rows = np.arange(len(texts))[:, None]
        meaning = self._closely(ids[rows, chosen].reshape(-1, ids.shape[2])).reshape(len(texts), chosen.shape[1], -1)
        tokens = (ids != PAD).sum(2, keepdims=True)  # (texts, windows, 1)
        unread = tokens.copy()
        unread[rows, chosen] = 0
        read = (meaning * tokens[rows, chosen]).sum(1) + _GUESSED * (self.network.guessed(bags) * unread).sum(1)
        whole = self._joined(unit(read), bag)
        return Documents(whole, self._joined(meaning, bags[rows, chosen]))

    def sentences(self, texts: Sequence[str], *, tokens: int | None = None) -> Floats:
        """Unit vectors of short texts, (texts, vector): one window each, or its first `tokens`."""
        ids = self.ids(texts)[:, :tokens]
        return self._joined(self._closely(ids), unit(self.network.words(ids)))

    def public_sentences(self, texts: Sequence[str]) -> Floats:
        """The same for public texts, faster: the shape is as long as the longest of them."""
        ids = self.ids(texts)
        shown = ids[:, : max(1, int((ids != PAD).sum(1).max(initial=0)))]
        return self._joined(self.network.meaning(shown), unit(self.network.words(shown)))

    def ids(self, texts: Sequence[str]) -> Ids:
        """The ids of short texts, one window each, (texts, window)."""
        ids = np.full((len(texts), self.sizes.window), PAD, np.int64)
        for place, row in enumerate(self._tokens(texts)):
            kept = self._framed(row)
            ids[place, : len(kept)] = kept
        return ids

    def typical(self, text: str) -> str:
        """What is worded of a text: all of a short one; of a long one, the sentence with the most typical words."""
        sentences = split_sentences(text)[:_SENTENCES]
        padded = [*sentences, *[""] * (_SENTENCES - len(sentences))]  # as many, whatever the text
        bags = self.bags(padded, tokens=self.sizes.window)
        near = unit(bags) @ bags.sum(0)
        return (
            text if len(text.split()) <= _WHOLE or not sentences else sentences[int(np.argmax(near[: len(sentences)]))]
        )

    def bags(self, texts: Sequence[str], *, tokens: int) -> Floats:
        """The sums of the vectors of the words of short texts, (texts, words), of at most so many tokens each."""
        rows = [row[:tokens] for row in self._tokens(texts)]
        ids = np.full((len(rows), tokens), PAD, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        return self.network.words(ids)

    def parts(self, texts: Sequence[Sequence[str]], *, most: int) -> list[Floats]:
        """What each unit of some short texts adds to their vectors, in its place: (most, vector) for each text."""
        clean = ["".join(units).encode("utf-8", "replace").decode("utf-8") for units in texts]
        encodings = [self.tokenizer.tokens(text) for text in clean]
        ids = np.full((-(-len(texts) // BATCH) * BATCH, self.sizes.window), PAD, np.int64)
        for number, encoding in enumerate(encodings):
            kept = self._framed(encoding.ids)
            ids[number, : len(kept)] = kept
        tokens = np.concatenate([self.network.parts(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH)])
        found = []
        for units, encoding, rows in zip(texts, encodings, tokens, strict=False):
            ends, sums = np.cumsum([len(unit) for unit in units]), np.zeros((most, self.width), np.float32)
            for end, row in zip(encoding.ends[: self.sizes.window - 2], rows[1:], strict=False):
                sums[min(int(np.searchsorted(ends, end)), len(units) - 1)] += row  # the first row begins the text
            found.append(sums)
        return found

    def windows(self, texts: Sequence[str]) -> Ids:
        """The ids of each text, (texts, windows, window), truncated and padded. Sentences that fit stay whole."""
        sizes, room = self.sizes, self.sizes.window - 2
        ids = np.full((len(texts), sizes.windows, sizes.window), PAD, np.int64)
        parts = [split_sentences(text) for text in texts]
        rows = iter(self._tokens([part for each in parts for part in each]))
        for place, each in enumerate(parts):
            filled: list[list[int]] = [[]]
            for row in [next(rows) for _ in each]:
                for first in range(0, len(row), room):
                    piece = row[first : first + room]
                    if len(filled[-1]) + len(piece) > room:
                        filled.append([])
                    filled[-1] += piece
            for number, window in enumerate(filled[: sizes.windows]):
                if window:
                    ids[place, number, : len(window) + 2] = self._framed(window)
        return ids

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids without begin and end. A lone surrogate has no UTF-8 form and is replaced."""
        most = self.sizes.windows * self.sizes.window * 32  # characters: more than all windows can hold
        clean = [text[:most].encode("utf-8", "replace").decode("utf-8") for text in texts]
        return self.tokenizer.ids(clean)

    def _framed(self, row: list[int]) -> list[int]:
        begin, end = (self.tokenizer.id_of(token) for token in ("[CLS]", "[SEP]"))
        return [begin or 0, *row[: self.sizes.window - 2], end or 0]

    def _closely(self, ids: Ids) -> Floats:
        """Unit vectors of windows, (n, meaning), in batches of one size."""
        found = np.zeros((len(ids), self.sizes.meaning), np.float32)
        for first in range(0, len(ids), BATCH):
            batch = np.full((BATCH, ids.shape[1]), PAD, np.int64)
            rows = ids[first : first + BATCH]
            batch[: len(rows)] = rows
            found[first : first + len(rows)] = self.network.meaning(batch)[: len(rows)]
        return found

    def _joined(self, meaning: Floats, words: Floats) -> Floats:
        """Both parts as one vector: (..., vector)."""
        share = self.sizes.share
        return unit(np.concatenate([np.sqrt(share) * meaning, np.sqrt(1 - share) * words], -1).astype(np.float32))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blank ones."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Floats = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled
