"""The gist: where a vector lies among public ones, as a binary tree whose every prefix is a coarser topic.

A code of `depth` bits names one of the `2**depth` nodes at that depth. The code of a vector is the nearest of these
nodes, not the end of a descent: the two differ where a border of a coarse topic runs through a fine one.
A node is the mean direction of the leaves below it, or, at the depths that are stored by themselves, refined from there
by Lloyd's rounds (measured: worth almost one bit).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 4096  # vectors compared with all nodes in one product


class GistTree:
    """Unit centroids at every depth of one balanced tree."""

    def __init__(self, leaves: Floats, refined: Floats) -> None:
        """Build all depths.

        Args:
            leaves: (2**depth, width), unit vectors in the order of their codes.
            refined: (2**top - 2, width), nodes that replace those of depths 1 to top - 1, one depth after the other.
                A depth that is used by itself fits better when its nodes need not be means of leaves. It may be empty.
        """
        for name, rows, extra in (("leaves", leaves, 0), ("refined", refined, 2)):
            count = len(rows) + extra
            if rows.ndim != 2 or count == 0 or count & (count - 1):
                raise ValueError(f"the {name} of a tree must be as many as a power of two, got {len(rows)}.")
        self.stored = {"leaves": leaves, "refined": refined}  # what a model file keeps
        self.depth = len(leaves).bit_length() - 1
        self.width = int(leaves.shape[1])
        self._levels: list[Floats] = [unit(leaves.astype(np.float32))]
        while len(self._levels[0]) > 1:
            below = self._levels[0]
            self._levels.insert(0, unit(below[0::2] + below[1::2]))
        for depth in range(1, (len(refined) + 2).bit_length() - 1):
            self._levels[depth] = unit(refined[2**depth - 2 : 2 ** (depth + 1) - 2].astype(np.float32))

    def cut(self, depth: int) -> GistTree:
        """The tree down to a depth, its nodes unchanged; the whole tree if it is no deeper."""
        if depth >= self.depth:
            return self
        above = [self._levels[each] for each in range(1, depth)]
        return GistTree(self._levels[depth], np.concatenate([*above, np.zeros((0, self.width), np.float32)]))

    def level(self, depth: int) -> Floats:
        """Unit centroids at a depth of the tree, (2**depth, width)."""
        return self._levels[depth]

    def nearest(self, vectors: Floats, bits: int) -> Codes:
        """The code of each vector, (n,), for vectors of shape (n, width)."""
        return nearest_of(vectors, self._levels[bits])

    def vectors(self, codes: Codes, bits: int) -> Floats:
        """The unit vector that each code stands for, (n, width)."""
        return self._levels[bits][codes]


def unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Floats = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def nearest_of(vectors: Floats, nodes: Floats) -> Codes:
    """Of unit nodes the one at the smallest angle to each vector, (n,)."""
    found = np.empty(len(vectors), np.int64)
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        found[rows] = np.argmax(vectors[rows] @ nodes.T, axis=1)
    return found
