"""The releases that are audited: real ones, of which the private value is watched.

Single texts go through a `Rewriter`; a shuffled file through the same, and its rows into a random order; a collection
through votes, noise and new rows. Reading a text draws nothing at random, so each text is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpbart.card.record import ModelLine
from dpbart.collect.cells import Cells
from dpbart.collect.describe import ChosenBook, Terms
from dpbart.collect.synthesize import read_book, written_rows
from dpbart.collect.votes import Poll, Voters
from dpbart.errors import BadParameter
from dpbart.evaluate.data.made_up import make_up
from dpbart.evidence.judges import Judge, broken_channel, broken_counts, judge_of, laplace_epsilon
from dpbart.files import reason
from dpbart.models.families import family_of
from dpbart.models.model import BookReader, Model
from dpbart.options.collecting import CollectionBudget, CollectionColumns
from dpbart.options.declare import from_flat, leaves
from dpbart.options.evidence import AuditRequest
from dpbart.options.settings import Budget, Settings
from dpbart.privacy.facts import Facts, Private
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import Geometric
from dpbart.privacy.mechanisms.geometric import Counts, Tally
from dpbart.privacy.sampling import Entropy, SystemEntropy
from dpbart.rewrite.chosen import ChosenModel, refuse_idle_delta
from dpbart.rewrite.rewriter import Rewriter
from dpbart.rewrite.shuffle import draw_order, promise_to
from dpbart.tables.batch import DictRows

_MADE_UP, _FROM_BOOK = 24, 40  # texts among which the pair is searched
_BATCH = 256  # texts
_PEOPLE = {"shuffled": 500, "collection": 100}
SCALE_ERROR = 1e-6  # how often the epsilon of the noise that was seen may be too large; it has entries in plenty


@dataclass(frozen=True)
class Trial:
    """One release.

    Attributes:
        score: its likelihood ratio, or a score that grows with it.
        texts: the new texts, if they were written.
        first: the score of the first row of a file alone: it says much if the order is not random.
    """

    score: float
    texts: Sequence[str] = ()
    first: float = 0.0


class Release(Protocol):
    """What is audited. The worlds are 0 and 1: with the first text of the pair, or the second."""

    facts: Facts
    claimed: Guarantee
    pair: tuple[str, str]
    line: ModelLine

    def run(self, world: int, count: int, *, write: bool) -> list[Trial]:
        """Release so many times; up to the private value only, unless the texts are to be written."""

    @property
    def exact(self) -> float | None:
        """The epsilon of the sampler's thresholds; None if it has none."""

    @property
    def seen(self) -> float | None:
        """At least this epsilon, by the noise that was seen; None if nothing is noised."""


def release_of(asked: AuditRequest) -> Release:
    """What a request asks to audit."""
    return _collection(asked) if asked.release == "collection" else _texts(asked)


def people_in(asked: AuditRequest) -> int:
    return _PEOPLE[asked.release] if asked.people is None else asked.people


@dataclass
class Watched:
    """A channel whose outputs are kept, to be scored."""

    channel: Any
    outputs: list[Any]

    @property
    def facts(self) -> Facts:
        facts: Facts = self.channel.facts
        return facts

    def send(self, encoded: Any, entropy: Entropy) -> Private[Any]:
        private: Private[Any] = self.channel.send(encoded, entropy)
        self.outputs.append(private.values)
        return private


@dataclass(frozen=True)
class ReadOnce:
    """A model that has read its texts already. Everything else is the model's own."""

    model: Model[Any, Any]
    encoded: dict[str, Any]

    @property
    def line(self) -> ModelLine:
        return self.model.line

    @property
    def recipe(self) -> str:
        return self.model.recipe

    def encode(self, texts: Sequence[str]) -> Any:
        rows = [self.encoded[text] for text in texts]
        return np.concatenate(rows) if isinstance(rows[0], np.ndarray) else [each for row in rows for each in row]

    def read(self, texts: Sequence[str]) -> list[str]:
        return self.model.read(texts)

    def decode(self, private: Private[Any]) -> list[str]:
        return self.model.decode(private)


