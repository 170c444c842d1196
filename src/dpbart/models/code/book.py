"""The book: public texts, each with the vector of its gist. At small budgets a code is a place in it.

The writer wrote every text of the book when the model was made. So at these budgets everything that can ever come out
is on a public list, and can be read and searched beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpbart.models.code.tree import Floats

Places = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 256  # vectors compared with the whole book in one product
_ONE = 127  # what 1 is stored as


@dataclass(frozen=True)
class Book:
    """2^bits texts.

    Attributes:
        tokens: (all tokens,), one text after the other.
        ends: (texts,), where each text ends.
        coarse: (texts, width), unit vectors in whole numbers from -127 to 127.
    """

    tokens: npt.NDArray[np.int16]
    ends: npt.NDArray[np.int32]
    coarse: npt.NDArray[np.int8]

    def __post_init__(self) -> None:
        texts = len(self.ends)
        if texts == 0 or texts & (texts - 1) or len(self.coarse) != texts or len(self.tokens) != self.ends[-1]:
            raise ValueError(f"a book must have as many texts as a power of two, got {texts}, with a vector each.")

    @classmethod
    def of(cls, rows: list[list[int]], vectors: Floats) -> Book:
        """A book of texts as ids, with their unit vectors, (texts, width)."""
        ends = np.cumsum([len(row) for row in rows]).astype(np.int32)
        tokens = np.array([token for row in rows for token in row], np.int16)
        return cls(tokens, ends, np.rint(vectors * _ONE).astype(np.int8))

    @property
    def bits(self) -> int:
        return len(self.ends).bit_length() - 1

    def row(self, place: int) -> list[int]:
        """The ids of one text."""
        begin = int(self.ends[place - 1]) if place else 0
        row: list[int] = self.tokens[begin : int(self.ends[place])].tolist()
        return row

    def nearest(self, vectors: Floats, count: int) -> Places:
        """The places of the `count` texts nearest to each vector, nearest first: (n, count) for vectors (n, width)."""
        found = np.empty((len(vectors), count), np.int64)
        for first in range(0, len(vectors), _ROWS_AT_ONCE):
            far = -(vectors[first : first + _ROWS_AT_ONCE] @ self._vectors.T)  # (rows, texts)
            near = np.argpartition(far, count - 1, axis=1)[:, :count]
            order = np.argsort(np.take_along_axis(far, near, 1), axis=1, kind="stable")
            found[first : first + len(far)] = np.take_along_axis(near, order, 1)
        return found

    @cached_property
    def _vectors(self) -> Floats:
        return self.coarse.astype(np.float32) / np.float32(_ONE)
