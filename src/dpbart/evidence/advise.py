"""Measure, on public texts like the private ones, what each kind of release keeps and gives away at each budget.

    public texts ──► a sample ──► test: never rewritten
                              └─► the rest: rewritten at each budget, and counted as a collection

A classifier learns from what was released and labels the original test texts. The attackers are those of
`dpbart attack`. Every budget is measured once for each model and file. The figures, and no text, are kept next to the
page, so an interrupted run continues, and the same question is answered at once.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dpbart.collect.cells import Cells, cells_of, shares
from dpbart.collect.describe import ChosenBook, Terms
from dpbart.collect.rows import draw_rows
from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.classifiers import LinearClassifier, Prediction
from dpbart.evaluate.data.splits import READ_AT_ONCE, LabelledTexts
from dpbart.evaluate.scores import majority, measure_similarity, score
from dpbart.evidence.attack import release
from dpbart.evidence.singling import RememberedVectors, membership, phantoms_of, single_out
from dpbart.files import digest_of, write_whole
from dpbart.models.families import family_of
from dpbart.models.model import BookReader
from dpbart.models.sentences import SentenceEncoderFiles
from dpbart.models.vectors import load_vectors
from dpbart.options.collecting import CollectionBudget, CollectionColumns
from dpbart.options.evidence import AdviceRequest
from dpbart.options.rewriting import normal_form
from dpbart.options.settings import Settings
from dpbart.privacy.mechanisms.geometric import UNIT, Tally
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import Bar, progress
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter
from dpbart.tables.streams import ANY, FileBounds
from dpbart.tables.table import open_table
from dpbart.version import __version__

SINGLE, SHUFFLED, COLLECTION = "single texts", "shuffled", "collection"
BUDGETS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 50.0)  # epsilon of a text
COLLECTION_BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0)  # epsilon of a person
LABEL_EPSILON = 4.0  # of a label in a shuffled row, which may not be released as it is
DRAWS = 3  # one draw of the noise moves F1 by up to .1: their mean, also of collections
DRAWN_AGAIN = 10.0  # above this epsilon there is one draw: little of it is noise, and rewriting is slow
MOST_TEXTS = 1_500  # of the file
MOST_ROWS = 2_000  # of a synthesised collection
LEAST_TEXTS = 60
_TEST = 3  # one text in so many is for testing
_VALID = 5  # and one in so many of the others for tuning
_ATTACKED, _OUTSIDE = 300, 300  # texts of the file under attack, and texts outside it, at most
SEED = 0  # of the sample, its parts and the controls; all are public


@dataclass(frozen=True)
class Measured:
    """What one kind of release kept and gave away at one budget. Shares and scores are from 0 to 1.

    Attributes:
        release: one of SINGLE, SHUFFLED and COLLECTION.
        epsilon: of a text or, in a collection, of a person.
        trained: how many rows the classifier learned from.
        similarity: mean cosine of the vectors of a text and its rewriting; None in a collection.
        unrelated: its control: the same with other texts.
        f1: macro F1 on original texts, after training on what was released, a mean of draws; None without labels.
        control_f1: its control: the same after the labels were shuffled.
        label_guessed: macro F1 of the labels of rewritten texts that an attacker guesses who learned from others.
        topics: share of the collection's topics that came out right; None for others.
        attacks: the scores of `dpbart attack`, by name.
    """

    release: str
    epsilon: float
    trained: int
    similarity: float | None = None
    unrelated: float | None = None
    f1: float | None = None
    control_f1: float | None = None
    label_guessed: float | None = None
    topics: float | None = None
    attacks: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """What the original texts give, with its controls; None without labels."""

    texts: int  # of the file
    sampled: int
    tested: int
    labels: int
    f1: float | None
    control_f1: float | None
    majority_f1: float | None


@dataclass(frozen=True)
class Sample:
    """Public texts in random order: those that are rewritten, and those to test on."""

    texts: int  # of the whole file
    known: LabelledTexts  # rewritten; a fifth of them tunes the classifier
    test: LabelledTexts

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[str] | None, *, most: int = MOST_TEXTS) -> Sample:
        """At most so many texts, by a public seed. Refuses too few, or a label that cannot be learned and tested."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        if len(rows) < LEAST_TEXTS:
            raise BadTable(f"advice needs at least {LEAST_TEXTS} texts, got {len(rows)}. Add public or made-up ones.")
        chosen = random.Random(SEED).sample(rows, min(most, len(rows)))
        held = LabelledTexts(
            tuple(texts[row] for row in chosen), tuple("" if labels is None else labels[row] for row in chosen)
        )
        cut = len(chosen) // _TEST
        sample = cls(len(texts), _part(held, slice(cut, None)), _part(held, slice(cut)))
        if labels is not None and len(set(sample.test.labels)) < 2:
            raise BadTable("the label column must have at least 2 different labels, got fewer. Name another one.")
        return sample

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels; none without a task."""
        return tuple(sorted({*self.known.labels, *self.test.labels} - {""}))

    def learn(self, texts: Sequence[str], labels: Sequence[str], *, control: bool = False) -> tuple[float, Prediction]:
        """The macro F1 on the original test texts after training on rows, a fifth of which is for tuning."""
        rows = LabelledTexts(tuple(texts), tuple(labels))
        rows, cut = rows.shuffled(SEED) if control else rows, len(rows) // _VALID
        told = LinearClassifier().predict(_part(rows, slice(cut, None)), _part(rows, slice(cut)), self.test.texts)
        return score(self.test.labels, told.labels).macro_f1, told


def _part(texts: LabelledTexts, rows: slice) -> LabelledTexts:
    return LabelledTexts(texts.texts[rows], texts.labels[rows])


def read_sample(asked: AdviceRequest, *, most: int = MOST_TEXTS, bounds: FileBounds = ANY) -> Sample:
    """The sample of a file. `bounds` say what reading it may cost."""
    label = asked.label_column
    named = () if label is None else (label,)
    table = open_table(asked.file, text_column=asked.text_column, named=named, bounds=bounds)
    if label is not None:
        table.require(label, option="--label-column")
    texts, labels = list[str](), list[str]()
    for batch in table.batches(READ_AT_ONCE):
        texts += batch.texts()
        if label is not None:
            labels += [normal_form(value) for value in batch.column(label)]
    if "" in labels:
        raise BadTable(f"row {labels.index('') + 1} has no label in column {label!r}. Every row needs one.")
    return Sample.of(texts, labels or None, most=most)


class Measurement:
    """Measures one model on one sample. What measures is loaded when it is first needed."""

    def __init__(self, asked: AdviceRequest, sample: Sample) -> None:
        self.asked, self.sample = asked, sample
        self.judge = (
            SentenceEncoderFiles.inside_default() if asked.judge is None else SentenceEncoderFiles.find(asked.judge)
        )

    @cached_property
    def _vectors(self) -> RememberedVectors:
        return RememberedVectors(load_vectors(self.judge))

    @cached_property
    def _votes(self) -> tuple[BookReader, Any]:
        """What reads texts for the book, and the vectors of the sample: (texts, width)."""
        reader = self._book(1.0).reader()
        return reader, reader.read(list(self.sample.known.texts))

    def _book(self, epsilon: float) -> ChosenBook:
        return ChosenBook.of(CollectionBudget(model=self.asked.model, epsilon=epsilon))

    @cached_property
    def has_book(self) -> bool:
        bundle = ChosenModel(Settings(self.asked.model, BUDGETS[0])).bundle
        return bool(family_of(bundle).book(bundle))

    def baseline(self) -> Baseline:
        """What a classifier learns from the originals."""
        sample = self.sample
        sampled, tested = len(sample.known) + len(sample.test), len(sample.test)
        if not sample.labels:
            return Baseline(sample.texts, sampled, tested, 0, None, None, None)
        f1, control = (sample.learn(sample.known.texts, sample.known.labels, control=each)[0] for each in (False, True))
        most = majority(sample.known.labels, sample.test.labels).macro_f1
        return Baseline(sample.texts, sampled, tested, len(sample.labels), f1, control, most)

    def texts(self, epsilon: float, bar: Bar | None = None) -> list[Measured]:
        """Single texts and shuffled ones at one budget: the same rewritings, but not the same labels."""
        rewriter, sample = Rewriter.of(ChosenModel(Settings(self.asked.model, epsilon))), self.sample
        done = release(rewriter, sample.known.texts, bar)
        guarantee, count = rewriter.facts.guarantee, len(done)
        attacked = min(_ATTACKED, count * 3 // 4)
        file = done.part(range(attacked))
        others = done.part(range(attacked, min(count, attacked + _OUTSIDE)))
        phantoms = [others.rewritten[row] for row in phantoms_of(file, others, self._vectors)]
        attacks = (
            single_out(file, phantoms, self._vectors, epsilon=guarantee.epsilon, delta=guarantee.delta),
            membership(file, others, self._vectors, epsilon=guarantee.epsilon, delta=guarantee.delta),
        )
        alike = measure_similarity(file.originals, file.rewritten, self._vectors)
        both: dict[str, Any] = {
            "epsilon": epsilon,
            "trained": count - count // _VALID,
            "similarity": alike.mean,
            "unrelated": alike.unrelated,
            "attacks": {each.attack: each.as_dict() for each in attacks},
        }
        if not sample.labels:
            return [Measured(kind, **both) for kind in (SINGLE, SHUFFLED)]
        again = DRAWS - 1 if epsilon <= DRAWN_AGAIN else 0
        draws = [done.rewritten, *(rewriter.rewrite(sample.known.texts).texts for _ in range(again))]
        found = []
        for kind in (SINGLE, SHUFFLED):
            labels = sample.known.labels if kind == SINGLE else self._randomised(sample.known.labels)
            taught = [sample.learn(texts, labels) for texts in draws]
            control, _ = sample.learn(done.rewritten, labels, control=True)
            f1, guessed = fmean(each for each, _ in taught), fmean(told.valid_f1 for _, told in taught)
            found.append(Measured(kind, **both, f1=f1, control_f1=control, label_guessed=guessed))
        return found

    def _randomised(self, labels: Sequence[str]) -> list[str]:
        """The labels by randomised response. The seed is that of an experiment with public labels."""
        dice, values = random.Random(SEED), self.sample.labels
        kept = 1 / (1 + (len(values) - 1) * math.exp(-LABEL_EPSILON))
        return [
            label if dice.random() < kept else dice.choice([each for each in values if each != label])
            for label in labels
        ]

    def collection(self, epsilon: float) -> Measured:
        """The sample as the texts of all people, who have one vote each: through the noise and into new rows.

        Its F1 is the mean of several collections. One of them may be far better or worse than the next.
        """
        sample = self.sample
        columns = CollectionColumns(label_column="label" if sample.labels else None, label_values=sample.labels)
        people = self.asked.people
        terms = Terms.of(self._book(epsilon), columns, people=people, rows=min(people, MOST_ROWS))
        cells = cells_of(self._votes[0].book, terms.cells)
        drawn = [self._synthesized(terms, cells, seed=SEED + number) for number in range(DRAWS)]
        trained, topics = terms.rows - terms.rows // _VALID, fmean(topics for _, topics in drawn)
        if not sample.labels:
            return Measured(COLLECTION, epsilon, trained, topics=topics)
        if terms.rows < LEAST_TEXTS:
            return Measured(COLLECTION, epsilon, trained, topics=topics, f1=0.0, control_f1=0.0)
        f1 = fmean(sample.learn(rows.texts, rows.labels)[0] for rows, _ in drawn)
        first, _ = drawn[0]
        control, _ = sample.learn(first.texts, first.labels, control=True)
        return Measured(COLLECTION, epsilon, trained, topics=topics, f1=f1, control_f1=control)

    def _synthesized(self, terms: Terms, cells: Cells, *, seed: int) -> tuple[LabelledTexts, float]:
        """The rows of one collection, and the share of its topics that came out right."""
        (reader, vectors), sample, each = self._votes, self.sample, self.asked.texts_per_person
        values, people = sample.labels or ("",), terms.people
        of_label = np.array([values.index(label) for label in sample.known.labels], np.int64)
        # The private file has other people: as many texts as they have, drawn from the sample with replacement.
        drawn = np.random.default_rng(seed).multinomial(people * each, np.full(len(of_label), 1 / len(of_label)))
        counts = np.zeros((len(values), len(cells)), np.int64)
        np.add.at(counts, (of_label, cells.votes(vectors)), drawn * (UNIT // each))
        private = terms.mechanism.privatize(Tally(counts, people=people), SystemEntropy())
        told = shares(np.array(private.values, np.float64) / UNIT, people).sum(0)
        apart = np.abs(told / max(told.sum(), 1e-9) - counts.sum(0) / counts.sum()).sum() / 2  # total variation
        rows = [
            (reader.book.lines[sentence].sentence, values[label])
            for some in draw_rows(private, cells, people=people, rows=terms.rows, entropy=SystemEntropy())
            for label, sentence in some
        ]
        texts, labels = zip(*rows, strict=True)
        return LabelledTexts(texts, labels), 1 - float(apart)


@dataclass(frozen=True)
class Figures:
    """All that was measured, on which sample, and by which judge."""

    baseline: Baseline
    measured: tuple[Measured, ...]
    judge: str
    own_judge: bool  # whether the judge is the model's own encoder
    model: str


def measure(
    asked: AdviceRequest,
    *,
    budgets: Sequence[float] = BUDGETS,
    most: int = MOST_TEXTS,
    kept: Path | None = None,
    read: Callable[..., Sample] = read_sample,
) -> Figures:
    """Measure every kind of release at every budget, or take what was measured before from the file `kept`."""
    line = ChosenModel(Settings(asked.model, budgets[0])).described
    judge = SentenceEncoderFiles.inside_default() if asked.judge is None else SentenceEncoderFiles.find(asked.judge)
    about = {
        "file": digest_of(asked.file),
        "columns": [asked.text_column, asked.label_column],
        "model": [line.model.identity, line.files],
        "judge": judge.recipe,
        "texts": most,
        "constants": _constants(),
        "version": __version__,
    }
    cache = _Cache.open(kept, sha256(json.dumps(about, sort_keys=True).encode()).hexdigest())
    place = f"{COLLECTION} {asked.people} {asked.texts_per_person}"
    wanted = [f"texts {each:g}" for each in budgets]
    measurement: Measurement | None = None

    def needed() -> Measurement:
        nonlocal measurement
        measurement = measurement or Measurement(asked, read(asked, most=most))
        return measurement

    if cache.missing(["baseline", *wanted]) or not cache.held.get(place):
        needed()
    baseline = Baseline(**cache.get("baseline", lambda: asdict(needed().baseline())))
    left = cache.missing(wanted)
    total = len(left) * (0 if measurement is None else len(measurement.sample.known))
    with progress("Rewriting", total=total, unit="texts") as bar:

        def texts(epsilon: float) -> list[dict[str, Any]]:
            return [asdict(each) for each in needed().texts(epsilon, bar)]

        told = [cache.get(name, partial(texts, at)) for name, at in zip(wanted, budgets, strict=True)]
    together = cache.get(place, lambda: list(_collections(needed())))
    measured = [Measured(**each) for some in (*told, together) for each in some]
    return Figures(baseline, tuple(measured), judge.identity, judge.inside_code, line.model.identity)


def _constants() -> list[object]:
    """What the figures of a budget depend on, beside what is asked. With others, they are measured again."""
    return [COLLECTION_BUDGETS, LABEL_EPSILON, DRAWS, DRAWN_AGAIN, MOST_ROWS, _TEST, _VALID, _ATTACKED, _OUTSIDE, SEED]


def _collections(measurement: Measurement) -> Iterator[dict[str, Any]]:
    if not measurement.has_book:
        return
    with progress("Synthesising", total=len(COLLECTION_BUDGETS), unit="collections") as bar:
        for epsilon in COLLECTION_BUDGETS:
            yield asdict(measurement.collection(epsilon))
            bar.advance(1)


@dataclass
class _Cache:
    """Figures that were measured before, in a file that is written again after each of them."""

    file: Path | None
    key: str
    held: dict[str, Any]

    @classmethod
    def open(cls, file: Path | None, key: str) -> _Cache:
        """What a file holds for this key. Figures of another model, file or version are left out, and replaced."""
        if file is None or not file.is_file():
            return cls(file, key, {})
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            return cls(file, key, dict(stored["figures"]) if stored["key"] == key else {})
        except (OSError, ValueError, KeyError, TypeError):
            raise BadParameter(
                f"{str(file)!r} does not hold the figures of an advice. Delete it, or move it."
            ) from None

    def missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.held]

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.held:
            self.held[name] = make()
            if self.file is not None:
                write_whole(self.file, json.dumps({"key": self.key, "figures": self.held}, allow_nan=False))
        return self.held[name]
