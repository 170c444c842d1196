"""What `import dpbart` offers, and the fake model for other people's tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dpbart
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter


def test_everything_that_is_listed_can_be_had() -> None:
    offered = set(dir(dpbart))
    assert {"Rewriter", "Rewriting", "Guarantee", "rewrite_file", "rewrite_frame", "batch_function"} <= offered
    assert {"Ledger", "Card", "Request", "Settings", "DpbartError", "BudgetExceeded"} <= offered
    assert offered == set(dpbart.__all__)
    for name in offered:
        assert getattr(dpbart, name) is not None
    with pytest.raises(AttributeError, match="module 'dpbart' has no attribute 'Task'"):
        _ = dpbart.Task


def test_a_missing_text_is_refused_without_its_neighbours() -> None:
    with pytest.raises(dpbart.BadParameter) as refused:
        fake_rewriter().rewrite(["SECRET", None])  # type: ignore[list-item]
    assert str(refused.value) == "texts must be strings, got NoneType as text 2. Pass '' for a missing text."


def test_the_fake_needs_no_torch() -> None:
    code = (
        "import sys; from dpbart.testing import fake_rewriter\n"
        "print(fake_rewriter(epsilon=10).rewrite(['A text.']).texts, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "('rewritten',) False"


def test_a_fake_has_the_guarantee_the_card_and_the_ledger_of_a_real_one(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,text\nanna,a\nben,b\nanna,c\n")
    rewriter = fake_rewriter(lambda texts: [text.upper() for text in texts], epsilon=3, delta=1e-6)
    assert (rewriter.rewrite(["a"]).guarantee.epsilon, rewriter.rewrite(["a"]).texts) == (3, ("A",))
    request = dpbart.Request(
        tmp_path / "in.csv", tmp_path / "out.csv", person_column="who", ledger=tmp_path / "budgets.db"
    )
    card = plan(request, described(rewriter)).run(Inline(lambda: rewriter))
    assert (tmp_path / "out.csv").read_text() == "text\nA\nB\nC\n"
    assert (card.guarantee, card.model.name) == (dpbart.Guarantee(3, 1e-6), "fake")
    spent = dpbart.Ledger(tmp_path / "budgets.db").spent("anna")
    assert spent is not None
    assert spent.guarantee == card.person.guarantee
    assert fake_rewriter(replay_seed=1).rewrite([]).guarantee.private is False


def test_a_job_refuses_another_rewriter_than_it_was_planned_for(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    planned, other = fake_rewriter(epsilon=3), fake_rewriter(epsilon=4)
    job = plan(dpbart.Request(tmp_path / "in.txt", tmp_path / "out.txt"), described(planned))
    with pytest.raises(dpbart.BadParameter, match="must run with the rewriter it was planned for"):
        job.run(Inline(lambda: other))
    assert not (tmp_path / "out.txt").exists()


def test_a_whole_file_in_one_call(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Please remind me to call the bank.\n")
    request = dpbart.Request(tmp_path / "in.txt", tmp_path / "out.txt")
    card = dpbart.rewrite_file(request, dpbart.Settings("mini", epsilon=500, beams=1))
    assert card.rows == 1
    assert (tmp_path / "out.txt.card.json").is_file()
