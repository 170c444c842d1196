from __future__ import annotations

from dpbart.evaluate.scores import measure_fluency
from tests.conftest import made_up_texts

PUBLIC = made_up_texts()


def test_public_text_is_fluent_and_shuffled_words_are_not() -> None:
    found = measure_fluency(PUBLIC[:50], PUBLIC)
    assert found.share == 1
    assert found.shuffled is not None
    assert found.shuffled < 0.2


def test_a_word_salad_is_no_better_than_its_control() -> None:
    salad = [" ".join(sorted(text.split(), key=lambda word: word[::-1])) for text in PUBLIC]
    found = measure_fluency(salad, PUBLIC, originals=PUBLIC)
    assert found.share is not None
    assert found.shuffled is not None
    assert abs(found.share - found.shuffled) < 0.15
    assert found.original == 1


def test_triples_do_not_cross_texts() -> None:
    assert measure_fluency(["the boat gate"], ["the boat", "gate there"]).share == 0


def test_case_and_punctuation_make_no_difference() -> None:
    assert measure_fluency(["The, BOAT sank"], ["the boat. Sank"]).share == 1


def test_without_three_words_there_is_no_share() -> None:
    found = measure_fluency(["the boat", "", "!"], PUBLIC)
    assert (found.share, found.shuffled, found.original, found.triples) == (None, None, None, 0)


def test_the_control_is_the_same_every_time() -> None:
    assert measure_fluency(PUBLIC[:9], PUBLIC[50:]) == measure_fluency(PUBLIC[:9], iter(PUBLIC[50:]))
