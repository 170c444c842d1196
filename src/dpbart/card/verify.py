"""Check a card for somebody who has the card, and perhaps the output, but has not seen the run.

A card must pass with every later version, so no check depends on how this version words anything. Figures are computed
again, pages are compared with the digests in the JSON, and the rows of the output are counted. Anybody can write a card
whose figures fit together. So without a signature by a known key, a card is consistent, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbart.card import figures
from dpbart.card.card import Card, pages_next_to, read_public_key, signed_by
from dpbart.card.collection import LABEL_POLICY, promise_in_words, wrong_collection
from dpbart.card.record import read_object, shortened
from dpbart.errors import BadParameter, BadTable, DpbartError
from dpbart.files import digest_of, reason
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.facts import Facts

_NO_PROMISE = "the card promises nothing: NOT PRIVATE"
_UNSIGNED = (
    "the card is consistent, and no more: without a signature by a key that you give, anybody may have written it"
)
_NO_SENSE = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError)  # of a card with impossible values


@dataclass(frozen=True)
class Check:
    """The result of one check: whether it held, or None if it could not be decided."""

    name: str
    held: bool | None
    words: str


Count = Callable[[Path, Card], int]  # counts the rows of an output, given the card that says how it is read


def verify(
    file: Path, *, key: Path | None = None, output: Path | None = None, count: Count | None = None
) -> list[Check]:
    """Check a card: its form, its arithmetic, its pages, its signature and its output. The last check sums up.

    Only a matching signature by the given key shows who made the card. Without one, the last check is undecided.
    """
    stated = read_object(file)
    try:
        card = Card.of(stated)
    except BadParameter as error:
        return [Check("schema", False, str(error))]
    first = [Check("schema", True, "the card follows the published schema"), *_figures(card)]
    signature, rows = _signature(card, stated, key), _rows(card, output, count)
    rest = [_pages(card, file), signature, _output(card, output), rows]
    return [*first, *rest, _summary(card, [*first, rows], signed=signature.held is True, counted=rows.held is True)]


def _figures(card: Card) -> list[Check]:
    try:
        facts = figures.facts_of(card)
    except _NO_SENSE as error:
        why = f": {error}" if isinstance(error, BadParameter) else ""
        return [Check("noise", False, shortened(f"no channel has the figures on the card{why}"))]
    checks = [_noise(card, facts), _recipe(card, facts), _labels(card), _row(card, facts), _person(card, facts)]
    model = card.model
    if model.sentences is not None or model.areas or model.topics or model.book_only:
        checks.append(_book(card, facts))
    if card.collection is not None or facts.whole:
        checks.append(_collection(card, facts))
    return checks if card.shuffled is None else [*checks, _shuffled(card, facts)]


def _noise(card: Card, facts: Facts) -> Check:
    """Whether every figure of the mechanism follows from its bounds and the guarantee."""
    wrong = figures.wrong_figure(card, facts)
    if wrong is not None:
        return Check("noise", False, shortened(f"the figures do NOT give the guarantee on the card: {wrong}"))
    if not facts.guarantee.private:
        return Check("noise", None, _NO_PROMISE)
    return Check("noise", True, "the figures give the guarantee on the card")


def _recipe(card: Card, facts: Facts) -> Check:
    wrong = figures.wrong_recipe(card, facts)
    words = "says what the card says" if wrong is None else f"does NOT say what the card says: {wrong}"
    return Check("recipe", wrong is None, shortened(words))


def _labels(card: Card) -> Check:
    """Whether the figures about labels fit together."""
    try:
        event = figures.label_event(card)
    except BadParameter as error:
        return Check("labels", False, shortened(str(error)))
    words = "cost nothing" if event is None else f"randomised with epsilon {card.label_epsilon:g}, which is counted"
    words = "drawn with the texts, from the same counts" if card.label_policy == LABEL_POLICY else words
    return Check("labels", True, words)


def _row(card: Card, facts: Facts) -> Check:
    """Whether the texts of a row compose to the guarantee stated for a row."""
    try:
        wrong = figures.wrong_row(card, facts)
    except _NO_SENSE:
        wrong = "figures on the card are impossible"
    if wrong is None and not card.guarantee.private:
        return Check("row", None, _NO_PROMISE)
    texts = card.row.texts
    right = "a row has one text" if texts == 1 else f"{texts} texts of one row have the guarantee on the card"
    return Check("row", wrong is None, right if wrong is None else shortened(wrong))


def _person(card: Card, facts: Facts) -> Check:
    """Whether a person's texts compose to the guarantee stated for a person."""
    try:
        wrong = _wrong_person(card, facts)
    except BadParameter as error:
        wrong = str(error)
    except _NO_SENSE:
        wrong = "figures on the card are impossible"
    if wrong is not None:
        return Check("person", False, shortened(wrong))
    if not card.person.counted_guarantee.private:
        return Check("person", None, _NO_PROMISE)
    if card.collection is not None:
        return Check("person", True, f"the one vote {_whose(card)} has the guarantee on the card")
    return Check("person", True, f"{card.person.most_texts} texts {_whose(card)} have the guarantee on the card")


