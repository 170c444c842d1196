"""Arrays of many texts, kept in pieces on disk: a stopped run computes only what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpbart.files import whole_or_nothing
from dpbart.progress import progress

Number = TypeVar("Number", bound=np.generic)

PIECE = 2_048  # texts in one file


def in_pieces(
    count: int, compute: Callable[[range], npt.NDArray[Number]], folder: Path, *, title: str
) -> npt.NDArray[Number]:
    """Rows of `count` texts, (count, ...), in the type in which they are computed."""
    files = [
        (range(first, min(count, first + PIECE)), folder / f"{first // PIECE:04d}.npy") for first in _firsts(count)
    ]
    there = sum(len(numbers) for numbers, file in files if file.is_file())
    with progress(title, total=count, unit="texts", start=there) as bar:
        for numbers, file in files:
            if not file.is_file():
                found = compute(numbers)
                with whole_or_nothing(file) as partial, partial.open("wb") as out:
                    np.save(out, found)
                bar.advance(len(numbers))
    return np.concatenate([np.load(file) for _, file in files])


def _firsts(count: int) -> range:
    return range(0, count, PIECE)
