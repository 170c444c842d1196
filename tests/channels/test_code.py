"""The channel of codes: which size at which budget, and one code in, one code out."""

from __future__ import annotations

import pytest

from dpbart.channels.code import CodeChannel, CodeSize, CodeTable, make_channel
from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import SystemEntropy

ROWS = ((0.5, 1, 1, 4), (4.0, 6, 1, 2), (15.0, 14, 2, 2), (20.0, 25, 2, 1), (700.0, 1000, 8, 1))
TABLE = CodeTable(ROWS, worded_from=24)
SENTENCES = 512


def channel_of(mechanism: str, epsilon: float | None, *, book_only: bool = False) -> CodeChannel:
    return make_channel(TABLE, mechanism, epsilon=epsilon, sentences=SENTENCES, book_only=book_only, model="mine")


@pytest.mark.parametrize(
    "size",
    [CodeSize(1, 1, 1), CodeSize(1024, 1, 1, worded=True), CodeSize(24, 2, 12, 3), CodeSize(25, 2, 12, worded=True)],
)
def test_a_code_holds_its_places(size: CodeSize) -> None:
    assert size.wording_bits == (size.bits - 1 if size.worded else 0)
    assert size.values == size.near << size.place_bits
    assert size.sentences == size.values - (size.near if size.places > 1 else 0)


@pytest.mark.parametrize(
    ("bits", "places", "place_bits", "near", "worded"),
    [
        (0, 1, 0, 1, False),
        (1025, 1, 1, 1, True),
        (8, 1, 9, 1, False),
        (9, 2, 4, 1, False),  # a bit is left over
        (8, 2, 4, 1, True),  # none is left for the form
        (9, 2, 4, 2, True),  # a wording is one value
        (8, 0, 8, 1, False),
        (8, 2, 4, 0, False),
    ],
)
def test_other_sizes_are_refused(bits: int, places: int, place_bits: int, near: int, worded: bool) -> None:
    with pytest.raises(BadParameter, match="from 1 to 1024 bits that hold its places"):
        CodeSize(bits, places, place_bits, near, worded)


@pytest.mark.parametrize(
    ("epsilon", "size"),
    [
        (0.01, CodeSize(1, 1, 1, 4)),
        (3.999, CodeSize(1, 1, 1, 4)),
        (4.0, CodeSize(6, 1, 6, 2)),
        (15.0, CodeSize(14, 2, 7, 2)),
        (20.0, CodeSize(25, 2, 9, worded=True)),  # 9 bits name all 512 sentences but one, and silence
        (700.0, CodeSize(1000, 8, 9, worded=True)),
    ],
)
def test_a_budget_has_the_size_of_the_row_below_it(epsilon: float, size: CodeSize) -> None:
    assert TABLE.size(epsilon, sentences=SENTENCES) == size
    channel = channel_of("response", epsilon)
    places = 1 if size.worded else size.places
    assert channel == CodeChannel(size, Response(epsilon, 2**size.bits, size.near, places))
    assert channel.facts.guarantee.epsilon == epsilon
    assert channel.facts.recipe.endswith("|form:wording" if size.worded else "|form:book")


def test_fewer_sentences_need_fewer_bits() -> None:
    assert TABLE.size(4.0, sentences=33) == CodeSize(5, 1, 5, 1)
    assert TABLE.size(4.0, sentences=127) == CodeSize(6, 1, 6, 1)
    assert TABLE.size(4.0, sentences=128) == CodeSize(6, 1, 6, 2)
    assert TABLE.size(15.0, sentences=31) == CodeSize(10, 2, 5, 1)  # 31 sentences and silence
    large = CodeTable(((1.0, 9, 1, 64),), None)
    assert large.size(1.0, sentences=95) == CodeSize(6, 1, 6, 1)
    assert large.size(1.0, sentences=96) == CodeSize(5, 1, 5, 3)  # all 96 can come out, instead of 64
    with pytest.raises(BadParameter, match="at least two sentences that can come out, got 1"):
        TABLE.size(4.0, sentences=1)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 15.0, 20.0, 700.0])
def test_no_code_names_more_sentences_than_there_are(epsilon: float) -> None:
    for sentences in range(2, 300):
        for book_only in (False, True):
            size = TABLE.size(epsilon, sentences=sentences, book_only=book_only)
            assert size.sentences <= sentences
            assert size.worded is (size.bits >= 24 and not book_only and epsilon >= 20)