def _wrong_person(card: Card, facts: Facts) -> str | None:
    person, texts = card.person, card.row.texts
    rows = card.rows if card.collection is None else card.collection.people  # a vote for each person
    people, most = person.people, person.most_texts
    if most % texts or not people + most // texts - 1 <= rows <= people * (most // texts):
        return f"{people} people with at most {most} texts each can NOT have {card.texts} texts"
    if person.guarantee not in (None, person.counted_guarantee):
        return "the guarantees for a person and for the texts with one id do NOT agree"
    composed = figures.composed_person(card, facts)
    if not figures.composes(person.counted_guarantee, composed, exact=person.composition == composed.rule):
        return f"{most} texts of one person do NOT have the guarantee on the card"
    if not person.counted_guarantee.private:
        return None
    if not figures.within_budget(card):
        return "the guarantee of one person is NOT within the budget on the card"
    check_delta_for(card.guarantee.delta, texts=card.texts, whose=f"{card.texts} texts", remedy="")
    return None


def _book(card: Card, facts: Facts) -> Check:
    """Whether codes of this size can name only sentences that may come out, and hold no wording if none may."""
    wrong = figures.wrong_book(card, facts)
    if wrong is not None:
        return Check("book", False, shortened(f"does NOT fit the codes: {wrong}"))
    if card.collection is not None:
        return Check("book", True, f"rows are only of the {card.model.sentences:,} sentences that can come out")
    or_words = ", or hold a text's own words" if card.own_words else ""
    return Check("book", True, f"codes name only the {card.model.sentences:,} sentences that can come out{or_words}")


def _collection(card: Card, facts: Facts) -> Check:
    """Whether the counts of a collection are those that its recipe, its people and its mechanism say."""
    try:
        wrong = wrong_collection(card, facts)
    except _NO_SENSE:
        wrong = "figures are impossible"
    words = "the counts fit the people, the rows, the labels and the recipe"
    return Check("collection", wrong is None, words if wrong is None else shortened(f"does NOT hold: {wrong}"))


def _shuffled(card: Card, facts: Facts) -> Check:
    """Whether the central guarantee of a shuffled output follows from the local one and the number of rows."""
    try:
        wrong = figures.wrong_shuffling(card, facts)
    except BadParameter as error:
        wrong = str(error)
    except _NO_SENSE:
        wrong = "figures are impossible"
    words = "the central guarantee follows from the local one and the number of rows"
    return Check("shuffled", wrong is None, words if wrong is None else shortened(f"does NOT hold: {wrong}"))


def _pages(card: Card, file: Path) -> Check:
    """Whether the pages next to the card are those whose digests it states."""
    if card.pages is None:
        return Check("pages", False, "the card does NOT state the digests of its pages")
    stated = zip(pages_next_to(file), (card.pages.txt, card.pages.html), strict=True)
    there = {page: digest for page, digest in stated if page.is_file()}
    if not there:
        return Check("pages", None, "not checked: there is no .txt or .html page next to the card")
    try:
        other = [page.name for page, digest in there.items() if digest_of(page) != digest]
    except OSError as error:
        raise BadTable(f"the pages next to {str(file)!r} cannot be read: {reason(error)}.") from None
    names = other or [page.name for page in there]
    page, is_one = ("page", "is") if len(names) == 1 else ("pages", "are")
    words = f"{' and '.join(map(repr, names))} {is_one} {'NOT ' if other else ''}the {page} of this card"
    return Check("pages", not other, words)


