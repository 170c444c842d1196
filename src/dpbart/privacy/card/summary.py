"""The top of a card, in words for somebody who has never heard of epsilon: what is promised, to whom, about what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpbart.errors import one_line
from dpbart.privacy.card.shuffled import central_words
from dpbart.privacy.scale import SEVERAL, level_of, odds

if TYPE_CHECKING:
    from dpbart.privacy.card.card import Card
    from dpbart.privacy.guarantee import Guarantee


def summary(card: Card) -> list[tuple[str, str]]:
    """A heading and some sentences each. They follow from the card's JSON alone."""
    promised = card.person.counted_guarantee
    level = level_of(promised)
    lines = [
        ("Promise", f"{level.name.upper()}. {_guarantee(card)}"),
        *([] if card.shuffled is None else [("Shuffled", central_words(card.shuffled))]),
        ("To whom", _to_whom(card)),
        ("In words", _in_words(card)),
        ("Read and written", _read_and_written(card)),
        ("Released unchanged", _unchanged(card)),
    ]
    return [(name, one_line(words)) for name, words in lines]


def free_text_warning(columns: Sequence[str]) -> str:
    """The warning about columns that look like free text and are not rewritten."""
    named = ", ".join(f"'{name}'" for name in columns)
    looks, them = ("column looks", "it") if len(columns) == 1 else ("columns look", "them")
    warning = f"{named}: the {looks} like free text, and the output holds {them} UNCHANGED, without any protection."
    return one_line(warning)


def _guarantee(card: Card) -> str:
    if not card.guarantee.private:
        return "This output is NOT PRIVATE: epsilon is infinite."
    text, together = _plain(card.guarantee), _plain(card.person.counted_guarantee)
    if text == together:
        return f"Epsilon {text} for each text."
    whose = "all texts with one id" if card.person.guarantee is None else "a person"
    row = text if card.row is None else _plain(card.row.guarantee)
    if row == together:
        return f"Epsilon {row} for all texts of a row; epsilon {text} for each text."
    of_a_row = "" if row == text else f" epsilon {row} for all texts of a row;"
    return f"Epsilon {together} for {whose};{of_a_row} epsilon {text} for each text."


def _in_words(card: Card) -> str:
    promised = card.person.counted_guarantee
    level = level_of(promised)
    if not promised.private:
        return level.meaning
    if card.person.most_texts == 1:
        return f"{level.meaning} {odds(promised)}"
    whose = "of one row" if card.person.most_texts * card.rows == card.texts else "with one id"
    whose = whose if card.person.guarantee is None else "of one person"
    counted = f"This counts all texts {whose}, at most {card.person.most_texts:,}."
    return f"{counted} {level.meaning} {odds(promised, what=SEVERAL)}"


def _plain(guarantee: Guarantee) -> str:
    return f"{guarantee.epsilon:.10g}, delta {guarantee.delta:.10g}"


def _to_whom(card: Card) -> str:
    person = card.person
    if not card.guarantee.private:
        return "Nobody."
    if person.guarantee is None:
        what = "text" if card.texts == card.rows else "row"
        return (
            f"The person behind each {what}, for that {what} alone. It is not known which {what}s belong to one "
            f"person, and somebody with several {what}s is promised less."
        )
    several = f"all of their texts in this run, up to {person.most_texts:,}"
    texts = "their one text" if person.most_texts == 1 else several
    return f"Each person in the column '{person.named_by}' ({person.people:,} in all), for {texts}."


def _read_and_written(card: Card) -> str:
    model = card.model
    read = "" if model.reads is None else f"read the first {model.reads:,} tokens of each and "
    wrote = model.length if model.writes is None else model.writes
    cut = "" if model.reads is None else " What comes later in a text was not read."
    language = f"knows {model.language}" if model.language else "does not say which language it knows"
    several = "" if card.texts == card.rows else f", {card.texts // card.rows:,} for each of {card.rows:,} rows"
    return (
        f"{card.texts:,} texts{several}. The model {read}wrote at most {wrote:,} tokens for each; a token is a word "
        f"or a part of a word.{cut} The model {language}."
    )


def _unchanged(card: Card) -> str:
    if not card.other_columns:
        return "No other column is in the output."
    named = ", ".join(f"'{name}'" for name in card.other_columns)
    return f"These columns are in the output as they were in the input, without any protection: {named}."
