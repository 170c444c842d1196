"""What a private file says, by topic and area of the book: `dpbart topics`.

Everything is read from the file and its card. The card states the channel, so the noise is known, and its share can be
taken off: see `intervals`. What is estimated is said with every answer:

- of a file that was rewritten, also shuffled: the share of texts that were meant to say something on a topic. A text
  means a set of sentences; one that spans topics counts for each by its part of the set;
- of a synthesised file: the share of the people's votes. The rows say nothing beyond the counts on the card.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbart.card import figures
from dpbart.card.card import Card, read_card
from dpbart.card.record import CollectionFacts
from dpbart.collect.cells import cells_of
from dpbart.collect.intervals import LEVEL, Bounds, Counts, Floats, Responses, Votes, miss_alone, miss_for_all
from dpbart.collect.outputs import Counted, Parts, count_outputs
from dpbart.errors import BadParameter, BadTable, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import Book, BookUse, load_book
from dpbart.models.families import family_of
from dpbart.privacy.facts import Facts

OTHERS = "all others"
_SAMPLED = 512  # outputs whose neighbours in the book are looked at
_NEARER = 0.5  # neighbours of a sentence are more alike than those of a text: by about half, on public texts


@dataclass(frozen=True)
class Share:
    """A topic, an area or a cell: its share, or a difference of shares, with its interval. From 0 to 1."""

    name: str
    area: str
    estimate: float
    low: float
    high: float

    @property
    def told_from_noise(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Group:
    """The shares of one group, or of all."""

    name: str  # empty for all
    counted: float  # texts, or people; that of a group of people is an estimate
    shares: tuple[Share, ...]  # those that can be told from noise first, then by size


@dataclass(frozen=True)
class Difference:
    """The shares of one group minus those of another."""

    first: str
    second: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Topics:
    """What a private file says. Plain values: `as_dict` is its JSON.

    rewrite_file(Request(Path("notes.csv"), Path("private.csv")), Settings(epsilon=10))
    topics = read_topics("private.csv")
    print([share.name for share in topics.groups[0].shares if share.told_from_noise])
    """

    release: str  # "rewritten", "shuffled" or "synthesised"
    epsilon: float  # of one text, or of one person
    counted: str  # "texts" or "people"
    parts: str  # "topics", "areas" or "cells"
    estimated: str  # what a share is, in words
    level: float  # how often all intervals of the groups hold together, and those of the differences
    by: str | None
    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        """Its JSON. Each share also says whether it can be told from noise."""
        stated = asdict(self)
        for kind in ("groups", "differences"):
            for each, held in zip(stated[kind], getattr(self, kind), strict=True):
                each["shares"] = [
                    {**share, "told_from_noise": one.told_from_noise}
                    for share, one in zip(each["shares"], held.shares, strict=True)
                ]
        return stated


def read_topics(
    private: Path | str,
    *,
    card: Path | str | None = None,
    by: str | None = None,
    areas: bool = False,
    model: str | None = None,
) -> Topics:
    """What a private file says, by topic or area of the book, with intervals that hold together.

    synthesize_file(CollectionRequest(Path("notes.csv"), Path("private.csv")), CollectionBudget(epsilon=1))
    print(read_topics("private.csv", areas=True).groups[0].shares[0])

    Args:
        private: The file.
        card: Its card; PRIVATE.card.json by default.
        by: Compare the groups of this released column.
        areas: By area instead of topic.
        model: Where the model on the card is, if it does not ship with dpbart.

    Raises:
        BadTable: The card cannot be read, or is not that of the file.
        BadParameter: The file has no answer, or the column no groups that can be compared.
        NotPrepared: The model is missing, or is another one than that on the card.
    """
    private = Path(private)
    stated = read_card(private.with_name(private.name + ".card.json") if card is None else Path(card))
    if stated.collection is not None:
        return _of_votes(stated, stated.collection, _book(stated, model), by=by, areas=areas)
    facts = _facts(stated)
    _check_groups(stated, by)
    return _of_texts(private, stated, facts, _book(stated, model), by=by, areas=areas)


def _figures(card: Card) -> Facts:
    try:
        return figures.facts_of(card)
    except (BadParameter, KeyError, TypeError, ValueError, ArithmeticError):
        raise BadTable("no channel has the figures on the card. See: dpbart card verify CARD") from None


def _facts(card: Card) -> Facts:
    """The channel on a card, if topics can be counted behind it."""
    facts = _figures(card)
    if card.model.sentences is None:
        raise BadParameter(
            f"'{card.model.name}' writes texts of its own and has no book of topics, so there is nothing to count. "
            "Rewrite with a model that has a book."
        )
    if facts.options is None:
        raise BadParameter(
            f"the texts of this file were not randomised ('{facts.mechanism}'), so there is no noise to take off."
        )
    if card.own_words:
        raise BadParameter(
            "in this file a text may be sentences of the book or its own words, and own words have no topic: shares "
            "would be those of an unknown part of the texts. Rewrite with --book-only, or with an epsilon below "
            "that of wording."
        )
    return facts


def _check_groups(card: Card, by: str | None) -> None:
    if by is None:
        return
    if by in card.row.columns:
        raise BadParameter("--by must name a column of groups, got a text column.")
    if card.label_policy == "randomize" and by not in card.other_columns:
        raise BadParameter(
            f"the labels of this file were randomised (epsilon {card.label_epsilon:g}), so its groups are mixed and "
            "their differences look smaller than they are. Compare a column that was released unchanged, or "
            "synthesise with --label-column."
        )


def _book(card: Card, model: str | None) -> Book:
    """The sentences that may come out, if the model is that of the card."""
    stated = card.model
    bundle = Bundle.find(stated.name if model is None else model)
    same = bundle.fingerprint == stated.fingerprint
    if not same or stated.files not in (None, bundle.files):
        but = ", but with other files beside its weights" if same else ""
        raise NotPrepared(
            f"the file was made with {stated.identity}, and the model here is {bundle.name}@{bundle.fingerprint}{but}. "
            "Pass --model with the one on the card, or use the version of dpbart that made the file."
        )
    if not family_of(bundle).book(bundle):
        raise BadParameter(f"'{bundle.name}' has no book of topics, so there is nothing to count.")
    return load_book(bundle.folder).part(BookUse(tuple(stated.areas), tuple(stated.topics)), model=bundle.name)


@dataclass(frozen=True)
class Coding:
    """How the texts of a file became outputs, from the facts of its channel.

    Attributes:
        epsilon: of one text.
        kept: the chance that an output is one of the text's own; otherwise all outputs are equally likely.
        near: how many sentences mean the same for a text, at each place.
        places: how many sentences an output has, at most.
        sentences: among how many each place chooses, besides saying nothing.
    """

    epsilon: float
    kept: float
    near: int
    places: int
    sentences: int

    @classmethod
    def of(cls, facts: Facts) -> Coding:
        """Refuses nothing: the facts are those of a k-ary response."""
        epsilon = (facts.replay_of or facts.guarantee).epsilon
        kept = float(facts.figures["kept"]) * -math.expm1(-epsilon)  # p - q
        near, places = int(facts.figures.get("near", 1)), int(facts.figures.get("places", 1))
        return cls(epsilon, kept, near, places, figures.named_sentences(facts) or 0)

    def touched(self, sizes: Counts) -> Floats:
        """The chance that one of all outputs says something on a part of the book with so many sentences."""
        silent = self.near if self.places > 1 else 0
        return np.asarray(1 - (1 - sizes / (self.sentences + silent)) ** self.places)

    @property
    def meant(self) -> str:
        """What a share is, in words."""
        each = "a set of sentences" if self.near > 1 else "its sentences" if self.places > 1 else "one sentence"
        words = f"the share of the texts that were meant to say something on it. A text means {each} of the book"
        words += ", and counts for a part of the book by how much of its set is there" if self.near > 1 else ""
        return words + (". Shares can add up to more than 100%: a text says several things" if self.places > 1 else "")


def _of_texts(private: Path, card: Card, facts: Facts, book: Book, *, by: str | None, areas: bool) -> Topics:
    coding = Coding.of(facts)
    book = book.first(coding.sentences)
    parts = Parts.of(book, areas=areas)
    noise = (1 - coding.kept) * coding.touched(parts.sizes)
    counted = count_outputs(private, card, book, parts, places=coding.places, by=by)
    alike = 1.0 if coding.near == 1 else _alike(book, parts, counted, coding.near)

    def responses(groups: Sequence[str]) -> Responses:
        texts, counts = sum(counted.texts[name] for name in groups), sum(counted.touching[name] for name in groups)
        return Responses(texts, np.asarray(counts), coding.kept, noise, alike)

    names = sorted(counted.texts)
    families = [responses([name]) for name in names]
    miss = miss_for_all(families)
    groups = [
        Group(name, each.texts, _shares(parts, each.bounds(miss))) for name, each in zip(names, families, strict=True)
    ]
    pairs = [(first, second, responses(one), responses(other)) for first, second, one, other in _pairs(names)]
    miss = miss_alone(max(1, len(pairs)) * len(parts.names))
    differences = [
        Difference(first, second, _shares(parts, one.bounds(miss).minus(other.bounds(miss))))
        for first, second, one, other in pairs
    ]
    return Topics(
        release="rewritten" if card.shuffled is None else "shuffled",
        epsilon=coding.epsilon,
        counted="texts",
        parts="areas" if areas else "topics",
        estimated=coding.meant,
        level=LEVEL,
        by=by,
        groups=tuple(groups),
        differences=tuple(differences),
    )


def _alike(book: Book, parts: Parts, counted: Counted, near: int) -> float:
    """How alike the sentences of a set are: 1 if all are in one part of the book, 0 if they are as mixed as the file.

    The sets are not known, but what came out of them is. The neighbours of those sentences in the book stand for them.
    """
    until = np.cumsum(counted.sentences)
    if until[-1] == 0:
        return 0.0
    sample = np.searchsorted(until, (np.arange(_SAMPLED) + 0.5) * until[-1] / _SAMPLED, side="right")
    sample, times = np.unique(sample, return_counts=True)
    same = parts.of_sentence[book.nearest(book.vectors[sample], near)] == parts.of_sentence[sample][:, None]
    mixed = np.bincount(parts.of_sentence, weights=counted.sentences) / until[-1]
    chance = float((mixed**2).sum())
    found = (float(np.average(same.mean(1), weights=times)) - chance) / max(1 - chance, 1e-9)
    return _NEARER * min(1.0, max(0.0, found))


def _of_votes(card: Card, collection: CollectionFacts, book: Book, *, by: str | None, areas: bool) -> Topics:
    if by is not None and by != collection.label_column:
        has = "no labels" if collection.label_column is None else f"the labels of {collection.label_column!r}"
        raise BadParameter(f"a synthesised file has {has}, and no other column to compare, got --by {by}.")
    cells = cells_of(book, collection.cells)
    counts = np.array(collection.counts, np.float64) / collection.unit  # (labels, cells), in votes
    names, of_cell = tuple(cells.names), np.arange(len(cells.names))
    if areas:
        different = list(dict.fromkeys(cells.areas))
        names, of_cell = tuple(different), np.array([different.index(area) for area in cells.areas])
    parts = Parts(of_cell, names, names if areas else tuple(cells.areas))
    scale = float(_figures(card).figures["scale"]) / collection.unit  # in votes

    def votes(labels: Sequence[int], *, of_all: bool = False) -> Votes:
        held = counts[list(labels)].sum(0)
        sums = np.bincount(of_cell, weights=held, minlength=len(names)).astype(np.float64)
        total = collection.people if of_all else float(held.sum())
        own = len(labels) * parts.sizes
        return Votes(sums, own, total, 0 if of_all else int(own.sum()), scale, collection.unit)

    every = range(len(counts))
    values = [""] if by is None else [str(value) for value in collection.label_values]
    families = [votes(every, of_all=True)] if by is None else [votes([label]) for label in every]
    miss = miss_alone(len(families) * len(names))
    groups = [
        Group(value, each.total, _shares(parts, each.bounds(miss)))
        for value, each in zip(values, families, strict=True)
    ]
    number = {value: label for label, value in enumerate(values)}
    pairs = _pairs(values)
    miss = miss_alone(max(1, len(pairs)) * len(names))
    differences = [
        Difference(
            first,
            second,
            _shares(parts, votes([number[v] for v in one]).minus(votes([number[v] for v in other]), miss)),
        )
        for first, second, one, other in pairs
    ]
    return Topics(
        release="synthesised",
        epsilon=card.guarantee.epsilon,
        counted="people",
        parts="areas" if areas else "cells",
        estimated="the share of the people's votes. Every person has one vote, shared over their texts",
        level=LEVEL,
        by=by,
        groups=tuple(groups),
        differences=tuple(differences),
    )


def _pairs(names: Sequence[str]) -> list[tuple[str, str, list[str], list[str]]]:
    """What is compared: two groups, or each of several with all others."""
    if len(names) < 2:
        return []
    if len(names) == 2:
        return [(names[0], names[1], [names[0]], [names[1]])]
    return [(name, OTHERS, [name], [other for other in names if other != name]) for name in names]


def _shares(parts: Parts, bounds: Bounds) -> tuple[Share, ...]:
    numbers = zip(
        parts.names, parts.areas, bounds.estimate.tolist(), bounds.low.tolist(), bounds.high.tolist(), strict=True
    )
    shares = [Share(*each) for each in numbers]
    return tuple(sorted(shares, key=lambda share: (not share.told_from_noise, -abs(share.estimate))))