def _signature(card: Card, stated: Mapping[str, Any], key: Path | None) -> Check:
    if card.signature is None:
        return Check("signature", None if key is None else False, "the card is not signed")
    public = None if key is None else read_public_key(key)
    if not signed_by(stated, card.signature, public):
        return Check("signature", False, "does NOT match: the card was changed, or signed with another key")
    if key is not None:
        return Check("signature", True, "matches the given key")
    # Anybody can sign with a key of their own: without --key, that says nothing about who made the card.
    own = shortened(card.signature.public_key)
    return Check("signature", None, f"signed by a key that you did not give ({own}). Pass --key to check who signed")


def _output(card: Card, output: Path | None) -> Check:
    if output is None:
        return Check("output", None, "not checked: pass --output FILE")
    try:
        digest = digest_of(output)
    except OSError as error:
        raise BadTable(f"{str(output)!r} cannot be read: {reason(error)}.") from None
    matches = card.run.output_sha256 == digest
    return Check("output", matches, "is the file of this card" if matches else "is NOT the file of this card")


def _rows(card: Card, output: Path | None, count: Count | None) -> Check:
    """Whether the output has as many rows as the card says: the central guarantee of a shuffled output rests on it."""
    if output is None or count is None:
        return Check("rows", None, "not counted: pass --output FILE")
    try:
        counted = count(output, card)
    except DpbartError as error:
        return Check("rows", None, shortened(f"not counted: {error}"))
    if counted != card.rows:
        return Check("rows", False, f"the output has {counted:,} rows, but the card says {card.rows:,}")
    return Check("rows", True, f"the output has {counted:,} rows, as the card says")


def _summary(card: Card, checks: Iterable[Check], *, signed: bool, counted: bool) -> Check:
    """The guarantee that was checked, in plain words."""
    if any(check.held is False for check in checks):
        return Check(
            "guarantee", False, "do NOT rely on the guarantee on this card: what it says does not fit together"
        )
    text, person = card.guarantee, card.person.counted_guarantee
    if not text.private:
        return Check("guarantee", None, "nothing is promised: the output is NOT PRIVATE")
    if card.collection is not None:
        whose = f"{card.collection.people:,} {'rows' if card.person.guarantee is None else 'people'}"
        words = f"each of {whose} has epsilon {text.epsilon:.10g} and delta 0. {promise_in_words(text.epsilon)}"
        return _said(words.removesuffix("."), signed=signed)
    words = (
        f"each of {card.texts:,} texts has epsilon {text.epsilon:.10g} and delta {text.delta:.10g}: for any two texts, "
        f"no output is more than exp({text.epsilon:.10g}) times as likely from one as from the other, up to delta. "
        f"All texts {_whose(card)}, at most {card.person.most_texts:,}, have epsilon {person.epsilon:.10g} and delta "
        f"{person.delta:.10g}"
    )
    if card.shuffled is not None:
        central = card.shuffled.guarantee
        words += ". To those who see only the output, in random order, the same have epsilon "
        words += f"{central.epsilon:.4g} and delta {central.delta:.4g}"
        words += "" if counted else f", if the output has {card.rows:,} rows, which were not counted"
    return _said(words, signed=signed)


def _said(words: str, *, signed: bool) -> Check:
    """The guarantee that a card states. Only a signature by a known key shows that it holds."""
    if signed:
        return Check("guarantee", True, words)
    return Check("guarantee", None, f"{_UNSIGNED}. It says: {words}")


def _whose(card: Card) -> str:
    if card.collection is not None:
        return "of one row" if card.person.guarantee is None else "of one person"
    return "with one id" if card.person.guarantee is None else "of one person"
