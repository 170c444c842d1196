"""The reader: a whole document as one unit vector, in a shape that does not depend on its length.

A document is read as a fixed number of padded windows, cut at the ends of sentences where possible. All windows are
skimmed: a bag of their words, which keeps who and where, praise and blame. A public number of them is read closely by a
small transformer, which knows what they mean. A vector holds both. Every window is always computed, empty or not.

The reader learns from a larger public sentence encoder (prepare/code/reading.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from dpbart.models.code.book import Floats

Ids = npt.NDArray[np.int64]

PAD = 0  # the id of [PAD]
BATCH = 32  # windows read closely at once: always as many, so that a vector never depends on its neighbours
_WHOLE = 64  # a text of at most this many words is worded as a whole
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
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""

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
    share: float = 0.7  # of close reading in a cosine


class ReaderNetwork(nn.Module):
    """Ids of windows to unit vectors: one from close reading, one from the bag of words."""

    def __init__(self, sizes: ReaderSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Parameter(torch.zeros(sizes.window, width))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([_Layer(sizes) for _ in range(sizes.layers)])
        self.out = nn.Linear(width, sizes.meaning)
        self.bag = nn.Embedding(sizes.vocabulary, sizes.words)

    def meaning(self, ids: Tensor) -> Tensor:
        """Read windows (n, at most window) closely: unit vectors (n, meaning); zeros for windows without a token."""
        there = ids != PAD
        seen = there | ~there.any(1, keepdim=True)  # an empty window attends to its padding
        states = self.norm(self.embed(ids) + self.place[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states, seen[:, None, None, :])
        mean = (states * there[..., None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        return F.normalize(self.out(mean), dim=-1) * there.any(1, keepdim=True)

    def words(self, ids: Tensor) -> Tensor:
        """Skim windows (..., window): sums of the vectors of their words (..., words)."""
        return (self.bag(ids) * (ids != PAD)[..., None]).sum(-2)  # type: ignore[no-any-return]


class _Layer(nn.Module):
    def __init__(self, sizes: ReaderSizes) -> None:
        super().__init__()
        self.heads, inside = sizes.heads, sizes.heads * sizes.head
        self.qkv = nn.Linear(sizes.width, 3 * inside)
        self.out = nn.Linear(inside, sizes.width)
        self.norm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.up = nn.Linear(sizes.width, sizes.inner)
        self.down = nn.Linear(sizes.inner, sizes.width)
        self.norm2 = nn.LayerNorm(sizes.width, eps=1e-12)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        n, window, _ = states.shape
        queries, keys, values = self.qkv(states).view(n, window, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        looked = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)  # (n, heads, window, head)
        states = self.norm(states + self.out(looked.transpose(1, 2).reshape(n, window, -1)))
        return self.norm2(states + self.down(F.gelu(self.up(states))))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reader:
    """A reader with its tokenizer."""

    tokenizer: Tokenizer
    network: ReaderNetwork

    @property
    def sizes(self) -> ReaderSizes:
        return self.network.sizes

    @property
    def width(self) -> int:
        return self.sizes.meaning + self.sizes.words

    def documents(self, texts: Sequence[str], *, closely: int) -> Documents:
        """Skim all windows of each text, and read the most typical ones closely."""
        ids = self.windows(texts)  # (texts, windows, window)
        with torch.inference_mode():
            words = self.network.words(torch.from_numpy(ids)).numpy()  # (texts, windows, words)
        bags, bag = unit(words), unit(words.sum(1))
        filled = (ids != PAD).any(2)
        typical = np.where(filled, np.einsum("twv,tv->tw", bags, bag), -2.0)
        chosen = np.sort(np.argsort(-typical, axis=1, kind="stable")[:, :closely], axis=1)  # (texts, closely)
        rows = np.arange(len(texts))[:, None]
        meaning = self._closely(ids[rows, chosen].reshape(-1, ids.shape[2])).reshape(len(texts), chosen.shape[1], -1)
        tokens = (ids[rows, chosen] != PAD).sum(2, keepdims=True)
        whole = self._joined(unit((meaning * tokens).sum(1)), bag)
        return Documents(whole, self._joined(meaning, bags[rows, chosen]))

    def sentences(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of short texts, one window each, (texts, vector)."""
        ids = self.ids(texts)
        with torch.inference_mode():
            words = self.network.words(torch.from_numpy(ids)).numpy()
        return self._joined(self._closely(ids), unit(words))

    def public_sentences(self, texts: Sequence[str]) -> Floats:
        """The same for public texts, faster: the shape is as long as the longest of them."""
        ids = self.ids(texts)
        shown = torch.from_numpy(ids[:, : max(1, int((ids != PAD).sum(1).max(initial=0)))])
        with torch.inference_mode():
            meaning, words = self.network.meaning(shown).numpy(), self.network.words(shown).numpy()
        return self._joined(meaning, unit(words))

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
        bags = self.bags([*sentences, *[""] * (_SENTENCES - len(sentences))])  # as many, whatever the text
        near = unit(bags) @ bags.sum(0)
        return (
            text if len(text.split()) <= _WHOLE or not sentences else sentences[int(np.argmax(near[: len(sentences)]))]
        )

    def bags(self, texts: Sequence[str]) -> Floats:
        """The sums of the vectors of the words of short texts, (texts, words)."""
        rows = [row[: self.sizes.window] for row in self._tokens(texts)]
        ids = np.full((len(rows), self.sizes.window), PAD, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        with torch.inference_mode():
            sums: Floats = self.network.words(torch.from_numpy(ids)).numpy()
        return sums

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
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(clean, add_special_tokens=False)]

    def _framed(self, row: list[int]) -> list[int]:
        begin, end = (self.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        return [begin or 0, *row[: self.sizes.window - 2], end or 0]

    def _closely(self, ids: Ids) -> Floats:
        """Unit vectors of windows, (n, meaning), in batches of one size."""
        found = np.zeros((len(ids), self.sizes.meaning), np.float32)
        for first in range(0, len(ids), BATCH):
            batch = np.full((BATCH, ids.shape[1]), PAD, np.int64)
            rows = ids[first : first + BATCH]
            batch[: len(rows)] = rows
            with torch.inference_mode():
                found[first : first + len(rows)] = self.network.meaning(torch.from_numpy(batch)).numpy()[: len(rows)]
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
