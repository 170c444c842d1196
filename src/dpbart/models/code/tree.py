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
    """Unit centroids at every depth of one balanced tree, and a finer step beyond the leaves."""

    def __init__(self, leaves: Floats, steps: Floats, refined: Floats) -> None:
        """Build all depths.

        Args:
            leaves: (2**depth, width), unit vectors in the order of their codes.
            steps: (2**more, width), differences that further bits add to a leaf.
            refined: (2**top - 2, width), nodes that replace those of depths 1 to top - 1, one depth after the other.
                A depth that is used by itself fits better when its nodes need not be means of leaves. It may be empty.
        """
        for name, rows, extra in (("leaves", leaves, 0), ("steps", steps, 0), ("refined", refined, 2)):
            count = len(rows) + extra
            if rows.ndim != 2 or count == 0 or count & (count - 1):
                raise ValueError(f"the {name} of a tree must be as many as a power of two, got {len(rows)}.")
        self.stored = {"leaves": leaves, "steps": steps, "refined": refined}  # what a model file keeps
        self.depth = len(leaves).bit_length() - 1
        self.width = int(leaves.shape[1])
        self._levels: list[Floats] = [unit(leaves.astype(np.float32))]
        while len(self._levels[0]) > 1:
            below = self._levels[0]
            self._levels.insert(0, unit(below[0::2] + below[1::2]))
        for depth in range(1, (len(refined) + 2).bit_length() - 1):
            self._levels[depth] = unit(refined[2**depth - 2 : 2 ** (depth + 1) - 2].astype(np.float32))
        self._steps = steps.astype(np.float32)
        self.step_bits = len(steps).bit_length() - 1

    @property
    def depths(self) -> tuple[int, ...]:
        """The numbers of bits that a gist may have."""
        return (*range(self.depth + 1), *((self.depth + self.step_bits,) if self.step_bits else ()))

    def level(self, depth: int) -> Floats:
        """Unit centroids at a depth of the tree, (2**depth, width)."""
        return self._levels[depth]

    def nearest(self, vectors: Floats, bits: int) -> Codes:
        """The code of each vector, (n,), for vectors of shape (n, width)."""
        if bits <= self.depth:
            return nearest_of(vectors, self._levels[bits])
        if bits != self.depth + self.step_bits:
            raise ValueError(f"this tree has no gist of {bits} bits.")
        leaf = nearest_of(vectors, self._levels[self.depth])
        missing = vectors - self._levels[self.depth][leaf]
        step = nearest_of(missing, self._steps, lengths=True)
        codes: Codes = (leaf << self.step_bits) | step
        return codes

    def vectors(self, codes: Codes, bits: int) -> Floats:
        """The unit vector that each code stands for, (n, width)."""
        if bits <= self.depth:
            return self._levels[bits][codes]
        if bits != self.depth + self.step_bits:
            raise ValueError(f"this tree has no gist of {bits} bits.")
        return unit(
            self._levels[self.depth][codes >> self.step_bits] + self._steps[codes & ((1 << self.step_bits) - 1)]
        )


def unit(rows: Floats) -> Floats:
    """Rows of length one; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Floats = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def nearest_of(vectors: Floats, nodes: Floats, *, lengths: bool = False) -> Codes:
    """Of unit nodes the one at the smallest angle; with `lengths`, of any nodes the one at the smallest distance."""
    penalty = (nodes**2).sum(1) / 2 if lengths else np.zeros(len(nodes), np.float32)
    found = np.empty(len(vectors), np.int64)
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        found[rows] = np.argmax(vectors[rows] @ nodes.T - penalty, axis=1)
    return found
