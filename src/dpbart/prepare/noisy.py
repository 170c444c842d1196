"""DP-BART-PR+: train a pruned model further with clip and noise, so that it learns to write from a noisy latent.

Train for one budget, as in the paper, or for a range: then every text gets a random epsilon from the range.
The model receives public side information (channels/columns.py). The scale of the noise comes from the same
mechanism that rewrites. Training noise is seeded and public: it protects nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer
from transformers import BartForConditionalGeneration

from dpbart.channels.columns import TOKENS, Columns, budget_token, loudness_of, row_places
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle, save_bundle
from dpbart.models.text import Tokens
from dpbart.options.recipes import NoisyRecipe
from dpbart.prepare.corpus import CorpusFile, tokenize_corpus
from dpbart.prepare.pretrain import Reconstruction, batch_of
from dpbart.prepare.training import Ids, hold_to_recipe, known_by, train_on_corpus, trained_further
from dpbart.privacy.clipping import ByValue, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, NoiseMechanism, NonPrivate

BOUND = 1.0  # the latent is rescaled to fit; in units of the bound, the noise is the same for every bound


def mechanism_at(recipe: NoisyRecipe, step: int, random: np.random.Generator) -> NoiseMechanism:
    """A random mechanism for one text: at first only high budgets and weak noise, later the whole range."""
    if recipe.epsilon_low < recipe.epsilon_high and random.random() < recipe.noiseless:
        return NonPrivate()
    eased = min(1.0, (step + 1) / max(1.0, recipe.easing * recipe.steps))
    # The square root favours high budgets: a text with a low one teaches little.
    place = math.sqrt(random.random())  # 0 is the lowest budget, 1 the highest, on a logarithmic scale
    epsilon = recipe.epsilon_high * (recipe.epsilon_low / recipe.epsilon_high) ** (eased * (1 - place))
    return Gaussian(epsilon, recipe.delta)


def clip_with_gradient(kept: torch.Tensor) -> torch.Tensor:
    """The hard clip of the mechanism in the forward pass, a tanh in the backward pass.

    A saturated clip has no gradient, but a noisy channel works best when it is saturated.
    """
    smooth = BOUND * torch.tanh(kept / BOUND)
    return smooth + (kept.clamp(-BOUND, BOUND) - smooth).detach()


class NoisyColumns:
    """The channel of PR+: clip by value, add noise, and write the row numbers into the pruned columns."""

    def __init__(self, columns: Columns, *, length: int) -> None:
        self.kept = torch.tensor(columns.kept)
        self.places = torch.from_numpy(row_places(columns, length=length))  # (length, width)

    def __call__(self, latent: torch.Tensor, scale: torch.Tensor, loudness: torch.Tensor) -> torch.Tensor:
        """Latent (batch, length, width), with the scale of the noise and the loudness for each text, (batch,) each."""
        kept = latent[..., self.kept.to(latent.device)]  # (batch, length, kept)
        clipped = clip_with_gradient(kept)
        noised = clipped + scale[:, None, None] * torch.randn_like(clipped)
        received = self.places.to(latent.device).expand_as(latent).clone()
        received[..., self.kept.to(latent.device)] = loudness[:, None, None] * noised
        return received


@dataclass(frozen=True)
class NoisyBatch:
    """Gives each text of a step a budget, and the model the matching token, noise scale and loudness."""

    recipe: NoisyRecipe
    tokens: Tokens
    sensitivity: Sensitivity

    def __call__(self, whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(int(random.integers(2**62)))  # for the training noise
        mechanisms = [mechanism_at(self.recipe, step, random) for _ in whole]
        scales = [mechanism.noise_scale(self.sensitivity) for mechanism in mechanisms]
        start = np.array(
            [self.tokens.id_of(budget_token(mechanism.bits(self.sensitivity))) for mechanism in mechanisms]
        )
        shown = whole.copy()
        shown[:, 0] = start
        loudness = [loudness_of(scale, bound=BOUND) for scale in scales]
        return *batch_of(shown=shown, whole=whole, start=start), torch.tensor(scales), torch.tensor(loudness)


def train_noisy(
    bundle: Bundle, files: tuple[CorpusFile, ...], recipe: NoisyRecipe, folder: Path
) -> BartForConditionalGeneration | None:
    """Train to the last step, or resume from the state saved in `folder`. Only the main process gets the model."""
    bundle.require_bart("PR+ is a BART trained further. Give a pruned BART.")
    accelerator = Accelerator()
    hold_to_recipe(folder, {**recipe.model_dump(), "model": known_by(bundle)}, files)
    bart = SplitBart.load(bundle.folder, device=torch.device("cpu"))
    columns, model = bundle.columns, bart.model
    with accelerator.main_process_first():
        make = partial(with_budget_tokens, bundle.folder / "tokenizer.json")
        tokens, corpus = tokenize_corpus(files, make, folder, length=bundle.facts.length)
    if not bundle.facts.told:  # a model already trained with noise continues as it is
        spread_columns(bart, columns, corpus[:50_000:50].astype(np.int64), gain=recipe.gain)
        forget_pruned(bart, columns)
    torch.manual_seed(recipe.seed)
    model.resize_token_embeddings(tokens.size, mean_resizing=False)
    train_on_corpus(
        Reconstruction(model, NoisyColumns(columns, length=tokens.length)).train(),
        corpus,
        recipe.schedule,
        NoisyBatch(recipe, tokens, ByValue(BOUND).sensitivity(tokens.length * len(columns.kept))),
        accelerator=accelerator,
        folder=folder,
        title="Training under noise",
    )
    return model if accelerator.is_main_process else None


def spread_columns(bart: SplitBart, columns: Columns, ids: Ids, *, gain: float) -> None:
    """Give every kept column mean 0 and the same standard deviation, without changing what the model computes.

    The mean of a column carries no information but takes up room inside the clip. The last layer norm of the encoder
    has a gain and an offset for each column, and only the K and V projections of the decoder read the latent. So the
    projections can undo what the layer norm changes.
    """
    latent = bart.encode(ids).reshape(-1, bart.width).astype(np.float64)  # (positions, width)
    kept = list(columns.kept)
    mean, factor = torch.zeros(bart.width), torch.ones(bart.width)  # pruned columns stay as they are
    mean[kept] = torch.from_numpy(latent.mean(axis=0)).float()[kept]
    factor[kept] = torch.from_numpy(BOUND * gain / latent.std(axis=0)).float()[kept]
    norm = bart.model.model.encoder.layers[-1].final_layer_norm
    with torch.no_grad():
        norm.weight.mul_(factor)
        norm.bias.sub_(mean).mul_(factor)
        for layer in bart.model.model.decoder.layers:
            for projection in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj):
                projection.bias.add_(projection.weight @ mean)
                projection.weight.div_(factor)


def forget_pruned(bart: SplitBart, columns: Columns) -> None:
    """Make the decoder ignore the pruned columns at first.

    It starts from what it computed while they were 0, and learns to read the row numbers that they hold from now on.
    """
    gone = torch.ones(bart.width, dtype=torch.bool)
    gone[list(columns.kept)] = False
    with torch.no_grad():
        for layer in bart.model.model.decoder.layers:
            for projection in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj):
                projection.weight[:, gone] = 0.0


def with_budget_tokens(source: Path) -> Tokenizer:
    """A tokenizer with the budget tokens added."""
    tokenizer = Tokenizer.from_file(str(source))
    tokenizer.add_special_tokens(list(TOKENS))
    return tokenizer


def write_noisy(
    bundle: Bundle,
    model: BartForConditionalGeneration,
    files: tuple[CorpusFile, ...],
    recipe: NoisyRecipe,
    folder: Path,
    out: Path,
) -> Bundle:
    """Write a model directory in half precision. Its model expects public side information when it rewrites."""
    facts = trained_further(bundle.facts, files, {"noisy": recipe.model_dump()})
    facts = replace(facts, variant="pr-plus", clip=BOUND, told=True)
    return save_bundle(model.half(), folder / "tokenizer.json", facts, out)
