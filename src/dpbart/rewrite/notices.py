"""What a run says before the first text is released: five lines, and whatever else somebody should know by then.

Everything comes from the settings, the names of columns, and counts that the output shows anyway, never from a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpbart.card.card import Card
from dpbart.card.pages import book_in_words, free_text_warning, promise_lines, whose_rows
from dpbart.card.record import may_have_own_words
from dpbart.errors import one_line
from dpbart.options.rewriting import PUBLIC, STANDARD
from dpbart.privacy.composition import compose
from dpbart.privacy.guarantee import Guarantee, few_digits
from dpbart.rewrite import shuffle
from dpbart.rewrite.describe import planned_card
from dpbart.rewrite.plan import Plan


def notices(plan: Plan) -> list[str]:
    """One line each: what is read, written and released, to whom the promise is made, and the promise in words.

    Further lines are about what a user may not expect: how a file is read, what can come out, several releases of a
    row or a person, the order of the rows, free text that is released, a missing card.
    """
    card = planned_card(plan)
    first = [_reads(plan), _writes(plan), _released(plan, card)]
    lines = [
        *first,
        *promise_lines(card),
        *_reading(plan),
        *_book(plan),
        *_row(plan),
        *_several(plan),
        *_shuffled(plan),
    ]
    if card.free_text_columns:
        lines.append(f"Warning: {free_text_warning(card.free_text_columns)}")
    if plan.request.card_file is None:
        lines.append("No privacy card is written for standard output. To keep one, pass --card FILE.")
    return [one_line(line) for line in lines]


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "text"), counted(3000, "text")
    ('1 text', '3,000 texts')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _reads(plan: Plan) -> str:
    model, texts = plan.described.model, plan.outline.texts
    source, language = _named(plan.request.source, "input"), model.language
    where = f"in the column{'s' if len(texts.columns) > 1 else ''} {_quoted(texts.columns)}"
    joined = ", joined" if texts.joined else ""
    if plan.rows is None:
        what = f"texts {where}{joined}"
    elif plan.request.people.join_documents:
        documents = counted(plan.rows, "document")
        what = f"{counted(sum(plan.documents.values()), 'text')} {where}{joined}, as {documents}, one for each person"
    else:
        what = f"{counted(plan.rows * texts.per_row, 'text')} {where}{joined}"
    knows = f"It knows {language}." if language else "It does not say which language it knows."
    return (
        f"Reads: {source}, {what}. The model {model.name} reads the first {plan.described.reads:,} tokens of each (a "
        f"token is a word or a part of one). {knows}"
    )


def _writes(plan: Plan) -> str:
    model, card = plan.described.model, plan.request.card_file
    most = model.length if model.writes is None else model.writes
    target = _named(plan.request.target, "output")
    return f"Writes: {target}, at most {most:,} tokens for each text{'' if card is None else f', and the card {card}'}."


def _released(plan: Plan, card: Card) -> str:
    labels = plan.outline.labels
    new = "the new texts, in random order" if plan.shuffling else "the new texts"
    if labels is not None and labels.response is not None:
        new += f" and the randomised labels in {labels.column!r}"
    unchanged = [*([labels.column] if labels is not None and labels.policy == PUBLIC else []), *card.other_columns]
    if not unchanged:
        return f"Released: {new}. No other column."
    return f"Released: {new}; and unchanged, without protection: {_quoted(unchanged)}."


def _reading(plan: Plan) -> list[str]:
    reading = plan.outline.reading
    return [] if reading is None else [f"{_named(plan.request.source, 'input')} is read as {reading}."]


def _book(plan: Plan) -> list[str]:
    """What the chosen areas or topics mean or, if none are chosen, what they would bring and cost."""
    model, areas = plan.described.model, plan.described.areas
    own_words = may_have_own_words(plan.described.facts.recipe)
    if model.areas or model.topics:
        cost = "" if own_words else " A text about something else comes out as one of these sentences all the same."
        return [book_in_words(model, own_words=own_words) + cost]
    if not areas:
        return []
    cost = "finds no near sentence then" if own_words else "then comes out as one of their sentences all the same"
    return [
        f"The book of {model.name} has {model.sentences:,} sentences in {len(areas)} areas. If everybody may know what "
        f"the file is about, name its areas with --areas, and the same epsilon says more. A text about something else "
        f"{cost}. See: dpbart models show {model.name} --areas"
    ]


def _row(plan: Plan) -> list[str]:
    texts, each = plan.outline.texts.per_row, plan.account.release.one_text
    if texts == 1:
        return []
    return [
        f"Each row is {texts:,} releases ({texts:,} text columns), each under "
        f"{Guarantee(float(each.epsilon), float(each.delta))}. All texts of a row together are under "
        f"{plan.account.row.guarantee}."
    ]


def _several(plan: Plan) -> list[str]:
    """What a person with several texts is promised, and what it would be if they were joined."""
    account = plan.account
    if plan.outline.people is None or plan.request.people.id_column is not None or account.most_texts == 1:
        return []
    now, alone = account.composed.guarantee, compose({account.release.one_text: 1}, delta=account.delta).guarantee
    if not now.private:
        return []
    options = "--join-documents" if account.release.texts == 1 else "--join-columns and --join-documents"
    joined = f"With {options}, each person is one text, under {alone}"
    people = dict.fromkeys(plan.documents, 1)
    central = shuffle.promise(plan.outline, plan.described, account.release, people, rows=len(people))
    if plan.shuffling is not None and central is not None:
        joined += f", and under {central.guarantee} instead of {plan.shuffling.guarantee} if only the output is seen"
    return [f"All texts of one person, at most {account.most_texts:,}, are under {now}. {joined}."]


def _shuffled(plan: Plan) -> list[str]:
    if plan.shuffling is None:
        return []
    local, central = few_digits(float(plan.account.release.epsilon)), plan.shuffling.guarantee
    whose = whose_rows(plan.shuffling, people=plan.account.units == "people")
    return [
        f"The rows are shuffled: epsilon {local} for each row, and {central} for {whose}, to those who see only the "
        "output."
    ]


def _named(path: Path, stream: str) -> str:
    return f"standard {stream}" if path == STANDARD else str(path)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
