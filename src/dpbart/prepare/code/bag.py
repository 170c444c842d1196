"""Where the sentence encoder begins: ridge regression from the tokens of a text, whatever their order, to its vector.

It takes a minute and comes to a cosine of about .72 on unseen text; training then adds what order tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.tree import Floats
from dpbart.prepare.code.rows import Ids

_RIDGE = 0.3
_TYPICAL = 4_000  # tokens; their entries get the wanted size
_SIZE = 0.5  # standard deviation of an entry of the token table


def start_bag(encoder: SentenceEncoder, rows: Sequence[Ids], wanted: Floats) -> None:
    """Put the regression into an encoder that has learned nothing yet: into its token table and its bag of tokens.

    Args:
        encoder: its width at least that of a vector.
        rows: ids of texts.
        wanted: (texts, vector), what should come out.
    """
    sizes = encoder.sizes
    kept = [row[: sizes.window] for row in rows]
    lengths = np.array([len(row) for row in kept])
    shares = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths).astype(np.float32)  # as the encoder sums tokens
    places = (np.repeat(np.arange(len(kept)), lengths), np.concatenate(kept))
    tokens = csr_matrix((shares, places), shape=(len(kept), sizes.vocabulary))
    square = (tokens.T @ tokens).toarray() + _RIDGE * np.eye(sizes.vocabulary, dtype=np.float32)
    found = cho_solve(cho_factor(square, overwrite_a=True), tokens.T @ wanted)  # (vocabulary, vector)
    scale = _SIZE / max(float(found[:_TYPICAL].std()), 1e-6)
    with torch.no_grad():
        encoder.embed.weight.zero_()
        encoder.embed.weight[:, : sizes.vector] = torch.from_numpy(found * scale)
        encoder.bag.weight.copy_(torch.eye(sizes.vector, sizes.width) / scale)
