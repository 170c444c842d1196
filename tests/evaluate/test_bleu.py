from __future__ import annotations

import pytest

from dpbart.evaluate.scores import measure_kept

TEXTS = ["the old captain sold two letters .", "a child found the garden gate by the blue boat ."]


def test_what_was_copied_was_kept_whole() -> None:
    kept = measure_kept(TEXTS, TEXTS)
    assert kept.bleu == pytest.approx(100)
    assert kept.content_words == 1
    assert "version:" in kept.signature


def test_function_words_alone_keep_nothing() -> None:
    kept = measure_kept(TEXTS, ["the .", "a the by the ."])
    assert kept.content_words == 0


def test_a_word_counts_as_often_as_the_original_has_it() -> None:
    assert measure_kept(["boat boat gate"], ["boat tower Gate"]).content_words == pytest.approx(2 / 3)


def test_texts_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        measure_kept(TEXTS, TEXTS[:1])
