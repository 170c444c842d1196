"""DP-BART-PR: which columns go, and that a stop changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart.errors import BadParameter
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.pruning import Columns, choose, importance
from dpbart.prepare import training
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.prune import ClippedColumns, PruneRecipe, prune, write_pruned
from dpbart.rewrite.rewriter import Rewriter

RECIPE = PruneRecipe(rounds=2, steps=3, batch_size=8)


# Igamberdiev and Habernal 2023: 25% of the kept columns a round, linear quantile, strictly below goes.
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
    """A probe whose answer is known: the columns that the projection hardly reads are the ones to go."""
    bart = SplitBart.load(tiny.folder)
    attention = bart.model.model.decoder.layers[0].encoder_attn
    weak = [1, 4, 9, 16, 25, 28, 30, 31]
    with torch.no_grad():
        getattr(attention, f"{projection}_proj").weight[:, weak] *= 1e-3
    kept = choose(importance(bart.model, projection=projection), Columns.all(32)).kept
    assert kept == tuple(column for column in range(32) if column not in weak)


def test_a_layer_that_is_not_there_is_refused(tiny: Bundle) -> None:
    with pytest.raises(BadParameter, match="layer must be from 0 to 0 for this model, got 1"):
        importance(SplitBart.load(tiny.folder).model, layer=1)


def test_in_training_too_a_pruned_column_carries_nothing() -> None:
    channel = ClippedColumns(0.5, Columns(4, (0, 2)))
    latent = torch.tensor([[[0.1, 9.0, -2.0, 9.0]]])
    torch.testing.assert_close(channel(latent), torch.tensor([[[0.1, 0.0, -0.5, 0.0]]]))


def test_an_interrupted_pruning_ends_with_the_same_result(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prune(tiny, corpus, RECIPE, tmp_path / "whole", texts=3)
    assert [len(each.columns.kept) for each in whole.rounds] == [24, 18]
    monkeypatch.setattr(training, "STEPS_BETWEEN_SAVES", 1)
    real, calls = training.TextOrder.rows, []

    def interrupted(self: training.TextOrder, step: int) -> object:
        calls.append(step)
        if len(calls) == 5:  # in the middle of the second round
            raise KeyboardInterrupt
        return real(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(training.TextOrder, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    resumed = prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    assert [each.columns for each in resumed.rounds] == [each.columns for each in whole.rounds]
    for name, tensor in whole.bart.model.state_dict().items():
        torch.testing.assert_close(resumed.bart.model.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_the_last_weights_rewrite_with_the_columns_of_the_round_before(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    pruned = prune(tiny, corpus, RECIPE, tmp_path / "training", texts=3)
    bundle = write_pruned(tiny, pruned, RECIPE, 1, tmp_path / "pr").record(figures={}, clip=0.5)
    assert (bundle.facts.variant, bundle.columns) == ("pr", pruned.rounds[0].columns)
    assert Rewriter.load(str(bundle.folder), epsilon=100, beams=1).entries == 24 * 12
    with pytest.raises(BadParameter, match="round to rewrite with must be from 1 to 2, got 3"):
        write_pruned(tiny, pruned, RECIPE, 3, tmp_path / "other")


def test_another_recipe_may_not_go_on_in_the_same_folder(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    prune(tiny, corpus, RECIPE, tmp_path, texts=3)
    for other in (replace(RECIPE, quantile=0.5), replace(RECIPE, steps=4)):
        with pytest.raises(BadParameter, match="was begun with"):
            prune(tiny, corpus, other, tmp_path, texts=3)
