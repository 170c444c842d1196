"""What coding and decoding share: the parts of a code, and the writer, which is read a token at a time.

Both sides must compute the same probabilities to the last bit, or the wording is lost. So both use batches of one size,
in the same order, one token at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from dpbart.channels.code import CodeSize
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.tree import Floats, GistTree
from dpbart.models.code.writer import BEGIN, Cache, Writer

Gists = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """A writer with a tree of gists, for codes of one size.

    A code of few bits says little by its wording. Its first bit then says what the others are: gist and wording (0), or
    a text of the book (1).
    """

    writer: Writer
    tree: GistTree
    size: CodeSize
    length: int  # tokens of a text, at most
    settings: CodeSettings
    book_bits: int

    @property
    def may_name_a_text(self) -> bool:
        """Whether the first bit says what the others are."""
        return self.size.wording_bits > 0 and self.book_bits < self.size.bits <= self.settings.choice

    @property
    def string_bits(self) -> int:
        """Bits of gist and wording together."""
        return self.size.bits - self.may_name_a_text

    @property
    def wording_bits(self) -> int:
        return self.string_bits - self.size.gist_bits

    @property
    def samples_endings(self) -> bool:
        """Whether so few bits of wording are left that the gist should decide how a text ends."""
        few = 0 < self.wording_bits <= self.settings.ended_wording
        return few and self.size.gist_bits > 0 and self.settings.endings > 0

    def of_the_book(self, place: int) -> int:
        """The code that names a text of the book."""
        return 1 << self.string_bits | place << self.string_bits - self.book_bits

    def place_in_book(self, code: int) -> int | None:
        """The text of the book that a code names, if it names one."""
        named = self.may_name_a_text and bool(code >> self.string_bits)
        return (code & ((1 << self.string_bits) - 1)) >> self.string_bits - self.book_bits if named else None

    def vectors(self, gists: Gists) -> Floats:
        """What each gist stands for, (n, vector); zeros without a gist."""
        bits = self.size.gist_bits
        return self.tree.vectors(gists, bits) * np.float32(bits > 0)

    def begin(self, gists: Gists, *, times: int = 1) -> Batch:
        """Start one batch, filled up to its full size, with each gist so many times."""
        filled = np.zeros(self.settings.batch, np.int64)
        filled[: len(gists)] = gists
        vectors = torch.from_numpy(self.vectors(np.repeat(filled, times)))  # (batch, vector)
        with torch.inference_mode():
            topics = self.writer.topic(vectors, torch.full((len(vectors),), self.size.gist_bits))
        return Batch(self.writer, topics, Cache(self.writer.sizes, len(topics)), torch.full((len(topics),), BEGIN))


@dataclass
class Batch:
    """Texts that are read or written in step."""

    writer: Writer
    topics: torch.Tensor  # (batch, width)
    cache: Cache
    ids: torch.Tensor  # (batch,): the last token of each text

    def probabilities(self) -> torch.Tensor:
        """Of the next token, (batch, vocabulary), in the writer's own order of tokens."""
        return self.writer.step(self.ids, self.topics, self.cache)
