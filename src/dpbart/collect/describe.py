"""What a release of a collection says about itself: before it begins, and on its card.

Everything follows from the settings, the number of people and the noised counts, never from a text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpbart.card import collection as words
from dpbart.card.card import Card
from dpbart.card.pages import book_in_words, promise_lines
from dpbart.card.record import CollectionFacts, RowFacts
from dpbart.collect.cells import cell_count, cells_in
from dpbart.errors import BadParameter, one_line
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import BookUse, Line
from dpbart.models.families import family_of
from dpbart.models.model import BookReader
from dpbart.options.collecting import CollectionBudget, CollectionColumns, CollectionRequest
from dpbart.options.declare import compared
from dpbart.privacy.mechanisms import Geometric
from dpbart.privacy.mechanisms.geometric import Counts
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import Described
from dpbart.rewrite.describe import describe_texts, model_settings, run_facts
from dpbart.rewrite.durable.unfinished import RunSettings
from dpbart.version import __version__

ENGINE = "local, in one process"


@dataclass(frozen=True)
class ChosenBook:
    """The model that a budget names and the part of its book, before any weights are loaded."""

    budget: CollectionBudget
    bundle: Bundle
    use: BookUse
    lines: tuple[Line, ...]  # that may come out

    @classmethod
    def of(cls, budget: CollectionBudget) -> ChosenBook:
        """Find the model. Raises BadParameter if it has no book, or no such area or topic."""
        bundle = Bundle.find(budget.model)
        lines = family_of(bundle).book(bundle)
        if not lines:
            raise BadParameter(
                f"'{bundle.name}' has no book, and a collection is written with one. Choose another --model, such as "
                "mini-code."
            )
        areas, topics = (tuple(dict.fromkeys(each)) for each in (budget.areas, budget.topics))
        use = BookUse(areas, topics, only=True)
        return cls(budget, bundle, use, tuple(lines[number] for number in use.chosen(lines, model=bundle.name)))

    def described(self, mechanism: Geometric) -> Described:
        """What a card, a ledger and a resumed run need to know. Hashes the weights, but does not load them."""
        family, length = family_of(self.bundle), self.bundle.facts.length
        return Described(
            facts=mechanism.facts,
            model=family.line(self.bundle, length=length, beams=None, use=self.use),
            files=self.bundle.files,
            reads=family.reads(self.bundle, length=length),
            batch_size=1,
            delta=0.0,
            compared=compared(self.budget),
        )

    def reader(self) -> BookReader:
        """Load what reads the texts."""
        return family_of(self.bundle).book_reader(self.bundle, self.use)


@dataclass(frozen=True)
class Terms:
    """What is public about the release of a collection, before its counts are drawn.

    Attributes:
        chosen: the model and its book.
        people: how many vote.
        rows: how many rows are written.
        cells: the parts of the book.
        text_column: of the output.
        label_column: of the output; None without labels.
        label_values: all labels that can come out.
    """

    chosen: ChosenBook
    people: int
    rows: int
    cells: int
    text_column: str
    label_column: str | None
    label_values: tuple[str, ...]

    @classmethod
    def of(cls, chosen: ChosenBook, columns: CollectionColumns, *, people: int, rows: int | None) -> Terms:
        """The release of a collection with this many people. The number of cells follows by a public rule."""
        labels, epsilon = columns.label_values, chosen.budget.epsilon
        return cls(
            chosen,
            people,
            people if rows is None else rows,
            cells_in(chosen.lines, cell_count(people, max(1, len(labels)), epsilon)),
            columns.text_column[0],
            columns.label_column,
            labels,
        )

    @property
    def mechanism(self) -> Geometric:
        return words.noise_of(epsilon=self.chosen.budget.epsilon, labels=len(self.label_values), cells=self.cells)

    @property
    def warning(self) -> str | None:
        """That there are too few people, if so."""
        epsilon, labels = self.chosen.budget.epsilon, len(self.label_values)
        return words.few_people_warning(people=self.people, epsilon=epsilon, labels=labels)

    def facts(self, counts: Counts) -> CollectionFacts:
        """The card's record of the collection."""
        return CollectionFacts(
            people=self.people,
            rows=self.rows,
            cells=self.cells,
            unit=self.mechanism.unit,
            label_column=self.label_column,
            label_values=self.label_values,
            counts=counts,
        )


def describe(
    terms: Terms,
    described: Described,
    account: Account,
    counts: Counts,
    *,
    settings: RunSettings,
    output: str | None,
) -> Card:
    """The card of a collection; `output` is the SHA-256 of the output file."""
    facts = terms.facts(counts)
    said = "|".join(f"{name}:{value}" for name, value in words.recipe_parts(facts).items())
    recipe = f"{described.facts.recipe}|{said}|model:{described.model.identity}|v:{__version__}"
    run = run_facts(settings=settings, output=output, engine=ENGINE, refused=0)
    return replace(
        describe_texts(account, described, recipe=recipe, texts=terms.rows, run=run),
        person=account.facts(rows=terms.people),
        row=RowFacts((terms.text_column,), joined=False, texts=1, guarantee=account.row.guarantee),
        labels=words.labels_in_words(terms.label_column, terms.label_values),
        label_policy="none" if terms.label_column is None else words.LABEL_POLICY,
        unit=words.UNIT,
        trust_model=words.TRUST_MODEL,
        not_covered=words.NOT_COVERED,
        collection=facts,
    )


def planned_card(terms: Terms, described: Described, account: Account, settings: RunSettings) -> Card:
    """The card as far as it is known before anything is spent: with counts of 0."""
    none = ((0,) * terms.cells,) * max(1, len(terms.label_values))
    return describe(terms, described, account, none, settings=settings, output=None)


def run_settings(request: CollectionRequest, terms: Terms, described: Described) -> RunSettings:
    """Everything that must be the same when a run is resumed."""
    return {**model_settings(described), **compared(request), "people": terms.people, "cells": terms.cells}


def notices(request: CollectionRequest, terms: Terms, described: Described, card: Card) -> list[str]:
    """What a run says before the first text is read: what comes in and out, to whom the promise is made, and which."""
    model, columns, labels = described.model, request.columns.text_column, ""
    if terms.label_column is not None:
        labels = f" and labels in '{terms.label_column}'"
    named = ", ".join(f"'{name}'" for name in columns)
    by = "each row counted as one" if request.people.person_column is None else "all texts of a person as one"
    written = "" if request.card_file is None else f", and the card {request.card_file}"
    lines = [
        *([] if terms.warning is None else [f"Warning: {terms.warning}"]),
        f"Reads: {request.source}, the texts of {terms.people:,} people, {by}, in the column"
        f"{'s' if len(columns) > 1 else ''} {named}. The model {model.name} reads the first {described.reads:,} tokens "
        f"of each text. It knows {model.language or 'no language that it names'}.",
        f"Writes: {request.target}, {terms.rows:,} rows{written}.",
        f"Released: counts of {terms.cells:,} parts of the book{_per_label(terms)}, with noise, and new texts"
        f"{labels} drawn from them. No row and no column of the input.",
        *promise_lines(card),
        "Trusted: you, who hold all texts. Whoever receives the output need not be.",
        book_in_words(model, own_words=False),
    ]
    if request.card_file is None:
        lines.append("No privacy card is written for standard output. To keep one, pass --card FILE.")
    return [one_line(line) for line in lines]


def _per_label(terms: Terms) -> str:
    return f" for each of {len(terms.label_values):,} labels" if terms.label_values else ""
