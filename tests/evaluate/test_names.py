from __future__ import annotations

import re

import pytest

from dpbart.errors import BadParameter
from dpbart.evaluate.data.made_up import MadeUp, lists, make_up
from dpbart.evaluate.scores import recovered


@pytest.fixture(scope="module")
def made() -> list[MadeUp]:
    return make_up(400)


def test_made_up_texts_differ_in_wording_and_details(made: list[MadeUp]) -> None:
    assert len({each.text for each in made}) == 400
    assert len(lists()["shape"]) >= 30
    assert len({name for each in made for name in each.names}) > 100
    assert len({number for each in made for number in each.numbers}) > 200
    assert all(each.names and each.numbers for each in made)
    assert not [each for each in made if "{" in each.text]


def test_the_same_seed_makes_the_same_texts(made: list[MadeUp]) -> None:
    assert make_up(400) == made
    assert make_up(50) == made[:50]
    assert make_up(400, seed=1) != made


def test_all_digits_of_a_text_are_in_its_numbers(made: list[MadeUp]) -> None:
    for each in made:
        assert re.findall(r"\d", each.text) == re.findall(r"\d", " ".join(_in_order(each)))


def _in_order(made: MadeUp) -> list[str]:
    return re.findall("|".join(re.escape(number) for number in sorted(made.numbers, key=len, reverse=True)), made.text)


@pytest.mark.parametrize("kind", ["names", "numbers"])
def test_a_copy_gives_everything_away_and_other_texts_next_to_nothing(made: list[MadeUp], kind: str) -> None:
    texts, details = [each.text for each in made], [getattr(each, kind) for each in made]
    copied = recovered(texts, texts, details)
    assert (copied.share, copied.elsewhere) == (1, 0)  # the control leaves out texts that have the detail themselves
    assert copied.details == sum(map(len, details))
    moved = recovered(texts, [*texts[1:], texts[0]], details)
    assert moved.share < 0.1
    assert moved.elsewhere is not None
    assert moved.share == pytest.approx(moved.elsewhere, abs=0.05)
    assert recovered(texts, [""] * 400, details).share == 0


@pytest.mark.parametrize(
    ("rewritten", "share"),
    [
        ("ANNA SAID 555-0142", 1),
        ("anna , 555 - 0142 .", 1),
        ("annabel called 5550142", 0),
        ("0142 555, hanna", 0),
        ("5550 555 0142, anna", 1),
    ],
)
def test_whole_words_count_in_any_case(rewritten: str, share: float) -> None:
    assert recovered(["Anna: 555-0142"], [rewritten], [["Anna", "555-0142"]]).share == share


def test_the_control_counts_what_a_model_writes_anyway() -> None:
    """A model that always writes Ada recovers her by chance, and the control shows it."""
    found = recovered(["Ada", "Bo", "Cy"], ["ada"] * 3, [["Ada"], ["Bo"], ["Cy"]])
    assert found.share == pytest.approx(1 / 3)
    assert found.elsewhere == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("rewritten", "details", "message"),
    [
        (["x", "y"], [["Ada"]], "each text must have a rewriting"),
        (["x"], [[]], "details of 0"),
        (["x"], [["Bo"]], "must be in its text, but that of text 1 is not"),
        (["x"], [["!"]], "must be in its text"),
    ],
)
def test_details_must_fit_their_texts(rewritten: list[str], details: list[list[str]], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        recovered(["Ada"], rewritten, details)


def test_no_texts_are_refused() -> None:
    with pytest.raises(BadParameter, match="at least 1, got 0"):
        make_up(0)
