"""Advice: what is measured, which promise follows, the rule, the page, and figures that are measured once."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadParameter, BadTable
from dpbart.evidence import advise as measuring
from dpbart.evidence.advice_page import advice_page
from dpbart.evidence.advise import COLLECTION, LABEL_EPSILON, SHUFFLED, SINGLE, Baseline, Figures, Measured, Sample
from dpbart.evidence.recommend import LIMIT, Advice, File, advise
from dpbart.options.evidence import AdviceRequest
from dpbart.options.settings import Settings
from dpbart.privacy.composition import Release, compose
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.release import shuffled_release
from dpbart.rewrite.chosen import ChosenModel

ATTACKS = {
    "singling out": {
        "attack": "singling out",
        "measure": "right of 100 candidates",
        "score": 0.3,
        "spread": 0.02,
        "chance": 0.01,
        "bound": 0.9,
        "originals": 1.0,
        "unrelated": 0.01,
        "phantom": 0.02,
        "by": "<b>words</b>",
    },
    "membership": {
        "attack": "membership",
        "measure": "area",
        "score": 0.6,
        "spread": 0.02,
        "chance": 0.5,
        "bound": 0.9,
        "originals": 1.0,
        "unrelated": 0.5,
        "phantom": 0.5,
        "by": "words",
    },
}
LABELLED = Baseline(texts=2000, sampled=1500, tested=500, labels=4, f1=0.9, control_f1=0.2, majority_f1=0.1)


def kept(release: str, epsilon: float, f1: float) -> Measured:
    """What a release kept, with labels."""
    attacks = {} if release == COLLECTION else ATTACKS
    alike = None if release == COLLECTION else 0.5
    return Measured(release, epsilon, 800, alike, 0.1, f1, 0.2, 0.5, None, attacks)


def advice(*measured: Measured, texts: int = 1, people: int = 4000, trusted: bool = False, **base: Any) -> Advice:
    figures = Figures(replace(LABELLED, **base), measured, "judge@0", own_judge=True, model="mini-code@0")
    return Advice(figures, File(texts, people, trusted), "mini-code")


def write(file: Path, rows: list[tuple[str, str]]) -> Path:
    with file.open("w", newline="") as handle:
        csv.writer(handle).writerows([("text", "label"), *rows])
    return file


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Public texts about two things."""
    rows = [
        row
        for number in range(45)
        for row in (
            (f"Please play song {number} by the band in the kitchen.", "music"),
            (f"Will it rain on day {number} in Leeds?", "weather"),
        )
    ]
    return write(tmp_path / "public.csv", rows)


def asked(file: Path, **more: Any) -> AdviceRequest:
    given = {"label_column": "label", "texts_per_person": 2, "people": 500, "out": file.with_name("advice.html")}
    return AdviceRequest(file, public=True, **{**given, **more})


# The rule.


def test_the_strongest_promise_that_does_the_task_is_recommended() -> None:
    told = advice(kept(SINGLE, 2, 0.3), kept(SINGLE, 4, 0.8), kept(SINGLE, 10, 0.89))
    assert told.best is not None
    assert told.best.found.epsilon == 4  # 2 does not do the task, and 10 promises less
    assert told.headline == "Release single texts at epsilon 4 for each text."
    assert "macro F1 of 0.80" in told.reasons[0]
    assert "0.90 with the originals, 0.20 with shuffled labels" in told.reasons[0]


def test_a_budget_that_does_the_task_while_a_larger_one_does_not_was_lucky() -> None:
    lucky = advice(kept(SINGLE, 4, 0.8), kept(SINGLE, 8, 0.3), kept(SINGLE, 10, 0.8))
    assert lucky.best is not None
    assert lucky.best.found.epsilon == 10


def test_a_collection_needs_somebody_who_is_trusted() -> None:
    measured = kept(SINGLE, 10, 0.8), kept(COLLECTION, 1, 0.8)
    alone, trusting = advice(*measured), advice(*measured, trusted=True)
    assert (alone.best and alone.best.found.release) == SINGLE
    assert (trusting.best and trusting.best.found.release) == COLLECTION
    assert any(line.startswith("If somebody were trusted") and "collection" in line for line in alone.changes)
    assert any(line.startswith("If nobody were trusted") and "single texts" in line for line in trusting.changes)


def test_no_release_is_recommended_above_the_limit() -> None:
    told = advice(kept(SINGLE, 4, 0.3), kept(SINGLE, 10, 0.89), texts=2)  # 10 for a text is 20 for a person
    assert told.best is None
    assert told.headline.startswith("No release can be recommended")
    assert any("epsilon 20" in line for line in told.reasons)
    assert any(line.startswith("If each person gave one text: single texts at epsilon 10") for line in told.changes)
    assert advice(kept(SINGLE, LIMIT.most, 0.89)).best is not None


