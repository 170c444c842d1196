"""What a run says before anything is released."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.options.rewriting import Request
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import level_of, odds
from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.testing import described, fake_rewriter


def said(file: Path, *, epsilon: float = 1.0, out: str = "out.csv", **request: object) -> list[str]:
    rewriter = described(fake_rewriter(epsilon=epsilon))
    model = replace(rewriter.model, writes=30, language="Welsh")
    target = Path("-") if out == "-" else file.with_name(out)
    job = plan(Request(file, target, **request), replace(rewriter, model=model))
    lines = notices(job)
    job.account.close()
    return lines


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    file = tmp_path / "in.csv"
    file.write_text("id,text,nurse_notes,note_id,who\n1,SECRET one,SECRET two,7,anna\n2,SECRET three,,8,anna\n")
    return file


def test_a_run_begins_with_five_lines(hospital: Path) -> None:
    """What it reads, writes and releases, to whom the promise is made, and the promise in words."""
    out, promised = hospital.with_name("out.csv"), Guarantee(2.5, 1e-5)
    level, facts = level_of(promised), fake_rewriter(epsilon=2.5).facts
    assert said(hospital, epsilon=2.5) == [
        f"Reads: {hospital}, 2 texts in the column 'text'. The model fake reads the first 20 tokens of each (a token "
        "is a word or a part of one). It knows Welsh.",
        f"Writes: {out}, at most 30 tokens for each text, and the card {out}.card.json.",
        "Released: the new texts. No other column.",
        "To whom: The person behind each text, for that text alone. It is not known which texts belong to one person, "
        "and somebody with several texts is promised less.",
        f"Promise: MODERATE. Epsilon 2.5, delta 1e-05 for each text. {level.meaning} {odds(promised, facts=facts)}",
    ]


def line(name: str, file: Path, **request: object) -> str:
    """One of the five lines, without its name."""
    (found,) = [each for each in said(file, **request)[:5] if each.startswith(f"{name}: ")]  # type: ignore[arg-type]
    return found.removeprefix(f"{name}: ")


def test_the_texts_are_counted_as_they_are_released(hospital: Path) -> None:
    both = {"text_column": ("text", "nurse_notes")}
    assert "4 texts in the columns 'text', 'nurse_notes'. " in line("Reads", hospital, **both)
    assert "2 texts in the columns 'text', 'nurse_notes', joined. " in line(
        "Reads", hospital, **both, join_columns=True
    )
    joined = line("Reads", hospital, person_column="who", join_documents=True)
    assert "2 texts in the column 'text', as 1 document, one for each person. " in joined
    assert line("Writes", hospital, out="-") == "standard output, at most 30 tokens for each text."


def test_everything_that_is_released_is_listed(hospital: Path) -> None:
    kept = line("Released", hospital, keep_columns=["id", "who"])
    assert kept == "the new texts; and unchanged, without protection: 'id', 'who'."
    everything = line("Released", hospital, keep_all=True)
    assert everything.endswith("without protection: 'id', 'nurse_notes', 'note_id', 'who'.")
    public = line("Released", hospital, label_column="note_id", labels="public")
    assert public == "the new texts; and unchanged, without protection: 'note_id'."
    labels = {"label_column": "note_id", "labels": "randomize:1", "label_set": ("7", "8")}
    assert (
        line("Released", hospital, **labels) == "the new texts and the randomised labels in 'note_id'. No other column."
    )
    assert line("Released", hospital, label_column="note_id", labels="drop") == "the new texts. No other column."


def test_the_promise_is_to_people_if_they_are_known(hospital: Path) -> None:
    whose = "Each person in the column 'who' (1 in all), for all of their texts in this run, up to 2."
    assert line("To whom", hospital, person_column="who") == whose
    promise = line("Promise", hospital, epsilon=30.0, person_column="who")
    assert re.match(
        r"WEAK\. Epsilon 49\.\d+, delta 1e-05 for a person; epsilon 30, delta 1e-05 for each text\. ", promise
    )
    assert "This counts all texts of one person, at most 2. " in promise
    assert "An attacker may pick the right one of two possibilities practically always" in promise


def test_a_person_with_several_texts_hears_what_joining_them_would_give(hospital: Path) -> None:
    """With the figures of both, before anything is spent."""
    rewriter = described(fake_rewriter(epsilon=10.0, mechanism="laplace"))

    def told(**request: object) -> list[str]:
        job = plan(Request(hospital, hospital.with_name("o.csv"), person_column="who", **request), rewriter)
        job.account.close()
        return [each for each in notices(job) if "--join-documents" in each]

    several = (
        "All texts of one person, at most 2, are under (epsilon 20, delta 0). With --join-documents, each person is"
    )
    assert told() == [f"{several} one text, under (epsilon 10, delta 0)."]
    assert told(ledger=hospital.with_name("l.db")) == told()
    assert told(join_documents=True) == []
    (both,) = told(text_column=("text", "nurse_notes"))
    assert "at most 4, are under (epsilon 40, delta 0). With --join-columns and --join-documents, each" in both
    label = {"label_column": "note_id", "labels": "randomize:1", "label_set": ("7", "8")}
    assert told(**label)[0].endswith("each person is one text, under (epsilon 11, delta 0).")
    hospital.write_text("text,who\n" + "".join(f"a,p{n % 100}\n" for n in range(300)))
    (shuffled,) = told(shuffle=True)
    assert "at most 3, are under (epsilon 30, delta 0)." in shuffled
    assert re.search(
        r"under \(epsilon 10, delta 0\), and under \(epsilon [\d.]+, .*\) instead of \(epsilon 30, ", shuffled
    )


def test_people_with_one_text_each_need_not_join_them(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,text\na,a child\nb,a boat\n")
    assert len(said(tmp_path / "in.csv", person_column="who")) == 5


def test_a_column_that_sounds_like_free_text_is_named(hospital: Path) -> None:
    warning = "Warning: 'nurse_notes': the column looks like free text, and the output holds it UNCHANGED"
    assert [each[: len(warning)] for each in said(hospital, keep_all=True)[5:]] == [warning]
    assert len(said(hospital)) == 5  # only texts are released
    assert len(said(hospital, label_column="nurse_notes", labels="drop", keep_all=True)) == 5


def test_names_and_types_decide_and_never_values(tmp_path: Path) -> None:
    typed = tmp_path / "in.parquet"
    columns = {"text": ["a"], "comment": ["SECRET"], "review": [5], "remarks": [["a"]], "x": ["a long free text " * 9]}
    pq.write_table(pa.table(columns), typed)
    told = said(typed, out="out.parquet", keep_all=True)
    assert told[5].startswith("Warning: 'comment': the column looks")
    assert not any("SECRET" in each for each in told)


@pytest.mark.parametrize(
    ("epsilon", "level"),
    [(0.5, "STRONG"), (13.0, "LIMITED"), (13.1, "WEAK"), (30.0, "WEAK"), (2500.0, "ALMOST NONE")],
)
def test_the_promise_of_a_budget_is_in_words(tmp_path: Path, epsilon: float, level: str) -> None:
    (tmp_path / "in.csv").write_text("text\na child\na boat\n")
    promise = line("Promise", tmp_path / "in.csv", epsilon=epsilon)
    assert promise.startswith(f"{level}. Epsilon {epsilon:g}, delta 1e-05 for each text. ")
    assert ("An attacker may pick the right one of two texts" in promise) == (epsilon > 13)


def test_a_run_without_noise_says_that_it_is_not_private(hospital: Path) -> None:
    job = plan(Request(hospital, hospital.with_name("o.csv")), described(fake_rewriter(mechanism="none", epsilon=None)))
    assert notices(job)[3:] == ["To whom: Nobody.", "Promise: NONE. NOT PRIVATE: nothing is promised."]


def test_the_promise_says_whose_budget_it_is(hospital: Path) -> None:
    by_id = line("Promise", hospital, epsilon=30.0, id_column="who")
    assert (
        "for all texts with one id; epsilon 30, delta 1e-05 for each text. This counts all texts with one id" in by_id
    )
    joined = line("Promise", hospital, epsilon=30.0, person_column="who", join_documents=True)
    assert joined.startswith("WEAK. Epsilon 30, delta 1e-05 for each text. ")
    row = line("Promise", hospital, epsilon=30.0, text_column=("text", "nurse_notes"))
    assert "for all texts of a row; epsilon 30, delta 1e-05 for each text." in row


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
