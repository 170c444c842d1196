"""Measures of a rewriting: BLEU, F1, fluency, names recovered, and similarity, each with its baseline or control."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter, require_extra
from dpbart.progress import progress

if TYPE_CHECKING:
    from dpbart.models.sentences import SentenceVectors


# Words that occur in texts on any topic.
_WORDS = """
    a about after all also am an and any are as at be because been before but by can could d did do does doing for
    from get got had has have he her here him his how i if in into is it its just like ll m may me more most my no not
    now of off on one only or other our out over own re s she should so some such t than that the their them then
    there these they this those to too up us ve very was we were what when where which who whom why will with would
    yes you your
"""
FUNCTION_WORDS = frozenset(_WORDS.split())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@dataclass(frozen=True)
class Kept:
    """How much rewritten texts have in common with their originals."""

    bleu: float  # 0 to 100
    content_words: float  # 0 to 1: share of the originals' content words that are also in the rewritten text
    signature: str  # of BLEU


def measure_kept(originals: Sequence[str], rewritten: Sequence[str]) -> Kept:
    """Compare texts pair by pair.

    >>> round(measure_kept(["the cat sat on the mat"], ["the cat sat on a mat"]).content_words, 2)
    1.0
    """
    require_extra("evaluate", "BLEU needs", "sacrebleu")
    import sacrebleu

    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(rewritten), [list(originals)])
    kept = total = 0
    for before, after in zip(originals, rewritten, strict=True):
        words, left = (Counter(word for word in _words(each) if word not in FUNCTION_WORDS) for each in (before, after))
        kept += (words & left).total()
        total += words.total()
    return Kept(score.score, kept / max(1, total), str(metric.get_signature()))


@dataclass(frozen=True)
class Scores:
    """Scores of predicted labels against the true ones.

    Macro F1 is the mean F1 over all labels in the test set, predicted or not, so every result on a data set has the
    same denominator. (The authors' code averages F1 over batches, which gives a different number.)
    """

    macro_f1: float  # 0 to 1
    accuracy: float  # 0 to 1
    class_f1: Mapping[str, float]  # of each label in the test set


def score(truth: Sequence[str], predicted: Sequence[str]) -> Scores:
    """The scores of one prediction per text.

    >>> score(["a", "a", "b", "b"], ["a", "b", "b", "b"]).accuracy
    0.75
    """
    require_extra("evaluate", "F1 needs", "sklearn")
    from sklearn.metrics import f1_score

    if len(truth) != len(predicted) or not truth:
        raise BadParameter(f"there must be one prediction per text, got {len(predicted)} for {len(truth)} texts.")
    labels = sorted(set(truth))
    each = f1_score(truth, predicted, labels=labels, average=None, zero_division=0)
    right = sum(a == b for a, b in zip(truth, predicted, strict=True))
    class_f1 = {label: float(value) for label, value in zip(labels, each, strict=True)}
    return Scores(sum(class_f1.values()) / len(labels), right / len(truth), class_f1)


def majority(train: Sequence[str], truth: Sequence[str]) -> Scores:
    """The scores of always guessing the most frequent label in train."""
    most = min(Counter(train).items(), key=lambda each: (-each[1], each[0]))[0]
    return score(truth, [most] * len(truth))


def randomised_response(truth: Sequence[str], *, labels: int, epsilon: float) -> Scores:
    """The scores of releasing only the label, without any text, by randomised response at the same epsilon.

    The true one of k labels is released with probability e^epsilon / (e^epsilon + k - 1), each other one with equal
    probability: pure epsilon (Kairouz et al. 2016). The scores come from the expected counts, without sampling. k is
    the number of labels in train, or in test if that has more.

    >>> randomised_response(["a", "b"], labels=2, epsilon=math.inf).macro_f1
    1.0
    """
    if not epsilon > 0:
        raise BadParameter(f"epsilon must be greater than 0, got {epsilon}.")
    counts, rows = Counter(truth), len(truth)
    k = max(labels, len(counts), 2)
    kept = 1 / (1 + (k - 1) * math.exp(-epsilon))
    other = (1 - kept) / (k - 1)
    # F1 = 2 TP / (2 TP + FP + FN), and TP + FN = the label's own count.
    class_f1 = {
        label: 2 * count * kept / (count * kept + (rows - count) * other + count)
        for label, count in sorted(counts.items())
    }
    return Scores(sum(class_f1.values()) / len(class_f1), kept, class_f1)


Triple = tuple[str, str, str]


@dataclass(frozen=True)
class Fluency:
    """Shares from 0 to 1 of three words in a row that also occur in public text; None if no text has three words.

    This needs no language model. Words in random order are the control: their share must be clearly lower. Two words
    in a row would be too weak: on 200 held-out texts their share is 87%, and still 60% in random order; that of three
    is 58%, and 7% in random order.
    """

    share: float | None  # of the rewritten texts
    shuffled: float | None  # control: the same with the words of each text in random order
    original: float | None  # the same for the original texts, if they were given
    triples: int  # in the rewritten texts


def measure_fluency(
    rewritten: Sequence[str], corpus: Iterable[str], *, originals: Sequence[str] = (), seed: int = 0
) -> Fluency:
    """Look up the words of texts in a public corpus, which is read once and not held in memory.

    None of the originals should be in the corpus: it would be found as a whole. The seed is of the control.

    >>> measure_fluency(["The cat sat there", "there sat"], ["and the cat sat down"]).share
    0.5
    """
    dice = random.Random(seed)
    shuffled = [re.findall(r"\w+", text) for text in rewritten]
    for words in shuffled:
        dice.shuffle(words)
    compared = (rewritten, map(" ".join, shuffled), originals)
    counted = [[each for text in texts for each in triples(text)] for texts in compared]
    sought = {each for found in counted for each in found}
    public: set[Triple] = set()
    for text in corpus:
        public.update(sought.intersection(triples(text)))
    share, without_order, original = (
        sum(each in public for each in found) / len(found) if found else None for found in counted
    )
    return Fluency(share, without_order, original, len(counted[0]))


def triples(text: str) -> Iterator[Triple]:
    """Three words in a row, in lower case.

    >>> list(triples("Well, I do not."))
    [('well', 'i', 'do'), ('i', 'do', 'not')]
    """
    words = _words(text)
    return zip(words, words[1:], words[2:], strict=False)


@dataclass(frozen=True)
class Recovered:
    """Which share of the details came through, from 0 to 1."""

    share: float
    elsewhere: float | None  # control: in rewritings of texts that do not have the detail; None if there are none
    details: int


def recovered(originals: Sequence[str], rewritten: Sequence[str], details: Sequence[Sequence[str]]) -> Recovered:
    """Look for the details of each text in its rewriting, and in the rewritings of the other texts.

    A detail is a name or a number. Whole words count, whatever their case. Punctuation and spaces make no difference:
    "555-0142" is found in "555 - 0142".

    >>> recovered(["Ada is 36.", "Bo is 7."], ["ADA was here", "Adam is 36"], [["Ada", "36"], ["Bo", "7"]])
    Recovered(share=0.25, elsewhere=0.25, details=4)
    """
    if not len(originals) == len(rewritten) == len(details) or not any(details):
        raise BadParameter(
            f"each text must have a rewriting and its details, got {len(originals)} texts, {len(rewritten)} "
            f"rewritings and details of {sum(map(bool, details))}."
        )
    before, after = _Index(originals), _Index(rewritten)
    came = total = wrongly = others = 0
    for place, found in enumerate(details):
        for detail in found:
            has, shows = before.texts_with(detail), after.texts_with(detail)
            if place not in has:
                raise BadParameter(f"a detail must be in its text, but that of text {place + 1} is not.")
            total += 1
            came += place in shows
            wrongly += len(shows - has)
            others += len(originals) - len(has)
    return Recovered(came / total, wrongly / others if others else None, total)


class _Index:
    """Finds the texts that contain words in a row."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [_words(text) for text in texts]
        self.places: dict[str, set[int]] = defaultdict(set)
        for place, words in enumerate(self.words):
            for word in words:
                self.places[word].add(place)

    def texts_with(self, detail: str) -> set[int]:
        sought = _words(detail)
        if not sought:
            return set()
        candidates = set.intersection(*(self.places.get(word, set()) for word in sought))
        starts = {place: range(len(self.words[place]) - len(sought) + 1) for place in candidates}
        return {at for at in starts if any(self.words[at][i : i + len(sought)] == sought for i in starts[at])}


_AT_ONCE = 1024  # texts


@dataclass(frozen=True)
class Similarity:
    """How much rewritten texts mean the same as their originals. A cosine ranges from -1 to 1."""

    mean: float
    spread: float | None  # standard deviation of that mean; None for one text
    unrelated: float | None  # control: each rewritten text with every other original; None for one text
    texts: int


def measure_similarity(originals: Sequence[str], rewritten: Sequence[str], encoder: SentenceVectors) -> Similarity:
    """Compare texts pair by pair, and each rewritten text with all other originals."""
    texts = len(originals)
    if texts != len(rewritten) or not texts:
        raise BadParameter(f"texts must come in pairs, got {texts} originals and {len(rewritten)} rewritten texts.")
    cosines: list[float] = []
    sums = (np.zeros(1), np.zeros(1))  # of all vectors of the originals and of the rewritten texts, (width,) each
    with progress("Comparing", total=texts, unit="texts") as bar:
        for start in range(0, texts, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            before, after = (_exactly_unit(encoder.vectors(each[part])) for each in (originals, rewritten))
            cosines += (before * after).sum(1).tolist()
            sums = (sums[0] + before.sum(0), sums[1] + after.sum(0))
            bar.advance(len(before))
    if texts == 1:
        return Similarity(cosines[0], None, None, 1)
    # The sum over all pairs is the product of the sums; without the true pairs, texts x (texts - 1) are left.
    unrelated = (float(np.dot(*sums)) - math.fsum(cosines)) / (texts * (texts - 1))
    spread = float(np.std(cosines, ddof=1)) / math.sqrt(texts)
    return Similarity(math.fsum(cosines) / texts, spread, unrelated, texts)


def _exactly_unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """In double precision, so that no cosine is above 1. Zeros, of an empty text, stay zeros."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)  # (texts, 1)
    return exact / np.where(lengths > 0, lengths, 1.0)
