"""Choose the bound of a model's latent on public text.

Every model has its own scale. A smaller bound C means less noise, but the clip destroys whatever lies beyond it.
In units of C the noise is the same for every C. So the best C is the smallest one that still preserves the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpbart.prepare.quality import BATCH_SIZE, UNCLIPPED, Copier
from dpbart.privacy.clipping import ByValue

MULTIPLES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of the standard deviation; the paper tries 2 and settles on 0.5
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

    @property
    def why(self) -> str:
        return (
            f"the smallest bound tried that keeps {ENOUGH:.0%} of the unclipped BLEU: "
            f"{self.tried[self.chosen]:.1f} of {self.unclipped:.1f}"
        )


def choose_clip(copier: Copier, texts: Sequence[str]) -> ClipChoice:
    """Measure the latent, and BLEU at several bounds. Choose the smallest bound that keeps enough of the BLEU."""
    latents = np.concatenate(
        [copier.encode(texts[start : start + BATCH_SIZE]) for start in range(0, len(texts), BATCH_SIZE)]
    )  # (texts, length, kept)
    statistics = LatentStatistics.of(latents)
    unclipped = copier.copy(texts, UNCLIPPED).bleu
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
