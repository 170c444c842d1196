"""Grow a tree of gists over the vectors of public text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpbart.models.code.tree import Floats, nearest_of, unit


def grow(vectors: Floats, depth: int, *, rounds: int = 4, seed: int = 0) -> Floats:
    """Leaves of a balanced tree: every set of vectors is cut in two halves of equal size, along its widest direction.

    Args:
        vectors: (n, width), unit vectors of public text, n at least 2**depth.
        depth: bits of the finest code.
        rounds: of the small 2-means that finds the direction of each cut.
        seed: of the vectors that a cut starts from.
    """
    draw = np.random.default_rng(seed)
    sets = [np.arange(len(vectors))]
    for _ in range(depth):
        halves: list[npt.NDArray[np.int64]] = []
        for members in sets:
            halves += _cut(vectors, members, rounds, draw)
        sets = halves
    return unit(np.stack([vectors[members].mean(0) for members in sets]))


def refine(leaves: Floats, vectors: Floats, *, rounds: int = 3) -> Floats:
    """Lloyd's rounds over all leaves at once; a leaf that attracts nothing stays where it is."""
    for _ in range(rounds):
        codes = nearest_of(vectors, leaves)
        sums = np.zeros_like(leaves)
        np.add.at(sums, codes, vectors)
        used = np.bincount(codes, minlength=len(leaves)) > 0
        leaves = np.where(used[:, None], unit(np.where(used[:, None], sums, leaves)), leaves)
    return leaves


def _cut(
    vectors: Floats, members: npt.NDArray[np.int64], rounds: int, draw: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Two halves of a set, equal in size up to one."""
    inside = vectors[members]  # (members, width)
    sample = inside if len(inside) <= 4000 else inside[draw.permutation(len(inside))[:4000]]
    middle = sample.mean(0)
    direction = sample[draw.integers(len(sample))] - middle
    for _ in range(3):  # towards the widest direction
        direction = (sample - middle).T @ ((sample - middle) @ direction)
        direction /= np.linalg.norm(direction) + 1e-12
    for _ in range(rounds):
        side = (sample - middle) @ direction > 0
        if side.all() or not side.any():
            break
        first, second = sample[side].mean(0), sample[~side].mean(0)
        middle, direction = (first + second) / 2, first - second
    order = np.argsort(inside @ direction, kind="stable")
    half = len(order) // 2
    return [members[order[:half]], members[order[half:]]]
