"""Measure how well a model copies public text, and choose the bound of its latent.

Every model has its own scale. A smaller bound C means less noise, but the clip destroys whatever lies beyond it.
In units of C the noise is the same for every C. So the best C is the smallest one that still preserves the text.

Copying is measured by corpus BLEU of free-running generation, with the code that rewrites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sacrebleu

from dpbart.channels.columns import Columns, ColumnsChannel, Floats
from dpbart.errors import NotPrepared
from dpbart.models.bart import Halves
from dpbart.models.bundle import Bundle
from dpbart.models.families import latent_family
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByValue, Clip
from dpbart.privacy.mechanisms import NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import progress

UNCLIPPED = ByValue(1e6)  # a bound that no entry of a latent reaches
BATCH_SIZE = 64
SHORT = 12  # words of a short text, at most


@dataclass(frozen=True)
class Copies:
    """Public texts and the copies that a model wrote."""

    texts: Sequence[str]
    fitting: Sequence[str]  # the texts as the model reads them: cut to its length and vocabulary
    written: Sequence[str]

    @property
    def bleu(self) -> float:
        """BLEU (0 to 100) against the texts as the model reads them."""
        return float(sacrebleu.corpus_bleu(self.written, [self.fitting]).score)

    @property
    def bleu_of_whole(self) -> float:
        """BLEU (0 to 100) against the full texts, ignoring case."""
        return float(sacrebleu.corpus_bleu(self.written, [self.texts], lowercase=True).score)

    def up_to(self, words: int) -> Copies:
        """Only the texts of at most `words` words."""
        short = [row for row, text in enumerate(self.texts) if len(text.split()) <= words]
        return Copies(*([column[row] for row in short] for column in (self.texts, self.fitting, self.written)))

    def figures(self) -> dict[str, dict[str, float]]:
        """Figures for all texts, and for the short ones if there are any."""
        parts = {"all_texts": self, f"up_to_{SHORT}_words": self.up_to(SHORT)}
        return {
            name: {
                "held_out_texts": len(copies.texts),
                "bleu": round(copies.bleu, 2),
                "bleu_of_whole": round(copies.bleu_of_whole, 2),
            }
            for name, copies in parts.items()
            if copies.texts
        }


@dataclass(frozen=True)
class Copier:
    """A model that copies public texts with a clip and without noise."""

    halves: Halves
    tokens: Tokens
    search: BeamSearch
    columns: Columns

    @classmethod
    def load(cls, bundle: Bundle) -> Copier:
        tokens = Tokens.load(bundle.folder / "tokenizer.json", length=bundle.facts.length)
        return cls(latent_family(bundle).halves(bundle, None), tokens, BeamSearch(), bundle.columns)

    def encode(self, texts: Sequence[str]) -> Floats:
        """The columns that are sent, (batch, positions, kept)."""
        return self.columns.keep(self.halves.encode(self.tokens.encode(texts)))

    def copy(self, texts: Sequence[str], clip: Clip) -> Copies:
        fitting: list[str] = []
        written: list[str] = []
        with progress(f"BLEU at clip {clip.bound:.3g}", total=len(texts), unit="texts") as bar:
            for start in range(0, len(texts), BATCH_SIZE):
                ids = self.tokens.encode(texts[start : start + BATCH_SIZE])
                latent = self.halves.encode(ids)  # (batch, positions, width)
                channel = ColumnsChannel(self.columns, clip, NonPrivate(), latent.shape[1])
                private = channel.send(latent, SystemEntropy())
                written += self.tokens.decode(self.halves.decode(private, self.search, length=self.tokens.length))
                fitting += self.tokens.decode(ids)
                bar.advance(len(ids))
        return Copies(texts, fitting, written)


MULTIPLES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of the standard deviation; the paper tries 2 and settles on 0.5
LEAST_BLEU = 1.0  # of 100, unclipped: with less, the copies have next to nothing of their texts
ENOUGH = 0.97  # share of the unclipped BLEU that the chosen bound must keep
QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class LatentStatistics:
    """Statistics over all entries of the latents of public texts."""

    entries: int
    mean: float
    deviation: float
    quantiles: dict[str, float]
    histogram: tuple[list[int], list[float]]  # counts and bin edges

    @classmethod
    def of(cls, latents: npt.NDArray[np.float32]) -> LatentStatistics:
        values = latents.ravel().astype(np.float64)
        mean, deviation = float(values.mean()), float(values.std())
        counts, edges = np.histogram(values, bins=120, range=(mean - 4 * deviation, mean + 4 * deviation))
        quantiles = {f"{q:g}": float(np.quantile(values, q)) for q in QUANTILES}
        return cls(values.size, mean, deviation, quantiles, (counts.tolist(), edges.tolist()))


@dataclass(frozen=True)
class ClipChoice:
    """The bounds that were tried, the BLEU at each, and the chosen bound."""

    statistics: LatentStatistics
    unclipped: float  # BLEU
    tried: dict[float, float]  # bound to BLEU
    chosen: float

    def figures(self) -> dict[str, object]:
        """As they go into dpbart.json."""
        return {
            "latent_mean": round(self.statistics.mean, 5),
            "latent_deviation": round(self.statistics.deviation, 5),
            "latent_quantiles": {name: round(value, 4) for name, value in self.statistics.quantiles.items()},
            "bleu_unclipped": round(self.unclipped, 2),
            "bleu_at_clip": {f"{bound:g}": round(bleu, 2) for bound, bleu in self.tried.items()},
        }

    @property
    def why(self) -> str:
        kept = f"{ENOUGH:.0%} of the unclipped BLEU: {self.tried[self.chosen]:.1f} of {self.unclipped:.1f}"
        if self.tried[self.chosen] >= ENOUGH * self.unclipped:
            return f"the smallest bound tried that keeps {kept}"
        return f"the largest bound tried, although it keeps less than {kept}"


def choose_clip(copier: Copier, texts: Sequence[str]) -> ClipChoice:
    """Measure the latent, and BLEU at several bounds. Choose the smallest bound that keeps enough of the BLEU.

    Raises:
        NotPrepared: The model copies nothing even without a clip. Every bound keeps enough of a BLEU of 0.
    """
    latents = np.concatenate(
        [copier.encode(texts[start : start + BATCH_SIZE]) for start in range(0, len(texts), BATCH_SIZE)]
    )  # (texts, length, kept)
    statistics = LatentStatistics.of(latents)
    unclipped = copier.copy(texts, UNCLIPPED).bleu
    if unclipped < LEAST_BLEU:
        raise NotPrepared(
            f"a model must copy public text before its clip can be chosen, got a BLEU of {unclipped:.1f} without a "
            "clip. Train it longer with dpbart prepare pretrain, and check that the corpus is in its language."
        )
    tried: dict[float, float] = {}
    for multiple in MULTIPLES:
        bound = float(f"{multiple * statistics.deviation:.3g}")
        tried[bound] = copier.copy(texts, ByValue(bound)).bleu
    enough = [bound for bound, bleu in tried.items() if bleu >= ENOUGH * unclipped]
    return ClipChoice(statistics, unclipped, tried, min(enough, default=max(tried)))


def draw_clip(choice: ClipChoice, file: Path) -> None:
    """Plot the histogram of the entries with the chosen bound, and BLEU against the bound."""
    import matplotlib

    matplotlib.use("Agg")  # write to a file, open no window
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    counts, edges = choice.statistics.histogram
    left.stairs(counts, edges, fill=True, color="#9ab8d6")
    for side in (-choice.chosen, choice.chosen):
        left.axvline(side, color="#b03030", linewidth=1.2)
    left.set(xlabel="entry of the latent", ylabel="count", title=f"chosen bound C = {choice.chosen:g}", yticks=[])
    right.plot(list(choice.tried), list(choice.tried.values()), marker="o", color="#30506e")
    right.axhline(choice.unclipped, color="#888888", linestyle="--", linewidth=1)
    right.text(max(choice.tried), choice.unclipped + 1, "unclipped", ha="right", va="bottom", color="#666666")
    right.axvline(choice.chosen, color="#b03030", linewidth=1.2)
    right.set(xlabel="bound C", ylabel="BLEU on held-out text", ylim=(0, 112))
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
