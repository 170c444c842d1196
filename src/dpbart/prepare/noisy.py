"""DP-BART-PR+: train a pruned model further under clip and noise, so that it learns to write from what is left.

For one budget, as in the paper, or for a whole range of budgets at once: then epsilon is drawn anew for each text.
The model is given public side information (channels/side_information.py), and the scale of the noise comes from the
very mechanism that rewrites. Training noise is public and may be seeded; it protects nobody.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer
from transformers import BartForConditionalGeneration

from dpbart import __version__
from dpbart.channels.columns import Columns
from dpbart.channels.side_information import TOKENS, SideInformation, row_places
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle, save_bundle
from dpbart.models.halves import SplitBart
from dpbart.models.text import Tokens
from dpbart.prepare.corpus import CorpusFile, encode_corpus, with_corpora
from dpbart.prepare.objective import Reconstruction, batch_of
from dpbart.prepare.training import Ids, Schedule, hold_to_recipe, known_by, train
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Gaussian, NoiseMechanism, NonPrivate

BOUND = 1.0  # the latent is rescaled to it; in units of the bound, the noise does not depend on it


@dataclass(frozen=True)
class NoisyRecipe:
    """One budget when both epsilons are the same; otherwise a range, drawn anew for each text."""

    epsilon_low: float = 10.0
    epsilon_high: float = 5000.0
    delta: float = 1e-5
    noiseless: float = 0.05  # share of the texts without noise
    easing: float = 0.2  # share of the steps over which the weakest budget comes down from the strongest
    gain: float = 1.5  # standard deviation of a column before the clip, in units of the bound, at the start
    steps: int = 8000
    batch_size: int = 32
    learning_rate: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        Gaussian(self.epsilon_low, self.delta)
        Gaussian(self.epsilon_high, self.delta)
        if self.epsilon_low > self.epsilon_high:
            raise BadParameter(
                f"the lower epsilon must not be above the higher {self.epsilon_high:g}, got {self.epsilon_low:g}."
            )
        _ = self.schedule

    @property
    def schedule(self) -> Schedule:
        return Schedule(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            warmup=min(200, self.steps),
            decay=0.4,
            seed=self.seed,
        )

    def mechanism_at(self, step: int, random: np.random.Generator) -> NoiseMechanism:
        """From weak noise to strong: at first only high budgets are drawn, later the whole range."""
        if self.epsilon_low < self.epsilon_high and random.random() < self.noiseless:
            return NonPrivate()
        eased = min(1.0, (step + 1) / max(1.0, self.easing * self.steps))
        # The square root draws high budgets more often: at low ones there is little to learn from a text.
        place = math.sqrt(random.random())  # 0 is the weakest budget, 1 the strongest, on a logarithmic scale
        epsilon = self.epsilon_high * (self.epsilon_low / self.epsilon_high) ** (eased * (1 - place))
        return Gaussian(epsilon, self.delta)


def clip_with_gradient(kept: torch.Tensor) -> torch.Tensor:
    """Forwards the hard clip of the mechanism, backwards a tanh in its place.

    The clip has no gradient where it saturates, and saturation is what a noisy channel wants.
    """
    smooth = BOUND * torch.tanh(kept / BOUND)
    return smooth + (kept.clamp(-BOUND, BOUND) - smooth).detach()


class NoisyColumns:
    """The channel of PR+: clip by value, noise, and in the columns that are gone what the decoder is told."""

    def __init__(self, columns: Columns, *, length: int) -> None:
        self.kept = torch.tensor(columns.kept)
        self.places = torch.from_numpy(row_places(columns, length=length))  # (length, width)

    def __call__(self, latent: torch.Tensor, scale: torch.Tensor, loudness: torch.Tensor) -> torch.Tensor:
        """Latent (batch, length, width), with the scale of its noise and the loudness of each text, (batch,) each."""
        kept = latent[..., self.kept.to(latent.device)]  # (batch, length, kept)
        clipped = clip_with_gradient(kept)
        noised = clipped + scale[:, None, None] * torch.randn_like(clipped)
        received = self.places.to(latent.device).expand_as(latent).clone()
        received[..., self.kept.to(latent.device)] = loudness[:, None, None] * noised
        return received


def train_noisy(
    bundle: Bundle, files: tuple[CorpusFile, ...], recipe: NoisyRecipe, folder: Path
) -> BartForConditionalGeneration:
    """Train under noise to the recipe's last step, from where it stopped before."""
    bundle.require_bart("PR+ is a BART trained further. Give a pruned BART.")
    accelerator = Accelerator()
    with accelerator.main_process_first():
        held = {**asdict(recipe), "model": known_by(bundle), "corpus": [file.sha256 for file in files]}
        hold_to_recipe(folder, held)
    bart = SplitBart.load(bundle.folder, device=torch.device("cpu"))
    columns, model = bundle.columns, bart.model
    tokens = Tokens.load(bundle.folder / "tokenizer.json", length=bundle.facts.length)
    with accelerator.main_process_first():
        corpus = encode_corpus(files, tokens, folder)
    if not bundle.facts.told:  # one that was trained under noise before goes on as it is
        spread_columns(bart, columns, corpus[:50_000:50].astype(np.int64), gain=recipe.gain)
        forget_pruned(bart, columns)
    known = with_budget_tokens(bundle.folder / "tokenizer.json", folder / "tokenizer.json", length=tokens.length)
    torch.manual_seed(recipe.seed)
    model.resize_token_embeddings(known.tokenizer.get_vocab_size(), mean_resizing=False)
    clip = ByValue(BOUND)
    sensitivity = clip.sensitivity(tokens.length * len(columns.kept))

    def tell(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(int(random.integers(2**62)))  # the training noise of this step
        mechanisms = [recipe.mechanism_at(step, random) for _ in whole]
        told = [SideInformation.of(each, clip, columns, length=tokens.length) for each in mechanisms]
        start = np.array([known.id_of(each.token) for each in told])  # (batch,)
        shown = whole.copy()
        shown[:, 0] = start
        scale = torch.tensor([each.noise_scale(sensitivity) for each in mechanisms])
        loudness = torch.tensor([each.loudness for each in told])
        return *batch_of(shown=shown, whole=whole, start=start), scale.float(), loudness.float()

    train(
        Reconstruction(model, NoisyColumns(columns, length=tokens.length)).train(),
        corpus,
        recipe.schedule,
        tell,
        accelerator=accelerator,
        folder=folder,
        title="Training under noise",
    )
    return model


def spread_columns(bart: SplitBart, columns: Columns, ids: Ids, *, gain: float) -> None:
    """Give every kept column mean 0 and the same spread, without changing what the model computes.

    A column's mean carries nothing but takes room inside the clip. The encoder's last layer norm has a gain and an
    offset for each column, and only the decoder's K and V projections read the latent: what the one takes away the
    others put back.
    """
    latent = bart.encode(ids).reshape(-1, bart.width).astype(np.float64)  # (positions, width)
    kept = list(columns.kept)
    mean, factor = torch.zeros(bart.width), torch.ones(bart.width)  # pruned columns: nothing to take, nothing to give
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
    """Let the decoder read nothing from the columns that are gone: it begins as it was while they were 0, and learns
    to read the places that they hold from now on."""
    gone = torch.ones(bart.width, dtype=torch.bool)
    gone[list(columns.kept)] = False
    with torch.no_grad():
        for layer in bart.model.model.decoder.layers:
            for projection in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj):
                projection.weight[:, gone] = 0.0


def with_budget_tokens(source: Path, target: Path, *, length: int) -> Tokens:
    """A copy of a tokenizer that knows the budget tokens."""
    tokenizer = Tokenizer.from_file(str(source))
    tokenizer.add_special_tokens(list(TOKENS))
    tokenizer.save(str(target))
    return Tokens.load(target, length=length)


def write_noisy(
    bundle: Bundle,
    model: BartForConditionalGeneration,
    files: tuple[CorpusFile, ...],
    recipe: NoisyRecipe,
    folder: Path,
    out: Path,
) -> Bundle:
    """A model directory, in half precision, that is told what is public when it rewrites."""
    facts = replace(
        bundle.facts,
        variant="pr-plus",
        clip=BOUND,
        told=True,
        corpora=with_corpora(bundle.facts.corpora, files),
        recipe={**bundle.facts.recipe, "noisy": asdict(recipe)},
        figures={},
        version=__version__,
    )
    return save_bundle(model.half(), folder / "tokenizer.json", facts, out)
