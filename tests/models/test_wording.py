"""Arithmetic coding of texts: whole numbers, and a reader that follows as far as the bits go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.models.code.wording import SCALE, TextCoder, TextReader, to_edges, to_frequencies


def frequencies(seed: int, tokens: int, rows: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return to_frequencies(random.dirichlet(np.full(tokens, 0.3), size=rows).astype(np.float32))


def test_frequencies_are_whole_numbers_of_a_fixed_sum() -> None:
    counts = frequencies(0, 300, 20)
    assert counts.min() >= 1
    assert (counts.sum(axis=1) == SCALE).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 12), st.integers(1, 1024))
def test_a_reader_follows_the_coder_as_far_as_the_bits_go(seed: int, tokens: int, length: int, bits: int) -> None:
    counts = frequencies(seed, tokens, length)
    edges = to_edges(counts)
    text = np.random.default_rng(seed + 1).integers(tokens, size=length).tolist()
    coder = TextCoder()
    for place, token in enumerate(text):
        coder.push(edges[place], token)
    reader = TextReader(coder.code(bits), bits)
    read = [reader.read(counts[place], edges[place]) for place in range(length)]
    if bits > coder.spent + 2:
        assert read == text
    low, width = Fraction(0), Fraction(1)  # of the tokens so far
    piece = Fraction(coder.code(bits), 1 << bits)
    for place, token in enumerate(text):
        low, width = (
            low + width * Fraction(int(edges[place, token]), SCALE),
            width * Fraction(int(counts[place, token]), SCALE),
        )
        if not low <= piece <= piece + Fraction(1, 1 << bits) <= low + width:
            break
        assert read[place] == token  # the piece lies inside: the bits decide this token


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 70))
def test_every_string_of_bits_can_be_read(seed: int, tokens: int, bits: int) -> None:
    counts = frequencies(seed, tokens, 12)
    edges = to_edges(counts)
    reader = TextReader(seed % (1 << bits), bits)
    for place in range(12):
        assert 0 <= reader.read(counts[place], edges[place]) < tokens


def test_a_number_that_is_no_code_is_refused() -> None:
    with pytest.raises(ValueError, match="a code of 3 bits"):
        TextReader(8, 3)