def test_without_labels_similarity_decides_and_topics_for_a_collection() -> None:
    bare: dict[str, Any] = {"labels": 0, "f1": None, "control_f1": None, "majority_f1": None}
    one = Measured(SINGLE, 8, 800, 0.7, 0.1, attacks=ATTACKS)
    whole = Measured(COLLECTION, 1, 800, topics=0.7)
    told = advice(one, whole, replace(whole, epsilon=4, topics=0.9), trusted=True, **bare)
    assert [each.measure for each in told.options] == ["similarity", "topics", "topics"]
    assert told.options[0].kept == pytest.approx((0.7 - 0.1) / 0.9)
    assert (told.best and told.best.found.epsilon) == 4  # 1 keeps 70% of the topics, where 80% is asked for


# The promise to a person.


def test_texts_of_a_person_compose_and_in_a_collection_they_do_not_count() -> None:
    measured = kept(SINGLE, 4, 0.8), kept(COLLECTION, 4, 0.8)
    for texts in (1, 3, 200):
        single, whole = advice(*measured, texts=texts).options
        event = ChosenModel(Settings("mini-code", 4)).channel.facts.event
        assert single.person == compose({Release((event,)): texts}, delta=Decimal("1e-5")).guarantee
        assert whole.person == Guarantee(4.0, 0.0)


def test_a_shuffled_row_pays_for_its_label_too() -> None:
    (option,) = advice(kept(SHUFFLED, 2, 0.8), texts=2, people=50_000).options
    row = Guarantee(2 + LABEL_EPSILON, 0.0)
    expected = shuffled_release(row, rows=100_000, most_rows=2, delta=1e-6, options=None)
    assert option.person == expected.guarantee
    assert option.person.epsilon < 2 * row.epsilon


# The sample, and what is measured.


def test_no_text_to_test_on_is_rewritten() -> None:
    sample = Sample.of([f"text {number}" for number in range(300)], None, most=90)
    assert len(sample.known) + len(sample.test) == 90
    assert not set(sample.known.texts) & set(sample.test.texts)
    assert sample == Sample.of([f"text {number}" for number in range(300)], None, most=90)


def test_a_control_learns_nothing(texts: Path) -> None:
    sample = measuring.read_sample(asked(texts))
    f1, _ = sample.learn(sample.known.texts, sample.known.labels)
    control, _ = sample.learn(sample.known.texts, sample.known.labels, control=True)
    assert f1 == 1.0
    assert control < 0.8


def test_too_few_texts_and_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="at least 60 texts, got 3"):
        measuring.read_sample(asked(write(tmp_path / "few.csv", [("a text", "a")] * 3)))
    with pytest.raises(BadTable, match="at least 2 different labels"):
        measuring.read_sample(asked(write(tmp_path / "one.csv", [("a text", "a")] * 99)))
    with pytest.raises(BadTable, match="row 2 has no label"):
        measuring.read_sample(asked(write(tmp_path / "gap.csv", [("a text", "a"), ("a text", "")] * 50)))


