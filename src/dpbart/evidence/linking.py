"""Linking and inferring: a recipient who learns to tell authors, or any other label, from text.

A static attacker learns from original texts. An adaptive one rewrites texts of their own with the same model and
budget, and learns from those. A third learns in the same way from nothing but the topic of each sentence that comes
out. What the adaptive attacker gets beyond that is what the wording gives away.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from dpbart.errors import require_extra
from dpbart.evidence.controls import AttackScore, Estimate, Released, controlled, most_right, share_right
from dpbart.evidence.singling import CHARACTERS, VECTORS, WORDS, tfidf
from dpbart.models.code.book import Book
from dpbart.models.sentences import Floats, SentenceVectors

STATIC, ADAPTIVE, TOPIC_ALONE = "static", "adaptive", "topic alone"
TOPICS, TOPIC_VECTORS = "topics", "vectors of topics"
_STRENGTHS = (0.1, 1.0, 10.0)  # scikit-learn's alpha of ridge regression; chosen on texts that are not learned from
_CHOOSING = 5  # every fifth text of the attacker's own chooses features and strength
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_Features: TypeAlias = Any  # (texts, features), dense or sparse
_Reads: TypeAlias = Callable[[Sequence[str]], _Features]
Guesses: TypeAlias = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class BookTopics:
    """The topic of each sentence of a text, by a book: its own topic if it stands there, else that of the nearest."""

    book: Book
    vectors: SentenceVectors  # of the model that the book belongs to
    known: dict[str, str] = field(default_factory=dict)  # topics of sentences that were looked up before

    def topics(self, texts: Sequence[str]) -> list[list[str]]:
        """The topics of each text, sentence by sentence."""
        if not self.known:
            self.known.update((line.sentence, line.topic) for line in self.book.lines)
        split = [[text] if text in self.known else _SENTENCE_END.split(text.strip()) for text in texts]
        new = list(dict.fromkeys(each for sentences in split for each in sentences if each not in self.known))
        if new:
            nearest = self.book.nearest(self.vectors.vectors(new), 1)[:, 0]
            self.known.update((each, self.book.lines[line].topic) for each, line in zip(new, nearest, strict=True))
        return [[self.known[each] for each in sentences] for sentences in split]

    def vectors_of_topics(self, texts: Sequence[str]) -> Floats:
        """The same as vectors, so that like topics are alike: the mean of all sentences of a topic, (texts, width)."""
        sums = np.stack([np.sum([self._means[topic] for topic in each], 0) for each in self.topics(texts)])
        vectors: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        return vectors

    @cached_property
    def _means(self) -> dict[str, Floats]:
        rows: dict[str, list[int]] = {}
        for row, line in enumerate(self.book.lines):
            rows.setdefault(line.topic, []).append(row)
        return {topic: self.book.vectors[of].mean(0) for topic, of in rows.items()}


@dataclass(frozen=True)
class Learned:
    """A guesser of labels, and the features that it learned from."""

    guess: Guesses
    by: str


def guess_labels(
    what: str,
    own: Released,
    own_labels: Sequence[str],
    file: Released,
    labels: Sequence[str],
    phantoms: Sequence[str] | None,
    *,
    vectors: SentenceVectors,
    topics: BookTopics,
    epsilon: float,
    delta: float,
) -> tuple[AttackScore, AttackScore, AttackScore]:
    """How often the label of a text is guessed from its rewriting: static, adaptive, and from its topics alone.

    Args:
        what: what the labels are, such as "author".
        own: the attacker's own texts, with the same kind of labels.
        own_labels: one for each of them.
        file: the texts whose labels are guessed.
        labels: the true ones.
        phantoms: for each text, the rewriting of its phantom.
        vectors: the sentence encoder of the attacker.
        topics: of the book.
        epsilon: of each text.
        delta: of each text.
    """
    blind = Counter(own_labels).most_common(1)[0][0]
    chance = sum(label == blind for label in labels) / len(labels)
    bound = most_right(epsilon, delta, prior=max(Counter(labels).values()) / len(labels))
    measure = f"right of {len(set(labels))} labels"

    def right(learned: Learned, outputs: Sequence[str]) -> Estimate:
        found = share_right([float(a == b) for a, b in zip(learned.guess(outputs), labels, strict=True)])
        return replace(found, by=learned.by)

    def attack(kind: str, learned: Learned, unhidden: Learned) -> AttackScore:
        run = partial(right, learned)
        found = controlled(f"{what}, {kind}", measure, run, file, phantoms=phantoms, chance=chance, bound=bound)
        # Without noise, the attacker learns from texts without noise.
        return replace(found, originals=right(unhidden, file.originals).score)

    readers = {each: text_reader(each, vectors) for each in (CHARACTERS, WORDS, VECTORS)}
    static = learn(own.originals, own_labels, readers)
    adaptive = learn(own.rewritten, own_labels, readers)
    by_topic = {TOPICS: topic_reader(topics), TOPIC_VECTORS: lambda _: topics.vectors_of_topics}
    alone, alone_unhidden = (learn(texts, own_labels, by_topic) for texts in (own.rewritten, own.originals))
    return (
        attack(STATIC, static, static),
        attack(ADAPTIVE, adaptive, static),
        attack(TOPIC_ALONE, alone, alone_unhidden),
    )


_MakesReader: TypeAlias = Callable[[Sequence[str]], _Reads | None]


def text_reader(name: str, vectors: SentenceVectors) -> _MakesReader:
    """Reads texts as words, as characters or as sentence vectors."""

    def make(texts: Sequence[str]) -> _Reads | None:
        if name == VECTORS:
            return vectors.vectors
        reader: Any = tfidf(name, texts)
        return None if reader is None else reader.transform

    return make


def topic_reader(topics: BookTopics) -> _MakesReader:
    """Reads nothing but which topics a text has."""

    def make(texts: Sequence[str]) -> _Reads:
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(analyzer=list, dtype=np.float64)  # a text is a list of its topics
        counter.fit(topics.topics(texts))
        return lambda others: counter.transform(topics.topics(others))

    return make


def learn(texts: Sequence[str], labels: Sequence[str], readers: dict[str, _MakesReader]) -> Learned:
    """Ridge regression on the best of several features, chosen on a fifth of the texts, then learned from all."""
    require_extra("evaluate", "attacks need", "sklearn")
    chosen = [number for number in range(len(texts)) if number % _CHOOSING == 0]
    rest = [number for number in range(len(texts)) if number % _CHOOSING]
    truth = [labels[number] for number in chosen]
    best, by, strength = -1.0, "", _STRENGTHS[0]
    for name, make in readers.items():
        reads = make([texts[number] for number in rest])
        if reads is None or len({labels[number] for number in rest}) < 2:
            continue
        known, asked = reads([texts[number] for number in rest]), reads([texts[number] for number in chosen])
        for each in _STRENGTHS:
            guessed = _ridge(known, [labels[number] for number in rest], each).predict(asked)
            right = sum(str(a) == b for a, b in zip(guessed, truth, strict=True)) / len(truth)
            if right > best:
                best, by, strength = right, name, each
    reads = readers[by](texts) if by else None
    if reads is None:  # nothing to learn from
        most = Counter(labels).most_common(1)[0][0]
        return Learned(lambda asked: [most] * len(asked), "most frequent")
    read, model = reads, _ridge(reads(texts), labels, strength)
    return Learned(lambda asked: [str(label) for label in model.predict(read(asked))], by)


def _ridge(features: _Features, labels: Sequence[str], strength: float) -> Any:
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(alpha=strength).fit(features, labels)
