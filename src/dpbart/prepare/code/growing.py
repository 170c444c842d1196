"""A tree of gists over vectors of public text: grown, and refined at every depth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbart.files import whole_or_nothing
from dpbart.models.code.tree import Floats, GistTree
from dpbart.prepare.gists import grow, refine
from dpbart.progress import progress

_REFINED = 12  # depths that are refined by themselves, at most
_MANY, _FEW = 220_000, 100_000  # vectors for deep depths, and for shallow ones
_SHALLOW = 9  # bits
_ROUNDS = 4  # of Lloyd's at each depth


@dataclass(frozen=True)
class TreeShape:
    """The sizes of a tree."""

    depth: int  # bits of a leaf
    refined: int  # depths that are refined by themselves

    @classmethod
    def fitting(cls, texts: int, *, most: int) -> TreeShape:
        """As deep as the number of texts permits: a leaf for each text, at most."""
        return cls.of_depth(min(most, texts.bit_length() - 1))

    @classmethod
    def of_depth(cls, depth: int) -> TreeShape:
        """A tree of so many bits."""
        return cls(depth, min(_REFINED, depth - 1))


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
        leaves, refined = (each.astype(np.float16) for each in _grow_all(vectors, shape, seed))
        with whole_or_nothing(file) as partial, partial.open("wb") as out:
            np.savez(out, leaves=leaves, refined=refined)
    held = np.load(file)
    return GistTree(*(held[name].astype(np.float32) for name in ("leaves", "refined")))


def _grow_all(vectors: Floats, shape: TreeShape, seed: int) -> tuple[Floats, Floats]:
    """Leaves and refined nodes."""
    draw = np.random.default_rng([seed, 3])
    vectors = vectors[draw.permutation(len(vectors))]
    vectors = np.resize(vectors, (max(1 << shape.depth, len(vectors)), vectors.shape[1]))
    sample = vectors[:_MANY]
    with progress("Growing the tree", total=shape.refined + 2, unit="rounds") as bar:
        leaves = grow(vectors, shape.depth, seed=seed)
        bar.advance(1)
        leaves = refine(leaves, sample, rounds=1)
        bar.advance(1)
        nothing = np.zeros((0, vectors.shape[1]), np.float32)
        tree, refined = GistTree(leaves, nothing), [nothing]
        for depth in range(1, shape.refined + 1):
            some = sample if depth > _SHALLOW else sample[:_FEW]
            refined.append(refine(tree.level(depth), some, rounds=_ROUNDS))
            bar.advance(1)
    return leaves, np.concatenate(refined)
