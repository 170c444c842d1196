"""A whole experiment with a tiny model: three settings, nothing leaked, failures recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.evaluate.classifiers import LinearClassifier, Prediction
from dpbart.evaluate.experiment.experiment import Experiment
from dpbart.evaluate.experiment.plan import ExperimentRequest, Plan, read_plan
from dpbart.evaluate.experiment.results import read_results, read_samples
from dpbart.models.bundle import Bundle
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from tests.evaluate.fruit_experiment import Trained, run, write_fruit, written_plan

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk", "fruit")


def test_three_settings_give_three_results(plan: Plan, tmp_path: Path) -> None:
    results = run(plan, tmp_path)
    assert [(r.setting, r.epsilon) for r in results] == [
        ("original", None),
        ("rewrite-no-dp", math.inf),
        ("rewrite-dp", 500),
    ]
    original, no_dp, dp = results
    assert original.f1_mean == 1  # one word gives it away
    assert original.shuffled_f1 is not None
    assert original.shuffled_f1 < 0.9  # the control: the labels say nothing of the texts
    assert original.bleu is None
    assert None not in (no_dp.bleu, dp.bleu, dp.shuffled_f1, dp.f1_mean)
    assert (no_dp.label_only_f1, original.label_only_f1) == (1, None)
    assert (original.beams, no_dp.beams, dp.beams) == (None, 1, 1)
    assert (dp.delta, dp.labels) == (1e-3, "released as they are, with the rewritten text")
    assert {r.error for r in results} == {None}


def test_a_code_model_runs_next_to_the_others(tiny: Bundle, tiny_code: Bundle, tmp_path: Path) -> None:
    more = '[[mechanisms]]\nname = "response"\nepsilons = [10]\n'
    results = run(written_plan(tmp_path, f'"{tiny.folder}", "{tiny_code.folder}"', more), tmp_path)
    assert {r.error for r in results} == {None}
    *others, code = results
    assert [r.mechanism for r in others] == [None, "none", "gaussian"]
    assert (code.mechanism, code.epsilon, code.delta, code.beams) == ("response", 10, 0, None)
    assert None not in (code.bleu, code.f1_mean, code.valid_f1)
    cards = [file.read_text() for file in (tmp_path / "out" / "rewritten").glob("*.card.json")]
    assert sum("sentences of the book" in card for card in cards) == 1


def test_results_are_written_as_parquet_and_csv(plan: Plan, tmp_path: Path) -> None:
    results = run(plan, tmp_path)
    assert read_results(tmp_path / "out") == results
    assert pyarrow.csv.read_csv(tmp_path / "out" / "results.csv").num_rows == 3
    samples = read_samples(tmp_path / "out")
    assert len(samples) == 2 * 5
    assert samples[0].original == "the baker number 0 sold the apple"


def test_a_classifier_never_sees_an_original_train_text(plan: Plan, tmp_path: Path, trained: Trained) -> None:
    run(plan, tmp_path)
    held = pq.read_table(tmp_path / "fruit.parquet").to_pylist()
    secret = {row["text"] for row in held if row["split"] in ("train", "valid")}
    test = tuple(row["text"] for row in held if row["split"] == "test")
    original, rewritings = trained[:2], trained[2:]
    assert all(set(train.texts) | set(valid.texts) == secret for train, valid, _ in original)
    assert len(rewritings) == 4
    for train, valid, texts in rewritings:
        assert not (set(train.texts) | set(valid.texts)) & secret
        assert texts == test  # the original ones, whole and in order


def test_the_control_has_other_labels_in_both_parts(plan: Plan, tmp_path: Path, trained: Trained) -> None:
    run(plan, tmp_path)
    real, control = trained[:2]
    for part, shuffled in zip(real[:2], control[:2], strict=True):  # train, valid
        assert shuffled.texts == part.texts
        assert shuffled.labels != part.labels
        assert sorted(shuffled.labels) == sorted(part.labels)


def test_what_is_kept_is_measured_on_the_train_texts_as_the_model_reads_them(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(self: Rewriter, texts: Sequence[str], *, row: int | None = None) -> Rewriting:
        return Rewriting(tuple(self.model.read(texts)), self.facts, "")

    monkeypatch.setattr(Rewriter, "rewrite", copy)
    for result in run(plan, tmp_path)[1:]:
        assert result.bleu == pytest.approx(100)
        assert (result.content_words, result.verbatim) == (1, 1)


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(tiny: Bundle, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, f'"{tmp_path}/no-such-model", "{tiny.folder}"')
    results = run(plan, tmp_path)
    failed = [r for r in results if r.error]
    assert [r.epsilon for r in failed] == [math.inf, 500]
    assert all("NotPrepared: no model named" in str(r.error) for r in failed)
    assert [r.f1_mean is not None for r in results] == [True, False, False, True, True]


def test_a_training_that_fails_is_recorded_and_tried_again(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Prediction:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(LinearClassifier, "predict", broken)
        assert {r.error for r in run(plan, tmp_path)} == {"RuntimeError: no memory"}
    assert any('"error": "RuntimeError: no memory"' in f.read_text() for f in (tmp_path / "out" / "cells").iterdir())
    assert {r.error for r in run(plan, tmp_path)} == {None}


def test_a_delta_too_large_for_the_data_is_refused(tiny: Bundle, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, f'"{tiny.folder}"')
    (tmp_path / "plan.toml").write_text((tmp_path / "plan.toml").read_text().replace("1e-3", "0.1"))
    plan = read_plan(str(tmp_path / "plan.toml"))
    assert "delta must be below 1 / 32" in str(run(plan, tmp_path)[2].error)


def test_the_encoder_is_searched_with_one_seed_and_then_averaged(tiny: Bundle, tmp_path: Path) -> None:
    more = f"""
[[classifiers]]
kind = "encoder"
name = "enc"
encoder = "{tiny.folder}"
learning_rates = [1e-3, 1e-5]
seeds = [0, 1, 2]
epochs = 1
epsilons = [inf]
"""
    plan = written_plan(tmp_path, f'"{tiny.folder}"', more)
    results = [r for r in run(plan, tmp_path) if r.classifier == "enc"]
    assert [(r.setting, r.seeds) for r in results] == [("original", 3), ("rewrite-no-dp", 3)]
    assert all(r.f1_deviation is not None and r.learning_rate in (1e-3, 1e-5) for r in results)
    # 2 rewritings; linear: 2 trainings of each of 3 settings; encoder: 2 rates + 2 more seeds + 1 control, of 2.
    assert len(list((tmp_path / "out" / "cells").iterdir())) == plan.cells() == 2 + 3 * 2 + 2 * 5


def test_other_data_than_the_papers_stop_before_any_work(tiny: Bundle, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, f'"{tiny.folder}"')
    write_fruit(tmp_path / "snips.parquet")
    (tmp_path / "plan.toml").write_text((tmp_path / "plan.toml").read_text().replace("fruit", "snips"))
    plan = read_plan(str(tmp_path / "plan.toml"))
    with pytest.raises(BadTable, match="not the paper's 'snips'"):
        run(plan, tmp_path)
    assert not (tmp_path / "out").exists()
    Experiment.prepare(ExperimentRequest(plan, tmp_path, tmp_path / "out", allow_different=True))
