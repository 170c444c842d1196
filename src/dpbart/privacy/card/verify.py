"""Checks a card for somebody who has the card, and perhaps the output, but has not seen the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dpbart import __version__
from dpbart.errors import BadParameter, BadTable
from dpbart.files import digest_of, reason
from dpbart.privacy.budget.composition import Composed
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.card.card import pages_next_to
from dpbart.privacy.card.reading import printable, read_card, schema_problem
from dpbart.privacy.card.recomputed import (
    RELATIVE,
    Held,
    composed_of,
    counted_of,
    facts_of,
    guarantee_of,
    label_event,
    rebuilt,
    same,
    texts_of_row,
    wrong_figure,
    wrong_recipe,
    wrong_row,
)
from dpbart.privacy.card.shuffled import wrong_shuffling
from dpbart.privacy.card.signing import SIGNATURE, read_public_key, signed_by
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee

_NO_PROMISE = "the card promises nothing: NOT PRIVATE"
_COMPOSED = 1 + 1e-7  # composition rounds epsilon up by less
_NO_SENSE = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError)  # of a card with impossible values


@dataclass(frozen=True)
class Check:
    """The result of one check: whether it held, or None if it could not be decided."""

    name: str
    held: bool | None
    words: str


def verify(file: Path, *, key: Path | None = None, output: Path | None = None) -> list[Check]:
    """Check a card: its form, its arithmetic, its pages, its signature and its output. The last check sums up.

    Raises:
        BadTable: The card or the output cannot be read.
    """
    card = read_card(file)
    problem = schema_problem(card)
    if problem is not None:
        return [Check("schema", False, problem)]
    schema = Check("schema", True, "the card follows the published schema")
    try:
        facts = facts_of(card)
    except _NO_SENSE as error:
        why = f": {error}" if isinstance(error, BadParameter) else ""
        sums = [schema, Check("noise", False, printable(f"no channel has the figures on the card{why}"))]
        return [*sums, _signature(card, key), _output(card, output), _summary(card, sums)]
    sums = [
        schema,
        _noise(card, facts),
        _recipe(card, facts),
        _labels(card),
        _row(card, facts),
        _person(card, facts),
        *_shuffled(card, facts),
    ]
    return [*sums, _pages(card, facts, file), _signature(card, key), _output(card, output), _summary(card, sums)]


def _noise(card: Held, facts: Facts) -> Check:
    """Whether every figure of the mechanism follows from its bounds and the guarantee."""
    wrong = wrong_figure(card, facts)
    if wrong is not None:
        return Check("noise", False, printable(f"the figures do NOT give the guarantee on the card: {wrong}"))
    if not facts.guarantee.private:
        return Check("noise", None, _NO_PROMISE)
    return Check("noise", True, "the figures give the guarantee on the card")


def _recipe(card: Held, facts: Facts) -> Check:
    wrong = wrong_recipe(card, facts)
    words = "says what the card says" if wrong is None else f"does NOT say what the card says: {wrong}"
    return Check("recipe", wrong is None, printable(words))


def _labels(card: Held) -> Check:
    """Whether the words about labels state the epsilon that the guarantee counts for them."""
    try:
        event = label_event(card)
    except BadParameter as error:
        return Check("labels", False, printable(str(error)))
    words = "cost nothing" if event is None else f"randomised with epsilon {card['label_epsilon']:g}, which is counted"
    return Check("labels", True, words)


def _row(card: Held, facts: Facts) -> Check:
    """Whether the texts of a row compose to the guarantee stated for a row."""
    try:
        wrong = wrong_row(card, facts)
    except _NO_SENSE:
        wrong = "figures on the card are impossible"
    if wrong is None and not guarantee_of(card["guarantee"]).private:
        return Check("row", None, _NO_PROMISE)
    each = texts_of_row(card)
    right = "a row has one text" if each == 1 else f"{each} texts of one row have the guarantee on the card"
    return Check("row", wrong is None, right if wrong is None else printable(wrong))


def _person(card: Held, facts: Facts) -> Check:
    """Whether a person's texts compose to the guarantee stated for a person."""
    person, rows = card["person"], card["rows"]
    people, most, each = person["people"], person["most_texts"], texts_of_row(card)
    texts = rows * each
    try:
        if most % each or not people + most // each - 1 <= rows <= people * (most // each):
            return Check("person", False, f"{people} people with at most {most} texts each can NOT have {texts} texts")
        stated, composed = guarantee_of(counted_of(person)), composed_of(card, facts)
        if person["guarantee"] not in (None, counted_of(person)):
            return Check("person", False, "the guarantees for a person and for the texts with one id do NOT agree")
        if not _composes(stated, composed, exactly=person["composition"] == composed.rule):
            return Check("person", False, f"{most} texts of one person do NOT have the guarantee on the card")
        if not stated.private:
            return Check("person", None, _NO_PROMISE)
        if person["budget"] is not None and stated.epsilon > person["budget"] * _COMPOSED:
            return Check("person", False, "the guarantee of one person is NOT within the budget on the card")
        check_delta_for(card["guarantee"]["delta"], texts=texts, whose=f"{texts} texts", remedy="")
    except BadParameter as error:
        return Check("person", False, printable(str(error)))
    except _NO_SENSE:
        return Check("person", False, "figures on the card are impossible")
    whose = "with one id" if person["guarantee"] is None else "of one person"
    return Check("person", True, f"{most} texts {whose} have the guarantee on the card")


