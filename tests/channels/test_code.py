"""The channel of codes: which size at which budget, and one code in, one code out."""

from __future__ import annotations

import pytest

from dpbart.channels.code import CodeChannel, CodeSize, CodeTable, make_channel
from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import SystemEntropy

TABLE = CodeTable(((0.5, 1, 1), (4.0, 6, 5), (700.0, 1000, 8)), book_bits=3)


@pytest.mark.parametrize(("bits", "gist_bits"), [(1, 0), (1, 1), (1024, 0), (1024, 1024), (8, 3)])
def test_a_code_has_from_1_to_1024_bits(bits: int, gist_bits: int) -> None:
    assert CodeSize(bits, gist_bits).wording_bits == bits - gist_bits


@pytest.mark.parametrize(("bits", "gist_bits"), [(0, 0), (1025, 0), (8, 9), (8, -1)])
def test_other_sizes_are_refused(bits: int, gist_bits: int) -> None:
    with pytest.raises(BadParameter, match=f"from 1 to 1024 bits, the gist's among them, got {bits} and {gist_bits}"):
        CodeSize(bits, gist_bits)


@pytest.mark.parametrize(
    ("epsilon", "bits", "gist_bits"),
    [(0.01, 1, 1), (0.5, 1, 1), (3.999, 1, 1), (4.0, 6, 5), (699.0, 6, 5), (700.0, 1000, 8), (1e5, 1000, 8)],
)
def test_a_budget_has_the_size_of_the_row_below_it(epsilon: float, bits: int, gist_bits: int) -> None:
    near = 4 if bits == gist_bits else 1  # 8 texts of the book, in sets of 4 that share one bit
    assert TABLE.size(epsilon) == CodeSize(bits, gist_bits, near)
    channel = make_channel(TABLE, "response", epsilon=epsilon)
    assert channel == CodeChannel(CodeSize(bits, gist_bits, near), Response(epsilon, 2**bits, near))
    assert channel.facts.guarantee.epsilon == epsilon
    of_the_book = "|near:4" if near > 1 else ""
    assert channel.facts.recipe.endswith(f"|bits:{bits}{of_the_book}|gist:{gist_bits}")


@pytest.mark.parametrize("rows", [(), ((4.0, 6, 5), (0.5, 1, 1)), ((4.0, 6, 5), (4.0, 6, 5))])
def test_a_table_that_is_empty_or_out_of_order_is_refused(rows: tuple[tuple[float, int, int], ...]) -> None:
    with pytest.raises(BadParameter, match="must have rows, their epsilons ascending"):
        CodeTable(rows, book_bits=8)


def test_only_the_epsilons_of_a_table_must_ascend() -> None:
    table = CodeTable(((1.0, 9, 4), (2.0, 9, 3), (3.0, 5, 2)), book_bits=8)
    assert [table.size(epsilon) for epsilon in (1.0, 2.0, 3.0)] == [CodeSize(9, 4), CodeSize(9, 3), CodeSize(5, 2)]


def test_a_code_without_wording_fits_into_the_book() -> None:
    assert CodeTable(((1.0, 8, 8),), book_bits=8).largest == CodeSize(8, 8, 1)
    with pytest.raises(BadParameter, match="at most the 7 bits of the book"):
        CodeTable(((1.0, 8, 8),), book_bits=7)


def test_without_randomness_the_largest_codes_are_sent_as_they_are() -> None:
    channel = make_channel(TABLE, "none", epsilon=None)
    codes = [0, 5, 2**1000 - 1]
    sent = channel.send([[code] for code in codes], SystemEntropy())
    assert (channel, list(sent.values)) == (CodeChannel(TABLE.largest, NonPrivate()), codes)
    assert sent.facts == channel.facts
    assert sent.facts.recipe == "mech:none|eps:inf|delta:0|bits:1000|gist:8|NOT PRIVATE"


def test_a_channel_gives_a_code_for_each_code_with_its_facts() -> None:
    channel = make_channel(TABLE, "response", epsilon=4.0)
    sent = channel.send([[1], [2], [63], []], SystemEntropy())
    assert len(sent.values) == 4
    assert all(0 <= code < 2**6 for code in sent.values)
    assert sent.facts == channel.facts


@pytest.mark.parametrize(("mechanism", "epsilon"), [("gaussian", 1.0), ("response", None)])
def test_a_mechanism_that_is_not_for_codes_is_refused(mechanism: str, epsilon: float | None) -> None:
    with pytest.raises(BadParameter, match=f"a code needs the mechanism 'response' or 'none', got '{mechanism}'"):
        make_channel(TABLE, mechanism, epsilon=epsilon)
