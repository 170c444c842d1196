"""Which release and budget to recommend, by one rule.

A release does the task if it keeps a stated share of what the originals give beyond chance. One that does while a
larger budget does not was lucky, and does not count. Of the others that do, and whose promise to a person, over all
their texts, is at most at a stated level, the one with the smallest epsilon for a person is recommended. If there is
none, the advice says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dpbart.evidence.advise import COLLECTION, LABEL_EPSILON, SHUFFLED, SINGLE, Figures, Measured, measure
from dpbart.options.evidence import AdviceRequest
from dpbart.options.settings import Settings
from dpbart.privacy.composition import Release, compose
from dpbart.privacy.guarantee import Guarantee, exactly, few_digits
from dpbart.privacy.scale import LEVELS, level_of
from dpbart.privacy.shuffling.release import shuffled_release
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.figures import guarantee_json

F1, SIMILARITY, TOPICS = "macro F1", "similarity", "topics"
ENOUGH = {F1: 0.75, SIMILARITY: 0.5, TOPICS: 0.8}  # of what the originals give beyond chance; our own choice
LIMIT = LEVELS[2]  # the weakest promise to a person that is recommended
_MORE_PEOPLE = 10  # times as many


@dataclass(frozen=True)
class File:
    """What is known about the private file."""

    texts_per_person: int
    people: int
    trusted_curator: bool

    @property
    def delta(self) -> float:
        """A tenth of 1 / people at most, and no more than 0.00001."""
        return float(f"1e-{max(5, len(str(self.people)) + 1)}")


@dataclass(frozen=True)
class Option:
    """One kind of release at one budget.

    Attributes:
        found: what was measured.
        person: the promise to a person, for all their texts.
        measure: what "kept" is about: F1, SIMILARITY or TOPICS.
        kept: the share of what the originals give beyond chance.
    """

    found: Measured
    person: Guarantee
    measure: str
    kept: float

    @property
    def does_the_task(self) -> bool:
        return self.kept >= ENOUGH[self.measure]

    @property
    def promises_enough(self) -> bool:
        return self.person.epsilon <= LIMIT.most

    @property
    def words(self) -> str:
        """Which release it is, in words."""
        of = "person" if self.found.release == COLLECTION else "text"
        return f"{_NAMES[self.found.release]} at epsilon {self.found.epsilon:g} for each {of}"

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.found),
            "person": guarantee_json(self.person),
            "measure": self.measure,
            "kept": self.kept,
            "does_the_task": self.does_the_task,
            "promises_enough": self.promises_enough,
        }


_NAMES = {SINGLE: "single texts", SHUFFLED: "shuffled texts", COLLECTION: "the collection as a whole"}


@dataclass(frozen=True)
class Advice:
    """Everything that was measured, and what follows from it."""

    figures: Figures
    file: File
    model: str

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """Every release at every budget."""
        return tuple(self._options(self.file))

    @cached_property
    def best(self) -> Option | None:
        """The recommendation; None if nothing can be recommended."""
        return _best(self.options, self.file)

    def _options(self, file: File) -> Iterator[Option]:
        for found in self.figures.measured:
            person = self._promise(found, file)
            if person is not None:
                yield Option(found, person, *self._kept(found))

    def _promise(self, found: Measured, file: File) -> Guarantee | None:
        """To a person with all their texts; None where a release is not possible."""
        if found.release == COLLECTION:
            return Guarantee(found.epsilon, 0.0)  # the unit is the person, whatever and however much they wrote
        facts, each = ChosenModel(Settings(self.model, found.epsilon)).channel.facts, file.texts_per_person
        if found.release == SINGLE:
            return compose({Release((facts.event,)): each}, delta=exactly(file.delta)).guarantee
        if facts.guarantee.delta > 0:
            return None
        labelled = bool(self.figures.baseline.labels)
        row = Guarantee(facts.guarantee.epsilon + LABEL_EPSILON, 0.0) if labelled else facts.guarantee
        options = None if labelled else facts.options
        rows = file.people * each
        return shuffled_release(row, rows=rows, most_rows=each, delta=file.delta, options=options).guarantee

    def _kept(self, found: Measured) -> tuple[str, float]:
        base = self.figures.baseline
        if base.f1 is not None and base.control_f1 is not None and found.f1 is not None:
            chance = max(base.control_f1, base.majority_f1 or 0.0)
            return F1, max(0.0, (found.f1 - chance) / max(base.f1 - chance, 1e-9))
        if found.similarity is not None:
            unrelated = found.unrelated or 0.0
            return SIMILARITY, max(0.0, (found.similarity - unrelated) / max(1 - unrelated, 1e-9))
        return TOPICS, found.topics or 0.0

    @property
    def headline(self) -> str:
        """The recommendation in one sentence."""
        if self.best is None:
            return "No release can be recommended: none does the task with a promise that is strong enough."
        return f"Release {self.best.words}."

    @property
    def reasons(self) -> list[str]:
        """Why, in sentences."""
        best = self.best
        if best is None:
            return self._why_none()
        said = [self._does(best), self._promises(best)]
        if best.found.release == COLLECTION:
            said.append("In a collection each person has one vote, so the number of their texts does not matter.")
        if best.found.release == SHUFFLED and self.figures.baseline.labels:
            said.append(
                f"A shuffled row may not hold its label as it is. Here it is randomised at epsilon {LABEL_EPSILON:g}."
            )
        if best.found.release == SINGLE and self.figures.baseline.labels:
            said.append("The labels are released as they are. The promise covers the texts, not the labels.")
        weaker = [each for each in self.options if each.does_the_task and each.found.release != best.found.release]
        for kind in dict.fromkeys(each.found.release for each in weaker):
            other = min((each for each in weaker if each.found.release == kind), key=_rank)
            why = (
                "needs somebody who is trusted with all texts"
                if kind == COLLECTION and not self.file.trusted_curator
                else (f"promises epsilon {few_digits(other.person.epsilon)} to a person")
            )
            said.append(f"The next best: {other.words}. But this {why}.")
        return said

    def _why_none(self) -> list[str]:
        allowed = [each for each in self.options if _allowed(each, self.file)]
        said = []
        doing = [each for each in allowed if each.does_the_task]
        if doing:
            nearest = min(doing, key=_rank)
            said.append(f"{self._does(nearest)} But {self._promises(nearest, start='its promise')}")
        else:
            said.append("No budget that was tried does the task.")
        private = [each for each in allowed if each.promises_enough]
        if private:
            most = max(private, key=lambda each: each.kept)
            said.append(
                f"Of those that promise enough, {most.words} keeps most: {most.kept:.0%}, where "
                f"{ENOUGH[most.measure]:.0%} is asked for."
            )
        return said

    def _does(self, option: Option) -> str:
        found, base = option.found, self.figures.baseline
        if option.measure == F1:
            figures = (
                f"a classifier that learns from {found.trained:,} of its rows reaches a macro F1 of {found.f1:.2f} on "
                f"original texts ({base.f1:.2f} with the originals, {found.control_f1:.2f} with shuffled labels)"
            )
        elif option.measure == SIMILARITY:
            figures = (
                f"the similarity to the original is {found.similarity:.2f} ({found.unrelated:.2f} for other texts)"
            )
        else:
            figures = f"{found.topics:.0%} of the topics come out in the right place"
        asked = f"{ENOUGH[option.measure]:.0%} is asked for"
        return f"With {option.words}, {figures}. That is {option.kept:.0%} of what is there beyond chance; {asked}."

    def _promises(self, option: Option, start: str = "The promise") -> str:
        texts = self.file.texts_per_person
        whose = "a person" if texts == 1 else f"a person with {texts:,} texts"
        level = level_of(option.person)
        return f"{start} to {whose} is {level.name}: {option.person}. {level.meaning}"

    @property
    def changes(self) -> list[str]:
        """What would change the recommendation."""
        file = self.file
        others = [
            ("If somebody were trusted with all texts", File(file.texts_per_person, file.people, True)),
            ("If each person gave one text", File(1, file.people, file.trusted_curator)),
            (
                f"With {file.people * _MORE_PEOPLE:,} people",
                File(file.texts_per_person, file.people * _MORE_PEOPLE, file.trusted_curator),
            ),
            ("If nobody were trusted with all texts", File(file.texts_per_person, file.people, False)),
        ]
        return [f"{when}: {self._instead(other)}" for when, other in others if other != file]

    def _instead(self, file: File) -> str:
        best = _best(tuple(self._options(file)), file)
        if best is None:
            return "nothing could be recommended either." if self.best is None else "nothing could be recommended."
        same = self.best is not None and best.found == self.best.found
        again = "the same release" if same else best.words
        return f"{again}, with {best.person} for a person."

    def as_dict(self) -> dict[str, Any]:
        """All figures, for programs."""
        return {
            "recommended": None if self.best is None else self.best.as_dict(),
            "headline": self.headline,
            "reasons": self.reasons,
            "changes": self.changes,
            "file": {**asdict(self.file), "delta": self.file.delta},
            "thresholds": {"kept": ENOUGH, "person_epsilon": LIMIT.most, "level": LIMIT.name},
            "baseline": asdict(self.figures.baseline),
            "model": self.figures.model,
            "judge": {"encoder": self.figures.judge, "inside_the_model": self.figures.own_judge},
            "options": [each.as_dict() for each in self.options],
        }


def _best(options: tuple[Option, ...], file: File) -> Option | None:
    good = [
        each
        for each in options
        if each.promises_enough
        and _allowed(each, file)
        and all(more.does_the_task for more in _at_least(each, options))
    ]
    return min(good, key=_rank, default=None)


def _at_least(option: Option, options: tuple[Option, ...]) -> list[Option]:
    """The same release at this budget and at larger ones. If one of those fails, the success of this one was luck."""
    found = option.found
    return [each for each in options if each.found.release == found.release and each.found.epsilon >= found.epsilon]


def _rank(option: Option) -> tuple[float, float]:
    """The strongest promise first; of equal ones, what keeps more."""
    return option.person.epsilon, -option.kept


def _allowed(option: Option, file: File) -> bool:
    return file.trusted_curator or option.found.release != COLLECTION


def advise(asked: AdviceRequest, **how: Any) -> Advice:
    """Measure, and recommend. `how` goes to `measure`."""
    file = File(asked.texts_per_person, asked.people, asked.trusted_curator)
    return Advice(measure(asked, **how), file, asked.model)
