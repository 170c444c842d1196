"""Texts in memory: a pandas frame, and batches of columns from `datasets`."""

from __future__ import annotations

import json
import os
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from dpbart import Ledger, Rewriter, batch_function, rewrite_frame
from dpbart.card.verify import verify
from dpbart.errors import BadParameter, BadTable, BudgetExceeded
from dpbart.models.bundle import Bundle
from dpbart.testing import fake_rewriter


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, delta=1e-3, beams=1, batch_size=4)


def test_a_frame_keeps_its_index_and_other_columns(rewriter: Rewriter) -> None:
    frame = pd.DataFrame({"n": [1, 2, 3], "review": ["a child", None, float("nan")]}, index=["x", "y", "z"])
    before = frame.copy()
    new = rewrite_frame(frame, rewriter, text_column="review")
    pd.testing.assert_frame_equal(frame, before)
    assert (list(new.index), list(new["n"]), list(new.columns)) == (["x", "y", "z"], [1, 2, 3], ["n", "review"])
    assert all(isinstance(text, str) and text != "a child" for text in new["review"])


def test_a_batch_function_returns_the_text_column_only(rewriter: Rewriter) -> None:
    step = batch_function(rewriter)
    done = step({"text": ["a child", None, "a song"], "n": [1, 2, 3]})
    assert list(done) == ["text"]
    assert len(done["text"]) == 3


def test_bad_columns_and_a_large_delta_are_refused(rewriter: Rewriter) -> None:
    for call in (
        partial(rewrite_frame, pd.DataFrame({"a": ["x"]}), rewriter),
        partial(batch_function(rewriter), {"a": ["x"]}),
    ):
        with pytest.raises(BadParameter, match="there is no column 'text'"):
            call()
    with pytest.raises(BadParameter, match="must hold texts"):
        rewrite_frame(pd.DataFrame({"text": [1]}), rewriter)
    with pytest.raises(BadParameter, match="delta must be below 1 / 1000"):
        rewrite_frame(pd.DataFrame({"text": ["x"] * 1000}), rewriter)


VISITS = {"who": ["anna", "ben", "anna"], "text": ["a child", "a song", "a boat"], "comment": ["SECRET"] * 3}


@pytest.fixture
def pure() -> Rewriter:
    return fake_rewriter(epsilon=2.0, mechanism="laplace")


def test_a_frame_carries_its_guarantee_and_recipe(pure: Rewriter, tmp_path: Path) -> None:
    frame = pd.DataFrame(VISITS)
    frame.attrs["project"] = "visits"
    told = rewrite_frame(frame, pure).attrs
    assert told["project"] == "visits"
    assert "dpbart" not in frame.attrs
    assert (told["dpbart"]["guarantee"]["epsilon"], told["dpbart"]["person"]) == (2.0, None)
    assert told["dpbart"]["recipe"] == pure.rewrite(["a"]).recipe
    new = rewrite_frame(frame, pure, person_column="who")
    assert new.attrs["dpbart"]["person"]["epsilon"] == 4.0  # anna has two texts
    new.to_parquet(tmp_path / "new.parquet")  # pandas saves them with the frame
    assert pd.read_parquet(tmp_path / "new.parquet").attrs == new.attrs


def test_a_frame_has_a_card_that_verifies(rewriter: Rewriter, tmp_path: Path) -> None:
    frame = pd.DataFrame(VISITS, index=pd.Index(["x", "y", "z"], name="visit"))
    rewrite_frame(frame, rewriter, person_column="who", card=tmp_path / "card.json")
    held = json.loads((tmp_path / "card.json").read_text())
    assert (held["rows"], held["person"]["people"], held["person"]["most_texts"]) == (3, 2, 2)
    assert held["other_columns"] == ["visit", "who", "comment"]
    assert held["free_text_columns"] == ["comment"]
    assert held["person"]["ledger"] == "none: earlier releases are unknown"
    assert (tmp_path / "card.html").is_file()
    assert [check.name for check in verify(tmp_path / "card.json") if check.held is False] == []
    assert "SECRET" not in (tmp_path / "card.txt").read_text()


