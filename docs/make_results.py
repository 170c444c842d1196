"""Make the tables of docs/results.md from the scores in docs/results/: one with the paper, then one for every data set.

python docs/make_results.py
"""

from __future__ import annotations

import math
from pathlib import Path

from dpbart.evaluate.experiment.report import paper_tables
from dpbart.evaluate.experiment.results import Result, read_results

DOCS = Path(__file__).parent
ORIGINAL = 0.0  # in place of a budget: no rewriting
BUDGETS = (ORIGINAL, math.inf, 2500.0, 1000.0, 750.0, 500.0, 250.0, 100.0, 50.0, 10.0)

# Macro F1 of PR+ in Igamberdiev and Habernal 2023, as far as we know it; their F1 on ATIS is a mean over batches.
PAPER = {
    "snips": {ORIGINAL: 0.98, 2500: 0.85, 1000: 0.80, 500: 0.65, 250: 0.60, 100: 0.05, 50: 0.05, 10: 0.05},
    "atis": {ORIGINAL: 0.89, 2500: 0.13, 1000: 0.13, 500: 0.08, 250: 0.08, 100: 0.06, 50: 0.06, 10: 0.07},
    "imdb": {ORIGINAL: 0.72, 2500: 0.63, 1000: 0.60, 500: 0.53, 250: 0.55, 100: 0.38, 50: 0.40, 10: 0.41},
    "amazon_hatn30k": {ORIGINAL: 0.91, 2500: 0.87, 1000: 0.85, 500: 0.83, 250: 0.82, 100: 0.33, 50: 0.33, 10: 0.33},
}
MODEL, CLASSIFIER = "mini-pr-plus", "linear"


def beside_the_paper(results: list[Result]) -> str:
    """PR+ with Gaussian noise: two lines for each data set."""
    lines = ["| data | F1 of PR+ | original | ∞ | " + " | ".join(f"{b:,g}" for b in BUDGETS[2:]) + " |"]
    lines.append("|---" * (len(BUDGETS) + 2) + "|")
    for data, paper in PAPER.items():
        ours = {
            each.epsilon or ORIGINAL: each.f1_mean
            for each in results
            if (each.data, each.classifier) == (data, CLASSIFIER)
            and each.model in (MODEL, None)
            and each.mechanism != "laplace"
        }
        for name, scores in (("the paper", paper), ("here", ours)):
            shown = [f"{scores[budget]:.2f}" if scores.get(budget) is not None else "" for budget in BUDGETS]
            lines.append(f"| {data} | {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def tables() -> str:
    results = read_results(DOCS / "results")
    return "\n".join([beside_the_paper(results) + "\n", *(grid.as_markdown() for grid in paper_tables(results))])


if __name__ == "__main__":
    print(tables(), end="")
