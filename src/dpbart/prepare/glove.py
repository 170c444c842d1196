"""Word vectors in GloVe's usual text format: a word and its numbers on each line, plain, .gz or .zst.

Pennington, Socher and Manning 2014, https://nlp.stanford.edu/projects/glove/ (glove.6B.300d.txt and its like).
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
    """The vectors of those words of a vocabulary that a file has."""

    ids: npt.NDArray[np.int64]  # (known,)
    values: npt.NDArray[np.float32]  # (known, dimension)


def read_glove(file: Path, vocabulary: Mapping[str, int], *, dimension: int) -> WordVectors:
    """The vectors of the vocabulary's words; every line is checked, the last line of a word counts."""
    found: dict[int, npt.NDArray[np.float32]] = {}
    try:
        with open_text(file) as lines:
            for number, line in enumerate(lines, start=1):
                # From the right: a few words of glove.840B have blanks inside.
                word, *values = line.rstrip("\n").rsplit(" ", dimension)
                if len(values) != dimension or (number == 1 and " " in word):
                    raise BadTable(
                        f"line {number} of '{file}' must be a word and {dimension} numbers, "
                        f"got {len(line.split()) - 1}. Give vectors of --embedding {dimension}, or that --embedding."
                    )
                if word in vocabulary:
                    found[vocabulary[word]] = _numbers(values, file, number)
    except (OSError, EOFError, zstandard.ZstdError) as error:
        raise BadTable(f"'{file}' cannot be read as word vectors: {type(error).__name__}.") from error
    ids = np.array(sorted(found), dtype=np.int64)
    return WordVectors(ids, np.array([found[each] for each in ids], dtype=np.float32).reshape(len(ids), dimension))


def glove_provenance(file: Path | None) -> dict[str, object] | None:
    """Name and hash of a file of vectors, as the recipe of a model holds them."""
    if file is None:
        return None
    if not file.is_file():
        raise BadTable(f"no file of word vectors at '{file}'.")
    return {"name": file.name, "sha256": digest_of(file)}


def _numbers(values: list[str], file: Path, number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise BadTable(f"line {number} of '{file}' must hold finite numbers after its word; it does not.")
    return vector
