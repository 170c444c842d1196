"""Measure what each kind of release teaches and tells. `make docs` makes the tables of docs/curator.md from it.

    python docs/measure_collections.py --data downstream/ --corpus corpus/     # docs/collections.json

Three kinds: single texts, the same in random order (shuffled), and a collection as a whole. Teaching: macro F1 of the
linear classifier, trained on released rows and tested on original texts. Telling: the L1 error of the shares of the
book's areas on held-out public text. The data are parquet files with the columns label, text and, if there is one,
split. A figure that was measured with the same weights is not measured again: delete its line to repeat it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from make_docs import COLLECTION_SETS, NO_NOISE, PEOPLE_TOLD, read_cells

from dpbart.channels.code import CodeChannel
from dpbart.collect.cells import MOST_CELLS, cell_count, cells_of, shares
from dpbart.collect.rows import draw_rows
from dpbart.evaluate.classifiers import LinearClassifier
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores import score
from dpbart.models.bundle import Bundle
from dpbart.models.code import CodeFamily
from dpbart.models.code.book import BookUse
from dpbart.models.code.model import CodeBookReader
from dpbart.models.code.weights import Floats
from dpbart.prepare.corpus import find_corpus, held_out_texts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.mechanisms.geometric import UNIT, Geometric, Tally
from dpbart.privacy.sampling import SystemEntropy
from dpbart.privacy.shuffling.release import local_for

FILE = Path(__file__).parent / "collections.json"
MODEL = "mini-code"
DELTA = 1e-6  # of the central guarantee of a shuffled file; a collection has none
ROWS, VALID = 3_000, 600  # of a collection: to learn from, and to choose the strength on
RUNS = 5  # their mean
POOL, TESTED = 8_000, 5_000  # texts: people are drawn from the former
SEED = 24
EPSILONS = (0.5, 1.0, 2.0, 4.0)
LOCAL = (4.0, 6.0, 10.0)  # of single texts, which have no central guarantee
TOLD_POOL = 12_000
MOST_EPSILON = 100_000.0  # of the mechanism: hardly any noise


@dataclass(frozen=True)
class Data:
    """Texts that people are drawn from, and original texts to test on."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    values: tuple[str, ...]
    test: LabelledTexts
    reader: CodeBookReader

    @cached_property
    def vectors(self) -> Floats:
        """(texts, width)."""
        return vectors_of(self.reader, self.texts)

    @classmethod
    def read(cls, file: Path, reader: CodeBookReader) -> Data:
        """Without texts that stand twice; a file without splits is split at random."""
        columns = pq.read_table(file).to_pydict()
        splits = columns.get("split") or [None] * len(columns["text"])
        rows = list(dict(zip(columns["text"], zip(splits, columns["label"], strict=True), strict=True)).items())
        random.Random(SEED).shuffle(rows)
        test = [(text, str(label)) for text, (split, label) in rows if split == "test"]
        train = [(text, str(label)) for text, (split, label) in rows if split == "train"]
        if not test:
            every = [(text, str(label)) for text, (_, label) in rows]
            test, train = every[:TESTED], every[TESTED:]
        test, train = test[:TESTED], train[:POOL]
        values = tuple(sorted({label for _, label in train}))
        texts = tuple(text for text, _ in train)
        numbers = tuple(values.index(label) for _, label in train)
        tested = LabelledTexts(tuple(text for text, _ in test), tuple(label for _, label in test))
        return cls(texts, numbers, values, tested, reader)

    def people(self, count: int, run: int) -> list[int]:
        """Who takes part in one run."""
        return random.Random(SEED + run).sample(range(len(self.texts)), count)

    def taught(self, rows: Sequence[tuple[int, str]]) -> float:
        """Macro F1 of a classifier that learned from these labels and texts, of which a sixth chooses its strength."""
        held = len(rows) * VALID // (ROWS + VALID)
        parts = [
            LabelledTexts(tuple(text for _, text in part), tuple(self.values[label] for label, _ in part))
            for part in (rows[held:], rows[:held])
        ]
        return score(self.test.labels, LinearClassifier().predict(*parts, self.test.texts).labels).macro_f1


