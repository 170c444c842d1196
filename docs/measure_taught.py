"""Measure what a classifier learns from single rewritten texts, and how much of a document survives.

    python docs/measure_taught.py --data downstream/ --judge all-mpnet-base-v2/ --encoder all-MiniLM-L6-v2/

`make docs` makes the tables of docs/code.md from docs/taught.json. Macro F1 on original test texts, mean of five draws
of the response. A linear classifier on words learns from 2,000 texts of Snips and from all of ATIS. Reviews: 1,000,
and the better of that classifier and one on sentence vectors (--encoder), chosen on rewritten texts. 200 more choose
the strength. Documents: reviews of 40 to 200 words, the cosine of vectors of --judge. A figure that was measured with
the same weights is not measured again: delete its line to repeat it.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from make_docs import TAUGHT, TAUGHT_SETS, Taught, read_cells

from dpbart import Rewriter
from dpbart.evaluate.classifiers import Classifier, LinearClassifier, VectorsClassifier
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores import measure_similarity, score
from dpbart.evidence.singling import RememberedVectors
from dpbart.models.bundle import Bundle
from dpbart.models.sentences import SentenceEncoderFiles
from dpbart.models.vectors import load_vectors

FILE = Path(__file__).parent / TAUGHT
MODEL = "mini-code"
DRAWS = 5
VALID, TESTED, DOCUMENTS = 200, 1_000, 500
DOCUMENTS_ROW = "documents"
WORDS = range(40, 201)  # of a document
SEED = 22


@dataclass(frozen=True)
class Data:
    """Texts to rewrite, of which the last ones choose a strength, and original texts to test on."""

    texts: LabelledTexts
    test: LabelledTexts

    @classmethod
    def read(cls, file: Path, train: int) -> Data:
        """Each text once; a file without splits is split at random."""
        columns = pq.read_table(file).to_pydict()
        splits = columns.get("split") or [None] * len(columns["text"])
        rows = list(dict(zip(columns["text"], zip(splits, columns["label"], strict=True), strict=True)).items())
        random.Random(SEED).shuffle(rows)
        test = [(text, str(label)) for text, (split, label) in rows if split == "test"]
        known = [(text, str(label)) for text, (split, label) in rows if split == "train"]
        if not test:
            every = [(text, str(label)) for text, (_, label) in rows]
            test, known = every[:TESTED], every[TESTED:]
        return cls(*(LabelledTexts(*zip(*part, strict=True)) for part in (known[: train + VALID], test[:TESTED])))


def draws(rewriter: Rewriter, texts: Sequence[str]) -> Iterator[list[str]]:
    """Five releases of the same texts. What they mean is computed once: only the response is random."""
    size = rewriter.batch_size
    meant = [rewriter.model.encode(texts[first : first + size]) for first in range(0, len(texts), size)]
    read: dict[int, str] = {}
    for _ in range(DRAWS):
        sent = [rewriter.channel.send(each, rewriter.entropy) for each in meant]
        for private in sent:
            if not all(code in read for code in private.values):  # most come through as meant, and are read once
                read |= zip(private.values, rewriter.model.decode(private), strict=True)
        yield [read[code] for private in sent for code in private.values]


def taught(kind: Taught, data: Data, rewriter: Rewriter, encoder: str | None) -> list[float]:
    """Macro F1 of each draw."""
    judges: list[Classifier] = [LinearClassifier()]
    if kind.vectors and encoder is not None:
        judges.append(VectorsClassifier(encoder))
    found = []
    for written in draws(rewriter, data.texts.texts):
        train, valid = _parts(written, data.texts.labels)
        best = max((judge.predict(train, valid, data.test.texts) for judge in judges), key=lambda each: each.valid_f1)
        found.append(score(data.test.labels, best.labels).macro_f1)
    return found


def _parts(texts: Sequence[str], labels: Sequence[str]) -> tuple[LabelledTexts, LabelledTexts]:
    """To learn from, and to choose a strength on."""
    train, valid = (LabelledTexts(tuple(texts[at]), tuple(labels[at])) for at in (slice(-VALID), slice(-VALID, None)))
    return train, valid


def documents(file: Path) -> list[str]:
    columns = pq.read_table(file).to_pydict()
    texts = [
        text
        for text, split in zip(columns["text"], columns["split"], strict=True)
        if split == "test" and len(text.split()) in WORDS
    ]
    return random.Random(SEED).sample(texts, DOCUMENTS)


def save(name: str, found: Sequence[float], rewriter: Rewriter, **more: float) -> None:
    cells = read_cells(TAUGHT) if FILE.is_file() else {}
    spread = statistics.stdev(found) if len(found) > 1 else None
    cell = {"mean": round(statistics.fmean(found), 4), "deviation": spread and round(spread, 4), "runs": len(found)}
    recipe = f"{rewriter.facts.recipe}|{rewriter.model.recipe}"
    FILE.write_text(json.dumps({**cells, name: {**cell, **more, "recipe": recipe}}, indent=1) + "\n")
    print(f"{name}: {cell}", flush=True)


def is_there(name: str, bundle: Bundle) -> bool:
    return FILE.is_file() and bundle.fingerprint in str(read_cells(TAUGHT).get(name, {}).get("recipe"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--judge", help="a sentence encoder, as a directory or hub id")
    parser.add_argument("--encoder", help="of the classifier on sentence vectors")
    parser.add_argument("--sets", nargs="+", default=[*(kind.name for kind in TAUGHT_SETS), DOCUMENTS_ROW])
    parser.add_argument("--up-to", type=float, default=1000.0, metavar="EPSILON", help="leave out larger budgets")
    asked = parser.parse_args()
    bundle = Bundle.find(MODEL)
    for kind in (each for each in TAUGHT_SETS if each.name in asked.sets):
        data = None
        for epsilon in (each for each in kind.epsilons if each <= asked.up_to):
            name = f"{kind.name} {epsilon:g}"
            if not is_there(name, bundle):
                data = data or Data.read(asked.data / f"{kind.file}.parquet", kind.train)
                rewriter = Rewriter.load(MODEL, epsilon=epsilon, areas=kind.areas)
                save(name, taught(kind, data, rewriter, asked.encoder), rewriter)
        name = f"{kind.name} originals"
        if not is_there(name, bundle):
            data = data or Data.read(asked.data / f"{kind.file}.parquet", kind.train)
            parts = _parts(data.texts.texts, data.texts.labels)
            found = score(data.test.labels, LinearClassifier().predict(*parts, data.test.texts).labels).macro_f1
            save(name, [found], Rewriter.load(MODEL, mechanism="none"))
    if asked.judge is not None and DOCUMENTS_ROW in asked.sets:
        texts, vectors = documents(asked.data / "imdb.parquet"), None
        for epsilon in (each for each in (10, 20, 35, 50, 70) if each <= asked.up_to):
            if not is_there(name := f"{DOCUMENTS_ROW} {epsilon:g}", bundle):
                vectors = vectors or RememberedVectors(load_vectors(SentenceEncoderFiles.find(asked.judge)))
                rewriter = Rewriter.load(MODEL, epsilon=epsilon)
                near = measure_similarity(texts, rewriter.rewrite(texts).texts, vectors)
                save(name, [near.mean], rewriter, unrelated=round(near.unrelated or 0.0, 3))


if __name__ == "__main__":
    main()