@dataclass
class RewrittenTexts:
    """Texts through a rewriter: one at a time, or a shuffled file in which one of the people has a text of the pair."""

    facts: Facts
    claimed: Guarantee
    pair: tuple[str, str]
    line: ModelLine
    rewriter: Rewriter
    watched: Watched
    judge: Judge
    others: tuple[str, ...]  # of the other people in a shuffled file; none for single texts

    def run(self, world: int, count: int, *, write: bool) -> list[Trial]:
        if self.others:
            return [self._file(world, write=write) for _ in range(count)]
        texts = self._release([self.pair[world]] * count, write=write)
        scores = np.concatenate([self.judge.scores(values, world) for values in self._outputs()])
        return [Trial(float(score), text) for score, text in zip(scores, texts, strict=True)]

    def _file(self, world: int, *, write: bool) -> Trial:
        written = self._release([self.pair[world], *self.others], write=write)
        values = [value for output in self._outputs() for value in output]
        order = draw_order(len(written), SystemEntropy()).tolist()
        first = float(self.judge.scores([values[order[0]]], world)[0])
        return Trial(self.judge.file_score(values), [text for place in order for text in written[place]], first)

    def _release(self, texts: Sequence[str], *, write: bool) -> list[tuple[str, ...]]:
        """One text for each, or none if it is not written."""
        if write:
            return [(text,) for text in self.rewriter.rewrite(texts).texts]
        for start in range(0, len(texts), _BATCH):
            self.watched.send(self.rewriter.model.encode(texts[start : start + _BATCH]), self.rewriter.entropy)
        return [()] * len(texts)

    def _outputs(self) -> list[Any]:
        outputs, self.watched.outputs[:] = list(self.watched.outputs), []
        return outputs

    @property
    def exact(self) -> float | None:
        return self.judge.exact

    @property
    def seen(self) -> float | None:
        # The noise of a text says nothing about a shuffled file, which is compared with its central epsilon.
        return None if self.others else self.judge.seen(SCALE_ERROR)


def _texts(asked: AuditRequest) -> RewrittenTexts:
    """Single texts or a shuffled file, with the pair that is farthest apart."""
    settings = from_flat(Settings, {leaf.name: leaf.value(asked) for leaf in leaves(Budget)})
    chosen = ChosenModel(settings.changed(batch_size=_BATCH))
    facts, shuffled = chosen.channel.facts, asked.release == "shuffled"
    refuse_idle_delta(asked.delta, facts, used=shuffled)
    claimed = facts.guarantee
    if shuffled:
        if facts.options is None:
            raise BadParameter("the audit of a shuffled file needs a model of codes, such as mini-code.")
        claimed = promise_to(people_in(asked), facts, delta=asked.delta).guarantee
    candidates = _candidates(asked.texts, [line.sentence for line in family_of(chosen.bundle).book(chosen.bundle)])
    rewriter = _rewriter(chosen.settings)
    channel = broken_channel(rewriter.channel) if asked.control else rewriter.channel
    read = rewriter.model.encode(candidates)
    encoded = {text: read[place : place + 1] for place, text in enumerate(candidates)}
    judge = judge_of(channel)
    first, second = max(
        combinations(candidates, 2), key=lambda pair: judge.distance(encoded[pair[0]], encoded[pair[1]])
    )
    judge.judge(encoded[first], encoded[second])
    others: tuple[str, ...] = ()
    if shuffled:
        apart = [min(judge.distance(encoded[text], encoded[each]) for each in (first, second)) for text in candidates]
        bystander = candidates[int(np.argmax(apart))]
        judge.beside(encoded[bystander])
        others = (bystander,) * (people_in(asked) - 1)
    watched = Watched(channel, [])
    audited = replace(rewriter, model=ReadOnce(rewriter.model, encoded), channel=watched)
    return RewrittenTexts(facts, claimed, (first, second), rewriter.model.line, audited, watched, judge, others)


@lru_cache(maxsize=1)
def _rewriter(settings: Settings) -> Rewriter:
    """Loaded once for several audits in a row."""
    return Rewriter.of(ChosenModel(settings))