def test_an_index_that_only_numbers_the_rows_is_not_on_the_card(pure: Rewriter, tmp_path: Path) -> None:
    for index, shown in ((None, []), (pd.RangeIndex(5, 8), ["the index"]), (["x", "y", "z"], ["the index"])):
        frame = pd.DataFrame({"text": VISITS["text"]}, index=index)
        rewrite_frame(frame, pure, card=tmp_path / "card.json")
        assert json.loads((tmp_path / "card.json").read_text())["other_columns"] == shown


def test_a_frame_is_charged_to_its_people_and_not_returned_beyond_their_limit(pure: Rewriter, tmp_path: Path) -> None:
    ledger, card = tmp_path / "l.db", tmp_path / "card.json"
    charged = partial(rewrite_frame, pd.DataFrame(VISITS), pure, person_column="who", ledger=ledger, card=card)
    charged()
    with closing(Ledger(ledger)) as opened:
        assert [float(opened.spent(person).epsilon) for person in ("anna", "ben")] == [4, 2]  # type: ignore[union-attr]
        assert opened.summary().texts == 3
        opened.set_limit(Decimal(6))
    assert json.loads(card.read_text())["person"]["ledger"].startswith("recorded as run ")
    before = card.read_bytes()
    with pytest.raises(BudgetExceeded):
        charged()
    with closing(Ledger(ledger)) as opened:
        assert opened.summary().texts == 3
    assert card.read_bytes() == before


def test_batches_are_charged_and_counted_on_one_card(pure: Rewriter, tmp_path: Path) -> None:
    step = batch_function(pure, person_column="who", ledger=tmp_path / "l.db", card=tmp_path / "card.json")
    assert (step.guarantee.epsilon, step.attrs["guarantee"]["epsilon"], step.attrs["person"]) == (2.0, 2.0, None)
    for who in (["anna", "ben"], ["anna"]):
        step({"text": ["a child"] * len(who), "who": who, "n": [1] * len(who)})
    assert step.attrs["person"]["epsilon"] == 4.0
    held = json.loads((tmp_path / "card.json").read_text())
    assert (held["rows"], held["person"]["most_texts"], held["other_columns"]) == (3, 2, ["who", "n"])
    assert [check.name for check in verify(tmp_path / "card.json") if check.held is False] == []
    with closing(Ledger(tmp_path / "l.db")) as opened:
        assert (opened.summary().texts, len(opened.summary().runs)) == (3, 2)


def test_a_card_of_batches_needs_one_process(pure: Rewriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = batch_function(pure, card=tmp_path / "card.json")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BadParameter, match="a card counts the rows of one process. Leave out num_proc, or the card"):
        step({"text": ["a child"]})


def test_bad_people_of_a_frame_are_refused(pure: Rewriter, tmp_path: Path) -> None:
    frame = pd.DataFrame(VISITS)
    with pytest.raises(BadParameter, match="a ledger needs ids. Pass person_column"):
        rewrite_frame(frame, pure, ledger=tmp_path / "l.db")
    with pytest.raises(BadParameter, match="there is no column 'whom'. Pass person_column"):
        rewrite_frame(frame, pure, person_column="whom")
    with pytest.raises(BadParameter, match="the person column must not be a text column"):
        rewrite_frame(frame, pure, person_column="text")
    with pytest.raises(BadTable, match="row 2 has no id in column 'who'"):
        rewrite_frame(frame.assign(who=["anna", None, "ben"]), pure, person_column="who", ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


def test_missing_values_of_every_pandas_type_are_empty_texts(pure: Rewriter) -> None:
    frame = pd.DataFrame({"text": pd.array(["a child", None], dtype="string")})
    assert list(rewrite_frame(frame, pure)["text"]) == ["rewritten"] * 2
