"""Which words to keep: the best way within some bits, and better ones nearby, against all subsets of small texts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpbart.models.code.shortening import REVERSED, UNEVEN, UNEXPECTED, Kept, Steps, Words, best_paths, changes
from dpbart.models.code.weights import Floats

SURPRISE = 0.012  # as in shortening.py
UNITS = 7
NEGATIONS = np.arange(UNITS) == 2  # the third word is "not"


def words_of(seed: int, texts: int = 1, units: int = UNITS) -> Words:
    random = np.random.default_rng(seed)
    after = random.integers(1, 9, size=(texts, units + 1, units)).astype(np.float32)
    end = random.integers(1, 5, size=(texts, units + 1)).astype(np.float32)
    gains = random.random((texts, units)).astype(np.float32)
    return Words(after, end, gains, np.full(texts, units))


def subsets(units: int) -> list[list[int]]:
    return [[place for place in range(units) if number >> place & 1] for number in range(1, 1 << units)]


def cost(words: Words, text: int, path: list[int]) -> float:
    way = pairwise([-1, *path])
    return float(sum(words.after[text, one + 1, other] for one, other in way) + words.end[text, path[-1] + 1])


def worth(words: Words, text: int, path: list[int], gap: float) -> float:
    value = -SURPRISE * float(words.end[text, path[-1] + 1])
    for one, other in pairwise([-1, *path]):
        value += float(words.gains[text, other])
        if one + 1 != other:
            more = max(0.0, float(words.after[text, one + 1, other] - words.after[text, other, other]))
            value -= gap + SURPRISE * more
    return value


@pytest.mark.parametrize("seed", range(8))
def test_the_best_way_is_the_best_of_all_subsets(seed: int) -> None:
    words = words_of(seed, texts=3)
    budgets = np.array([8.0, 15.0, 40.0], np.float32)
    for text, path in enumerate(best_paths(words, budgets, gap=0.05, bits=30)):
        fitting = [each for each in subsets(UNITS) if cost(words, text, each) <= budgets[text]]
        best = max(worth(words, text, each, 0.05) for each in fitting)
        assert cost(words, text, path) <= budgets[text]
        assert worth(words, text, path, 0.05) == pytest.approx(best, abs=1e-5)


def test_nothing_is_kept_where_nothing_fits_and_texts_do_not_matter_to_each_other() -> None:
    words = words_of(3, texts=4)
    budgets = np.array([1.0, 12.0, 20.0, 30.0], np.float32)
    together = best_paths(words, budgets, gap=0.02, bits=30)
    assert together[0] == []
    for text in range(4):
        one = Words(words.after[[text]], words.end[[text]], words.gains[[text]], words.count[[text]])
        assert best_paths(one, budgets[[text]], gap=0.02, bits=30) == [together[text]]
    shorter = Words(words.after, words.end, words.gains, np.array([7, 3, 0, 5]))
    for path, count in zip(best_paths(shorter, budgets, gap=0.02, bits=30), (7, 3, 0, 5), strict=True):
        assert all(place < count for place in path)


def test_many_bits_are_counted_in_larger_steps() -> None:
    words = words_of(5, units=12)
    (path,) = best_paths(words, np.array([1000.0], np.float32), gap=0.0, bits=1000)
    assert path == list(range(12))


def roughness(words: Words, path: list[int]) -> float:
    found = UNEXPECTED * float(words.end[0, path[-1] + 1])
    for one, other in pairwise([-1, *path]):
        if one + 1 != other:
            more = max(0.0, float(words.after[0, one + 1, other] - words.after[0, other, other]))
            found += UNEVEN * (one >= 0) + UNEXPECTED * more + REVERSED * (other == 3)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_form_takes_the_bits_and_reads_as_badly_as_its_steps(seed: int) -> None:
    words = words_of(seed)
    steps = Steps.of(words, NEGATIONS)
    for path in subsets(UNITS):
        kept = np.zeros(UNITS, bool)
        kept[path] = True
        bits, rough = steps.along(kept)
        assert bits == pytest.approx(cost(words, 0, path))
        assert rough == pytest.approx(roughness(words, path), abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_changes_are_the_best_nearby_that_fit(seed: int) -> None:
    """One word dropped or taken back, which is exact: the best of those by brute force is among them."""
    words, random = words_of(seed), np.random.default_rng(seed)
    steps, parts = Steps.of(words, NEGATIONS), random.normal(size=(UNITS, 4)).astype(np.float32)
    sought = random.normal(size=4).astype(np.float32)

    def near(some: Floats, more: Floats) -> Floats:
        found: Floats = (some @ sought)[:, None] + more @ sought
        return found

    kept = np.array([True, False, True, True, False, False, True])
    room = 3.0
    found = changes(kept, steps, room, near, parts, count=400, units=UNITS, marked=False)
    assert len(found) == 400
    real = [each for each in found if each.any()]
    assert not any((each == kept).all() for each in real)

    def value(form: Kept) -> float:
        return float(form.astype(np.float32) @ parts @ sought) - steps.along(form)[1]

    single = [kept ^ (np.arange(UNITS) == place) for place in range(UNITS)]
    fitting = [form for form in single if steps.along(form)[0] <= steps.along(kept)[0] + room]
    assert fitting
    best = max(fitting, key=value)
    assert any((best == form).all() for form in real)
    for form in real:  # words dropped in a row, and neighbours taken back, at most three each
        back = np.flatnonzero(form & ~kept)
        assert len(back) <= 3
        assert len(back) == 0 or back[-1] - back[0] == len(back) - 1
        assert int((kept & ~form).sum()) <= 3


def test_a_mark_at_the_end_stays_there() -> None:
    words = words_of(1)
    kept = np.array([True, False, True, False, True, False, False])

    def near(some: Floats, more: Floats) -> Floats:
        return np.zeros((len(some), len(more)), np.float32)

    found = changes(
        kept,
        Steps.of(words, NEGATIONS),
        100.0,
        near,
        np.zeros((UNITS, 2), np.float32),
        count=300,
        units=UNITS,
        marked=True,
    )
    assert all(form[4] and not form[5:].any() for form in found if form.any())
