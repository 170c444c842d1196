"""What to expect of a collection, before anybody's text is read: from the number of people and the budget alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpbart.card.collection import SHARE, few_people_warning, least_people, promise_in_words
from dpbart.card.pages import chosen_in_words
from dpbart.collect.describe import ChosenBook, Terms
from dpbart.errors import BadParameter
from dpbart.options.collecting import CollectionBudget, CollectionColumns
from dpbart.privacy.guarantee import few_digits
from dpbart.privacy.scale import level_of
from dpbart.rewrite.figures import guarantee_json


@dataclass(frozen=True)
class Expected:
    """What the counts of a collection tell.

    Attributes:
        terms: what is public about it.
        labels: how many labels it has; 0 without.
    """

    terms: Terms
    labels: int

    @classmethod
    def of(cls, budget: CollectionBudget, *, people: int, labels: int) -> Expected:
        """For so many people, who have one of so many labels, or none if that is 0."""
        if people < 1:
            raise BadParameter(f"people must be at least 1, got {people}.")
        if labels == 1 or labels < 0:
            raise BadParameter(f"labels must be at least 2, got {labels}. Leave it out if there are none.")
        values = tuple(map(str, range(labels)))
        columns = CollectionColumns(label_column="label" if labels else None, label_values=values)
        return cls(Terms.of(ChosenBook.of(budget), columns, people=people, rows=None), labels)

    @property
    def error(self) -> float:
        """How far a topic's share lies from the true one in 19 of 20 releases, at most; within a label, if any.

        The people of a label are taken to be as many as those of any other.
        """
        return min(1.0, self.terms.mechanism.share_error(self.terms.people) * max(1, self.labels))

    @property
    def told_apart(self) -> int:
        """Topics that can be told from noise, if all are equally common: their share is above its own error."""
        return min(self.terms.cells, math.floor(1 / self.error))

    @property
    def least(self) -> int:
        """From how many people on it is worth it."""
        return least_people(epsilon=self.terms.chosen.budget.epsilon, labels=self.labels)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The same for people: a heading and a sentence each."""
        terms, chosen = self.terms, self.terms.chosen
        epsilon, within = chosen.budget.epsilon, " within a label" if self.labels else ""
        guarantee, votes = terms.mechanism.guarantee, terms.mechanism.scale / terms.mechanism.unit
        few = few_people_warning(people=terms.people, epsilon=epsilon, labels=self.labels)
        each = f" for each of {self.labels:,} labels" if self.labels else ""
        return [
            *([] if few is None else [("Warning", few)]),
            ("Guarantee", f"{guarantee} for each of {terms.people:,} people, whatever and however much they wrote"),
            ("Promise", f"{level_of(guarantee).name}. {promise_in_words(epsilon)}"),
            (
                "Book",
                f"{chosen_in_words(chosen.use.areas, chosen.use.topics)}: {len(chosen.lines):,} sentences in "
                f"{terms.cells:,} parts",
            ),
            ("Noise", f"a scale of {few_digits(votes)} votes on {terms.cells:,} counts{each}"),
            ("Topics", f"about {self.told_apart:,} can be told apart{within}, if they are equally common"),
            ("A tenth", f"a topic of {SHARE:.0%} of the people{within} comes out as {_interval(self.error)}"),
            ("Worth it", f"from about {self.least:,} people on at this epsilon"),
        ]

    def as_json(self) -> dict[str, Any]:
        """The figures for programs."""
        terms = self.terms
        return {
            "people": terms.people,
            "labels": self.labels,
            "guarantee": guarantee_json(terms.mechanism.guarantee),
            "cells": terms.cells,
            "scale_votes": terms.mechanism.scale / terms.mechanism.unit,
            "topics_told_apart": self.told_apart,
            "share_error": self.error,
            "least_people": self.least,
            "enough": terms.people >= self.least,
            "words": [{"name": name, "words": said} for name, said in self.lines],
        }


def _interval(error: float) -> str:
    """The share of a topic of 10%, in 19 of 20 releases.

    >>> _interval(0.012), _interval(0.3)
    ('8.8% to 11.2%, in 19 of 20 releases', '0% to 40%, in 19 of 20 releases')
    """
    low, high = max(0.0, SHARE - error), min(1.0, SHARE + error)
    return f"{100 * low:.3g}% to {100 * high:.3g}%, in 19 of 20 releases"
