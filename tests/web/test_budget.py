"""Check, record, release: what is answered is in the ledger, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.card.card import Card
from dpbart.errors import BadParameter, BudgetExceeded
from dpbart.ledger.ledger import Ledger, Run
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.testing import described, fake_rewriter
from dpbart.web.releases import AnswerStore, Charge, Key, Recorder, forget_unrecorded
from tests.web.running import in_thread


def limited(file: Path, epsilon: str) -> Path:
    ledger = Ledger(file, create=True)
    ledger.set_limit(Decimal(epsilon))
    ledger.close()
    return file


def texts_of(file: Path, person: str) -> int:
    ledger = Ledger(file)
    try:
        return sum(entry.texts for entry in ledger.entries(person))
    finally:
        ledger.close()


def test_a_refused_budget_says_what_is_left_and_spends_nothing(tmp_path: Path) -> None:
    ledger = limited(tmp_path / "l.db", "25")
    with in_thread(tmp_path / "state", ledger=ledger) as client:
        assert client.rewrite("a", "b", people=["anna", "bert"]).status == 200
        assert client.rewrite("a", people=["anna"]).status == 200
        refused = client.rewrite("a", "b", people=["carl", "anna"])
        assert (refused.status, refused.json["type"]) == (409, "urn:dpbart:budget-exceeded")
        assert refused.json["detail"].startswith("'anna' has epsilon ")
        left = {each["person"]: each for each in refused.json["left"]}
        assert (left["carl"]["spent"], left["carl"]["left"]) == ("0", "25")
        assert Decimal(left["anna"]["left"]) < 10
        assert [texts_of(ledger, person) for person in ("anna", "bert", "carl")] == [2, 1, 0]
        told = client.get("/v1/ledger").json
        assert [(each["person"], each["texts"], each["limit"]) for each in told["spending"]] == [
            ("anna", 2, "25"),
            ("bert", 1, "25"),
        ]
        assert client.get("/v1/ledger?start=1").json["spending"][0]["person"] == "bert"


def test_with_a_ledger_every_request_names_its_people(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        assert client.rewrite("a").status == 422
        assert client.upload("a.csv", b"who,text\nx,hello\n").status == 422
        job = client.upload("a.csv", b"who,text\nx,hello\n", {"epsilon": 10, "person_column": "who"}).json
        client.wait_for(job["id"], "done")
        assert client.rewrite("a", people=["x"]).status == 200
    assert texts_of(tmp_path / "l.db", "x") == 2


def never(chosen: ChosenModel) -> Rewriter:
    raise AssertionError("nothing may be rewritten")


def test_a_ledger_that_counts_texts_is_refused_before_anything_is_rewritten(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.begin(Run("run", "2026-01-02T03:04:05+00:00", "response", "mini-code", charge("anna").release, "texts"))
    ledger.close()
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db", load=never) as client:
        refused = client.rewrite("a", people=["anna"])
    assert (refused.status, refused.json["type"]) == (503, "urn:dpbart:bad-ledger")
    assert "counts texts, but this run counts people" in refused.json["detail"]


def test_an_answer_that_cannot_be_written_is_refused_before_anything_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Card) -> str:
        raise BadParameter("this card cannot be written.")

    monkeypatch.setattr(Card, "as_html", broken)
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db", load=never) as client:
        refused = client.rewrite("a", people=["anna"], card=True)
    assert (refused.status, refused.json["detail"]) == (422, "this card cannot be written.")


def test_many_callers_at_once_are_charged_exactly_and_no_further_than_the_limit(tmp_path: Path) -> None:
    ledger = limited(tmp_path / "l.db", "30")
    with in_thread(tmp_path / "state", ledger=ledger) as client, ThreadPoolExecutor(16) as callers:
        people = [f"p{number % 4}" for number in range(32)]
        answers = list(callers.map(lambda person: client.rewrite("a text", people=[person]).status, people))
    assert set(answers) == {200, 409}
    answered = Counter(person for person, status in zip(people, answers, strict=True) if status == 200)
    assert {person: texts_of(ledger, person) for person in answered} == dict(answered)


def charge(person: str, key: Key | None = None, budget: str | None = None) -> Charge:
    most = None if budget is None else Decimal(budget)
    return Charge(described(fake_rewriter()), {person: 1}, most, key, lambda rewriting, run: "|".join(rewriting.texts))


def drawn(*texts: str) -> Rewriting:
    return Rewriting(tuple(texts), fake_rewriter().facts, "recipe")


def opened(folder: Path) -> tuple[Path, AnswerStore, Recorder]:
    file, answers = folder / "l.db", AnswerStore(folder / "answers.db", seconds=100)
    Ledger(file, create=not file.exists()).close()
    return file, answers, Recorder(file, answers)


KEY = Key.of("a-key-that-is-long-enough", b"body")
OTHER = Key.of("another-key-that-is-long", b"body")


def test_an_answer_is_stored_before_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a kill in between would charge for an answer that nobody can get any more."""
    _, answers, releases = opened(tmp_path)
    seen: list[str | None] = []  # what is stored, and what somebody gets who asks now
    record = Ledger.record

    def watched(*args: object, **more: object) -> None:
        seen.extend([*(each.body for each in answers.stored()), answers.find(KEY)])
        record(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "record", watched)
    anna = charge("anna", KEY)
    assert releases.record([(anna, drawn("new"))]) == {anna: "new"}
    assert seen == ["new", None]
    assert answers.find(KEY) == "new"


def test_after_a_kill_a_recorded_answer_stays_and_an_unrecorded_one_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, releases = opened(tmp_path)
    releases.record([(charge("anna", KEY), drawn("recorded"))])

    def killed(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "record", killed)
    monkeypatch.setattr(AnswerStore, "forget", lambda *_: None)  # the process is gone
    with pytest.raises(KeyboardInterrupt):
        releases.record([(charge("bert", OTHER), drawn("never sent"))])
    monkeypatch.undo()
    again = AnswerStore(tmp_path / "answers.db", seconds=100)
    assert again.find(OTHER) == "never sent"
    forget_unrecorded(file, again)
    assert (again.find(KEY), again.find(OTHER)) == ("recorded", None)
    assert (texts_of(file, "anna"), texts_of(file, "bert")) == (1, 0)


def test_one_refused_request_of_a_batch_refuses_no_other(tmp_path: Path) -> None:
    file, answers, releases = opened(tmp_path)
    ledger = Ledger(file)
    ledger.set_limit(Decimal(10), "anna")
    ledger.close()
    batch: Sequence[tuple[Charge, Rewriting]] = [
        (charge("anna"), drawn("1")),
        (charge("anna", KEY), drawn("2")),
        (charge("bert", OTHER), drawn("3")),
    ]
    outcomes = dict(releases.record(batch))
    assert isinstance(outcomes.pop(batch[1][0]), BudgetExceeded)
    assert list(outcomes.values()) == ["1", "3"]
    assert (texts_of(file, "anna"), texts_of(file, "bert")) == (1, 1)
    assert (answers.find(KEY), answers.find(OTHER)) == (None, "3")
    forget_unrecorded(file, answers)
    assert answers.find(OTHER) == "3"


def test_requests_with_different_person_budgets_are_each_held_to_their_own(tmp_path: Path) -> None:
    file, _, releases = opened(tmp_path)
    small, large = charge("anna", budget="5"), charge("bert", budget="50")
    outcomes = releases.record([(large, drawn("1")), (small, drawn("2"))])
    assert outcomes[large] == "1"
    assert isinstance(outcomes[small], BudgetExceeded)
    assert (texts_of(file, "anna"), texts_of(file, "bert")) == (0, 1)
