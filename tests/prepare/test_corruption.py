from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbart.prepare.pretrain import Corruption

BEGIN, PAD, END, MASK, LENGTH = 0, 1, 2, 4, 20


def row(words: int) -> list[int]:
    return [BEGIN, *range(10, 10 + words), END, *[PAD] * (LENGTH - 2 - words)]


def corruption(share: float = 1.0, tokens: float = 0.3) -> Corruption:
    return Corruption(share=share, tokens=tokens, end_id=END, pad_id=PAD, mask_id=MASK)


@given(st.integers(0, 18), st.integers(0, 10_000), st.floats(0, 1))
def test_a_corrupted_row_is_still_a_row(words: int, seed: int, tokens: float) -> None:
    out = corruption(tokens=tokens).corrupt(np.array([row(words)] * 4), np.random.default_rng(seed))
    assert out.shape == (4, LENGTH)
    for each in out.tolist():
        end = each.index(END)
        assert each[0] == BEGIN
        assert all(token == PAD for token in each[end + 1 :])
        body = [token for token in each[1:end] if token != MASK]
        assert body == sorted(body)  # nothing is moved
        assert set(body) <= set(range(10, 10 + words))  # nothing is invented


def test_a_share_of_zero_leaves_texts_unchanged() -> None:
    ids = np.array([row(5), row(18)])
    np.testing.assert_array_equal(corruption(share=0.0).corrupt(ids, np.random.default_rng(0)), ids)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_stated_share_of_texts_and_tokens_is_hidden(share: float) -> None:
    ids = np.array([row(18)] * 4000)
    out = corruption(share=share).corrupt(ids, np.random.default_rng(0))
    touched = (out != ids).any(axis=1)
    assert touched.mean() == pytest.approx(share, abs=0.07)  # infilling may find no span in a text
    survivors = np.isin(out[touched], np.arange(10, 28)).sum(axis=1)
    assert survivors.mean() / 18 == pytest.approx(0.74, abs=0.06)  # infilling may stop short of its share


def test_all_three_ways_are_used() -> None:
    ids = np.array([row(18)] * 600)
    out = corruption().corrupt(ids, np.random.default_rng(0))
    masks, ends = (out == MASK).sum(axis=1), (out == END).argmax(axis=1)
    assert ((masks > 0) & (ends == 19)).any()  # masking keeps the length
    assert ((masks == 0) & (ends < 19)).any()  # deletion leaves no mask
    assert ((masks > 0) & (ends < 19)).any()  # infilling shortens, with a mask
