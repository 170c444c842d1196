"""One person has one id, however it is written."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbart.ledger.ids import normal_id


@pytest.mark.parametrize(
    ("same", "form"),
    [
        ([7, 7.0, Decimal("7.00"), "7", "7.0", " 7 ", "+7", "007", "7.", "7e0", "70e-1", "\t7\n"], "7"),
        ([0, -0.0, "0.00", "-0"], "0"),
        ([-2.5, "-2.50", "-02.5"], "-2.5"),
        ([1e22, "1e22", "10000000000000000000000"], "10000000000000000000000"),
        ([True, "True", "true", " TRUE "], "true"),
        ([False, "False"], "false"),
        (["Zo\u00eb", "Zoe\u0308", " Zo\u00eb\u00a0"], "Zo\u00eb"),
        (["Anna"], "Anna"),
        (["anna"], "anna"),
        ([None, float("nan"), "", "  "], ""),
        (["1e999999999"], "1e999999999"),
        (["9" * 41 + ".0"], "9" * 41 + ".0"),
        (["1_000"], "1_000"),
        ([["b", 1], '["b", 1]'], '["b", 1]'),
        ([{"b": 1, "a": "\u00eb"}, {"a": "e\u0308", "b": 1}], '{"a": "\u00eb", "b": 1}'),
        ([date(2026, 1, 2), "2026-01-02"], "2026-01-02"),
        (["a\0b\ud800"], "a\ufffdb\ufffd"),
    ],
)
def test_values_of_one_person_have_one_form(same: list[object], form: str) -> None:
    assert {normal_id(each) for each in same} == {form}


@given(st.one_of(st.text(), st.floats(), st.integers(), st.from_regex(r"[+-]?[0-9.]{1,50}(e-?[0-9]{1,3})?")))
def test_a_normal_form_does_not_change_again(value: object) -> None:
    assert normal_id(normal_id(value)) == normal_id(value)
