"""Telling a model its budget, which is public, by a token: one for each band of what the channel carries.

The band depends on epsilon, delta and the mechanism through the bits alone. Its token stands first in what the
encoder reads and first in what the decoder writes, so that the model stays a plain BART.
"""

from __future__ import annotations

# Lower edges, in bits, of the bands above the first: half an octave each, from epsilon 15 to 8,000 at delta 1e-5.
EDGES = tuple(2 ** (half / 2) for half in range(2, 24))
TOKENS = tuple(f"<budget-{number}>" for number in range(len(EDGES) + 1))


def budget_token(bits: float) -> str:
    """The token of a channel that carries at most so many bits.

    >>> budget_token(0.0), budget_token(float("inf")) == TOKENS[-1]
    ('<budget-0>', True)
    """
    return TOKENS[sum(bits >= edge for edge in EDGES)]
