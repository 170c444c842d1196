"""Semantic similarity: the cosine of the sentence vectors of each text and its rewriting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.progress import progress

if TYPE_CHECKING:
    from dpbart.evaluate.sentences.vectors import SentenceVectors

_AT_ONCE = 1024  # texts


@dataclass(frozen=True)
class Similarity:
    """How much rewritten texts mean the same as their originals. A cosine ranges from -1 to 1."""

    mean: float
    spread: float | None  # standard deviation of that mean; None for one text
    unrelated: float | None  # control: each rewritten text with every other original; None for one text
    texts: int


def measure_similarity(originals: Sequence[str], rewritten: Sequence[str], encoder: SentenceVectors) -> Similarity:
    """Compare texts pair by pair, and each rewritten text with all other originals.

    Raises:
        BadParameter: If the texts do not come in pairs, or there are none.
    """
    texts = len(originals)
    if texts != len(rewritten) or not texts:
        raise BadParameter(f"texts must come in pairs, got {texts} originals and {len(rewritten)} rewritten texts.")
    cosines: list[float] = []
    sums = (np.zeros(1), np.zeros(1))  # of all vectors of the originals and of the rewritten texts, (width,) each
    with progress("Comparing", total=texts, unit="texts") as bar:
        for start in range(0, texts, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            before, after = (_exactly_unit(encoder.of(each[part])) for each in (originals, rewritten))
            cosines += (before * after).sum(1).tolist()
            sums = (sums[0] + before.sum(0), sums[1] + after.sum(0))
            bar.advance(len(before))
    if texts == 1:
        return Similarity(cosines[0], None, None, 1)
    # The sum over all pairs is the product of the sums; without the true pairs, texts x (texts - 1) are left.
    unrelated = (float(np.dot(*sums)) - math.fsum(cosines)) / (texts * (texts - 1))
    spread = float(np.std(cosines, ddof=1)) / math.sqrt(texts)
    return Similarity(math.fsum(cosines) / texts, spread, unrelated, texts)


def _exactly_unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """In double precision, so that no cosine is above 1. Zeros, of an empty text, stay zeros."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)  # (texts, 1)
    return exact / np.where(lengths > 0, lengths, 1.0)
