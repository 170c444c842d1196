"""Singling out: a recipient who has candidates, and asks which of them a rewritten text came from.

Also membership, which asks whether a text is in the file at all, and details: names, numbers and rare words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpbart.errors import require_extra
from dpbart.evaluate.scores import FUNCTION_WORDS, recovered
from dpbart.evidence.controls import (
    AttackScore,
    Estimate,
    Released,
    Scores,
    area,
    controlled,
    most_area,
    most_right,
    share_right,
)
from dpbart.models.sentences import Floats, SentenceVectors

LIKELIHOOD = "exact likelihood"
WORDS, CHARACTERS, VECTORS = "word n-grams", "character n-grams", "sentence vectors"
_RARE_LETTERS = 4  # a rare word has at least so many
_TFIDF = {
    WORDS: {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"},
    CHARACTERS: {"analyzer": "char_wb", "ngram_range": (2, 4)},
}


@dataclass(frozen=True)
class RememberedVectors:
    """A sentence encoder that reads each text once. Attacks and their controls compare the same texts many times."""

    encoder: SentenceVectors
    known: dict[str, Floats] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return self.encoder.identity

    @property
    def width(self) -> int:
        return self.encoder.width

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""
        new = list(dict.fromkeys(text for text in texts if text not in self.known))
        if new:
            self.known.update(zip(new, self.encoder.vectors(new), strict=True))
        return np.stack([self.known[text] for text in texts]) if texts else np.zeros((0, self.width), np.float32)


def phantoms_of(file: Released, others: Released, vectors: SentenceVectors) -> list[int]:
    """For each text of the file the row of its phantom: the most similar text outside the file."""
    near = vectors.vectors(file.originals) @ vectors.vectors(others.originals).T  # (texts, others)
    return [int(row) for row in near.argmax(1)]


def likenesses(
    outputs: Sequence[str],
    targets: Sequence[str],
    vectors: SentenceVectors,
    meant: Sequence[frozenset[str]] | None,
) -> dict[str, Scores]:
    """How like each output each target is, by every matcher: (outputs, targets) each."""
    found: dict[str, Scores] = {}
    for name in _TFIDF:
        found[name] = _tfidf_cosines(name, outputs, targets)
    found[VECTORS] = (vectors.vectors(outputs) @ vectors.vectors(targets).T).astype(np.float64)
    if meant is not None:
        found[LIKELIHOOD] = np.array([[output in each for each in meant] for output in outputs], np.float64)
    return found


def tfidf(name: str, texts: Sequence[str]) -> object | None:
    """A TF-IDF of word or character n-grams that has read the texts; None if there is nothing in them to count."""
    require_extra("evaluate", "attacks need", "sklearn")
    from sklearn.feature_extraction.text import TfidfVectorizer

    reader = TfidfVectorizer(sublinear_tf=True, **_TFIDF[name])
    counts = reader.build_analyzer()
    return reader.fit(texts) if any(counts(text) for text in texts) else None


def _tfidf_cosines(name: str, outputs: Sequence[str], targets: Sequence[str]) -> Scores:
    reader = tfidf(name, [*targets, *outputs])
    if reader is None:
        return np.zeros((len(outputs), len(targets)))
    cosines: Scores = (reader.transform(outputs) @ reader.transform(targets).T).toarray()  # type: ignore[attr-defined]
    return cosines


def single_out(
    file: Released,
    phantoms: Sequence[str] | None,
    vectors: SentenceVectors,
    *,
    epsilon: float,
    delta: float,
    candidates: int = 100,
    seed: int = 0,
) -> AttackScore:
    """How often the source of an output is found among candidates: itself, and other texts of the file at random.

    The matcher is chosen on half of the texts and scored on the other half. Ties are broken by lot, so a tie of two
    counts as half a right guess.
    """
    count, dice = min(candidates, len(file)), np.random.default_rng(seed)
    rows = np.arange(len(file))
    others = np.stack([dice.choice(len(file) - 1, count - 1, replace=False) for _ in rows])
    shown = np.column_stack([rows, others + (others >= rows[:, None])])  # (texts, candidates), the source first
    choosing = _half(len(file), dice)

    def run(outputs: Sequence[str]) -> Estimate:
        right = {}
        for name, likeness in likenesses(outputs, file.originals, vectors, file.meant).items():
            scores = np.take_along_axis(likeness, shown, 1)  # (texts, candidates)
            best = scores == scores.max(1, keepdims=True)
            right[name] = best[:, 0] / best.sum(1)
        name = max(right, key=lambda each: float(right[each][choosing].mean()))
        found = share_right(right[name][~choosing])
        return Estimate(found.score, found.spread, name)

    bound = most_right(epsilon, delta, prior=1 / count)
    measure = f"right of {count} candidates"
    return controlled("singling out", measure, run, file, phantoms=phantoms, chance=1 / count, bound=bound)


def _half(count: int, dice: np.random.Generator) -> npt.NDArray[np.bool_]:
    """A random half of the rows."""
    half: npt.NDArray[np.bool_] = dice.permutation(count) < count // 2
    return half


def membership(
    file: Released, others: Released, vectors: SentenceVectors, *, epsilon: float, delta: float, seed: int = 0
) -> AttackScore:
    """How well texts of the file are told from texts outside it, by what came out of the file.

    The texts outside are halved. One half are targets. Their rewritings are never shown. The rewritings of the other
    half are the controls: a file that holds no target.
    """
    dice = np.random.default_rng(seed)
    outside = _half(len(others), dice)
    apart = others.part(np.flatnonzero(~outside).tolist())
    absent = others.part(np.flatnonzero(outside).tolist())
    targets = [*file.originals, *absent.originals]
    meant = None if file.meant is None or absent.meant is None else [*file.meant, *absent.meant]
    inside = np.arange(len(targets)) < len(file)
    choosing = _half(len(targets), dice)

    def run(outputs: Sequence[str]) -> Estimate:
        scores = {
            name: likeness.sum(0) if name == LIKELIHOOD else likeness.max(0)  # over the outputs
            for name, likeness in likenesses(outputs, targets, vectors, meant).items()
        }
        name = max(scores, key=lambda each: area(scores[each][choosing], inside[choosing]).score)
        found = area(scores[name][~choosing], inside[~choosing])
        return Estimate(found.score, found.spread, name)

    return controlled(
        "membership",
        "area under the ROC curve",
        run,
        file,
        phantoms=[apart.rewritten[row] for row in phantoms_of(file, apart, vectors)],
        unrelated=apart.rewritten,
        chance=0.5,
        bound=most_area(epsilon, delta),
    )


def details(
    name: str, file: Released, phantoms: Sequence[str] | None, sought: Sequence[Sequence[str]]
) -> AttackScore | None:
    """Which share of the details of each text can be read in its rewriting; None if no text has any.

    Chance is the share that stands in the rewritings of texts without the detail.
    """
    total = sum(map(len, sought))
    if not total:
        return None

    def run(outputs: Sequence[str]) -> Estimate:
        share = recovered(file.originals, outputs, sought).share
        smoothed = (share * total + 1) / (total + 2)
        return Estimate(share, (smoothed * (1 - smoothed) / total) ** 0.5)

    elsewhere = recovered(file.originals, file.rewritten, sought).elsewhere
    return controlled(name, f"of {total:,} recovered", run, file, phantoms=phantoms, chance=elsewhere or 0.0)


def rare_words(file: Released, others: Released) -> list[list[str]]:
    """For each text of the file the words that stand in no other text, in the file or outside it."""
    counts = Counter(word for texts in (file.originals, others.originals) for text in texts for word in _words(text))
    return [sorted(word for word in _words(text) if counts[word] == 1) for text in file.originals]


def _words(text: str) -> set[str]:
    """In lower case, without numbers and words that occur in texts on any topic."""
    found = re.findall(r"\w+", text.lower())
    return {word for word in found if len(word) >= _RARE_LETTERS and word.isalpha() and word not in FUNCTION_WORDS}
