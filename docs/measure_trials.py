"""Train briefly under noise and print the tables of docs/models.md: how many columns to keep, which techniques help.

    python docs/measure_trials.py --corpus corpus/ --work work/

Each trial keeps the most important columns of `mini` and trains under noise for the same few hundred steps. It then
measures the bits that the decoder still needs for a held-out text. Rerun the script to resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from measure_kept import DELTA, surprise

from dpbart import Rewriter
from dpbart.channels.columns import Columns
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.prepare import noisy
from dpbart.prepare.corpus import CorpusFile, find_corpus, held_out_texts
from dpbart.prepare.prune import importance
from dpbart.prepare.training import Ids

EPSILONS = (100, 250, 500, 1000, 2500)


def hard(kept: torch.Tensor) -> torch.Tensor:
    """The clip's own gradient, which is 0 where the clip saturates."""
    return kept.clamp(-noisy.BOUND, noisy.BOUND)


def straight_through(kept: torch.Tensor) -> torch.Tensor:
    """The gradient as if there were no clip."""
    return kept + (hard(kept) - kept).detach()


def leave_columns(bart: SplitBart, columns: Columns, ids: Ids, *, gain: float) -> None:
    """Leave each column its own mean and spread."""


@dataclass(frozen=True)
class Trial:
    """One short training."""

    name: str
    width: int = 64  # columns kept
    easing: float = noisy.NoisyRecipe().easing
    clip: Callable[[torch.Tensor], torch.Tensor] = noisy.clip_with_gradient
    spread: Callable[..., None] = noisy.spread_columns


TRIALS = (
    Trial("32-columns", width=32),
    Trial("64-columns"),
    Trial("128-columns", width=128),
    Trial("64-columns-hard-gradient", clip=hard),
    Trial("64-columns-straight-through", clip=straight_through),
    Trial("64-columns-not-eased", easing=0.0),
    Trial("64-columns-not-spread", spread=leave_columns),
)


def pruned_at_once(base: Bundle, width: int) -> Bundle:
    scores = importance(SplitBart.load(base.folder).model)
    best = sorted(int(column) for column in np.argsort(-scores)[:width])
    return replace(base, facts=replace(base.facts, kept=tuple(best)))


def run(trial: Trial, files: tuple[CorpusFile, ...], steps: int, work: Path) -> Path:
    """Train a model if needed, and return its folder."""
    out, training = work / trial.name, work / f"{trial.name}.training"
    if not out.is_dir():
        noisy.clip_with_gradient, noisy.spread_columns = trial.clip, trial.spread
        recipe = noisy.NoisyRecipe(steps=steps, easing=trial.easing)
        pruned = pruned_at_once(Bundle.find("mini"), trial.width)
        noisy.write_noisy(pruned, noisy.train_noisy(pruned, files, recipe, training), files, recipe, training, out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    files = find_corpus(asked.corpus)
    texts = held_out_texts(files, asked.texts)
    print("| trial | " + " | ".join(f"{epsilon:,}" for epsilon in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    for trial in TRIALS:
        out = run(trial, files, asked.steps, asked.work)
        left = [surprise(Rewriter.load(str(out), epsilon=float(e), delta=DELTA), texts) for e in EPSILONS]
        print(f"| {trial.name} | " + " | ".join(f"{bits:.1f}" for bits in left) + " |", flush=True)


if __name__ == "__main__":
    main()
