"""Token ids of many texts, one after the other, on disk and in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

Ids = npt.NDArray[np.int64]

_AT_ONCE = 20_000  # texts given to the tokenizer


@dataclass(frozen=True)
class Rows:
    """Ids without begin and end."""

    flat: npt.NDArray[np.uint16]  # of all texts
    lengths: Ids  # (texts,)

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, number: int) -> Ids:
        """The ids of one text."""
        end = int(self._ends[number])
        return self.flat[end - int(self.lengths[number]) : end].astype(np.int64)

    def picked(self, numbers: Iterable[int]) -> list[Ids]:
        return [self.row(number) for number in numbers]

    @cached_property
    def _ends(self) -> Ids:
        return np.cumsum(self.lengths)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Rows:
        flat = np.array([token for row in rows for token in row], np.uint16)
        return cls(flat, np.array([len(row) for row in rows], np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, in order."""
        none = cls(np.zeros(0, np.uint16), np.zeros(0, np.int64))
        every = [none, *parts]
        return cls(np.concatenate([each.flat for each in every]), np.concatenate([each.lengths for each in every]))


def to_rows(texts: Sequence[str], tokenizer: Tokenizer) -> Rows:
    """The ids of texts."""
    parts = []
    for first in range(0, len(texts), _AT_ONCE):
        encoded = tokenizer.encode_batch_fast(list(texts[first : first + _AT_ONCE]))
        parts.append(Rows.of([each.ids[1:-1] for each in encoded]))
    return Rows.joined(parts)
