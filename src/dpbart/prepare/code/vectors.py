"""Vectors of public text by the model's own sentence encoder, without the fixed shape that private text needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from dpbart.models.code.sentence import PAD, SentenceEncoder
from dpbart.models.code.tree import Floats, unit
from dpbart.prepare.code.rows import Ids

_BATCH = 128


@torch.inference_mode()
def vectors_of(encoder: SentenceEncoder, rows: Sequence[Ids]) -> Floats:
    """Unit vectors of texts of any length, (rows, vector): the mean of their windows, by tokens."""
    window, most = encoder.sizes.window, encoder.sizes.windows
    parts = [(n, row[at : at + window]) for n, row in enumerate(rows) for at in range(0, len(row), window)[:most]]
    parts.sort(key=lambda part: len(part[1]))  # batches of similar length: little padding
    sums = np.zeros((len(rows), encoder.sizes.vector), np.float32)
    for first in range(0, len(parts), _BATCH):
        batch = parts[first : first + _BATCH]
        found = encoder.read_windows(padded([ids for _, ids in batch])).numpy()
        np.add.at(sums, [n for n, _ in batch], found * np.array([[len(ids)] for _, ids in batch], np.float32))
    return unit(sums)


def padded(rows: Sequence[Ids]) -> torch.Tensor:
    """(rows, longest), a multiple of 4 wide."""
    longest = -(-max(1, *(len(row) for row in rows)) // 4) * 4
    ids = np.full((len(rows), longest), PAD, np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    return torch.from_numpy(ids)
