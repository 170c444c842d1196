"""The table and the picture of docs/models.md: what each model keeps of held-out public text at each budget.

    python docs/make_models.py --corpus corpus/ --texts 2000

Each cell is kept in docs/models.json and not computed again; delete its line to measure it anew.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from dpbart import Rewriter
from dpbart.evaluate.bleu import measure_kept
from dpbart.models.bundle import Bundle
from dpbart.prepare.corpus import find_corpus, held_out_texts

DOCS = Path(__file__).parent
CELLS = DOCS / "models.json"
EPSILONS = (10, 50, 100, 250, 500, 750, 1000, 2500, math.inf)
DELTA = 1e-5


def measure(model: str, epsilon: float, texts: list[str]) -> dict[str, object]:
    mechanism = "none" if math.isinf(epsilon) else "gaussian"
    budget = None if math.isinf(epsilon) else epsilon
    rewriter = Rewriter.load(model, epsilon=budget, delta=DELTA, mechanism=mechanism, batch_size=64)
    fitting = rewriter.tokens.decode(rewriter.tokens.encode(texts))  # as far as the model reads them
    done = rewriter.rewrite(texts)
    kept = measure_kept(fitting, done.texts)
    return {
        "bleu": round(kept.bleu, 2),
        "content_words": round(kept.content_words, 3),
        "bits": None if math.isinf(epsilon) else round(rewriter.mechanism.bits(rewriter.sensitivity), 1),
        "recipe": done.recipe,
        "signature": kept.signature,
    }


def table(cells: dict[str, dict[str, object]], models: list[str], figure: str) -> str:
    lines = ["| model | " + " | ".join("∞" if math.isinf(e) else f"{e:,}" for e in EPSILONS) + " |"]
    lines.append("|---" * (len(EPSILONS) + 1) + "|")
    for model in models:
        row = [str(cells.get(f"{model} {epsilon:g}", {}).get(figure, "")) for epsilon in EPSILONS]
        lines.append(f"| {model} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def draw(cells: dict[str, dict[str, object]], models: list[str], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, name, top in zip(axes, ("bleu", "content_words"), (105, 1.05), strict=True):
        for model in models:
            points = [(e, cells[f"{model} {e:g}"][name]) for e in EPSILONS[:-1] if f"{model} {e:g}" in cells]
            axis.plot(*zip(*points, strict=True), marker="o", label=model)
        axis.set(xscale="log", xlabel="epsilon (delta 1e-5)", ylim=(0, top))
        axis.set_xticks(EPSILONS[:-1], [str(e) for e in EPSILONS[:-1]], rotation=45)
        axis.minorticks_off()
    axes[0].set_ylabel("BLEU on held-out text")
    axes[1].set_ylabel("share of content words kept")
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--models", nargs="+", default=["mini", "mini-pr-plus"])
    asked = parser.parse_args()
    cells: dict[str, dict[str, object]] = json.loads(CELLS.read_text()) if CELLS.is_file() else {}
    texts = held_out_texts(find_corpus(asked.corpus), asked.texts)
    bundles = [Bundle.find(model) for model in asked.models]
    for model, bundle in zip(asked.models, bundles, strict=True):
        for epsilon in EPSILONS:
            name = f"{bundle.name} {epsilon:g}"
            before = cells.get(name)
            if before is None or bundle.fingerprint not in str(before["recipe"]) or before["texts"] != asked.texts:
                cells[name] = {"texts": asked.texts, **measure(model, epsilon, texts)}
                CELLS.write_text(json.dumps(cells, indent=1) + "\n")
    names = [bundle.name for bundle in bundles]
    draw(cells, names, DOCS / "images" / "models.png")
    print(table(cells, names, "bleu"), table(cells, names, "content_words"), sep="\n\n")


if __name__ == "__main__":
    main()