@dataclass(frozen=True)
class Releases:
    """The three kinds of release of one model."""

    bundle: Bundle
    reader: CodeBookReader

    @cached_property
    def lines(self) -> list[str]:
        return [line.sentence for line in self.reader.book.lines]

    def collection(self, data: Data, people: Sequence[int], epsilon: float) -> list[tuple[int, str]]:
        """Rows of a collection: labels and sentences."""
        cells = cells_of(self.reader.book, cell_count(len(people), len(data.values), epsilon))
        counts = np.zeros((len(data.values), len(cells)), np.int64)
        voted = cells.votes(data.vectors[list(people)])
        np.add.at(counts, ([data.labels[person] for person in people], voted), UNIT)
        private = Geometric(epsilon, counts.size).privatize(Tally(counts, people=len(people)), SystemEntropy())
        drawn = draw_rows(private, cells, people=len(people), rows=ROWS + VALID, entropy=SystemEntropy())
        return [(label, self.lines[sentence]) for part in drawn for label, sentence in part]

    def single(self, data: Data, people: Sequence[int], epsilon: float) -> list[tuple[int, str]]:
        """Rewritten texts with randomised labels, which share the epsilon of a row evenly."""
        return self._rewritten(data, people, epsilon / 2, epsilon / 2)

    def shuffled(self, data: Data, people: Sequence[int], epsilon: float) -> list[tuple[int, str]]:
        """The same with as large a local epsilon as a central one allows. The order does not matter here."""
        central = Guarantee(epsilon, DELTA)
        most = local_for(central, rows=len(people), most_rows=1, options=None)
        text = local_for(central, rows=len(people), most_rows=1, options=None, label=most / 2)
        return self._rewritten(data, people, text, most / 2)

    def _rewritten(self, data: Data, people: Sequence[int], text: float, label: float) -> list[tuple[int, str]]:
        sentences = self.sent(data.vectors[list(people)], text)
        response = Response(label, len(data.values))
        labels = response.privatize([(data.labels[person],) for person in people], SystemEntropy()).values
        return [(number, self.lines[sentence]) for number, sentence in zip(labels, sentences, strict=True)]

    def channel(self, epsilon: float) -> CodeChannel:
        return CodeFamily().channel(
            self.bundle, mechanism=Response.name, epsilon=epsilon, delta=0.0, length=self.bundle.longest, use=BookUse()
        )

    def sent(self, vectors: Floats, epsilon: float) -> Sequence[int]:
        """The released sentence of each text."""
        channel = self.channel(epsilon)
        meant = self.reader.book.first(channel.size.sentences).nearest(vectors, channel.size.near)
        return channel.send(meant, SystemEntropy()).values

    @cached_property
    def areas(self) -> np.ndarray:
        """The number of the area of each sentence, (sentences,)."""
        names = list(dict.fromkeys(line.area for line in self.reader.book.lines))
        return np.array([names.index(line.area) for line in self.reader.book.lines])

    def told_by_collection(self, vectors: Floats, epsilon: float) -> float:
        """The L1 error of the areas' shares, from the noised counts."""
        cells = cells_of(self.reader.book, cell_count(len(vectors), 1, epsilon))
        counts = np.bincount(cells.votes(vectors), minlength=len(cells))[None]
        tally = Tally(counts * UNIT, people=len(vectors))
        private = Geometric(epsilon, counts.size).privatize(tally, SystemEntropy())
        left = shares(np.array(private.values, np.float64) / UNIT, len(vectors))[0]
        of_cell = self.areas[np.unique(cells.of_sentence, return_index=True)[1]]
        return self._error(np.bincount(of_cell, left), vectors)

    def told_by_single(self, vectors: Floats, epsilon: float) -> float:
        """The same from the areas of single texts, less the random answers."""
        values = self.sent(vectors, epsilon)
        mechanism = self.channel(epsilon).mechanism
        assert isinstance(mechanism, Response)
        kept = math.expm1(epsilon) / (math.expm1(epsilon) + mechanism.options)  # g
        among = np.bincount(self.areas[: mechanism.values], minlength=self.areas.max() + 1) / mechanism.values
        came = np.bincount(self.areas[list(values)], minlength=len(among))
        return self._error(shares((came - (1 - kept) * len(vectors) * among) / kept, len(vectors)), vectors)

    def told_by_shuffled(self, vectors: Floats, epsilon: float) -> float:
        """The same at the local epsilon that a central one allows."""
        options = CodeFamily().options(self.bundle, BookUse())
        central = Guarantee(epsilon, DELTA)
        return self.told_by_single(vectors, local_for(central, rows=len(vectors), most_rows=1, options=options))

    def _error(self, found: np.ndarray, vectors: Floats) -> float:
        """By how much shares of areas differ from those of the topics that the texts are nearest to."""
        cells = cells_of(self.reader.book, MOST_CELLS)
        of_cell = self.areas[np.unique(cells.of_sentence, return_index=True)[1]]
        true = np.bincount(of_cell[cells.votes(vectors)], minlength=len(found))
        return float(np.abs(found - true).sum() / len(vectors))


