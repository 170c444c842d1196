"""Measure what survives of held-out public text, by model and budget. `make docs` makes the tables from the figures.

    python docs/measure_kept.py latents --corpus corpus/ --texts 2000                            # docs/models.json
    python docs/measure_kept.py code --corpus corpus/ --texts 2000 --judge all-MiniLM-L6-v2/     # docs/code.json

A figure that was measured with the same weights is not measured again. Delete its line in the JSON file to repeat it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from make_docs import CODE, CODE_SAMPLES, EPSILONS, LATENT_SAMPLES, OWN_BUDGET, SURPRISED, Cells, read_cells

from dpbart import Rewriter
from dpbart.evaluate.scores import measure_kept, measure_similarity
from dpbart.evidence.singling import RememberedVectors
from dpbart.models.bundle import Bundle
from dpbart.models.families import LatentModel
from dpbart.models.sentences import SentenceEncoderFiles, SentenceVectors
from dpbart.models.text import Tokens
from dpbart.models.vectors import load_vectors
from dpbart.prepare.corpus import find_corpus, held_out_texts

DOCS = Path(__file__).parent
DELTA = 1e-5
LATENTS = ["mini-adept", "mini", "mini-pr", "mini-pr-plus"]
CODE_EPSILONS = (1, 2, 4, 6, 8, 10, 20, 35, 50, 70, 100, 120, 200)
IDS = 20  # texts are cut to this many tokens, and written with as many


def measure_latents(model: str, epsilon: float, texts: list[str]) -> dict[str, object]:
    """One model at one budget, compared with the part of each text that it reads."""
    if math.isinf(epsilon):
        rewriter = Rewriter.load(model, mechanism="none", batch_size=32)
    else:
        rewriter = Rewriter.load(model, epsilon=epsilon, delta=DELTA, batch_size=32)
    done = rewriter.rewrite(texts)
    kept = measure_kept(rewriter.model.read(texts), done.texts)
    bits = rewriter.facts.bits
    return {
        "texts": len(texts),
        "bleu": round(kept.bleu, 2),
        "content_words": round(kept.content_words, 3),
        "bits": None if math.isinf(bits) else round(bits, 1),
        "surprise": round(surprise(rewriter, texts), 1) if rewriter.model.line.name == SURPRISED else None,
        "samples": list(rewriter.rewrite(LATENT_SAMPLES).texts),
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


def measure_code(epsilon: float, texts: list[str], judge: SentenceVectors | None) -> dict[str, object]:
    """The code model at one budget. The judge must be another sentence encoder than the one inside the code."""
    rewriter = Rewriter.load(CODE, epsilon=epsilon)
    done = rewriter.rewrite(texts)
    kept = measure_kept(texts, done.texts)
    near = None if judge is None else measure_similarity(texts, done.texts, judge)
    return {
        "texts": len(texts),
        "bleu": round(kept.bleu, 2),
        "content_words": round(kept.content_words, 3),
        "exact": round(sum(a == b for a, b in zip(texts, done.texts, strict=True)) / len(texts), 3),
        "similarity": None if near is None else round(near.mean, 3),
        "unrelated": None if near is None or near.unrelated is None else round(near.unrelated, 3),
        "bits": round(rewriter.facts.bits, 1),
        "samples": list(Rewriter.load(CODE, epsilon=epsilon).rewrite(CODE_SAMPLES).texts),
        "recipe": done.recipe,
        "signature": kept.signature,
    }


def is_current(cells: Cells, name: str, bundle: Bundle, texts: int) -> bool:
    """Whether a figure was measured with these weights, on at least as many texts."""
    cell = cells.get(name)
    return cell is not None and bundle.fingerprint in str(cell["recipe"]) and int(str(cell["texts"])) >= texts


def save(file: str, name: str, cell: dict[str, object]) -> None:
    (DOCS / file).write_text(json.dumps({**read_cells(file), name: cell}, indent=1) + "\n")


def budgets_of(bundle: Bundle) -> tuple[float, ...]:
    """All budgets, or the one budget that a model was trained for."""
    low, high = (bundle.facts.recipe.get("noisy", {}).get(f"epsilon_{end}") for end in ("low", "high"))
    return (float(low),) if low is not None and low == high else EPSILONS


def run_latents(models: list[str], texts: list[str]) -> None:
    for model in models:
        bundle = Bundle.find(model)
        budgets = budgets_of(bundle)
        row = bundle.name if budgets == EPSILONS else OWN_BUDGET
        for epsilon in budgets:
            name = f"{row} {epsilon:g}"
            if not is_current(read_cells("models.json"), name, bundle, len(texts)):
                save("models.json", name, measure_latents(model, epsilon, texts))


def run_code(epsilons: list[float], texts: list[str], judge: str | None) -> None:
    tokens = Tokens.load(Bundle.find("mini-pr-plus").folder / "tokenizer.json", length=IDS)
    cut = tokens.decode(tokens.encode(texts))
    vectors = None if judge is None else RememberedVectors(load_vectors(SentenceEncoderFiles.find(judge)))
    for epsilon in epsilons:
        name = f"{CODE} {epsilon:g}"
        if not is_current(read_cells("code.json"), name, Bundle.find(CODE), len(cut)):
            save("code.json", name, measure_code(epsilon, cut, vectors))


def draw(file: Path) -> None:
    """BLEU and content words against epsilon, a line for each model."""
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    cells = {**read_cells("models.json"), **read_cells("code.json")}
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, name, top in zip(axes, ("bleu", "content_words"), (105, 1.05), strict=True):
        for row in dict.fromkeys(name.rpartition(" ")[0] for name in cells):
            points = [(e, cells[f"{row} {e:g}"][name]) for e in EPSILONS[:-1] if f"{row} {e:g}" in cells]
            axis.plot(*zip(*points, strict=True), marker="o", label=row, linestyle="" if row == OWN_BUDGET else "-")
        axis.set(xscale="log", xlabel="epsilon (delta 1e-5; mini-code: 0)", ylim=(0, top))
        axis.set_xticks(EPSILONS[:-1], [str(e) for e in EPSILONS[:-1]], rotation=45)
        axis.minorticks_off()
    axes[0].set_ylabel("BLEU on held-out text")
    axes[1].set_ylabel("share of content words kept")
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("latents", "code"))
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--models", nargs="+", default=LATENTS, help="of latents")
    parser.add_argument("--epsilons", type=float, nargs="+", default=CODE_EPSILONS, help="of code")
    parser.add_argument("--judge", help="of code: a sentence encoder, as a directory or hub id")
    asked = parser.parse_args()
    texts = held_out_texts(find_corpus(asked.corpus), asked.texts)
    if asked.kind == "latents":
        run_latents(asked.models, texts)
    else:
        run_code(asked.epsilons, texts, asked.judge)
    draw(DOCS / "images" / "models.png")


if __name__ == "__main__":
    main()
