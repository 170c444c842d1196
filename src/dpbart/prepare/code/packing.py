"""Texts as the writer learns them: several in each row of one shape, so that little of a step is padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dpbart.models.code.tree import Floats
from dpbart.models.code.writer import BEGIN, CUT, END, PAD, Writer
from dpbart.prepare.code.rows import Ids


def with_end(row: Ids, longest: int, draw: np.random.Generator) -> Ids:
    """A text and its end. Half of the long ones are cut in the middle of what can be written, the others at its end."""
    short = longest // 2 - 1
    if len(row) > short and draw.random() < 0.5:
        return np.append(row[:short], CUT)
    return cut(row, longest)


def cut(row: Ids, longest: int) -> Ids:
    """A text and its end, or the mark of a cut."""
    return np.append(row, END) if len(row) <= longest else np.append(row[:longest], CUT)


@dataclass(frozen=True)
class Packed:
    """Several texts in each row, (rows, width)."""

    ids: Ids
    targets: Ids  # -1 where nothing stands
    places: Ids
    text: Ids  # the number of the text that a token belongs to; -1 where nothing stands
    left: tuple[int, ...]  # texts that did not fit


def pack(texts: Sequence[Ids], rows: int, width: int) -> Packed:
    """Best fit, in the order given: begin with the longest for full rows."""
    ids = np.full((rows, width), PAD, np.int64)
    targets, text = np.full_like(ids, -1), np.full_like(ids, -1)
    places, used = np.zeros_like(ids), np.zeros(rows, np.int64)
    left = []
    for number, tokens in enumerate(texts):
        size = len(tokens)
        fitting = np.flatnonzero(width - used >= size)
        if not len(fitting):
            left.append(number)
            continue
        row = int(fitting[np.argmax(used[fitting])])
        span = slice(int(used[row]), int(used[row]) + size)
        ids[row, span] = np.concatenate([[BEGIN], tokens[:-1]])
        targets[row, span], places[row, span], text[row, span] = tokens, np.arange(size), number
        used[row] += size
    return Packed(ids, targets, places, text, tuple(left))


def packed_loss(writer: Writer, packed: Packed, vectors: Floats, depths: Ids) -> tuple[Tensor, int]:
    """Nats of all tokens, and how many tokens.

    Args:
        writer: that predicts them.
        packed: the texts.
        vectors: (texts, gist), what the gist of each text says.
        depths: (texts,), bits of each gist.
    """
    topics = writer.topic(torch.from_numpy(vectors), torch.from_numpy(depths))
    topics = torch.cat([topics, torch.zeros(1, topics.shape[1])])  # the last one, -1, for the gaps
    text = torch.from_numpy(packed.text)
    width = text.shape[1]
    mask = (text[:, None, :, None] == text[:, None, None, :]) & torch.ones(width, width, dtype=torch.bool).tril()
    ids, places, targets = (torch.from_numpy(each) for each in (packed.ids, packed.places, packed.targets))
    hidden = writer.hidden(ids, places, topics[text], mask, None)
    there = targets >= 0
    return writer.loss(hidden[there], targets[there]), int(there.sum())
