"""What a run says before anything is released."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.request import Request
from dpbart.testing import described, fake_rewriter


def said(file: Path, *, epsilon: float = 1.0, out: str = "out.csv", **request: object) -> list[str]:
    rewriter = described(fake_rewriter(epsilon=epsilon))
    model = replace(rewriter.model, writes=30, language="Welsh")
    target = Path("-") if out == "-" else file.with_name(out)
    job = plan(Request(file, target, **request), replace(rewriter, model=model))  # type: ignore[arg-type]
    lines = notices(job)
    job.account.close()
    return lines


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    file = tmp_path / "in.csv"
    file.write_text("id,text,nurse_notes,note_id,who\n1,SECRET one,SECRET two,7,anna\n2,SECRET three,,8,anna\n")
    return file


def test_a_run_says_what_its_model_reads_and_writes_and_knows(hospital: Path) -> None:
    assert said(hospital)[0] == (
        "The model fake reads the first 20 tokens of each text (a token is a word or a part of one) and writes at most "
        "30. It knows Welsh."
    )


def test_a_column_that_sounds_like_free_text_is_named(hospital: Path) -> None:
    warning = "Warning: 'nurse_notes': the column looks like free text, and the output holds it UNCHANGED"
    assert [line[: len(warning)] for line in said(hospital)[1:]] == [warning]
    assert len(said(hospital, out="out.txt")) == 1  # only texts are released
    assert len(said(hospital, label_column="nurse_notes", labels="drop")) == 1
    assert len(said(hospital, person_column="who", join_documents=True)) == 1


def test_names_and_types_decide_and_never_values(tmp_path: Path) -> None:
    typed = tmp_path / "in.parquet"
    columns = {"text": ["a"], "comment": ["SECRET"], "review": [5], "remarks": [["a"]], "x": ["a long free text " * 9]}
    pq.write_table(pa.table(columns), typed)
    assert said(typed, out="out.parquet")[1].startswith("Warning: 'comment': the column looks")
    assert not any("SECRET" in line for line in said(typed, out="out.parquet"))


@pytest.mark.parametrize(("epsilon", "words"), [(20.0, None), (21.0, "is weak."), (2500.0, "is almost none.")])
def test_a_weak_budget_is_one_plain_line(tmp_path: Path, epsilon: float, words: str | None) -> None:
    (tmp_path / "in.csv").write_text("text\na child\na boat\n")
    lines = [line for line in said(tmp_path / "in.csv", epsilon=epsilon) if line.startswith("Epsilon")]
    assert len(lines) == (0 if words is None else 1)
    if words is not None:
        assert words in lines[0]
        assert "An attacker may pick the right one of two texts practically always" in lines[0]


def test_a_run_without_noise_says_that_it_is_not_private(hospital: Path) -> None:
    job = plan(Request(hospital, hospital.with_name("o.csv")), described(fake_rewriter(mechanism="none", epsilon=None)))
    assert notices(job)[1] == "NOT PRIVATE: nothing is promised. An attacker may learn everything that was said."


def budget_line(file: Path, **request: object) -> str | None:
    return next((line for line in said(file, **request) if line.startswith("Epsilon")), None)  # type: ignore[arg-type]


def test_the_line_says_whose_budget_it_is(hospital: Path) -> None:
    assert budget_line(hospital, epsilon=15.0) is None  # of one text
    one_text = "Epsilon 30 for each text: the promise is weak. An attacker may pick the right one of two texts "
    assert (budget_line(hospital, epsilon=30.0) or "").startswith(one_text)
    person = budget_line(hospital, epsilon=30.0, person_column="who") or ""
    assert re.match(r"Epsilon 49\.\d+ for all texts of one person, at most 2: the promise is weak\. ", person)
    assert "An attacker may pick the right one of two possibilities practically always" in person
    assert "for all texts of one id, at most 2:" in (budget_line(hospital, epsilon=30.0, id_column="who") or "")
    joined = budget_line(hospital, epsilon=30.0, person_column="who", join_documents=True) or ""
    assert joined.startswith("Epsilon 30 for each person, whose texts are joined: the promise is weak.")
    row = budget_line(hospital, epsilon=30.0, text_column=("text", "nurse_notes")) or ""
    assert "for all 2 texts of a row: the promise is weak." in row


def test_a_shuffled_run_says_whose_the_smaller_epsilon_is(hospital: Path) -> None:
    rewriter = described(fake_rewriter(epsilon=1.0, mechanism="laplace"))
    for people, whose in ((None, "one row"), ("who", "all rows of one person, at most 2")):
        job = plan(Request(hospital, hospital.with_name("o.csv"), shuffle=True, person_column=people), rewriter)
        assert job.shuffling is not None
        told = f"The rows are shuffled: epsilon 1 for each row, and {job.shuffling.guarantee} for {whose}, to those who"
        assert any(line.startswith(told) for line in notices(job))


def test_standard_output_has_no_card_and_says_so(hospital: Path) -> None:
    no_card = "No privacy card is written for standard output. To keep one, pass --card FILE."
    assert said(hospital, out="-")[-1] == no_card
    assert no_card not in said(hospital, out="-", card=hospital.with_name("card.json"))
    assert no_card not in said(hospital)
