"""What a card says about a book: which sentences could come out, who chose them, and what `card verify` finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpbart import Settings, rewrite_file
from dpbart.card.card import Card, schema
from dpbart.card.pages import book_in_words
from dpbart.card.record import ModelLine
from dpbart.card.verify import verify
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.testing import LINE

OFFICER = "Everything that can ever come out is on a public list. No name, number or address of yours can."
OPERATOR = "Chosen by the operator, not computed from the texts."


def line(**more: Any) -> ModelLine:
    return ModelLine(**{**LINE.__dict__, "sentences": 7360, **more})


@pytest.mark.parametrize(
    ("model", "own_words", "words"),
    [
        (
            line(areas=("health", "service"), book_only=True),
            False,
            "Only sentences of these areas can come out: health, service (7,360 sentences). " + f"{OPERATOR} {OFFICER}",
        ),
        (line(book_only=True), False, f"{OFFICER} The list has 7,360 sentences."),
        (
            line(),
            False,
            "Everything that can come out at this budget is on a public list. No name, number or address of yours can. "
            "The list has 7,360 sentences.",
        ),
        (
            line(topics=("being happy",)),
            False,
            f"Only sentences of this topic can come out: being happy (7,360 sentences). {OPERATOR} "
            "Everything that can come out at this budget is on a public list. No name, number or address of yours can.",
        ),
        (
            line(areas=("health",)),
            True,
            f"Of its book, only sentences of this area can come out: health (7,360 sentences). {OPERATOR} "
            "A text's own words can come out too at this budget.",
        ),
        (
            line(),
            True,
            "A text's own words can come out at this budget, or sentences of a public list (7,360 sentences).",
        ),
    ],
)
def test_what_can_come_out_is_said_in_the_words_of_an_officer(model: ModelLine, own_words: bool, words: str) -> None:
    assert book_in_words(model, own_words=own_words) == words


def made(folder: Path, model: Bundle, **settings: Any) -> tuple[Card, Path]:
    (folder / "in.csv").write_text("text\nthe ferry was late\nmy hen is ill\n")
    card = rewrite_file(
        Request(folder / "in.csv", folder / "out.csv", overwrite=True), Settings(str(model.folder), **settings)
    )
    return card, folder / "out.csv.card.json"


def book_check(file: Path) -> tuple[bool | None, str] | None:
    checks = {check.name: (check.held, check.words) for check in verify(file, output=file.parent / "out.csv")}
    if "book" in checks and checks["book"][0] is False:
        assert checks["guarantee"][0] is False  # nobody should rely on such a card
    return checks.get("book")


def test_areas_topics_and_the_book_alone_are_on_every_page_of_the_card(tiny_code: Bundle, tmp_path: Path) -> None:
    card, file = made(
        tmp_path, tiny_code, epsilon=50.0, areas=("farm", "farm", "kitchen"), topics=("boats",), book_only=True
    )
    stated = json.loads(file.read_text())
    jsonschema.validate(stated, schema())
    assert {name: stated["model"][name] for name in ("sentences", "areas", "topics", "book_only")} == {
        "sentences": 360,
        "areas": ["farm", "kitchen"],
        "topics": ["boats"],
        "book_only": True,
    }
    chosen = (
        f"Only sentences of these areas and this topic can come out: farm, kitchen, boats (360 sentences). {OPERATOR}"
    )
    fact = "the areas farm, kitchen and the topic boats: 360 sentences; nothing else can come out, at any budget"
    for page in (card.as_text(), card.as_html()):
        for words in (chosen, OFFICER, fact):
            assert (escape(words) if page.startswith("<") else words) in page
    assert book_check(file) == (True, "codes name only the 360 sentences that can come out")


def test_a_card_never_says_that_all_is_listed_where_own_words_can_come_out(tiny_code: Bundle, tmp_path: Path) -> None:
    card, file = made(tmp_path, tiny_code, epsilon=50.0)
    assert card.own_words
    assert "No name, number or address" not in card.as_text() + card.as_html()
    assert "A text's own words can come out at this budget" in card.as_text()
    words = "codes name only the 480 sentences that can come out, or hold a text's own words"
    assert book_check(file) == (True, words)
    assert "wrote at most 12 tokens for each, or whole sentences of its book; a token is" in card.as_text()
    low, _ = made(tmp_path, tiny_code, epsilon=4.0)
    assert not low.own_words
    assert "Everything that can come out at this budget is on a public list." in low.as_text()


@pytest.mark.parametrize("settings", [{"mechanism": "none"}, {"epsilon": 4.0, "replay_seed": 1}])
def test_a_card_that_promises_nothing_tells_its_book_too(
    tiny_code: Bundle, tmp_path: Path, settings: dict[str, Any]
) -> None:
    _, file = made(tmp_path, tiny_code, areas=("farm",), book_only=True, **settings)
    assert book_check(file) == (True, "codes name only the 160 sentences that can come out")


def test_a_model_without_a_book_has_no_word_about_one_on_its_card(tiny: Bundle, tmp_path: Path) -> None:
    card, file = made(tmp_path, tiny, epsilon=5.0, beams=1)
    assert "New texts" not in card.as_text()
    assert not {"sentences", "areas", "topics", "book_only"} & set(json.loads(file.read_text())["model"])
    assert book_check(file) is None


def _fewer_sentences(card: dict[str, Any]) -> None:
    card["model"]["sentences"] = 63  # a code of 5 bits with 2 near names 64


def _no_sentences(card: dict[str, Any]) -> None:
    del card["model"]["sentences"]


def _an_area_twice(card: dict[str, Any]) -> None:
    card["model"]["areas"] = ["farm", "farm"]


def _own_words(card: dict[str, Any]) -> None:
    card["recipe"] = card["recipe"].replace("form:book", "form:wording")


def _own_words_of_a_book(card: dict[str, Any]) -> None:
    _own_words(card)
    del card["model"]["book_only"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_fewer_sentences, "63 sentences can come out, but a code names one of 64"),
        (_no_sentences, "areas, topics and book_only need a book, and the card states no sentences"),
        (_an_area_twice, "each area and each topic must be named once"),
        (_own_words, "only sentences of the book can come out, but the recipe says that a code may be wording"),
        (_own_words_of_a_book, "a code that may be wording has neither near nor places"),
    ],
)
def test_a_card_whose_book_does_not_fit_its_codes_fails(
    tiny_code: Bundle, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    _, file = made(tmp_path, tiny_code, epsilon=4.0, areas=("farm",), book_only=True)
    assert book_check(file) == (True, "codes name only the 160 sentences that can come out")
    stated = json.loads(file.read_text())
    change(stated)
    file.write_text(json.dumps(stated))
    assert book_check(file) == (False, f"does NOT fit the codes: {words}")


def test_a_run_cannot_be_resumed_with_another_part_of_the_book(tiny_code: Bundle) -> None:
    from dpbart.rewrite.chosen import ChosenModel
    from dpbart.rewrite.describe import model_settings

    def compared(**more: Any) -> object:
        return model_settings(ChosenModel(Settings(str(tiny_code.folder), 4.0, **more)).described)

    farm = compared(areas=("farm",))
    assert farm == compared(areas=("farm",))
    assert farm != compared(areas=("kitchen",))  # as large: the codes have the same size
    assert farm != compared(areas=("farm",), book_only=True)
    assert compared(topics=("boats",)) != compared(topics=("trade",))
