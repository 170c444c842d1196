"""DP-BART-PR: which columns go, and that a stop changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dpbart.channels.columns import Columns
from dpbart.cli import cli
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.halves import SplitBart
from dpbart.models.latent import clip_of
from dpbart.models.text import Tokens
from dpbart.prepare import training
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.importance import choose, importance
from dpbart.prepare.pretrain import PretrainRecipe, new_bart, write_bundle
from dpbart.prepare.prune import ClippedColumns, PruneRecipe, prune, write_pruned
from dpbart.prepare.quality import Copier, Copies
from dpbart.privacy.clipping import Clip
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import entries_of

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
    """The same probe, through all of a round: of the projections only one hardly reads these columns."""
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
    (only,) = prune(probe, corpus, recipe, tmp_path / "training", texts=1).rounds
    assert only.columns == Columns.without(weak, width=32)
    assert bounds == [bound]


def test_a_layer_that_is_not_there_is_refused(tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="layer must be from 0 to 0 for this model, got 1"):
        importance(SplitBart.load(tiny.folder).model, layer=1)
    with pytest.raises(BadParameter, match="layer must be from 0 to 0 for this model, got 1"):
        prune(tiny, corpus, replace(RECIPE, layer=1), tmp_path / "training", texts=3)
    assert not (tmp_path / "training").exists()  # or it would insist on the layer that is not there


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be greater than 0 and finite, got nan"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"quantile": 1.0}, "quantile must be between 0 and 1, both excluded, got 1.0"),
        ({"clip": -1.0}, "bound must be between .*, got -1.0"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        PruneRecipe(**wrong)  # type: ignore[arg-type]


def test_the_round_to_rewrite_with_is_the_last_but_one() -> None:
    assert PruneRecipe().columns_of_round(None) == 5
    assert PruneRecipe(rounds=1).columns_of_round(None) == 1
    assert PruneRecipe().columns_of_round(6) == 6
    with pytest.raises(BadParameter, match="round to rewrite with must be from 1 to 6, got 7"):
        PruneRecipe().columns_of_round(7)


def test_a_model_trained_under_noise_is_not_pruned(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    noisy = replace(tiny, facts=replace(tiny.facts, told=True))
    with pytest.raises(NotPrepared, match="was trained under noise, and pruning would undo that"):
        prune(noisy, corpus, RECIPE, tmp_path / "training", texts=3)


def test_dropout_follows_from_the_seed(
    tiny: Bundle, tiny_copy: Path, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps({**config, "dropout": 0.3}))
    recipe, weights = PruneRecipe(rounds=1, steps=2, batch_size=8), []
    for name in ("one", "other"):
        torch.seed()
        weights.append(prune(Bundle.at(tiny_copy), corpus, recipe, tmp_path / name, texts=1).bart.model.state_dict())
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)


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
    real, calls = training.TextOrder.rows, list[int]()

    def interrupted(self: training.TextOrder, step: int) -> object:
        calls.append(step)
        if len(calls) == 5:  # in the middle of the second round
            raise KeyboardInterrupt
        return real(self, step)

    def stopped(self: Copier, texts: Sequence[str], clip: Clip) -> Copies:
        raise KeyboardInterrupt

    for owner, name, stop in ((Copier, "copy", stopped), (training.TextOrder, "rows", interrupted)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, stop)
            calls[:] = [0, 1, 2]  # the first round's
            with pytest.raises(KeyboardInterrupt):
                prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    resumed = prune(tiny, corpus, RECIPE, tmp_path / "stopped", texts=3)
    assert resumed.rounds == whole.rounds  # columns, loss and BLEU
    for name, tensor in whole.bart.model.state_dict().items():
        torch.testing.assert_close(resumed.bart.model.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_the_last_weights_rewrite_with_the_columns_of_the_round_before(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    pruned = prune(tiny, corpus, RECIPE, tmp_path / "training", texts=3)
    assert not list(tmp_path.glob("training/round-2/*/*_1.bin"))  # the first round's model and optimizer are gone
    bundle = write_pruned(tiny, pruned, corpus, RECIPE, 1, tmp_path / "pr").record(figures={}, clip=0.5)
    assert bundle.facts.corpora == tiny.facts.corpora  # the same text, named once
    assert (bundle.facts.variant, bundle.columns) == ("pr", pruned.rounds[0].columns)
    assert entries_of(Rewriter.load(str(bundle.folder), epsilon=100, beams=1)) == 24 * 12
    with pytest.raises(BadParameter, match="round to rewrite with must be from 1 to 2, got 3"):
        write_pruned(tiny, pruned, corpus, RECIPE, 3, tmp_path / "other")


def test_another_recipe_may_not_go_on_in_the_same_folder(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    prune(tiny, corpus, RECIPE, tmp_path, texts=3)
    for other in (replace(RECIPE, quantile=0.5), replace(RECIPE, steps=4)):
        with pytest.raises(BadParameter, match="was begun with"):
            prune(tiny, corpus, other, tmp_path, texts=3)
    with pytest.raises(BadParameter, match="was begun with clip 1.0, not 1.4"):  # twice the model's own
        prune(replace(tiny, facts=replace(tiny.facts, clip=0.7)), corpus, RECIPE, tmp_path, texts=3)
    with pytest.raises(BadParameter, match="was begun with another model"):  # the same weights, other columns
        prune(replace(tiny, facts=replace(tiny.facts, kept=tuple(range(16)))), corpus, RECIPE, tmp_path, texts=3)


def test_a_pruned_and_a_noisy_model_are_made_by_the_commands_alone(tiny: Bundle, tmp_path: Path) -> None:
    """prune, clip, noisy, rewrite: what docs/models.md tells a reader to type. Every option arrives."""
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))
    source, pr, plus = ("--corpus", tmp_path / "public.txt"), tmp_path / "pr", tmp_path / "pr-plus"

    def run(*args: object) -> str:
        done = CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    asked: dict[str, object] = {"rounds": 3, "steps": 2, "batch_size": 4, "learning_rate": 1e-4, "quantile": 0.5}
    asked |= {"by": "v", "layer": 0, "clip": 0.4, "seed": 7}
    options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
    command = ("prepare", "prune", "--model", tiny.folder, *source, "--out", pr, *options, "--texts", 2)
    lines = run(*command).splitlines()
    assert lines[0].endswith("at epsilon 10, 50, 100, 250, 500, 750, 1,000, 2,500")
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "16"], ["2", "8"], ["3", "4"]]
    assert (pr / "rounds.png").stat().st_size > 5000
    facts = Bundle.at(pr).facts
    assert facts.recipe["prune"] == {**asked, "columns_of_round": 2}
    assert facts.kept is not None
    assert len(facts.kept) == 8
    assert [each["name"] for each in facts.corpora] == ["made_up.txt", "public.txt"]
    rounds = json.loads(run(*command, "--round", 3, "--json"))["rounds"]  # trained already: other columns, at once
    assert [each["kept"] for each in rounds] == [16, 8, 4]
    # 2 sqrt(12 positions x 4 columns) times the analytic Gaussian's 0.03614 at epsilon 500, delta 1e-5
    assert rounds[2]["noise_in_bounds"]["500"] == pytest.approx(2 * 48**0.5 * 0.03614, rel=1e-3)
    assert len(Bundle.at(pr).columns.kept) == 4

    asked = {"delta": 1e-6, "steps": 2, "batch_size": 4, "learning_rate": 1e-4, "seed": 7}
    options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
    run("prepare", "noisy", "--model", pr, *source, "--out", plus, "--epsilon-range", 20, 300, *options)
    made = Bundle.at(plus).facts
    assert {**asked, "epsilon_low": 20, "epsilon_high": 300}.items() <= made.recipe["noisy"].items()
    assert (made.variant, made.kept, made.corpora) == ("pr-plus", Bundle.at(pr).facts.kept, facts.corpora)
    (tmp_path / "in.txt").write_text("a k u .\n")
    run("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 100, "--model", plus)


@pytest.mark.parametrize("command", ["prune", "noisy"])
def test_a_model_is_never_overwritten_by_what_is_made_from_it(
    tiny_copy: Path, corpus: tuple[CorpusFile, ...], command: str
) -> None:
    args = ["prepare", command, "--model", str(tiny_copy), "--corpus", str(corpus[0].path), "--steps", "1"]
    done = CliRunner().invoke(cli, [*args, "--out", str(tiny_copy)])
    assert done.exit_code == 1
    assert "--out must be another directory than the model's own" in done.stderr
    for nowhere in (".", str(corpus[0].path)):
        done = CliRunner().invoke(cli, [*args, "--out", nowhere])
        assert done.exit_code == 2
        assert "Invalid value for '--out'" in done.stderr


def test_the_clip_of_a_model_trained_under_noise_stays(
    tiny: Bundle, tiny_copy: Path, corpus: tuple[CorpusFile, ...]
) -> None:
    replace(tiny.facts, told=True).write(tiny_copy)
    done = CliRunner().invoke(
        cli, ["prepare", "clip", "--model", str(tiny_copy), "--corpus", str(corpus[0].path), "--texts", "1"]
    )
    assert done.exit_code == 1
    assert "was trained under noise, and its clip is part of that training" in done.stderr
    assert clip_of(Bundle.at(tiny_copy)) == clip_of(tiny)
