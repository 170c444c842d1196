"""Requests of one process are batched together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.testing import described, fake_rewriter
from dpbart.web import queue as queue_module
from dpbart.web.guard import Problem
from dpbart.web.queue import LOADED, Batcher
from dpbart.web.releases import AnswerStore, Charge, Key, Recorder
from tests.web.running import PATIENCE, reached

TEN = ChosenModel(Settings(epsilon=10.0))


class Gate:
    """A model step that waits for the test, and remembers the sizes of its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, texts: Sequence[str]) -> Sequence[str]:
        self.batches.append(list(texts))
        self.entered.set()
        reached(self.open)
        return [text.upper() for text in texts]


def charge() -> Charge:
    return Charge(described(fake_rewriter()), {}, None, None, lambda rewriting, run: "|".join(rewriting.texts))


def queue(folder: Path, gate: Gate, *, most_waiting: int = 4_000) -> Batcher:
    releases = Recorder(None, AnswerStore(folder / "answers.db", seconds=100))
    return Batcher(releases, load=lambda settings: fake_rewriter(gate), most_waiting=most_waiting)


def test_what_waits_becomes_one_batch_and_everybody_gets_their_own(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate)
    first = batcher.submit(TEN, ["first"], charge())
    reached(gate.entered)
    others = [batcher.submit(TEN, [f"text {number}", "more"], charge()) for number in range(16)]
    elsewhere = batcher.submit(ChosenModel(Settings(epsilon=20.0)), ["other budget"], charge())
    late = batcher.submit(TEN, ["late"], charge())
    gate.open.set()
    assert first.result(PATIENCE) == "FIRST"
    assert [other.result(PATIENCE) for other in others] == [f"TEXT {number}|MORE" for number in range(16)]
    assert elsewhere.result(PATIENCE) == "OTHER BUDGET"
    assert late.result(PATIENCE) == "LATE"
    assert [len(batch) for batch in gate.batches] == [1, 32, 1, 1]