def test_the_f1_of_a_collection_is_the_mean_of_several(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One collection may be far better than the next: a recommendation may not rest on luck."""
    measurement = measuring.Measurement(asked(texts), measuring.read_sample(asked(texts)))
    scores, seen = iter([0.2, 0.4, 0.9, 0.1]), list[tuple[str, ...]]()

    def learn(self: Sample, texts: tuple[str, ...], labels: tuple[str, ...], *, control: bool = False) -> Any:
        seen.append(tuple(texts))
        assert control == (len(seen) == 4)
        return next(scores), None

    monkeypatch.setattr(Sample, "learn", learn)
    found = measurement.collection(1.0)
    assert found.f1 == pytest.approx(0.5)
    assert found.control_f1 == 0.1
    assert len(set(seen[:3])) == measuring.DRAWS == 3
    assert seen[3] == seen[0]


def test_figures_are_measured_once_and_hold_no_text(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "COLLECTION_BUDGETS", (4.0,))
    cache, rewritten = texts.with_name("figures.json"), list[float]()
    measured = measuring.Measurement.texts

    def once(self: measuring.Measurement, epsilon: float, bar: Any = None) -> list[Measured]:
        if epsilon in rewritten:
            raise KeyboardInterrupt
        rewritten.append(epsilon)
        return measured(self, epsilon, bar)

    monkeypatch.setattr(measuring.Measurement, "texts", once)
    rewritten.append(8.0)
    with pytest.raises(KeyboardInterrupt):  # at the second budget
        advise(asked(texts), budgets=(4.0, 8.0), kept=cache)
    rewritten.remove(8.0)
    first = advise(asked(texts), budgets=(4.0, 8.0), kept=cache)  # 4 would be refused
    assert rewritten == [4.0, 8.0]
    monkeypatch.setattr(measuring, "Measurement", None)
    assert advise(asked(texts), budgets=(4.0, 8.0), kept=cache).as_dict() == first.as_dict()
    held = cache.read_text()
    assert "Leeds" not in held
    assert "kitchen" not in held
    single = next(each for each in first.options if each.found.release == SINGLE)
    assert 0 <= single.found.attacks["singling out"]["score"] <= 1
    assert {each.found.release for each in first.options} == {SINGLE, SHUFFLED, COLLECTION}
    texts.write_text(f"{texts.read_text()}Another text.,music\n")
    with pytest.raises(TypeError):  # another file is measured again
        advise(asked(texts), budgets=(4.0, 8.0), kept=cache)


@pytest.mark.parametrize(
    "constant",
    [
        *("COLLECTION_BUDGETS", "LABEL_EPSILON", "DRAWS", "DRAWN_AGAIN", "MOST_ROWS"),
        *("_TEST", "_VALID", "_ATTACKED", "_OUTSIDE", "SEED"),
    ],
)
def test_figures_that_were_measured_in_another_way_are_measured_again(
    texts: Path, monkeypatch: pytest.MonkeyPatch, constant: str
) -> None:
    """A measurement without any work, so that only the name of the cache decides."""
    monkeypatch.setattr(measuring.Measurement, "baseline", lambda self: LABELLED)
    monkeypatch.setattr(measuring.Measurement, "texts", lambda self, epsilon, bar: [kept(SINGLE, epsilon, 0.8)])
    monkeypatch.setattr(measuring.Measurement, "collection", lambda self, epsilon: kept(COLLECTION, epsilon, 0.8))
    cache = texts.with_name("figures.json")
    before = advise(asked(texts), budgets=(4.0,), kept=cache)
    monkeypatch.setattr(measuring, "Measurement", None)
    assert advise(asked(texts), budgets=(4.0,), kept=cache).figures == before.figures
    was = getattr(measuring, constant)
    monkeypatch.setattr(measuring, constant, (*was, 9.0) if isinstance(was, tuple) else was + 1)
    with pytest.raises(TypeError):
        advise(asked(texts), budgets=(4.0,), kept=cache)


def test_a_file_that_is_no_cache_is_left_alone(texts: Path) -> None:
    cache = texts.with_name("figures.json")
    cache.write_text("[]")
    with pytest.raises(BadParameter, match="does not hold the figures"):
        advise(asked(texts), kept=cache)
    assert cache.read_text() == "[]"


# The page and the command.


def test_the_page_answers_the_questions_of_an_officer_in_order() -> None:
    told = advice(kept(SINGLE, 4, 0.8), kept(SHUFFLED, 4, 0.8), kept(COLLECTION, 1, 0.85), texts=3, trusted=True)
    page = advice_page(told)
    questions = ("Singling out", "Linkability", "Inference", "The motivated intruder", "The pyramid", "Thresholds")
    places = [page.index(f"<h2>{each}") for each in questions]
    assert places == sorted(places)
    for source in ("Opinion 05/2014", "ICO", "NIST SP 800-226"):
        assert source in page
    assert told.headline in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=|url\(|https?:", page)  # everything is inside
    assert "1,500 of 2,000, chosen at random with the seed 0" in page
    assert "inside the model itself" in page


def test_the_page_escapes_and_can_say_no() -> None:
    page = advice_page(advice(kept(SINGLE, 10, 0.8), texts=5))
    assert "No release can be recommended" in page
    assert "&lt;b&gt;words&lt;/b&gt;" in page
    assert "<b>words" not in page
    assert "No release that was tried does the task" in advice_page(advice(kept(SINGLE, 10, 0.2)))


def test_the_command_refuses_texts_that_nobody_says_are_public(texts: Path) -> None:
    page = texts.with_name("advice.html")
    counts = ["--texts-per-person", "2", "--people", "500", "--out", str(page)]
    done = CliRunner().invoke(cli, ["advise", str(texts), *counts])
    assert done.exit_code == 1
    assert "If these are public, pass --public" in done.output
    done = CliRunner().invoke(cli, ["advise", str(texts), "--public", *counts[:-1], "advice.pdf"])
    assert done.exit_code == 1
    assert "--out must be an .html file" in done.output
    assert not page.exists()


def test_the_command_writes_the_page_and_prints_all_figures(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = advice(kept(SINGLE, 4, 0.8), kept(SINGLE, 10, 0.89))
    monkeypatch.setattr("dpbart.evidence.recommend.measure", lambda asked, kept: told.figures)
    page = texts.with_name("advice.html")
    counts = ["--texts-per-person", "1", "--people", "4000", "--out", str(page), "--json"]
    done = CliRunner().invoke(cli, ["advise", str(texts), "--public", "--label-column", "label", *counts])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert printed["recommended"]["epsilon"] == 4
    assert [each["f1"] for each in printed["options"]] == [0.8, 0.89]
    assert printed == json.loads(json.dumps(told.as_dict()))
    assert page.read_text() == advice_page(told)
