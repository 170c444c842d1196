"""One vote a person, however many texts they have: shares, labels, and what one person can change at most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbart.collect import votes
from dpbart.collect.synthesize import people_of
from dpbart.collect.votes import KnownLabels, Poll, Voters, share
from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.mechanisms.geometric import UNIT, Geometric
from dpbart.rewrite.rows import numbered
from tests.collect.polls import NumberReader, Row, batches, number_cells, tally_of

CELLS = 2
LABELS = ("yes", "no")
Record = tuple[tuple[str, str], ...]  # the texts of one person, each with its label


@given(st.integers(1, 2_000))
def test_the_shares_of_a_person_are_one_whole_vote_and_differ_by_one_part(texts: int) -> None:
    shares = [share(texts, number) for number in range(texts)]
    assert sum(shares) == UNIT
    assert max(shares) - min(shares) <= (0 if texts <= 16 else 1)


def test_more_texts_than_parts_share_a_vote_too() -> None:
    assert (share(UNIT + 5, 0), share(UNIT + 5, UNIT - 1), share(UNIT + 5, UNIT)) == (1, 1, 0)


def rows_of(collection: tuple[Record, ...]) -> list[Row]:
    return [
        {"who": f"p{person}", "text": text, "label": label}
        for person, record in enumerate(collection)
        for text, label in record
    ]


def every_record() -> list[Record]:
    """Up to two texts of three kinds, one of them empty, each with one of two labels or an unknown one."""
    texts = [("", "yes"), *product(("0 a", "1 b"), (*LABELS, "perhaps"))]
    return [record for size in (1, 2) for record in combinations_with_replacement(texts, size)]


def neighbours() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The counts of all collections of two people, before and after the second is replaced by any other."""
    records = every_record()
    for stays in records:
        counts = [tally_of(rows_of((stays, other)), cells=CELLS, labels=LABELS).counts for other in records]
        yield from product(counts, counts)


def test_replacing_any_person_by_any_other_moves_at_most_one_vote() -> None:
    """By brute force. The bound is reached, so no smaller one holds."""
    apart = [int(np.abs(one - other).sum()) for one, other in neighbours()]
    assert max(apart) == 2 * UNIT
    assert len(set(apart)) > 3  # shares count, not only whole votes


def test_no_output_of_any_neighbours_is_more_likely_than_epsilon_allows() -> None:
    """In the closed form: the log ratio of an output is (|y - c'| - |y - c|) / scale, largest at y = c."""
    scale = Geometric(1.0, CELLS * len(LABELS)).scale
    worst = max(float(np.abs(one - other).sum()) / scale for one, other in neighbours())
    assert 1.0 - 1e-9 <= worst <= 1.0


def test_the_brute_force_finds_a_person_with_two_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "share", lambda texts, number: UNIT)
    person = ((("0 a", "yes"), ("1 b", "no")), (("0 a", "yes"),))
    with pytest.raises(BadParameter, match="at most one vote of each person"):
        tally_of(rows_of(person), cells=CELLS, labels=LABELS)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_texts_of_a_person_may_be_anywhere(size: int) -> None:
    rows: list[Row] = [{"who": f"p{number % 3}", "text": f"{number % 2} x"} for number in range(60)]
    one, other = (tally_of(each, cells=CELLS, size=size) for each in (rows, sorted(rows, key=lambda row: str(row))))
    assert (one.people, int(one.counts.sum())) == (3, 3 * UNIT)
    assert np.abs(one.counts - other.counts).max() <= 3  # only who gets the rest of a vote depends on the order


def test_people_with_many_texts_count_as_much_as_those_with_one() -> None:
    one: Row = {"who": "a", "text": "0"}
    many: Row = {"who": "b", "text": "1"}
    rows = [one, *[many] * 17]
    assert tally_of(rows, cells=CELLS).counts.tolist() == [[UNIT, UNIT]]


def test_ids_are_compared_in_their_normal_form() -> None:
    rows: list[Row] = [{"who": 7, "text": "0"}, {"who": "7", "text": "1"}, {"who": 7.0, "text": "1"}]
    assert tally_of(rows, cells=CELLS).counts.tolist() == [[UNIT // 3, UNIT // 3 * 2]]


def test_an_empty_text_is_no_text_and_a_person_without_any_still_counts() -> None:
    rows: list[Row] = [
        {"who": "a", "text": "0"},
        {"who": "a", "text": "  "},
        {"who": "b", "text": None},
    ]
    tally = tally_of(rows, cells=CELLS)
    assert (tally.people, tally.counts.tolist()) == (2, [[UNIT, 0]])


def test_several_text_columns_share_the_vote_of_their_row_or_person() -> None:
    rows: list[Row] = [
        {"who": "a", "text": "0", "more": "1"},
        {"who": "a", "text": "", "more": "1"},
        {"who": "b", "text": "0", "more": ""},
    ]
    columns = ("text", "more")
    by_person = tally_of(rows, cells=CELLS, text_columns=columns)
    assert (by_person.people, by_person.counts.tolist()) == (2, [[UNIT // 3 + UNIT, UNIT // 3 * 2]])
    by_row = tally_of(rows, cells=CELLS, text_columns=columns, by_person=False)
    assert (by_row.people, by_row.counts.tolist()) == (3, [[UNIT // 2 + UNIT, UNIT // 2 + UNIT]])


def test_a_text_with_an_unknown_or_missing_label_takes_its_share_and_votes_for_nothing() -> None:
    rows: list[Row] = [
        {"who": "a", "text": "0", "label": "yes"},
        {"who": "a", "text": "1", "label": "YES!"},
        {"who": "b", "text": "1", "label": None},
        {"who": "c", "text": "1", "label": " no "},
    ]
    tally = tally_of(rows, cells=CELLS, labels=LABELS)
    assert (tally.people, tally.counts.tolist()) == (3, [[UNIT // 2, 0], [0, UNIT]])


def test_a_text_that_was_not_there_when_people_were_counted_is_refused() -> None:
    rows: list[Row] = [{"who": "a", "text": "0"}] * 17
    voters = Voters(people_of("who"))
    for batch in batches(rows, ("text",), 5):
        voters.see(batch)
    for person in ("a", "b"):
        later: list[Row] = [*rows, {"who": person, "text": "0"}]
        poll = Poll(voters, None, NumberReader(CELLS), number_cells(CELLS))
        (batch,) = batches(later, ("text",), 20)
        with pytest.raises(BadTable, match="has changed since its people were counted"):
            poll.add(batch)


def test_a_row_without_an_id_is_refused_by_its_number() -> None:
    rows: list[Row] = [{"who": "a", "text": "0"}, {"who": " ", "text": "secret"}]
    with pytest.raises(BadTable, match=r"^row 2 has no id in column 'who'. Add one.$"):
        tally_of(rows, cells=CELLS)


def test_labels_are_compared_in_their_normal_form() -> None:
    labels = KnownLabels("label", numbered([1, 2]))
    (batch,) = batches([{"label": value} for value in (1, "2", 2.0, "02", None, True)], (), 9)
    assert labels.of(batch) == [0, 1, 1, -1, -1, -1]


def test_the_noise_of_these_counts_hides_a_vote() -> None:
    """The scale of the noise is two votes at epsilon 1."""
    assert math.isclose(Geometric(1.0, CELLS).scale, 2 * UNIT)
