"""A budget is spent once: in one run, in two runs at once, and in one run after another. See docs/conformance.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbart.errors import BudgetExceeded
from dpbart.options.rewriting import Request
from dpbart.rewrite.job import plan
from dpbart.testing import described
from tests.conformance.watched import BOTH, received, watched_rewriter
from tests.rewrite.jobs import inline, run


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "in.csv"
    file.write_text("who,text\nanna,the same text\nben,a song\n")
    return file


def request_for(notes: Path, out: str, **settings: float) -> Request:
    target = Path(out) if out == "-" else notes.with_name(out)
    return Request(notes, target, person_column="who", ledger=notes.with_name("l.db"), **settings)


@pytest.mark.parametrize("kind", BOTH)
def test_a_second_run_over_the_same_people_is_refused(kind: str, notes: Path) -> None:
    run(request_for(notes, "out.csv", person_budget=15), watched_rewriter(kind))
    rewriter = watched_rewriter(kind)
    with pytest.raises(BudgetExceeded):
        run(request_for(notes, "again.csv", person_budget=15), rewriter)
    assert received(rewriter) == []
    assert not notes.with_name("again.csv").exists()


@pytest.mark.parametrize("out", ["second.csv", "-"])
@pytest.mark.parametrize("kind", BOTH)
def test_a_person_budget_holds_when_another_run_has_spent_it_since_the_plan(
    kind: str, out: str, notes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rewriter = watched_rewriter(kind)
    first, second = (
        plan(request_for(notes, name, person_budget=15), described(rewriter)) for name in ("first.csv", out)
    )
    first.run(inline(rewriter))
    capfd.readouterr()
    with pytest.raises(BudgetExceeded):
        second.run(inline(rewriter))
    assert not notes.with_name("second.csv").exists()
    assert "rewritten" not in capfd.readouterr().out


@pytest.mark.parametrize("kind", BOTH)
def test_the_same_text_twice_is_paid_twice_and_drawn_twice(kind: str, notes: Path) -> None:
    notes.write_text("who,text\nanna,the same text\nanna,the same text\n")
    card = run(request_for(notes, "out.csv"), watched_rewriter(kind))
    assert card.person.most_texts == 2
    assert card.person.guarantee is not None
    assert card.person.guarantee.epsilon > 12  # for 10 twice; the exact sum is a little below 20
    with pytest.raises(BudgetExceeded):
        run(request_for(notes, "more.csv", person_budget=12), watched_rewriter(kind))
    rewriter = watched_rewriter(kind, epsilon=0.01)
    draws = {str(rewriter.channel.send(rewriter.model.encode(["same"] * 4), rewriter.entropy).values) for _ in "1234"}
    assert len(draws) == 4