def vectors_of(reader: CodeBookReader, texts: Sequence[str]) -> Floats:
    return np.concatenate([reader.read(texts[first : first + 256]) for first in range(0, len(texts), 256)])


def measure(releases: Releases, name: str, runs: Iterable[Callable[[], float]]) -> None:
    """The mean of some runs, saved, unless it is there already."""
    cells = read_cells(FILE.name) if FILE.is_file() else {}
    recipe = f"model:{MODEL}@{releases.bundle.fingerprint}"
    if name in cells and cells[name]["recipe"] == recipe:
        return
    found = [run() for run in runs]
    cell = {
        "mean": round(statistics.fmean(found), 4),
        "deviation": round(statistics.stdev(found), 4),
        "runs": len(found),
        "recipe": recipe,
    }
    FILE.write_text(json.dumps({**cells, name: cell}, indent=1) + "\n")
    print(f"{name}: {cell['mean']:.3f} ({cell['deviation']:.3f})", flush=True)


def measure_taught(releases: Releases, name: str, data: Data, people: int) -> None:
    """Macro F1 of one data set and number of people."""
    for run_of, kind, epsilons in (
        (releases.collection, "collection", (*EPSILONS, NO_NOISE)),
        (releases.shuffled, "shuffled", EPSILONS),
        (releases.single, "single", LOCAL),
    ):
        for epsilon in epsilons:
            given = min(epsilon, MOST_EPSILON)
            runs = [
                lambda run=run, run_of=run_of, given=given: data.taught(run_of(data, data.people(people, run), given))
                for run in range(RUNS)
            ]
            measure(releases, f"{name} {people} {kind} {epsilon:g}", runs)
    chance = random.Random(SEED)

    def labels_alone(run: int) -> float:
        """Their shares, with sentences of the book that have nothing to do with them."""
        drawn = chance.choices(data.people(people, run), k=ROWS + VALID)
        return data.taught([(data.labels[person], chance.choice(releases.lines)) for person in drawn])

    def originals(run: int) -> float:
        return data.taught([(data.labels[person], data.texts[person]) for person in data.people(people, run)])

    measure(releases, f"{name} {people} labels", [lambda run=run: labels_alone(run) for run in range(RUNS)])
    measure(releases, f"{name} {people} originals", [lambda run=run: originals(run) for run in range(RUNS)])


def measure_told(releases: Releases, public: Callable[[], Floats], people: int) -> None:
    """The error of the areas' shares for one number of people, who are drawn from public texts."""
    for run_of, kind, epsilons in (
        (releases.told_by_collection, "collection", EPSILONS),
        (releases.told_by_shuffled, "shuffled", EPSILONS),
        (releases.told_by_single, "single", LOCAL),
    ):
        for epsilon in epsilons:
            runs = [
                lambda run=run, run_of=run_of, epsilon=epsilon: run_of(
                    public()[random.Random(SEED + run).sample(range(TOLD_POOL), people)], epsilon
                )
                for run in range(4 * RUNS)
            ]
            measure(releases, f"areas {people} {kind} {epsilon:g}", runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    bundle = Bundle.find(MODEL)
    releases = Releases(bundle, CodeFamily().book_reader(bundle, BookUse()))

    @cache
    def public() -> Floats:
        return vectors_of(releases.reader, held_out_texts(find_corpus(asked.corpus), TOLD_POOL))

    for people in PEOPLE_TOLD:
        measure_told(releases, public, people)
    for name, counts in COLLECTION_SETS.items():
        data = Data.read(asked.data / f"{name}.parquet", releases.reader)
        for people in counts:
            measure_taught(releases, name, data, people)


if __name__ == "__main__":
    main()
