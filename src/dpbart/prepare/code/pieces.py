"""Vectors of many texts, kept in pieces on disk: a stopped run computes only what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpbart.files import whole_or_nothing
from dpbart.models.code.tree import Floats
from dpbart.progress import progress

PIECE = 2_048  # texts in one file


def in_pieces(count: int, compute: Callable[[range], Floats], folder: Path, *, title: str) -> Floats:
    """Vectors of `count` texts, (count, width), in half precision on disk."""
    files = [
        (range(first, min(count, first + PIECE)), folder / f"{first // PIECE:04d}.npy") for first in _firsts(count)
    ]
    there = sum(len(numbers) for numbers, file in files if file.is_file())
    with progress(title, total=count, unit="texts", start=there) as bar:
        for numbers, file in files:
            if not file.is_file():
                found = compute(numbers).astype(np.float16)
                with whole_or_nothing(file) as partial, partial.open("wb") as out:
                    np.save(out, found)
                bar.advance(len(numbers))
    return np.concatenate([np.load(file).astype(np.float32) for _, file in files])


def _firsts(count: int) -> range:
    return range(0, count, PIECE)
