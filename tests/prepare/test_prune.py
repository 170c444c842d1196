"""DP-BART-PR: which columns are pruned, and that an interruption changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.options.recipes import PretrainRecipe, PruneRecipe
from dpbart.prepare.clip import Copier, Copies
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.pretrain import new_bart, write_bundle
from dpbart.prepare.prune import ClippedColumns, Pruned, choose, importance, prune, write_pruned
from dpbart.privacy.clipping import Clip
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import entries_of

RECIPE = PruneRecipe(rounds=2, steps=3, batch_size=8)


def pruned(bundle: Bundle, files: tuple[CorpusFile, ...], recipe: PruneRecipe, folder: Path, *, texts: int) -> Pruned:
    made = prune(bundle, files, recipe, folder, texts)
    assert made is not None
    return made


# Igamberdiev and Habernal 2023: each round drops the columns strictly below the 25% quantile (linear) of the kept.
def test_the_papers_counts_of_pruned_columns() -> None:
    scores = np.random.default_rng(0).random(768)
    columns, pruned = Columns.all(768), []
    for _ in range(7):
        columns = choose(scores, columns)
        pruned.append(768 - len(columns.kept))
    assert pruned == [192, 336, 444, 525, 586, 632, 666]


def test_columns_of_equal_score_all_stay() -> None:
    assert choose(np.ones(8), Columns.all(8)).kept == tuple(range(8))


@pytest.mark.parametrize("projection", ["k", "v"])
def test_the_choice_is_read_from_the_loaded_weights(tiny: Bundle, projection: str) -> None:
    """A probe with a known answer: the columns that the projection hardly reads are pruned."""
    bart = SplitBart.load(tiny.folder)
    attention = bart.model.model.decoder.layers[0].encoder_attn
    weak = [1, 4, 9, 16, 25, 28, 30, 31]
    with torch.no_grad():
        getattr(attention, f"{projection}_proj").weight[:, weak] *= 1e-3
    kept = choose(importance(bart.model, projection=projection), Columns.all(32)).kept
    assert kept == tuple(column for column in range(32) if column not in weak)


@pytest.mark.parametrize(
    ("recipe", "bound"),
    [
        (PruneRecipe(rounds=1, steps=1, batch_size=8), 1.0),  # twice the model's own
        (PruneRecipe(rounds=1, steps=1, batch_size=8, by="v", layer=1, quantile=0.125, clip=0.3), 0.3),
    ],
)
def test_pruning_goes_by_the_models_own_weights_and_the_recipe(
    tiny: Bundle,
    corpus: tuple[CorpusFile, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: PruneRecipe,
    bound: float,
) -> None:
    """The same probe through a whole round. Only one of the projections hardly reads these columns."""
    tokenizer, shape = tiny.folder / "tokenizer.json", PretrainRecipe(length=12, width=32, layers=2, heads=2)
    model = new_bart(shape, Tokens.load(tokenizer, length=12))
    weak = [1, 4, 9, 16, 25, 28, 30, 31][: round(32 * recipe.quantile)]
    with torch.no_grad():
        attention = model.model.decoder.layers[recipe.layer].encoder_attn
        getattr(attention, f"{recipe.by}_proj").weight[:, weak] *= 1e-3
    probe = write_bundle(model, tokenizer, corpus, shape, tmp_path / "probe").record(figures={}, clip=0.5)
    bounds: list[float] = []

    def channel(bound: float, columns: Columns) -> ClippedColumns:
        bounds.append(bound)
        return ClippedColumns(bound, columns)

    monkeypatch.setattr("dpbart.prepare.prune.ClippedColumns", channel)
    (only,) = pruned(probe, corpus, recipe, tmp_path / "training", texts=1).rounds
    assert only.columns == Columns.without(weak, width=32)
    assert bounds == [bound]


def test_a_layer_that_does_not_exist_is_refused(tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="layer must be from 0 to 0 for this model, got 1"):
        importance(SplitBart.load(tiny.folder).model, layer=1)
    with pytest.raises(BadParameter, match="layer must be from 0 to 0 for this model, got 1"):
        prune(tiny, corpus, RECIPE.changed(layer=1), tmp_path / "training", texts=3)
    assert not (tmp_path / "training").exists()  # or its recipe would insist on the missing layer


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": 0}, "batch size must be at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning rate must be a number between"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"quantile": 1.0}, "quantile must be less than 1, got 1.0"),
        ({"clip": -1.0}, "bound must be between .*, got -1.0"),
    ],
)
def test_an_impossible_recipe_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        PruneRecipe(**wrong)  # type: ignore[arg-type]


def test_the_round_to_rewrite_with_is_the_second_to_last() -> None:
    assert PruneRecipe().columns_of_round(None) == 5
    assert PruneRecipe(rounds=1).columns_of_round(None) == 1
    assert PruneRecipe().columns_of_round(6) == 6
    with pytest.raises(BadParameter, match="round to rewrite with must be from 1 to 6, got 7"):
        PruneRecipe().columns_of_round(7)


def test_a_model_trained_under_noise_is_not_pruned(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    noisy = replace(tiny, facts=replace(tiny.facts, told=True))
    with pytest.raises(NotPrepared, match="was trained with noise, and pruning would undo that"):
        prune(noisy, corpus, RECIPE, tmp_path / "training", texts=3)


def test_dropout_follows_from_the_seed(
    tiny: Bundle, tiny_copy: Path, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps({**config, "dropout": 0.3}))
    recipe, weights = PruneRecipe(rounds=1, steps=2, batch_size=8), []
    for name in ("one", "other"):
        torch.seed()
        weights.append(pruned(Bundle.at(tiny_copy), corpus, recipe, tmp_path / name, texts=1).bart.model.state_dict())
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


def test_a_pruned_column_carries_nothing_in_training_either() -> None:
    channel = ClippedColumns(0.5, Columns(4, (0, 2)))
    latent = torch.tensor([[[0.1, 9.0, -2.0, 9.0]]])
    torch.testing.assert_close(channel(latent), torch.tensor([[[0.1, 0.0, -0.5, 0.0]]]))


def test_an_interrupted_pruning_ends_with_the_same_result(
    tiny: Bundle,
    corpus: tuple[CorpusFile, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stopped_at: Callable[[int], AbstractContextManager[None]],
) -> None:
    whole = pruned(tiny, corpus, RECIPE, tmp_path / "whole", texts=3)
    assert [len(each.columns.kept) for each in whole.rounds] == [24, 18]

    def stopped(self: Copier, texts: Sequence[str], clip: Clip) -> Copies:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Copier, "copy", stopped)  # at the end of the first round
        with pytest.raises(KeyboardInterrupt):
            prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    with stopped_at(3):  # in the second round
        prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    assert not (tmp_path / "stopped" / "round-2" / "measured.json").exists()
    resumed = pruned(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    assert resumed.rounds == whole.rounds  # columns, loss and BLEU
    for name, tensor in whole.bart.model.state_dict().items():
        torch.testing.assert_close(resumed.bart.model.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_the_last_weights_rewrite_with_the_columns_of_the_round_before(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    made = pruned(tiny, corpus, RECIPE, tmp_path / "training", texts=3)
    bundle = write_pruned(tiny, made, corpus, RECIPE, 1, tmp_path / "pr").record(figures={}, clip=0.5)
    assert bundle.facts.corpora == tiny.facts.corpora  # the same corpus, listed once
    assert (bundle.facts.variant, bundle.columns) == ("pr", made.rounds[0].columns)
    assert entries_of(Rewriter.load(str(bundle.folder), epsilon=100, beams=1)) == 24 * 12
    with pytest.raises(BadParameter, match="round to rewrite with must be from 1 to 2, got 3"):
        write_pruned(tiny, made, corpus, RECIPE, 3, tmp_path / "other")


def test_another_recipe_cannot_resume_in_the_same_folder(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    prune(tiny, corpus, RECIPE, tmp_path, texts=3)
    for other in (RECIPE.changed(quantile=0.5), RECIPE.changed(steps=4)):
        with pytest.raises(BadParameter, match="was started with"):
            prune(tiny, corpus, other, tmp_path, texts=3)
    with pytest.raises(BadParameter, match="was started with clip 1.0, not 1.4"):  # twice the model's own
        prune(replace(tiny, facts=replace(tiny.facts, clip=0.7)), corpus, RECIPE, tmp_path, texts=3)
    with pytest.raises(BadParameter, match="was started with another model"):  # the same weights, other columns
        prune(replace(tiny, facts=replace(tiny.facts, kept=tuple(range(16)))), corpus, RECIPE, tmp_path, texts=3)
