from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.evaluate import scores as similarity
from dpbart.evaluate.scores import measure_similarity
from dpbart.models.bundle import Bundle
from dpbart.models.sentences import Floats, SentenceEncoderFiles, SentenceVectors
from dpbart.models.vectors import load_vectors
from tests.conftest import made_up_texts
from tests.evaluate.tiny_bert import make_tiny_bert

TEXTS = made_up_texts()[::10]


@pytest.fixture(scope="module")
def encoder(tiny: Bundle, tmp_path_factory: pytest.TempPathFactory) -> SentenceVectors:
    folder = make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path_factory.mktemp("bert"))
    return load_vectors(SentenceEncoderFiles.find(str(folder)))


class Letters:
    """Vectors that can be computed by hand: how often each of a and b occurs."""

    identity, width = "letters@0", 2

    def vectors(self, texts: Sequence[str]) -> Floats:
        counts = np.array([[text.count("a"), text.count("b")] for text in texts], np.float32)
        unit: Floats = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)
        return unit


def test_a_copy_means_the_same_and_other_texts_do_not(encoder: SentenceVectors) -> None:
    found = measure_similarity(TEXTS, TEXTS, encoder)
    assert found.mean == pytest.approx(1, abs=1e-9)
    assert found.unrelated is not None
    assert found.unrelated < 0.9


def test_shuffled_pairs_are_no_more_similar_than_the_control(encoder: SentenceVectors) -> None:
    shuffled = [*TEXTS[len(TEXTS) // 2 :], *TEXTS[: len(TEXTS) // 2]]
    found = measure_similarity(TEXTS, shuffled, encoder)
    assert found.spread is not None
    assert found.mean == pytest.approx(found.unrelated, abs=6 * found.spread)
    assert found.mean < 0.9


def test_the_figures_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_AT_ONCE", 2)  # in two parts
    found = measure_similarity(["a", "b", "ab"], ["a", "ab", ""], Letters())
    half = 0.5**0.5
    assert found.mean == pytest.approx((1 + half + 0) / 3)
    assert found.spread == pytest.approx(statistics.stdev([1, half, 0]) / 3**0.5)
    assert found.unrelated == pytest.approx((0 + half + half + 1 + 0 + 0) / 6)  # a-b, a-ab, ab-a, ab-ab, and the empty
    assert found.texts == 3


def test_one_text_has_neither_spread_nor_control() -> None:
    found = measure_similarity(["ab"], ["a"], Letters())
    assert (found.spread, found.unrelated, found.texts) == (None, None, 1)


@pytest.mark.parametrize(("originals", "rewritten"), [(["a"], []), ([], [])])
def test_texts_come_in_pairs(originals: list[str], rewritten: list[str]) -> None:
    with pytest.raises(BadParameter, match="in pairs"):
        measure_similarity(originals, rewritten, Letters())
