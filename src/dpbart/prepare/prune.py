"""DP-BART-PR: in rounds, choose columns, set the others to 0, and train on public text with the clip in place.

Igamberdiev and Habernal 2023, section 4.2. The columns are chosen from the current weights. By default the final model
rewrites with the columns of the second-to-last round (the paper's "k - 1").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter
from dpbart.files import write_whole
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle, save_bundle
from dpbart.models.families import clip_of
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.options.recipes import PruneRecipe
from dpbart.prepare.clip import Copier
from dpbart.prepare.corpus import CorpusFile, encode_corpus, held_out_texts
from dpbart.prepare.pretrain import Reconstruction, batch_of
from dpbart.prepare.training import Ids, hold_to_recipe, known_by, train_on_corpus, trained_further
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Gaussian

if TYPE_CHECKING:
    from transformers import BartForConditionalGeneration

Scores = npt.NDArray[np.float64]

BUDGETS = (10, 50, 100, 250, 500, 750, 1000, 2500)  # epsilons of the paper, shown for each round
DELTA = 1e-5


def importance(model: BartForConditionalGeneration, *, layer: int = 0, projection: str = "k") -> Scores:
    """How much of each latent column a decoder layer's cross-attention reads: the sum over its outputs of |W|.

    W is [out, in]. The paper takes the K projection of layer 0. Only meaningful for trained weights.
    """
    layers = model.model.decoder.layers
    if not 0 <= layer < len(layers):
        raise BadParameter(f"layer must be from 0 to {len(layers) - 1} for this model, got {layer}.")
    attention = layers[layer].encoder_attn
    weight = {"k": attention.k_proj, "v": attention.v_proj}[projection].weight
    scores: Scores = weight.detach().double().abs().sum(dim=0).cpu().numpy()
    return scores


def choose(scores: Scores, columns: Columns, *, quantile: float = 0.25) -> Columns:
    """The columns to keep: those whose score is not strictly below the linear quantile of the ones still kept."""
    if not 0 < quantile < 1:
        raise BadParameter(f"quantile must be between 0 and 1, both excluded, got {quantile}.")
    kept = np.array(columns.kept)
    threshold = np.quantile(scores[kept], quantile)  # numpy's default is linear
    return Columns(columns.width, tuple(int(column) for column in kept[scores[kept] >= threshold]))


@dataclass(frozen=True)
class Round:
    """The result of one round."""

    number: int
    columns: Columns
    loss: float
    bleu: float

    def figures(self, length: int) -> dict[str, Any]:
        noise = {str(epsilon): noise_in_bounds(self.columns, length=length, epsilon=epsilon) for epsilon in BUDGETS}
        kept = len(self.columns.kept)
        return {"round": self.number, "kept": kept, "loss": self.loss, "bleu": self.bleu, "noise_in_bounds": noise}


@dataclass(frozen=True)
class Pruned:
    """The model after its last round, and all rounds."""

    bart: SplitBart
    rounds: list[Round]


class ClippedColumns:
    """The channel in pruning: clip by value, and 0 in the pruned columns."""

    def __init__(self, bound: float, columns: Columns) -> None:
        self.bound = bound
        self.mask = torch.zeros(columns.width)
        self.mask[list(columns.kept)] = 1.0

    def __call__(self, latent: torch.Tensor) -> torch.Tensor:
        return latent.clamp(-self.bound, self.bound) * self.mask.to(latent.device)


def prune(
    bundle: Bundle, files: tuple[CorpusFile, ...], recipe: PruneRecipe, folder: Path, texts: int
) -> Pruned | None:
    """Run all rounds, or resume from the state saved in `folder`. Only the main process gets the result."""
    bundle.require_bart("pruning reads the cross-attention of a BART. Give a BART, such as mini.")
    bundle.require_before_noise("pruning would undo that. Prune the model that it was made from.")
    bound = 2 * clip_of(bundle).bound if recipe.clip is None else recipe.clip
    accelerator = Accelerator()
    bart = SplitBart.load(bundle.folder, device=accelerator.device)  # training and BLEU share it
    tokens = Tokens.load(bundle.folder / "tokenizer.json", length=bundle.facts.length)
    importance(bart.model, layer=recipe.layer)  # refuses a layer that does not exist, before anything is written
    held_out = held_out_texts(files, texts)
    settings = {**recipe.model_dump(), "clip": bound, "model": known_by(bundle)}
    settings["steps_in_a_round"] = recipe.steps  # fixed, unlike `steps` elsewhere: later rounds build on earlier ones
    hold_to_recipe(folder, settings, files)
    with accelerator.main_process_first():
        corpus = encode_corpus(files, tokens, folder)

    def show_whole(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(int(random.integers(2**62)))  # for dropout, if the model has any
        return batch_of(shown=whole, whole=whole, start=bart.model.config.decoder_start_token_id)

    rounds, columns = list[Round](), bundle.columns
    for number in range(1, recipe.rounds + 1):
        place = folder / f"round-{number}"
        with accelerator.main_process_first():
            columns = _columns_of_round(place, bart, columns, recipe, number)
        loss = train_on_corpus(
            Reconstruction(bart.model, ClippedColumns(bound, columns)).train(),
            corpus,
            recipe.schedule(number),
            show_whole,
            accelerator=accelerator,
            folder=place,
            title=f"Round {number}",
        )
        with accelerator.main_process_first():
            copier = Copier(bart, tokens, BeamSearch(), columns)
            rounds.append(_measured(place, copier, held_out, bound, number, loss))
    return Pruned(bart, rounds) if accelerator.is_main_process else None


def _columns_of_round(place: Path, bart: SplitBart, before: Columns, recipe: PruneRecipe, number: int) -> Columns:
    """The columns kept in a round, chosen at its start and stored with its state."""
    file = place / "kept.json"
    if not file.is_file():
        if recipe.by == "random":
            scores = np.random.default_rng([recipe.seed, number]).random(before.width)
        else:
            scores = importance(bart.model, layer=recipe.layer, projection=recipe.by)
        write_whole(file, json.dumps(choose(scores, before, quantile=recipe.quantile).kept))
    return Columns(before.width, tuple(json.loads(file.read_text())))


def _measured(place: Path, copier: Copier, held_out: list[str], bound: float, number: int, loss: float) -> Round:
    """The result of a round, measured at its end and stored with its state."""
    file = place / "measured.json"
    if not file.is_file():
        copier.halves.model.eval()
        write_whole(file, json.dumps({"loss": loss, "bleu": copier.copy(held_out, ByValue(bound)).bleu}))
    return Round(number=number, columns=copier.columns, **json.loads(file.read_text()))


def noise_in_bounds(columns: Columns, *, length: int, epsilon: float) -> float:
    """Standard deviation of the noise on an entry, in units of the bound. Pruning lowers it."""
    return Gaussian(epsilon, DELTA).noise_scale(ByValue(1.0).sensitivity(length * len(columns.kept)))


def draw_rounds(rounds: list[Round], length: int, file: Path) -> None:
    """Plot BLEU without noise, and the noise at the paper's budgets, against the number of kept columns."""
    import matplotlib

    matplotlib.use("Agg")  # write to a file, open no window
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    kept = [len(done.columns.kept) for done in rounds]
    left.plot(kept, [done.bleu for done in rounds], marker="o", color="#30506e")
    left.set(ylabel="BLEU, clipped, no noise", ylim=(0, 105))
    for epsilon in BUDGETS:
        scales = [noise_in_bounds(done.columns, length=length, epsilon=epsilon) for done in rounds]
        right.plot(kept, scales, marker="o", label=f"epsilon {epsilon:,}")
    right.set(ylabel="noise, in units of the bound", yscale="log")
    right.set_ylim(top=4 * right.get_ylim()[1])  # room for the legend
    right.legend(frameon=False, ncols=3, fontsize="small", loc="upper center")
    for axis in (left, right):
        axis.set(xlabel="columns kept")
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def write_pruned(
    bundle: Bundle, pruned: Pruned, files: tuple[CorpusFile, ...], recipe: PruneRecipe, chosen: int, out: Path
) -> Bundle:
    """Write the weights of the last round in half precision, with the columns of the chosen round. No clip yet."""
    chosen = recipe.columns_of_round(chosen)
    facts = trained_further(bundle.facts, files, {"prune": {**recipe.model_dump(), "columns_of_round": chosen}})
    facts = replace(facts, variant="pr", kept=pruned.rounds[chosen - 1].columns.kept, clip=None)
    return save_bundle(pruned.bart.model.half(), bundle.folder / "tokenizer.json", facts, out)
