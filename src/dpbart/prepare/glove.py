"""Word vectors in the text format of GloVe: each line holds a word and its numbers. Plain, .gz or .zst.

Pennington, Socher and Manning 2014, https://nlp.stanford.edu/projects/glove/ (for example glove.6B.300d.txt).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zstandard

from dpbart.errors import BadTable
from dpbart.files import digest_of
from dpbart.prepare.corpus import open_text


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of the vocabulary words that occur in a file."""

    ids: npt.NDArray[np.int64]  # (known,)
    values: npt.NDArray[np.float32]  # (known, dimension)


def read_glove(file: Path, vocabulary: Mapping[str, int], *, dimension: int) -> WordVectors:
    """Read the vectors of the vocabulary words. Every line is checked. If a word repeats, its last line counts."""
    found: dict[int, npt.NDArray[np.float32]] = {}
    try:
        with open_text(file) as lines:
            for number, line in enumerate(lines, start=1):
                # Split from the right: a few words of glove.840B contain spaces.
                word, *values = line.rstrip("\n").rsplit(" ", dimension)
                if len(values) != dimension or (number == 1 and " " in word):
                    raise BadTable(
                        f"line {number} of '{file}' must be a word and {dimension} numbers, "
                        f"got {len(line.split()) - 1}. Give vectors with {dimension} numbers, or change --embedding."
                    )
                if word in vocabulary:
                    found[vocabulary[word]] = _numbers(values, file, number)
    except (OSError, EOFError, zstandard.ZstdError) as error:
        raise BadTable(f"'{file}' cannot be read as word vectors: {type(error).__name__}.") from error
    ids = np.array(sorted(found), dtype=np.int64)
    return WordVectors(ids, np.array([found[each] for each in ids], dtype=np.float32).reshape(len(ids), dimension))


def glove_provenance(file: Path | None) -> dict[str, object] | None:
    """Name and hash of a file of vectors, as recorded in the recipe of a model."""
    if file is None:
        return None
    if not file.is_file():
        raise BadTable(f"no file of word vectors at '{file}'. Check the path.")
    return {"name": file.name, "sha256": digest_of(file)}


def _numbers(values: list[str], file: Path, number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise BadTable(f"line {number} of '{file}' must hold only finite numbers after its word; it does not.")
    return vector
