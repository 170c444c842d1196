"""Praise and blame in the vectors of a reader."""

from __future__ import annotations

import numpy as np
import pytest

from dpbart.models.bundle import Bundle
from dpbart.models.code.model import Networks
from dpbart.models.code.reader import Reader
from dpbart.models.code.weights import Floats
from dpbart.prepare.code.praise import Labelled, labelled, with_praise
from dpbart.prepare.code.reading import Taught, framing

THINGS = ("soup", "bread", "room", "film", "train", "phone", "doctor", "song", "coat", "garden")
PRAISE, BLAME = ("lovely", "great", "good"), ("awful", "bad", "poor")
SENTENCES = [f"The {thing} was {word}." for thing in THINGS for word in (*PRAISE, *BLAME)]
LABELS = np.array([1.0 if sentence.split()[-1][:-1] in PRAISE else -1.0 for sentence in SENTENCES], np.float32)


@pytest.fixture
def reader(tiny_code: Bundle) -> Reader:
    taught = Networks.load(tiny_code.folder).reader
    assert isinstance(taught, Reader)
    return taught


@pytest.fixture
def changed(reader: Reader) -> Reader:
    return with_praise(
        Taught(reader, np.eye(reader.sizes.meaning, dtype=np.float32)), Labelled(SENTENCES, LABELS), SENTENCES
    ).reader


def contrast(vectors: Floats) -> float:
    """How much nearer two sentences are if both praise or both blame."""
    near, same = vectors @ vectors.T, np.equal.outer(LABELS, LABELS)
    return float(near[same].mean() - near[~same].mean())


def test_praise_moves_away_from_blame(reader: Reader, changed: Reader) -> None:
    assert contrast(changed.sentences(SENTENCES)) > contrast(reader.sentences(SENTENCES)) + 0.02


def test_a_word_tells_whether_it_praises_also_in_a_long_document(changed: Reader) -> None:
    def praise(text: str) -> float:
        return float(changed.bags([text], tokens=100)[0, -1])

    assert praise("The train was lovely and the coat was great") > 0 > praise("An awful song")
    assert praise("The room was lovely. " * 8) > praise("The room was lovely.")


def test_what_stands_in_every_text_neither_praises_nor_blames(changed: Reader) -> None:
    whole = changed.network.weights["bag.weight"]
    assert whole.shape[1] == changed.sizes.words
    assert not whole[[0, *framing(changed.tokenizer)], -1].any()


def test_the_rest_of_a_vector_stays(reader: Reader, changed: Reader) -> None:
    assert (changed.sizes.meaning, changed.sizes.words) == (reader.sizes.meaning, reader.sizes.words + 1)
    before, after = reader.bags(SENTENCES, tokens=20), changed.bags(SENTENCES, tokens=20)
    np.testing.assert_allclose(after[:, :-1], before, atol=0.02 * np.abs(before).max())


def test_the_labelled_sentences_are_public_and_of_all_three_kinds() -> None:
    known = labelled()
    assert len(known.sentences) == len(set(known.sentences)) == len(known.labels)
    assert all(np.mean(known.labels == label) > 0.1 for label in (-1, 0, 1))
