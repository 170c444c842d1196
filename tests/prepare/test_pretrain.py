from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.models.latent import clip_of
from dpbart.prepare import training
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.pretrain import PretrainRecipe, pretrain
from dpbart.prepare.training import Schedule, TextOrder

TINY = PretrainRecipe(length=12, vocabulary=400, width=32, layers=1, heads=2, batch_size=8, steps=6, warmup=2)


class Stopped(Exception):
    pass


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = training.TextOrder.rows

    def rows(self: TextOrder, asked: int) -> object:
        if asked == step:
            raise Stopped
        return real(self, asked)

    monkeypatch.setattr(training.TextOrder, "rows", rows)


def test_an_interrupted_training_ends_with_the_same_weights(
    corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pretrain(corpus, TINY, tmp_path / "whole")
    monkeypatch.setattr(training, "STEPS_BETWEEN_SAVES", 2)
    with monkeypatch.context() as patched:
        stop_at(5, patched)  # after the state of step 4, in the middle of the next stretch
        with pytest.raises(Stopped):
            pretrain(corpus, TINY, tmp_path / "stopped")
    assert (tmp_path / "stopped" / "state-4" / "complete").is_file()
    resumed = pretrain(corpus, TINY, tmp_path / "stopped")
    assert whole is not None
    assert resumed is not None
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_a_half_written_state_does_not_count(corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    whole = pretrain(corpus, TINY, tmp_path)
    (tmp_path / "state-6" / "complete").unlink()
    (tmp_path / "state-6" / "optimizer.bin").write_bytes(b"cut")
    again = pretrain(corpus, TINY, tmp_path)  # from the beginning, not from the broken state
    assert whole is not None
    assert again is not None
    torch.testing.assert_close(again.state_dict(), whole.state_dict(), rtol=0, atol=0)


def test_every_text_is_seen_once_an_epoch() -> None:
    schedule = Schedule(steps=100, batch_size=8, learning_rate=1, warmup=1, decay=0.1, seed=3)
    order = TextOrder(40, schedule)
    epochs = [np.concatenate([order.rows(step) for step in range(first, first + 5)]) for first in (0, 5)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(40))
    assert list(epochs[0]) != list(epochs[1])
    np.testing.assert_array_equal(TextOrder(40, schedule).rows(7), order.rows(7))


def test_another_recipe_may_not_go_on_but_more_steps_may(corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    pretrain(corpus, TINY, tmp_path)
    with pytest.raises(BadParameter, match="begun with batch_size 8, not 4. Use that again"):
        pretrain(corpus, replace(TINY, batch_size=4), tmp_path)
    with pytest.raises(BadParameter, match="begun with another corpus"):
        pretrain((replace(corpus[0], sha256="other"),), TINY, tmp_path)
    assert pretrain(corpus, replace(TINY, steps=7), tmp_path) is not None
    assert (tmp_path / "state-7").is_dir()
    with pytest.raises(BadParameter, match="steps must be at least the 7 already trained"):
        pretrain(corpus, replace(TINY, steps=6), tmp_path)


def test_the_learning_rate_rises_stays_and_falls_to_nothing() -> None:
    schedule = Schedule(steps=100, batch_size=1, learning_rate=1.0, warmup=10, decay=0.2, seed=0)
    rates = [schedule.learning_rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[10:80]) == {1.0}
    assert rates[99] == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [{"width": 33}, {"steps": 0}, {"layers": 0}, {"batch_size": 0}])
def test_a_recipe_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadParameter, match=f"{next(iter(wrong))} must be"):
        replace(TINY, **wrong)


def test_a_model_is_made_from_text_by_the_commands_alone(tmp_path: Path) -> None:
    """pretrain, clip, rewrite: what the model card of `mini` tells a reader to type."""
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))

    def run(*args: object) -> str:
        done = CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    model, source = tmp_path / "model", ("--corpus", tmp_path / "public.txt", "--texts", 6)
    small = ("--steps", 4, "--width", 16, "--heads", 2, "--layers", 1, "--vocabulary", 300, "--length", 8)
    assert "BLEU" in run("prepare", "pretrain", *source, "--out", model, *small)
    facts = json.loads((model / "dpbart.json").read_text())
    assert facts["clip"] is None
    assert facts["recipe"]["pretrain"]["steps"] == 4
    assert facts["corpora"][0]["texts"] == 600
    shown = run("prepare", "clip", "--model", model, *source)
    assert "<- chosen" in shown
    assert "standard deviation" in shown
    assert (model / "clip.png").stat().st_size > 5000
    assert clip_of(Bundle.at(model)).bound > 0
    (tmp_path / "in.txt").write_text("a k u .\n")
    run("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 100, "--model", model)
