"""Measure how well a reader who knows the subject of a file can tell which of its texts came through as meant.

The texts are made up and all about one stay in a hospital. The reader sees the rewritten texts alone, and takes those
for lost that are least like the others, by the sentence encoder inside the default model.

    python benchmarks/which_kept.py [EPSILON] [RUNS]     # 10 and 10 by default
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from itertools import product

import numpy as np

from dpbart import Rewriter
from dpbart.models.sentences import SentenceEncoderFiles, SentenceVectors
from dpbart.models.vectors import load_vectors

WHO = ("The nurse", "My doctor", "The surgeon", "The night staff", "The man at the desk", "A young doctor")
WHAT = (
    "explained the operation to me twice.",
    "never came when I rang the bell.",
    "was kind to my mother on the ward.",
    "forgot to write down my medicine.",
    "told me that my knee would heal within six weeks.",
    "sent me home before my blood results were back.",
    "let me wait three hours in pain.",
    "changed the bandage every morning.",
    "did not answer my questions about the scan.",
    "said I could eat again on Tuesday.",
)
TEXTS = [f"{who} {what}" for who, what in product(WHO, WHAT)]


def kept_and_written(rewriter: Rewriter) -> tuple[list[bool], list[str]]:
    """Whether each text came through as meant, which only the owner of the texts knows, and what was written."""
    meant = rewriter.model.encode(TEXTS)
    private = rewriter.channel.send(meant, rewriter.entropy)
    return [code in one for code, one in zip(private.values, meant, strict=True)], rewriter.model.decode(private)


def likeness(texts: Sequence[str], judge: SentenceVectors) -> list[float]:
    """How like the others each text is: its mean cosine to them."""
    vectors = judge.vectors(texts)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, 0.0)
    return [float(mean) for mean in cosines.sum(axis=1) / (len(texts) - 1)]


def area(kept: Sequence[bool], scores: Sequence[float]) -> float:
    """Area under the ROC curve: how often a text that was kept has a higher score than one that was lost."""
    pairs = [
        (a > b) + (a == b) / 2
        for a, x in zip(scores, kept, strict=True)
        if x
        for b, y in zip(scores, kept, strict=True)
        if not y
    ]
    return statistics.fmean(pairs)


def main(epsilon: float, runs: int) -> None:
    judge = load_vectors(SentenceEncoderFiles.inside_default())
    rewriter = Rewriter.load(epsilon=epsilon)
    areas, shares = [], []
    while len(areas) < runs:
        kept, written = kept_and_written(rewriter)
        if 0 < sum(kept) < len(kept):  # otherwise there is nothing to tell apart
            areas.append(area(kept, likeness(written, judge)))
            shares.append(sum(kept) / len(kept))
    print(f"epsilon {epsilon:g}, {runs} runs of {len(TEXTS)} texts, of which {statistics.fmean(shares):.0%} were kept:")
    print(f"area under the ROC curve {statistics.fmean(areas):.2f}, standard deviation {statistics.stdev(areas):.2f}")


if __name__ == "__main__":
    given = [float(each) for each in sys.argv[1:]]
    main(given[0] if given else 10.0, int(given[1]) if len(given) > 1 else 10)
