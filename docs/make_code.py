"""The tables of docs/code.md and README.md: what the code model keeps of held-out public text at small budgets.

    python docs/make_code.py --corpus corpus/ --texts 2000 --judge all-MiniLM-L6-v2/

The judge is a sentence encoder that is not the one in the code. Each cell is kept in docs/code.json and not computed
again for the same weights; delete its line to measure it again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from dpbart import Rewriter
from dpbart.evaluate.scores.bleu import measure_kept
from dpbart.evaluate.scores.similarity import measure_similarity
from dpbart.evaluate.sentences.files import SentenceEncoderFiles
from dpbart.evaluate.sentences.vectors import SentenceVectors, load_vectors
from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.prepare.corpus import find_corpus, held_out_texts

DOCS = Path(__file__).parent
CELLS = DOCS / "code.json"
EPSILONS = (1, 2, 4, 6, 8, 10, 20, 35, 50, 70, 100, 120, 200)
MODEL = "mini-code"
PAPERS = "mini-pr-plus"  # the paper's best model; its scores are in docs/models.json
HEADLINE = (10, 20, 35, 50, 70, 100)  # the epsilons of README.md
IDS = 20  # a text is cut to as many, as on docs/models.md
SHOWN = (  # the figures of a cell, and how a table shows them
    ("bleu", "BLEU", "{:.1f}"),
    ("content_words", "content words kept", "{:.2f}"),
    ("exact", "word for word the same", "{:.2f}"),
    ("similarity", "similarity to the original", "{:.2f}"),
    ("unrelated", "the same, to other originals (control)", "{:.2f}"),
    ("bits", "bits that can get through", "{:.1f}"),
)
SAMPLES = (  # made up for this page
    "I saw my doctor in Leeds on Tuesday about my knee.",
    "The battery of this phone is dead after two hours.",
    "My son has been ill since we came back from the lake.",
    "Please remind me to call the bank before noon.",
    "I loved this book, but the ending was a disappointment.",
)

Cells = dict[str, dict[str, object]]


def measure(epsilon: float, texts: list[str], judge: SentenceVectors | None) -> dict[str, object]:
    rewriter = Rewriter.load(MODEL, epsilon=epsilon)
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
        "samples": list(rewriter.rewrite(SAMPLES).texts),
        "recipe": done.recipe,
        "signature": kept.signature,
    }


def table() -> str:
    """Every budget that was measured."""
    cells = _cells()
    budgets = sorted(float(name.rpartition(" ")[2]) for name in cells)
    lines = [
        "| epsilon | " + " | ".join(f"{epsilon:g}" for epsilon in budgets) + " |",
        "|---" * (len(budgets) + 1) + "|",
    ]
    return "\n".join([*lines, *(_row(cells, budgets, *each) for each in SHOWN)])


def headline() -> str:
    """The table of README.md, with the paper's best model below."""
    cells, papers = _cells(), json.loads((DOCS / "models.json").read_text())
    lines = ["| epsilon | " + " | ".join(map(str, HEADLINE)) + " |", "|---" * (len(HEADLINE) + 1) + "|"]
    lines += [_row(cells, HEADLINE, *each) for each in SHOWN[:4]]
    theirs = [papers.get(f"{PAPERS} {epsilon}", {}).get("bleu") for epsilon in HEADLINE]
    scores = " | ".join("" if each is None else f"{each:.1f}" for each in theirs)
    return "\n".join([*lines, f"| BLEU of `{PAPERS}` (delta 1e-5) | {scores} |"])


def _row(cells: Cells, budgets: Sequence[float], figure: str, name: str, form: str) -> str:
    held = [cells.get(f"{MODEL} {epsilon:g}", {}).get(figure) for epsilon in budgets]
    return f"| {name} | " + " | ".join("" if each is None else form.format(each) for each in held) + " |"


def samples(numbers: Sequence[int] = range(len(SAMPLES))) -> str:
    """What was written for some of the samples."""
    cells, lines = _cells(), ["| epsilon | text |", "|---|---|"]
    for number in numbers:
        lines.append(f"| original | {SAMPLES[number]} |")
        for epsilon in (100, 70, 50, 35, 20, 10):
            cell = cells.get(f"{MODEL} {epsilon}")
            if cell is not None:
                written = list(cell["samples"])[number]  # type: ignore[call-overload]
                lines.append(f"| {epsilon} | {written.replace('|', '/')} |")
        lines.append("| | |")
    return "\n".join(lines[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--judge", help="sentence encoder: directory or hub id")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    asked = parser.parse_args()
    tokens = Tokens.load(Bundle.find("mini-pr-plus").folder / "tokenizer.json", length=IDS)
    texts = tokens.decode(tokens.encode(held_out_texts(find_corpus(asked.corpus), asked.texts)))
    judge = None if asked.judge is None else load_vectors(SentenceEncoderFiles.find(asked.judge))
    fingerprint = Bundle.find(MODEL).fingerprint
    for epsilon in asked.epsilons:
        before = _cells().get(f"{MODEL} {epsilon:g}")
        if before is None or fingerprint not in str(before["recipe"]) or before["texts"] != len(texts):
            measured = measure(epsilon, texts, judge)
            CELLS.write_text(json.dumps({**_cells(), f"{MODEL} {epsilon:g}": measured}, indent=1) + "\n")
    print(table(), headline(), samples(), sep="\n\n")


def _cells() -> Cells:
    cells: Cells = json.loads(CELLS.read_text()) if CELLS.is_file() else {}
    return cells


if __name__ == "__main__":
    main()
