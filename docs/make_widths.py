"""The table of docs/models.md on widths: how many kept columns serve which budget, each trained alike and briefly.

    python docs/make_widths.py --corpus corpus/ --work work/

For each width the columns of `mini` that matter most are kept, trained under noise for the same few hundred steps, and
the bits that the decoder still needs for a held-out text are measured. It goes on where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from make_models import DELTA, surprise

from dpbart import Rewriter
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.pruning import importance
from dpbart.prepare.corpus import find_corpus, held_out_texts
from dpbart.prepare.noisy import NoisyRecipe, train_noisy, write_noisy

WIDTHS = (32, 64, 128)
EPSILONS = (100, 250, 500, 1000, 2500)


def pruned_at_once(base: Bundle, width: int) -> Bundle:
    scores = importance(SplitBart.load(base.folder).model)
    best = sorted(int(column) for column in np.argsort(-scores)[:width])
    return replace(base, facts=replace(base.facts, kept=tuple(best)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    files = find_corpus(asked.corpus)
    texts = held_out_texts(files, asked.texts)
    recipe = NoisyRecipe(steps=asked.steps)
    print("| columns kept | " + " | ".join(f"{epsilon:,}" for epsilon in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    for width in WIDTHS:
        out = asked.work / f"{width}-columns"
        if not out.is_dir():
            pruned, training = pruned_at_once(Bundle.find("mini"), width), asked.work / f"{width}-columns.training"
            write_noisy(pruned, train_noisy(pruned, files, recipe, training), recipe, training, out)
        left = [surprise(Rewriter.load(str(out), epsilon=float(e), delta=DELTA), texts) for e in EPSILONS]
        print(f"| {width} | " + " | ".join(f"{bits:.1f}" for bits in left) + " |", flush=True)


if __name__ == "__main__":
    main()