@pytest.fixture
def long_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers have all the time of the test to come back."""
    monkeypatch.setattr(queue_module, "_MOMENT", 1e9)


@pytest.mark.usefixtures("long_moment")
def test_whoever_was_just_answered_gets_a_moment_to_come_back(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate)
    first = batcher.submit(TEN, ["first"], charge())
    reached(gate.entered)
    waiting = batcher.submit(TEN, ["waiting"], charge())
    gate.open.set()
    first.result(PATIENCE)
    time.sleep(0.2)  # enough to begin the next batch, if nobody waits for the caller
    again = batcher.submit(TEN, ["again"], charge())
    assert [waiting.result(PATIENCE), again.result(PATIENCE)] == ["WAITING", "AGAIN"]
    assert gate.batches == [["first"], ["waiting", "again"]]


@pytest.mark.usefixtures("long_moment")
def test_nobody_waits_for_callers_who_were_not_there(tmp_path: Path) -> None:
    gate = Gate()
    gate.open.set()
    batcher = queue(tmp_path, gate)
    for text in ("a", "b", "c"):  # one caller
        assert batcher.submit(TEN, [text], charge()).result(PATIENCE) == text.upper()
    assert batcher.submit(TEN, ["d"] * 40, charge()).result(PATIENCE)  # more than a batch
    assert batcher.submit(TEN, ["e"] * 32, charge()).result(PATIENCE)
    assert batcher.submit(TEN, ["e"], charge()).result(PATIENCE) == "E"  # the same caller, with less
    assert (
        batcher.submit(ChosenModel(Settings(epsilon=20.0)), ["f"], charge()).result(PATIENCE) == "F"
    )  # for another model
    assert batcher.submit(TEN, ["g"], charge()).result(PATIENCE) == "G"


@pytest.mark.usefixtures("long_moment")
def test_a_server_that_ends_waits_for_nobody(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate)
    first = batcher.submit(TEN, ["a"], charge())
    reached(gate.entered)
    batcher.submit(TEN, ["b"], charge())  # waits for the first caller
    gate.open.set()
    first.result(PATIENCE)
    batcher.close()
    assert not batcher._thread.is_alive()


def test_too_many_waiting_texts_are_refused_and_the_others_answered(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate, most_waiting=3)
    first = batcher.submit(TEN, ["first"], charge())
    reached(gate.entered)
    second = batcher.submit(TEN, ["a", "b"], charge())
    with pytest.raises(Problem, match="429"):
        batcher.submit(TEN, ["c", "d"], charge())
    job = batcher.submit_uncharged(TEN, ["of a file"])
    gate.open.set()
    assert [first.result(PATIENCE), second.result(PATIENCE), job.result(PATIENCE).texts] == [
        "FIRST",
        "A|B",
        ("OF A FILE",),
    ]


def test_a_large_request_is_cut_and_its_rest_waits_behind_others(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate)
    large = batcher.submit(TEN, [f"large {number}" for number in range(80)], charge())
    reached(gate.entered)
    others = [batcher.submit(TEN, ["small"], charge()), batcher.submit(TEN, ["two", "texts"], charge())]
    gate.open.set()
    assert [other.result(PATIENCE) for other in others] == ["SMALL", "TWO|TEXTS"]
    assert large.result(PATIENCE) == "|".join(f"LARGE {number}" for number in range(80))
    assert [len(batch) for batch in gate.batches] == [32, 3, 32, 16]


def test_many_beams_make_small_batches(tmp_path: Path) -> None:
    gate = Gate()
    gate.open.set()
    batcher = queue(tmp_path, gate)
    for beams in (100, 20, 1):
        many = ChosenModel(Settings(epsilon=10.0, beams=beams))
        assert len(batcher.submit_uncharged(many, ["a"] * 33).result(PATIENCE).texts) == 33
    assert [len(batch) for batch in gate.batches] == [*[3] * 11, *[16, 16, 1], *[32, 1]]


def test_work_that_nobody_waits_for_is_dropped(tmp_path: Path) -> None:
    gate = Gate()
    batcher = queue(tmp_path, gate, most_waiting=100)
    large = batcher.submit(TEN, ["large"] * 90, charge())
    reached(gate.entered)
    waiting = batcher.submit(TEN, ["waiting"] * 40, charge())  # 98 with the rest of the first
    assert large.cancel()
    assert waiting.cancel()
    last = batcher.submit(TEN, ["last"] * 90, charge())  # nobody waits any more, so there is room
    gate.open.set()
    assert last.result(PATIENCE) == "|".join(["LAST"] * 90)
    assert [batch[0] for batch in gate.batches] == ["large", *["last"] * 3]
    assert batcher.waiting() == 0


def test_what_is_being_recorded_is_finished(tmp_path: Path) -> None:
    """Whoever is charged gets the answer, or finds it under their key."""
    recording, go = threading.Event(), threading.Event()

    def rendered(rewriting: Rewriting, run: str | None) -> str:
        recording.set()
        reached(go)
        return "recorded"

    gate = Gate()
    gate.open.set()
    batcher = queue(tmp_path, gate)
    work = batcher.submit(TEN, ["a"], replace(charge(), render=rendered))
    reached(recording)
    assert not work.cancel()
    go.set()
    assert work.result(PATIENCE) == "recorded"


def test_an_error_reaches_its_caller_and_the_next_one_is_served(tmp_path: Path) -> None:
    def load(chosen: ChosenModel) -> Rewriter:
        if chosen.settings.epsilon == 20:
            raise ValueError("broken")
        return fake_rewriter(epsilon=chosen.settings.epsilon)

    batcher = Batcher(Recorder(None, AnswerStore(tmp_path / "answers.db", seconds=100)), load=load)
    broken = batcher.submit(ChosenModel(Settings(epsilon=20.0)), ["a"], charge())
    with pytest.raises(ValueError, match="broken"):
        broken.result(PATIENCE)
    assert batcher.submit(TEN, ["a"], charge()).result(PATIENCE) == "rewritten"


def test_an_answer_that_cannot_be_stored_refuses_no_batch_of_a_file(tmp_path: Path) -> None:
    gate, answers = Gate(), AnswerStore(tmp_path / "answers.db", seconds=100)
    batcher = Batcher(Recorder(None, answers), load=lambda settings: fake_rewriter(gate))
    first = batcher.submit(TEN, ["first"], charge())
    reached(gate.entered)
    answers._connection.execute("DROP TABLE answers")
    refused = batcher.submit(TEN, ["a"], replace(charge(), key=Key.of("k" * 16, b"")))
    job = batcher.submit_uncharged(TEN, ["of a file"])
    gate.open.set()
    assert (first.result(PATIENCE), job.result(PATIENCE).texts) == ("FIRST", ("OF A FILE",))
    with pytest.raises(Problem, match="503"):
        refused.result(PATIENCE)


def test_only_a_few_models_stay_in_memory(tmp_path: Path) -> None:
    loaded: list[ChosenModel] = []

    def load(chosen: ChosenModel) -> Rewriter:
        loaded.append(chosen)
        return fake_rewriter(epsilon=chosen.settings.epsilon)

    batcher = Batcher(Recorder(None, AnswerStore(tmp_path / "answers.db", seconds=100)), load=load)
    budgets = [ChosenModel(Settings(epsilon=float(number))) for number in range(1, LOADED + 2)]
    for settings in (*budgets, budgets[1], budgets[0]):
        batcher.submit(settings, ["a"], charge()).result(PATIENCE)
    assert loaded == [*budgets, budgets[0]]
