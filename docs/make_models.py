"""Make the tables and the figure of docs/models.md: what survives of held-out public text, by model and budget.

    python docs/make_models.py --corpus corpus/ --texts 2000

Each cell is saved in docs/models.json and reused while the weights stay the same. Delete its line to measure it again.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

from dpbart import Rewriter
from dpbart.evaluate.scores.bleu import measure_kept
from dpbart.models.bundle import Bundle
from dpbart.models.latent import LatentModel
from dpbart.prepare.corpus import find_corpus, held_out_texts

DOCS = Path(__file__).parent
CELLS = DOCS / "models.json"
EPSILONS = (10, 50, 100, 250, 500, 750, 1000, 2500, math.inf)
DELTA = 1e-5
CODE = "mini-code"  # has delta 0, and its own page
MODELS = ["mini-adept", "mini", "mini-pr", "mini-pr-plus"]
OWN_BUDGET = "PR+ trained for that budget"
SURPRISED = "mini-pr-plus"  # the model in the table on the limit
SAMPLES = (  # made up for this page
    "Could you book a table for four at the Italian place tonight?",
    "My doctor said that the new tablets may cause headaches.",
    "The train to Vienna leaves at nine in the morning.",
    "I loved this book, but the ending was a disappointment.",
    "Play some quiet jazz in the kitchen, please.",
)

Cells = dict[str, dict[str, object]]


def load(model: str, epsilon: float) -> Rewriter:
    if math.isinf(epsilon):
        return Rewriter.load(model, mechanism="none", batch_size=32)
    return Rewriter.load(model, epsilon=epsilon, delta=DELTA, batch_size=32)


def measure(model: str, epsilon: float, texts: list[str]) -> dict[str, object]:
    rewriter = load(model, epsilon)
    fitting = rewriter.model.read(texts)
    done = rewriter.rewrite(texts)
    kept = measure_kept(fitting, done.texts)
    bits = rewriter.facts.bits
    return {
        "texts": len(texts),
        "bleu": round(kept.bleu, 2),
        "content_words": round(kept.content_words, 3),
        "bits": None if math.isinf(bits) else round(bits, 1),
        "surprise": round(surprise(rewriter, texts), 1) if rewriter.model.line.name == SURPRISED else None,
        "samples": list(rewriter.rewrite(SAMPLES).texts),
        "recipe": done.recipe,
        "signature": kept.signature,
    }


@torch.inference_mode()
def surprise(rewriter: Rewriter, texts: list[str]) -> float:
    """Mean bits that the decoder still needs to write a text, once it has its private latent."""
    reader = rewriter.model
    assert isinstance(reader, LatentModel)
    model, start = reader.halves.model, reader.search.start_id
    nats = 0.0
    for first in range(0, len(texts), 64):
        ids = reader.tokens.encode(texts[first : first + 64])  # (batch, length)
        private = rewriter.channel.send(reader.halves.encode(ids), rewriter.entropy)
        before = np.concatenate([np.full_like(ids[:, :1], start), ids[:, :-1]], axis=1)
        before[:, 1] = reader.tokens.id_of("<s>")  # written first, whatever budget token the encoder got
        logits = model(
            decoder_input_ids=torch.from_numpy(before),
            encoder_outputs=(torch.from_numpy(private.values),),
            use_cache=False,
        ).logits
        wanted = torch.from_numpy(ids[:, 1:])  # (batch, length - 1)
        wanted = wanted.masked_fill(wanted == model.config.pad_token_id, -100)
        nats += torch.nn.functional.cross_entropy(logits[:, 1:].transpose(1, 2), wanted, reduction="sum").item()
    return nats / len(texts) / math.log(2)


def budgets_of(bundle: Bundle) -> tuple[float, ...]:
    """All budgets, or the one budget that a model was trained for."""
    low, high = (bundle.facts.recipe.get("noisy", {}).get(f"epsilon_{end}") for end in ("low", "high"))
    return (float(low),) if low is not None and low == high else EPSILONS


def shown(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:,}"


def table(cells: Cells, rows: list[str], figure: str) -> str:
    lines = ["| model | texts | " + " | ".join(shown(epsilon) for epsilon in EPSILONS) + " |"]
    lines.append("|---" * (len(EPSILONS) + 2) + "|")
    for row in rows:
        measured = [cells.get(f"{row} {epsilon:g}", {}) for epsilon in EPSILONS]
        texts = sorted({int(str(cell["texts"])) for cell in measured if cell})
        counts = " to ".join(f"{count:,}" for count in (texts[0], *texts[1:][-1:]))
        lines.append(f"| {row} | {counts} | " + " | ".join(str(cell.get(figure, "")) for cell in measured) + " |")
    return "\n".join(lines)


def limit_table(cells: Cells) -> str:
    """How many of the bits that the channel can carry arrive: the fall in bits still needed."""
    needed = {epsilon: float(str(cells[f"{SURPRISED} {epsilon:g}"]["surprise"])) for epsilon in EPSILONS}
    most = {epsilon: cells[f"{SURPRISED} {epsilon:g}"]["bits"] for epsilon in EPSILONS}
    lines = [
        "| epsilon | the channel carries at most | bits still needed to write a text | bits arrived |",
        "|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        arrived = needed[EPSILONS[0]] - needed[epsilon]
        lines.append(f"| {shown(epsilon)} | {most[epsilon] or '∞'} | {needed[epsilon]:.1f} | {arrived:.1f} |")
    return "\n".join(lines)


def sample_table(cells: Cells, rows: list[str], number: int) -> str:
    lines = [f"**{SAMPLES[number]}**", "", "| epsilon | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for epsilon in EPSILONS:
        written = [str(list(cells[f"{row} {epsilon:g}"]["samples"])[number]) for row in rows]  # type: ignore[call-overload]
        lines.append(f"| {shown(epsilon)} | " + " | ".join(text.replace("|", "\\|") for text in written) + " |")
    return "\n".join(lines)


def draw(cells: Cells, rows: list[str], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, name, top in zip(axes, ("bleu", "content_words"), (105, 1.05), strict=True):
        for row in rows:
            points = [(e, cells[f"{row} {e:g}"][name]) for e in EPSILONS[:-1] if f"{row} {e:g}" in cells]
            axis.plot(*zip(*points, strict=True), marker="o", label=row, linestyle="" if row == OWN_BUDGET else "-")
        axis.set(xscale="log", xlabel="epsilon (delta 1e-5; mini-code: 0)", ylim=(0, top))
        axis.set_xticks(EPSILONS[:-1], [str(e) for e in EPSILONS[:-1]], rotation=45)
        axis.minorticks_off()
    axes[0].set_ylabel("BLEU on held-out text")
    axes[1].set_ylabel("share of content words kept")
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def tables() -> str:
    """All tables of the page, from every saved cell."""
    cells = _cells()
    rows = _rows(cells)
    both, with_code = {**cells, **_code_cells()}, [*rows, CODE]
    shown = [table(both, with_code, "bleu"), table(both, with_code, "content_words"), limit_table(cells)]
    whole = [row for row in rows if row != OWN_BUDGET]
    return "\n\n".join(shown + [sample_table(cells, whole, number) for number in range(len(SAMPLES))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--models", nargs="+", default=MODELS)
    asked = parser.parse_args()
    texts = held_out_texts(find_corpus(asked.corpus), asked.texts)
    for model in asked.models:
        bundle = Bundle.find(model)
        budgets = budgets_of(bundle)
        row = bundle.name if budgets == EPSILONS else OWN_BUDGET
        for epsilon in budgets:
            before = _cells().get(f"{row} {epsilon:g}")
            if (
                before is None
                or bundle.fingerprint not in str(before["recipe"])
                or int(str(before["texts"])) < asked.texts
            ):
                measured = measure(model, epsilon, texts)
                CELLS.write_text(json.dumps({**_cells(), f"{row} {epsilon:g}": measured}, indent=1) + "\n")
    draw({**_cells(), **_code_cells()}, [*_rows(_cells()), CODE], DOCS / "images" / "models.png")
    print(tables())


def _cells() -> Cells:
    cells: Cells = json.loads(CELLS.read_text()) if CELLS.is_file() else {}
    return cells


def _code_cells() -> Cells:
    """The scores of the code model, which docs/make_code.py measures on the same texts."""
    cells: Cells = json.loads((DOCS / "code.json").read_text())
    return cells


def _rows(cells: Cells) -> list[str]:
    """Models, in the order of their first measurement."""
    return list(dict.fromkeys(name.rpartition(" ")[0] for name in cells))


if __name__ == "__main__":
    main()