def _shuffled(card: Held, facts: Facts) -> list[Check]:
    """Whether the central guarantee of a shuffled output follows from the local one and the number of rows."""
    if card.get("shuffled") is None:
        return []
    try:
        wrong = wrong_shuffling(card, facts)
    except BadParameter as error:
        wrong = str(error)
    except _NO_SENSE:
        wrong = "figures are impossible"
    words = "the central guarantee follows from the local one and the number of rows"
    return [Check("shuffled", wrong is None, words if wrong is None else printable(f"does NOT hold: {wrong}"))]


def _composes(stated: Guarantee, composed: Composed, *, exactly: bool) -> bool:
    """Whether the stated guarantee is the composed one or, if another version had a coarser rule, a weaker one."""
    least = composed.guarantee
    if exactly:
        return same(stated.epsilon, least.epsilon, relative=_COMPOSED - 1) and same(stated.delta, least.delta)
    return stated.epsilon * _COMPOSED >= least.epsilon and stated.delta * (1 + RELATIVE) >= least.delta


def _pages(card: Held, facts: Facts, file: Path) -> Check:
    """Whether the pages next to the card, rendered again from its JSON, have the same bytes."""
    there = [page for page in pages_next_to(file) if page.is_file()]
    if not there:
        return Check("pages", None, "not checked: there is no .txt or .html page next to the card")
    if wrong_figure(card, facts) is not None:
        return Check("pages", None, "not checked: the figures in the JSON are wrong")
    if card["version"] != __version__:
        words = f"not checked: dpbart {card['version']} made them, and this is {__version__}"
        return Check("pages", None, printable(words))
    try:
        made = rebuilt(card, facts)
        expected = dict(zip(pages_next_to(file), (made.as_text(), made.as_html()), strict=True))
        other = [page.name for page in there if page.read_bytes() != expected[page].encode()]
        if list(made.side_channels) != card["side_channels"]:
            other = [page.name for page in there]
    except OSError as error:
        raise BadTable(f"the pages next to {str(file)!r} cannot be read: {reason(error)}.") from None
    except _NO_SENSE:
        other = [page.name for page in there]
    named = other or [page.name for page in there]
    show = ("does NOT show" if other else "shows") if len(named) == 1 else ("do NOT show" if other else "show")
    return Check("pages", not other, f"{' and '.join(map(repr, named))} {show} exactly what the JSON says")


def _signature(card: Held, key: Path | None) -> Check:
    if SIGNATURE not in card:
        return Check("signature", None if key is None else False, "the card is not signed")
    public = None if key is None else read_public_key(key)
    if not signed_by(card, public):
        return Check("signature", False, "does NOT match: the card was changed, or signed with another key")
    if key is None:
        # Anybody can sign with a key of their own: without --key, that says nothing about who made the card.
        own = printable(str(card[SIGNATURE]["public_key"]))
        return Check(
            "signature", None, f"signed by a key that you did not give ({own}). Pass --key to check who signed"
        )
    return Check("signature", True, "matches the given key")


def _output(card: Held, output: Path | None) -> Check:
    if output is None:
        return Check("output", None, "not checked: pass --output FILE")
    try:
        digest = digest_of(output)
    except OSError as error:
        raise BadTable(f"{str(output)!r} cannot be read: {reason(error)}.") from None
    held = card["run"]["output_sha256"] == digest
    return Check("output", held, "is the file of this card" if held else "is NOT the file of this card")


def _summary(card: Held, sums: Iterable[Check]) -> Check:
    """The guarantee that was checked, in plain words."""
    if any(each.held is False for each in sums):
        return Check("guarantee", False, "do NOT rely on the guarantee on this card: its figures do not fit together")
    text, person = guarantee_of(card["guarantee"]), guarantee_of(counted_of(card["person"]))
    if not text.private:
        return Check("guarantee", None, "nothing is promised: the output is NOT PRIVATE")
    most, whose = (
        card["person"]["most_texts"],
        "with one id" if card["person"]["guarantee"] is None else "of one person",
    )
    words = (
        f"each of {card['rows'] * texts_of_row(card):,} texts has epsilon {text.epsilon:.10g} and delta "
        f"{text.delta:.10g}: for any two texts, no output is more than exp({text.epsilon:.10g}) times as likely from "
        f"one as from the other, up to delta. All texts {whose}, at most {most:,}, have epsilon "
        f"{person.epsilon:.10g} and delta {person.delta:.10g}{_central(card)}"
    )
    return Check("guarantee", True, words)


def _central(card: Held) -> str:
    if card.get("shuffled") is None:
        return ""
    central = guarantee_of(card["shuffled"]["guarantee"])
    words = f"epsilon {central.epsilon:.4g} and delta {central.delta:.4g}"
    return f". To those who see only the output, in random order, the same have {words}"
