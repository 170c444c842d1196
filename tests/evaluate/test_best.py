"""The best judge is chosen on valid, and never on test."""

from __future__ import annotations

from dpbart.evaluate.experiment.figure import panels
from dpbart.evaluate.experiment.results import BEST, Result, best_on_validation, paper_tables


def row(classifier: str, valid: float | None, test: float | None, *, epsilon: float | None = 10.0) -> Result:
    rewritten = epsilon is not None
    return Result(
        data="snips",
        setting="rewrite-dp" if rewritten else "original",
        classifier=classifier,
        train=4,
        valid=4,
        test=4,
        classes=2,
        unseen="",
        model="mini" if rewritten else None,
        mechanism="gaussian" if rewritten else None,
        epsilon=epsilon,
        valid_f1=valid,
        f1_mean=test,
        majority_f1=0.25,
        seeds=1,
        error=None if valid is not None else "BadParameter: no",
    )


RESULTS = [
    row("linear", 0.9, 0.8, epsilon=None),
    row("vectors", 0.8, 0.9, epsilon=None),
    row("linear", 0.5, 0.7),
    row("vectors", 0.6, 0.4),
    row("linear", 0.3, 0.2, epsilon=5.0),
    row("vectors", None, None, epsilon=5.0),
]


def test_the_best_on_valid_is_taken_even_if_another_is_better_on_test() -> None:
    best = best_on_validation(RESULTS)
    assert [(each.epsilon, each.f1_mean) for each in best] == [(None, 0.8), (10, 0.4), (5, 0.2)]
    assert {each.classifier for each in best} == {BEST}


def test_it_has_its_own_table_and_figure() -> None:
    *_, last = paper_tables(RESULTS)
    assert last.title == "snips, best on validation"
    assert last.rows[0] == ("mini", "F1", "0.80", "0.40", "0.20")
    assert "highest F1 on the validation part" in " ".join(last.notes)
    assert panels(RESULTS, BEST)[0].lines[0].mean == (0.2, 0.4)


def test_one_classifier_alone_is_not_compared() -> None:
    assert best_on_validation([each for each in RESULTS if each.classifier == "linear"]) == []


def test_results_of_an_older_version_have_none() -> None:
    assert best_on_validation([row("linear", None, 0.5), row("vectors", None, 0.6)]) == []
