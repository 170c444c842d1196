from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.models.families import clip_of
from dpbart.options.recipes import NoisyRecipe, PretrainRecipe, PruneRecipe, Schedule
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.noisy import train_noisy
from dpbart.prepare.pretrain import pretrain
from dpbart.prepare.prune import prune
from dpbart.prepare.training import TextOrder, random_at
from tests.command_line import run, succeed

THINGS = "book lamp key cup dog cat hat coat pen plate"
TINY = PretrainRecipe(length=12, vocabulary=400, width=32, layers=1, heads=2, batch_size=8, steps=6, warmup=2)


def saved_steps(folder: Path) -> int:
    return int(torch.load(folder / "state.pt", weights_only=True)["step"])


def test_an_interrupted_training_ends_with_the_same_weights(
    corpus: tuple[CorpusFile, ...], tmp_path: Path, stopped_at: Callable[[int], AbstractContextManager[None]]
) -> None:
    whole = pretrain(corpus, TINY, tmp_path / "whole")
    with stopped_at(6):
        pretrain(corpus, TINY, tmp_path / "stopped")
    assert saved_steps(tmp_path / "stopped") == 4
    resumed = pretrain(corpus, TINY, tmp_path / "stopped")
    assert whole is not None
    assert resumed is not None
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_a_process_that_dies_while_saving_leaves_the_previous_state(
    corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(corpus, TINY, tmp_path)

    def killed(state: object, file: Path) -> None:
        file.write_bytes(b"cut")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain(corpus, TINY.changed(steps=7), tmp_path)
    assert saved_steps(tmp_path) == 6
    assert pretrain(corpus, TINY.changed(steps=7), tmp_path) is not None
    assert saved_steps(tmp_path) == 7
    assert not list(tmp_path.glob("*.partial"))


def test_notes_of_a_training_are_written_whole_or_not_at_all(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete files are renamed into place. A file that is written in place would show up here."""
    in_place: set[str] = set()
    real = os.replace

    def replaced(source: Path, target: Path) -> None:
        in_place.add(Path(target).name)
        real(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    prune(tiny, corpus, PruneRecipe(rounds=1, steps=1, batch_size=8), tmp_path / "prune", texts=1)
    train_noisy(tiny, corpus, NoisyRecipe(steps=1, batch_size=8), tmp_path / "noisy")
    pretrain(corpus, TINY.changed(steps=1), tmp_path / "pretrain")
    written = {file.name for file in tmp_path.rglob("*") if file.is_file()}
    assert written - in_place == {"corpus-ids.bin"}  # large, and valid only next to its note
    assert {"recipe.json", "corpus-ids.json", "kept.json", "measured.json", "tokenizer.json"} < written


def test_each_process_has_its_own_random_numbers_and_the_first_those_of_a_single_process() -> None:
    first, second = (random_at(3, seed=TINY.seed, process=process).random(4) for process in (0, 1))
    assert list(first) == list(np.random.default_rng([TINY.seed, 1, 3]).random(4))
    assert not set(first) & set(second)


def test_every_text_is_seen_once_per_epoch() -> None:
    schedule = Schedule(steps=100, batch_size=8, learning_rate=1, warmup=1, decay=0.1, seed=3)
    order = TextOrder(40, schedule)
    epochs = [np.concatenate([order.rows(step) for step in range(first, first + 5)]) for first in (0, 5)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(40))
    assert list(epochs[0]) != list(epochs[1])
    np.testing.assert_array_equal(TextOrder(40, schedule).rows(7), order.rows(7))


def test_another_recipe_cannot_resume_but_more_steps_can(corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    pretrain(corpus, TINY, tmp_path)
    with pytest.raises(BadParameter, match="started with batch_size 8, not 4. Use the same again"):
        pretrain(corpus, TINY.changed(batch_size=4), tmp_path)
    with pytest.raises(BadParameter, match="started with another corpus"):
        pretrain((replace(corpus[0], sha256="other"),), TINY, tmp_path)
    assert pretrain(corpus, TINY.changed(steps=7), tmp_path) is not None
    assert saved_steps(tmp_path) == 7
    with pytest.raises(BadParameter, match="steps must be at least the 7 already trained"):
        pretrain(corpus, TINY.changed(steps=6), tmp_path)


def test_the_learning_rate_rises_stays_and_falls_to_zero() -> None:
    schedule = Schedule(steps=100, batch_size=1, learning_rate=1.0, warmup=10, decay=0.2, seed=0)
    rates = [schedule.learning_rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[10:80]) == {1.0}
    assert rates[99] == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [{"width": 33}, {"steps": 0}, {"layers": 0}, {"batch_size": 0}])
def test_an_impossible_recipe_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadParameter, match=f"{next(iter(wrong)).replace('_', ' ')} must be"):
        TINY.changed(**wrong)


def test_a_model_is_made_from_text_by_the_commands_alone(tmp_path: Path) -> None:
    """pretrain, clip, rewrite: the commands in the model card of `mini`."""
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))

    model, source = tmp_path / "model", ("--corpus", tmp_path / "public.txt", "--texts", 6)
    small = ("--steps", 4, "--width", 16, "--heads", 2, "--layers", 1, "--vocabulary", 300, "--length", 8)
    assert "BLEU" in succeed("prepare", "pretrain", *source, "--out", model, *small)
    facts = json.loads((model / "dpbart.json").read_text())
    assert facts["clip"] is None
    assert facts["recipe"]["pretrain"]["steps"] == 4
    assert facts["corpora"][0]["texts"] == 600
    copies_nothing = run("prepare", "clip", "--model", model, *source)
    assert copies_nothing.exit_code == 1
    assert "must copy public text before its clip can be chosen" in copies_nothing.stderr
    model = Path(shutil.copytree(Bundle.find("mini").folder, tmp_path / "copies"))  # trained by the same commands
    (tmp_path / "public.txt").write_text(
        "\n".join(f"The {thing} is on the {place} table." for thing in THINGS.split() for place in range(60))
    )
    shown = succeed("prepare", "clip", "--model", model, *source)
    assert "<- chosen" in shown
    assert "standard deviation" in shown
    assert (model / "clip.png").stat().st_size > 5000
    assert clip_of(Bundle.at(model)).bound > 0
    (tmp_path / "in.txt").write_text("a k u .\n")
    succeed("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 100, "--model", model)