@lru_cache(maxsize=1)
def _book(budget: CollectionBudget, people: int) -> tuple[BookReader, Cells]:
    return read_book(Terms.of(ChosenBook.of(budget), CollectionColumns(), people=people, rows=None))


def _candidates(file: Path | None, book: Sequence[str]) -> list[str]:
    """Public texts: those of a file, or made-up ones and sentences spread over the book."""
    if file is None:
        texts = [each.text for each in make_up(_MADE_UP)] + list(book[:: max(1, len(book) // _FROM_BOOK)])
    else:
        try:
            texts = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            words = reason(error) if isinstance(error, OSError) else "it is not UTF-8"
            raise BadParameter(f"{str(file)!r} cannot be read: {words}. Check the path.") from None
    different = list(dict.fromkeys(text for text in texts if text))
    if len(different) < 3:
        raise BadParameter(f"an audit needs at least three different texts, got {len(different)}. Add some.")
    return different[:200]


@dataclass
class NoisedCounts:
    """A whole collection, in which one of the people has a text of the pair."""

    facts: Facts
    claimed: Guarantee
    pair: tuple[str, str]
    line: ModelLine
    terms: Terms
    mechanism: Geometric
    tallies: tuple[Tally, Tally]
    reader: BookReader
    cells: Cells
    absolute: float = 0.0  # the sum of all noise
    entries: int = 0
    exact: float | None = None

    def run(self, world: int, count: int, *, write: bool) -> list[Trial]:
        first, second = (tally.counts for tally in self.tallies)
        trials = []
        for _ in range(count):
            private = self.mechanism.privatize(self.tallies[world], SystemEntropy())
            counts = np.array(private.values, np.int64)
            score = float(np.abs(counts - second).sum() - np.abs(counts - first).sum())
            self.absolute += float(np.abs(counts - self.tallies[world].counts).sum())
            self.entries += counts.size
            trials.append(Trial(score, self._texts(private) if write else ()))
        return trials

    def _texts(self, private: Private[Counts]) -> list[str]:
        batches = written_rows(private, self.terms, self.reader.book.lines, self.cells)
        return [str(row[self.terms.text_column]) for batch in batches for row in batch.rows]

    @property
    def seen(self) -> float | None:
        return laplace_epsilon(self.absolute, self.entries, l1=2.0 * self.mechanism.unit, error=SCALE_ERROR)


def votes_of(texts: Sequence[str], reader: BookReader, cells: Cells) -> Tally:
    """The votes of people who give one text each."""
    batch, voters = DictRows(1, ("text",), [{"text": text} for text in texts]), Voters(None)
    voters.see(batch)
    poll = Poll(voters, None, reader, cells)
    poll.add(batch)
    return poll.tally()


def _collection(asked: AuditRequest) -> NoisedCounts:
    """A collection of one text for each person."""
    budget = from_flat(CollectionBudget, {leaf.name: leaf.value(asked) for leaf in leaves(CollectionBudget)})
    chosen, columns = ChosenBook.of(budget), CollectionColumns()
    terms = Terms.of(chosen, columns, people=people_in(asked), rows=None)
    candidates = _candidates(asked.texts, [line.sentence for line in chosen.lines])
    reader, cells = _book(budget, terms.people)
    votes = cells.votes(reader.read(candidates)).tolist()
    places = {vote: place for place, vote in reversed(list(enumerate(votes)))}  # the first text of each cell
    if len(places) < 2:
        raise BadParameter("all texts lie in one part of the book, and no vote tells them apart. Give other texts.")
    first, second, *rest = (candidates[place] for place in sorted(places.values()))
    others = [rest[number % len(rest)] if rest else first for number in range(terms.people - 1)]

    mechanism = broken_counts(terms.mechanism) if asked.control else terms.mechanism
    described = chosen.described(terms.mechanism)
    return NoisedCounts(
        facts=described.facts,
        claimed=described.facts.guarantee,
        pair=(first, second),
        line=described.model,
        terms=terms,
        mechanism=mechanism,
        tallies=(votes_of((first, *others), reader, cells), votes_of((second, *others), reader, cells)),
        reader=reader,
        cells=cells,
    )
