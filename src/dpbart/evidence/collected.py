"""What a recipient of a synthesised collection learns about one of its people, who give one public text each.

    public texts ──► half of them are a file ──► votes, noise, rows ──► rows and noised counts ──► attacks

The recipient sees the rows and, on the card, the noised counts. A second attacker also knows the texts of everybody
else in the file, which is the strongest that a guarantee speaks of. Each budget is attacked on several collections, and
each of them has another half of the texts in its file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

from dpbart.collect.cells import Cells, cells_of
from dpbart.collect.describe import ChosenBook, Terms
from dpbart.collect.synthesize import written_rows
from dpbart.errors import require_extra
from dpbart.evaluate.data.made_up import MadeUp, make_up
from dpbart.evidence.attack import MADE_UP, AttackReport, BudgetAttacked, Sample, attackers_tools, read_sample
from dpbart.evidence.controls import AttackScore, Estimate, Released, Scores, area, most_area, most_right, share_right
from dpbart.evidence.releases import votes_of
from dpbart.evidence.singling import RememberedVectors, likenesses, rare_words
from dpbart.models.code.book import Book
from dpbart.models.model import BookReader
from dpbart.models.sentences import Floats
from dpbart.options.collecting import CollectionBudget, CollectionColumns
from dpbart.options.evidence import AttackRequest
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import progress

COLLECTIONS = 10  # at each budget
COUNTS = "noised counts"
INFORMED = "all others known"
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Remembered:
    """A reader of a book that reads each text once."""

    reader: BookReader
    vectors: RememberedVectors  # of the same reader

    @property
    def book(self) -> Book:
        return self.reader.book

    def read(self, texts: Sequence[str]) -> Floats:
        return self.vectors.vectors(texts)


@dataclass(frozen=True)
class Collection:
    """A collection as its attackers have it.

    Attributes:
        rows: what was synthesised.
        counts: (cells,), with noise, in votes; on the card.
        votes: (cells,), without noise. Who knows everybody but one person knows them but for one vote.
        parts: (people,), the cell that each person votes for.
        again: the counts with new noise. Nobody sees them: they keep two targets of one cell from sharing their noise.
    """

    rows: tuple[str, ...]
    counts: Scores
    votes: Scores
    parts: Rows
    again: Scores


@dataclass(frozen=True)
class Synthesizer:
    """Makes collections of public texts with one model and budget, by the code of `dpbart synthesize`."""

    terms: Terms
    reader: Remembered
    cells: Cells

    @classmethod
    def of(cls, budget: CollectionBudget, reader: Remembered, *, people: int) -> Synthesizer:
        terms = Terms.of(ChosenBook.of(budget), CollectionColumns(), people=people, rows=None)
        return cls(terms, reader, cells_of(reader.book, terms.cells))

    def release(self, texts: Sequence[str]) -> Collection:
        """One collection, with new noise."""
        tally, mechanism = votes_of(texts, self.reader, self.cells), self.terms.mechanism
        private = mechanism.privatize(tally, SystemEntropy())
        batches = written_rows(private, self.terms, self.reader.book.lines, self.cells)
        rows = tuple(str(row[self.terms.text_column]) for batch in batches for row in batch.rows)
        counts, again = (
            np.array(each.values[0], np.float64) / mechanism.unit
            for each in (private, mechanism.privatize(tally, SystemEntropy()))
        )
        return Collection(rows, counts, tally.counts[0] / mechanism.unit, self.parts(texts), again)

    def unhidden(self, texts: Sequence[str]) -> Collection:
        """The same without any protection: the texts as they are, and exact counts."""
        votes = votes_of(texts, self.reader, self.cells).counts[0] / self.terms.mechanism.unit
        return Collection(tuple(texts), votes, votes, self.parts(texts), votes)

    def parts(self, texts: Sequence[str]) -> Rows:
        """The cell that each text votes for."""
        return self.cells.votes(self.reader.read(texts))

    def suspicions(self, seen: Collection, targets: Sequence[str]) -> dict[str, Scores]:
        """How much speaks for each target being in the file, by every attacker: (targets,) each."""
        found = {
            name: likeness.max(0)  # of all rows
            for name, likeness in likenesses(seen.rows, targets, self.reader.vectors, None).items()
        }
        return {**found, COUNTS: seen.counts[self.parts(targets)]}


def informed(seen: Collection, parts: Rows, unknown: Rows) -> dict[str, Scores]:
    """The same by an attacker who knows everybody but one person: what is left of a count without all the others.

    Args:
        seen: the collection.
        parts: the cells that the targets vote for, of any shape.
        unknown: the number of the person who is not known, of the same shape or one that fits.
    """
    others = seen.votes[parts] - (seen.parts[unknown] == parts)
    return {INFORMED: seen.counts[parts] - others}


Attack = Callable[[Collection], Estimate]
Suspicions = Callable[[Collection], dict[str, Scores]]


@dataclass(frozen=True)
class Controls:
    """One collection, and those on which its attacks are controlled."""

    released: Collection
    unhidden: Collection  # it must succeed
    unrelated: Collection  # of people who are no targets: it must not
    phantoms: Collection  # each person replaced by the most similar text outside the file

    @property
    def all(self) -> tuple[Collection, ...]:
        return self.released, self.unhidden, self.unrelated, self.phantoms

    def score(self, attack: str, measure: str, run: Attack, *, chance: float, bound: float | None) -> AttackScore:
        found, *others = (run(each) for each in self.all)
        clear, unrelated, phantom = (each.score for each in others)
        return AttackScore(
            attack, measure, found.score, found.spread, chance, bound, clear, unrelated, phantom, found.by
        )


def attack_collection(
    texts: Sequence[str], made: Sequence[MadeUp], maker: Synthesizer, *, candidates: int, seed: int
) -> list[AttackScore]:
    """Every attack on one new collection. Half of the texts are its file: as many as the synthesizer has people.

    Args:
        texts: public ones, with those that were made up.
        made: which details the made-up ones have.
        maker: a model at one budget.
        candidates: for singling out.
        seed: of the division and the candidates; nothing that is released depends on it.
    """
    epsilon, dice = maker.terms.mechanism.epsilon, np.random.default_rng(seed)
    sample = Sample.of(texts, seed=seed)
    file, outside = ([texts[row] for row in rows] for rows in (sample.file, sample.others))
    apart = dice.permutation(len(outside)) < len(outside) // 2
    absent = [text for text, used in zip(outside, apart, strict=True) if not used]
    others = [text for text, used in zip(outside, apart, strict=True) if used]
    near = maker.reader.read(file) @ maker.reader.read(others).T  # (file, others)
    controls = Controls(
        maker.release(file),
        maker.unhidden(file),
        maker.release([others[row % len(others)] for row in range(len(file))]),
        maker.release([others[row] for row in near.argmax(1)]),
    )
    targets, inside = [*file, *absent], np.arange(len(file) + len(absent)) < len(file)
    choosing = dice.permutation(len(targets)) < len(targets) // 2
    count = min(candidates, len(absent) + 1)
    wrong = np.stack([dice.choice(len(absent), count - 1, replace=False) for _ in file]) + len(file)
    shown = np.column_stack([np.arange(len(file)), wrong])  # (file, candidates), who took part first
    # In place of a target who is absent, somebody else is in the file whom the attacker does not know either.
    unknown = np.concatenate([np.arange(len(file)), dice.integers(len(file), size=len(absent))])
    parts = maker.parts(targets)
    of_seen = [(seen, maker.suspicions(seen, targets)) for seen in controls.all]  # they take long, and serve twice

    def plain(seen: Collection) -> dict[str, Scores]:
        return next(found for each, found in of_seen if each is seen)

    attackers: tuple[tuple[str, Suspicions, Suspicions], ...] = (
        ("", plain, lambda seen: {name: each[shown] for name, each in plain(seen).items()}),
        (
            f", {INFORMED}",
            lambda seen: {
                name: np.where(inside, each, informed(replace(seen, counts=seen.again), parts, unknown)[name])
                for name, each in informed(seen, parts, unknown).items()
            },
            lambda seen: informed(seen, parts[shown], np.arange(len(file))[:, None]),
        ),
    )
    found = []
    for known, each, among in attackers:
        found += [
            controls.score(
                f"membership{known}",
                "area under the ROC curve",
                partial(_membership, suspicions=each, inside=inside, choosing=choosing),
                chance=0.5,
                bound=most_area(epsilon, 0.0),
            ),
            controls.score(
                f"singling out{known}",
                f"right of {count} candidates",
                partial(_singling_out, suspicions=among, choosing=choosing[: len(file)]),
                chance=1 / count,
                bound=most_right(epsilon, 0.0, prior=1 / count),
            ),
        ]
    return found + _details(file, absent, made, controls)


def _membership(
    seen: Collection, *, suspicions: Suspicions, inside: npt.NDArray[np.bool_], choosing: npt.NDArray[np.bool_]
) -> Estimate:
    """By the attacker that is best on other targets."""
    scores = suspicions(seen)
    name = max(scores, key=lambda each: area(scores[each][choosing], inside[choosing]).score)
    found = area(scores[name][~choosing], inside[~choosing])
    return Estimate(found.score, found.spread, name)


def _singling_out(seen: Collection, *, suspicions: Suspicions, choosing: npt.NDArray[np.bool_]) -> Estimate:
    """How often the first of the candidates, who took part, is the most suspected; a tie counts in part."""
    right = {}
    for name, scores in suspicions(seen).items():  # (file, candidates)
        best = scores == scores.max(1, keepdims=True)
        right[name] = best[:, 0] / best.sum(1)
    name = max(right, key=lambda each: float(right[each][choosing].mean()))
    found = share_right(right[name][~choosing])
    return Estimate(found.score, found.spread, name)


def _details(
    file: Sequence[str], absent: Sequence[str], made: Sequence[MadeUp], controls: Controls
) -> list[AttackScore]:
    """Which share of the details of all people stands anywhere in the rows. Chance is that of people who are absent."""
    known = {each.text: each for each in made}
    here, away = (Released(tuple(texts), tuple(texts)) for texts in (file, absent))
    sought = {
        "names": [[name for text in texts if text in known for name in known[text].names] for texts in (file, absent)],
        "numbers": [[n for text in texts if text in known for n in known[text].numbers] for texts in (file, absent)],
        "rare words": [
            [word for words in rare_words(one, other) for word in words] for one, other in ((here, away), (away, here))
        ],
    }
    found = []
    for name, (own, others) in sought.items():
        if own and others:
            chance = _found(others, controls.released).score
            found.append(
                controls.score(name, "found in the rows", partial(_found, own), chance=chance, bound=None),
            )
    return found


def _found(sought: Sequence[str], seen: Collection) -> Estimate:
    """The share of some words or numbers that stand in the rows, whatever their case and punctuation."""
    rows = f" {_plain(' . '.join(seen.rows))} "
    return share_right([float(f" {_plain(each)} " in rows) for each in sought])


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def averaged(collections: Sequence[Sequence[AttackScore]]) -> tuple[AttackScore, ...]:
    """The mean of each attack over several collections. The standard error is that of the mean, by their spread."""
    found = []
    for name in dict.fromkeys(each.attack for scores in collections for each in scores):
        same = [each for scores in collections for each in scores if each.attack == name]
        spread = stdev(each.score for each in same) / len(same) ** 0.5 if len(same) > 1 else same[0].spread
        found.append(
            AttackScore(
                name,
                same[0].measure,
                fmean(each.score for each in same),
                spread,
                fmean(each.chance for each in same),
                same[0].bound,
                fmean(each.originals for each in same),
                fmean(each.unrelated for each in same),
                fmean(each.phantom or 0.0 for each in same),
                Counter(each.by for each in same).most_common(1)[0][0],
            )
        )
    return tuple(found)


def attack_collections(asked: AttackRequest) -> AttackReport:
    """Synthesise collections of the texts of a public file at each budget, and attack them."""
    require_extra("evaluate", "attacks need", "sklearn")
    budgets = [CollectionBudget(model=asked.model, epsilon=epsilon) for epsilon in asked.epsilons]
    described = [ChosenBook.of(budget) for budget in budgets]  # a model without a book is refused before any work
    made = make_up(MADE_UP)
    texts = list(dict.fromkeys([*read_sample(asked).texts, *(each.text for each in made)]))
    vectors, _ = attackers_tools(asked.model)
    reader = Remembered(described[0].reader(), vectors)
    vectors.known.update(zip((line.sentence for line in reader.book.lines), reader.book.vectors, strict=True))
    people = len(Sample.of(texts).file)
    attacked = []
    with progress("Attacking", total=len(budgets) * COLLECTIONS, unit="collections") as bar:
        for budget in budgets:
            maker, scores = Synthesizer.of(budget, reader, people=people), []
            for seed in range(COLLECTIONS):
                scores.append(attack_collection(texts, made, maker, candidates=asked.candidates, seed=seed))
                bar.advance(1)
            attacked.append(BudgetAttacked(budget.epsilon, 0.0, averaged(scores)))
    model = described[0].described(maker.terms.mechanism).model.identity
    return AttackReport(model, vectors.identity, people, len(texts) - people, 0, tuple(attacked), asked.release)
