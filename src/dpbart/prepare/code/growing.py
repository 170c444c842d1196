"""A tree of gists over vectors of public text: grown, refined at every depth, with finer steps at its leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbart.files import whole_or_nothing
from dpbart.models.code.tree import Floats, GistTree, nearest_of
from dpbart.prepare.gists import grow, refine
from dpbart.progress import progress

_STEP_BITS = 11
_REFINED = 12  # depths that are refined by themselves, at most
_MANY, _FEW, _FEWER = 220_000, 100_000, 40_000  # vectors for deep depths, for shallow ones, and for the steps
_SHALLOW = 9  # bits
_ROUNDS = 4  # of Lloyd's at each depth


@dataclass(frozen=True)
class TreeShape:
    """The sizes of a tree."""

    depth: int  # bits of a leaf
    refined: int  # depths that are refined by themselves
    step_bits: int  # bits beyond a leaf

    @classmethod
    def fitting(cls, texts: int, *, most: int) -> TreeShape:
        """As deep as the number of texts permits: a leaf for each text, at most."""
        depth = min(most, texts.bit_length() - 1)
        return cls(depth, min(_REFINED, depth - 1), min(_STEP_BITS, depth))

    @classmethod
    def of(cls, tree: GistTree) -> TreeShape:
        """The same shape as another tree: a table that was made for it fits."""
        return cls(tree.depth, (len(tree.stored["refined"]) + 2).bit_length() - 2, tree.step_bits)


def make_tree(vectors: Floats, shape: TreeShape, file: Path, *, seed: int) -> GistTree:
    """Grow a tree, or read the one that the file has already.

    Args:
        vectors: (texts, width), unit vectors. If they are fewer than the leaves, they are repeated: gists of more bits
            than these texts have then say no more than which text is nearest.
        shape: of the tree.
        file: where it is kept.
        seed: of the cuts and samples.
    """
    if not file.is_file():
        leaves, steps, refined = (each.astype(np.float16) for each in _grow_all(vectors, shape, seed))
        with whole_or_nothing(file) as partial, partial.open("wb") as out:
            np.savez(out, leaves=leaves, steps=steps, refined=refined)
    held = np.load(file)
    return GistTree(*(held[name].astype(np.float32) for name in ("leaves", "steps", "refined")))


def _grow_all(vectors: Floats, shape: TreeShape, seed: int) -> tuple[Floats, Floats, Floats]:
    """Leaves, steps and refined nodes."""
    draw = np.random.default_rng([seed, 3])
    least = max(1 << shape.depth, 1 << shape.step_bits)
    vectors = vectors[draw.permutation(len(vectors))]
    vectors = np.resize(vectors, (max(least, len(vectors)), vectors.shape[1]))
    sample = vectors[:_MANY]
    with progress("Growing the tree", total=shape.refined + 3, unit="rounds") as bar:
        leaves = grow(vectors, shape.depth, seed=seed)
        bar.advance(1)
        leaves = refine(leaves, sample, rounds=1)
        bar.advance(1)
        nothing = np.zeros((1, vectors.shape[1]), np.float32)
        tree, refined = GistTree(leaves, nothing, nothing[:0]), [nothing[:0]]
        for depth in range(1, shape.refined + 1):
            some = sample if depth > _SHALLOW else sample[:_FEW]
            refined.append(refine(tree.level(depth), some, rounds=_ROUNDS))
            bar.advance(1)
        steps = _steps(sample[:_FEWER], tree, shape)
        bar.advance(1)
    return leaves, steps, np.concatenate(refined)


def _steps(vectors: Floats, tree: GistTree, shape: TreeShape) -> Floats:
    """Typical differences between a text and its leaf: k-means of the differences, three rounds."""
    missing = vectors - tree.vectors(tree.nearest(vectors, tree.depth), tree.depth)
    steps = missing[: 1 << shape.step_bits].copy()
    for _ in range(3):
        nearest = nearest_of(missing, steps, lengths=True)
        sums = np.zeros_like(steps)
        np.add.at(sums, nearest, missing)
        counts = np.bincount(nearest, minlength=len(steps))[:, None]
        steps = np.where(counts > 0, sums / np.maximum(counts, 1), steps).astype(np.float32)
    return steps