def test_two_places_that_cannot_name_the_whole_book_share_their_bits_unevenly() -> None:
    large = CodeTable(((20.0, 25, 2, 1),), 24)
    assert large.size(20.0, sentences=1 << 15) == CodeSize(25, 2, 15, worded=True, second_bits=8, named=1 << 15)
    shorter = CodeTable(((20.0, 24, 2, 1),), 24)
    assert shorter.size(20.0, sentences=1 << 15) == CodeSize(24, 2, 15, worded=True, second_bits=7, named=1 << 15)
    assert large.size(20.0, sentences=4095) == CodeSize(25, 2, 12, worded=True)  # 12 bits each are enough
    some = large.size(20.0, sentences=1873)
    assert some == CodeSize(25, 2, 11, worded=True, second_bits=11, named=1873)
    assert some.sentences == 1873
    assert some.second_sentences == 2047


@pytest.mark.parametrize(
    ("place_bits", "second_bits", "named", "worded"),
    [
        (15, 9, 1 << 15, True),  # no bit is left for the order
        (15, 8, (1 << 15) + 1, True),  # the first place cannot name all
        (9, 11, 512, True),  # the second place is larger than the book
        (15, 0, 1 << 15, True),
        (15, 8, 1 << 15, False),  # such codes need a form
    ],
)
def test_other_uneven_sizes_are_refused(place_bits: int, second_bits: int, named: int, worded: bool) -> None:
    with pytest.raises(BadParameter, match="from 1 to 1024 bits that hold its places"):
        CodeSize(25, 2, place_bits, worded=worded, second_bits=second_bits, named=named)


def test_with_the_book_alone_no_code_is_wording() -> None:
    assert TABLE.size(20.0, sentences=SENTENCES, book_only=True) == CodeSize(18, 2, 9, 1)
    assert channel_of("response", 20.0, book_only=True).mechanism == Response(20.0, 1 << 18, 1, 2)


def test_a_budget_that_the_model_cannot_use_is_refused_with_the_reason() -> None:
    with pytest.raises(
        BadParameter, match="at most 700 for 'mine', got 701: its longest code has 1000 bits, and the rest"
    ):
        channel_of("response", 701.0)


@pytest.mark.parametrize("rows", [(), (ROWS[1], ROWS[0]), (ROWS[1], ROWS[1])])
def test_a_table_that_is_empty_or_out_of_order_is_refused(rows: tuple[tuple[float, int, int, int], ...]) -> None:
    with pytest.raises(BadParameter, match="must have rows with ascending epsilons"):
        CodeTable(rows, worded_from=None)


def test_without_randomness_the_largest_codes_are_sent_as_they_are() -> None:
    channel = channel_of("none", None)
    codes = [0, 5, 2**1000 - 1]
    sent = channel.send([[code] for code in codes], SystemEntropy())
    largest = TABLE.largest(sentences=SENTENCES)
    assert (channel, list(sent.values)) == (CodeChannel(largest, NonPrivate()), codes)
    assert sent.facts == channel.facts
    assert sent.facts.recipe == "mech:none|eps:inf|delta:0|bits:1000|form:wording|NOT PRIVATE"


def test_without_randomness_the_nearest_sentence_of_each_place_is_sent() -> None:
    size = CodeSize(14, 2, 7, 2)
    sent = CodeChannel(size, NonPrivate()).send([[3, 9, 255, 7]], SystemEntropy())
    assert sent.values == (3 * 256 + 255,)


def test_a_channel_gives_a_code_for_each_code_with_its_facts() -> None:
    channel = channel_of("response", 4.0)
    sent = channel.send([[1, 2], [2, 0], [127, 126], []], SystemEntropy())
    assert len(sent.values) == 4
    assert all(0 <= code < 2**7 for code in sent.values)
    assert sent.facts == channel.facts


@pytest.mark.parametrize(("mechanism", "epsilon"), [("gaussian", 1.0), ("response", None)])
def test_a_mechanism_that_is_not_for_codes_is_refused(mechanism: str, epsilon: float | None) -> None:
    with pytest.raises(BadParameter, match=f"a code needs the mechanism 'response' or 'none', got '{mechanism}'"):
        channel_of(mechanism, epsilon)
