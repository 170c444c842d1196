"""Whatever is done to a real card, `card verify` answers in words, and never calls a changed promise valid."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpbart.card.figures import same
from dpbart.card.verify import verify
from dpbart.errors import BadTable
from tests.card.cards import MADE, read, write_card

Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One card of every kind, without its pages: they would give every change away."""
    folder, found = tmp_path_factory.mktemp("cards"), {}
    for number, name in enumerate(MADE):
        found[name] = folder / f"{number}.json"
        found[name].write_text(write_card(name, folder / f"run{number}").read_text())
    return found


def leaves(held: object, path: Path_ = ()) -> list[Path_]:
    inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    found = [leaf for name, value in inside for leaf in leaves(value, (*path, name))]
    return found or [path]


def promised(path: Path_) -> bool:
    """Whether a value is one that the promise consists of, and that follows from the others.

    Words do not: another version may say the same differently. Only a signature protects them.
    """
    if path[0] == "noise":
        return path[1] not in ("proof", "sampler", "entropy")
    if path[0] == "person":
        return path[1] in ("guarantee", "most_texts")
    return path[0] in ("format", "private", "guarantee", "label_epsilon")


def at(held: Any, path: Path_) -> Any:
    for each in path:
        held = held[each]
    return held


def changed(held: dict[str, Any], path: Path_, value: object) -> dict[str, Any]:
    new = copy.deepcopy(held)
    at(new, path[:-1])[path[-1]] = value
    return new


def believed(file: Path) -> bool:
    """Whether the card at a path passes. Anything but an answer or a BadTable is a crash."""
    try:
        checks = verify(file)
    except BadTable:
        return False
    assert all("\n" not in each.words for each in checks)
    assert not ([each.held for each in checks[:-1]].count(False) and checks[-1].held)
    return all(each.held is not False for each in checks)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**21), 10**21),
    st.floats(),
    st.sampled_from([0, -1, 1, 2, 0.0, -0.0, 1e-300, 1e300, 0.5, 1e-9, "", "gaussian", "none", [], {}, "value:1e13"]),
    st.text(max_size=20),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner)),
)


@settings(max_examples=250)
@given(data=st.data())
def test_a_changed_promise_is_never_called_valid(cards: dict[str, Path], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(cards)))
    held = read(cards[name])
    path = data.draw(st.sampled_from(leaves(held)))
    old = at(held, path)
    scaled = st.floats(0.1, 10.0).map(lambda factor: factor * old) if type(old) in (int, float) else VALUES
    value = data.draw(VALUES | scaled)
    assume(not same(value, old) or type(value) is not type(old))
    file = cards[name].with_name("changed.json")
    file.write_text(json.dumps(changed(held, path, value)))
    passes = believed(file)
    equal = type(value) in (int, float) and type(old) in (int, float) and same(value, old)  # 4 for 4.0
    assert not (passes and promised(path) and not equal), f"{path} of {name}: {old!r} became {value!r}"


def test_true_and_false_are_never_taken_for_numbers(cards: dict[str, Path]) -> None:
    """Python says False == 0. On a card, a promise of 0 that became false is another promise."""
    for name, card in cards.items():
        held, file = read(card), card.with_name("changed.json")
        numbers = [path for path in filter(promised, leaves(held)) if type(at(held, path)) in (int, float)]
        for path in numbers:
            file.write_text(json.dumps(changed(held, path, bool(at(held, path)))))
            assert not believed(file), f"{path} of {name}"


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_bytes_never_change_the_promise_unnoticed(cards: dict[str, Path], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(cards)))
    raw = bytearray(cards[name].read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw) - 1))
        raw[start : start + data.draw(st.integers(0, 4))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"9", b"{", b'"'])
        )
    file = cards[name].with_name("damaged.json")
    file.write_bytes(raw)
    if not believed(file):
        return
    old, new = read(cards[name]), json.loads(raw)
    for path in filter(promised, leaves(old)):
        assert same(at(new, path), at(old, path)), f"{path} of {name}"


@settings(max_examples=60)
@given(data=st.data())
def test_a_missing_or_repeated_part_is_noticed(cards: dict[str, Path], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(cards)))
    held = read(cards[name])
    path = data.draw(st.sampled_from([leaf for leaf in leaves(held) if isinstance(leaf[-1], str) and promised(leaf)]))
    text, file = cards[name].read_text(), cards[name].with_name("parts.json")
    del at(new := copy.deepcopy(held), path[:-1])[path[-1]]
    file.write_text(json.dumps(new))
    assert not believed(file)
    file.write_text(text.replace(f'"{path[-1]}":', f'"{path[-1]}": 0, "{path[-1]}":', 1))
    assert not believed(file)
