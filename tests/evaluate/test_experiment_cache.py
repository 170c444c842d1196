"""An experiment that is run again, or continued after a stop, computes nothing twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from dpbart.evaluate.experiment.experiment import Experiment, SplitRewriting, key_of
from dpbart.evaluate.experiment.plan import ExperimentRequest, Plan
from dpbart.models.bundle import Bundle
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.unfinished import Stopped
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from tests.evaluate.fruit_experiment import Trained, rewritten_files, run, write_fruit, written_plan

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk", "fruit")


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def end_at_once() -> NoReturn:
    raise SystemExit(143)  # as on SIGTERM


def test_a_second_run_computes_nothing(plan: Plan, tmp_path: Path, drawn: list[str], trained: Trained) -> None:
    first = run(plan, tmp_path)
    assert (len(drawn), len(trained)) == (2 * 32, 6)
    assert run(plan, tmp_path) == first
    assert (len(drawn), len(trained)) == (2 * 32, 6)


@pytest.mark.parametrize("stop", [press_ctrl_c, end_at_once])
def test_no_text_is_drawn_twice_when_a_stopped_rewriting_continues(
    plan: Plan, tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch, stop: Callable[[], None]
) -> None:
    watched = Rewriter.rewrite

    def stop_in_the_second_batch(self: Rewriter, texts: Sequence[str], *, row: int | None = None) -> Rewriting:
        if len(drawn) == plan.batch_size:
            stop()
        return watched(self, texts, row=row)

    with monkeypatch.context() as patch:
        patch.setattr(Rewriter, "rewrite", stop_in_the_second_batch)
        patch.setattr(commit, "PART_ROWS", 1)  # save every batch
        with pytest.raises((Stopped, SystemExit)):
            run(plan, tmp_path)
    assert plan.batch_size <= len(drawn) <= 32
    assert list((tmp_path / "out" / "rewritten").glob(".*.dpbart"))  # it did stop in the middle
    results = run(plan, tmp_path)
    assert {r.error for r in results} == {None}
    assert set(Counter(drawn).values()) == {2}  # once with noise, once without
    assert len(drawn) == 2 * 32
    assert not list((tmp_path / "out" / "rewritten").glob(".*.dpbart"))


def test_a_stopped_rewriting_with_other_settings_starts_over(
    plan: Plan, tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch size changes no text, so it is not part of a cell's recipe; but a run must keep it."""
    watched = Rewriter.rewrite

    def stop_in_the_second_batch(self: Rewriter, texts: Sequence[str], *, row: int | None = None) -> Rewriting:
        return watched(self, texts, row=row) if not drawn else end_at_once()

    with monkeypatch.context() as patch:
        patch.setattr(commit, "PART_ROWS", 1)
        patch.setattr(Rewriter, "rewrite", stop_in_the_second_batch)
        with pytest.raises(SystemExit):
            run(plan, tmp_path)
    assert {r.error for r in run(replace(plan, batch_size=8), tmp_path)} == {None}


def test_another_recipe_is_another_cell(
    plan: Plan,
    tmp_path: Path,
    drawn: list[str],
    trained: Trained,
) -> None:
    run(plan, tmp_path)
    write_fruit(tmp_path / "fruit.parquet", train=26)
    run(plan, tmp_path)
    assert len(drawn) == 2 * 32 + 2 * 34
    assert len(trained) == 12


def rewriting_key(plan: Plan, folder: Path, **asked: object) -> str:
    prepared = Experiment.prepare(replace(ExperimentRequest(plan, folder, folder / "out"), **asked))  # type: ignore[arg-type]
    return key_of(SplitRewriting(prepared.request, list(plan.settings())[-1], prepared.data["fruit"]).recipe)


def test_a_cell_is_known_by_its_channel_model_and_decoding(tiny_copy: Path, tmp_path: Path) -> None:
    plan = written_plan(tmp_path, f'"{tiny_copy}"')
    key = rewriting_key(plan, tmp_path)
    assert rewriting_key(replace(plan, batch_size=8), tmp_path, workers=2) == key  # these change no text
    other_delta = replace(plan, data=(replace(plan.data[0], delta=1e-4),))
    others = [rewriting_key(each, tmp_path) for each in (other_delta, replace(plan, beams=2), replace(plan, length=10))]
    Bundle.at(tiny_copy).record(figures={"bleu": 1.0})
    assert rewriting_key(plan, tmp_path) == key  # nor do figures
    with (tiny_copy / "tokenizer.json").open("a") as tokenizer:
        tokenizer.write("\n")
    others.append(rewriting_key(plan, tmp_path))
    Bundle.at(tiny_copy).record(figures={}, clip=0.25)
    others.append(rewriting_key(plan, tmp_path))
    assert len({key, *others}) == 6


def test_a_lost_file_is_made_again(plan: Plan, tmp_path: Path, drawn: list[str]) -> None:
    run(plan, tmp_path)
    next(rewritten_files(tmp_path)).unlink()
    run(plan, tmp_path)
    assert len(drawn) == 3 * 32


def test_classifiers_learn_again_from_texts_that_are_drawn_again(plan: Plan, tmp_path: Path, trained: Trained) -> None:
    run(plan, tmp_path)
    next(rewritten_files(tmp_path)).unlink()
    run(plan, tmp_path)
    assert len(trained) == 6 + 2  # a training and its control; the other rewriting and the original stay


def test_lost_figures_are_measured_again_on_the_same_texts(
    plan: Plan, tmp_path: Path, drawn: list[str], trained: Trained
) -> None:
    first = run(plan, tmp_path)
    for file in (tmp_path / "out" / "cells").iterdir():
        if '"kind": "rewriting"' in file.read_text():
            file.unlink()
    assert run(plan, tmp_path) == first
    assert (len(drawn), len(trained)) == (2 * 32, 6)
