"""What coding and decoding share: the writer, started on the gists of one batch and read a token at a time.

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
from dpbart.models.code.tree import GistTree
from dpbart.models.code.writer import BEGIN, Cache, Writer

Gists = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """A writer with a tree of gists."""

    writer: Writer
    tree: GistTree
    size: CodeSize
    length: int  # tokens of a text, at most
    settings: CodeSettings

    def begin(self, gists: Gists, *, times: int = 1) -> Batch:
        """Start one batch, filled up to its full size, with each gist so many times."""
        filled = np.zeros(self.settings.batch, np.int64)
        filled[: len(gists)] = gists
        bits = self.size.gist_bits
        vectors = torch.from_numpy(self.tree.vectors(np.repeat(filled, times), bits)) * (bits > 0)  # (batch, vector)
        with torch.inference_mode():
            topics = self.writer.topic(vectors, torch.full((len(vectors),), bits))
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
