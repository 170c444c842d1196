"""A model's book over HTTP: its areas are told, and what a request chooses decides what can come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from dpbart.models.bundle import Bundle
from tests.models.tiny_code import AREAS, TABLE, book_lines
from tests.web.running import Client, in_thread

TEXTS = ["the ferry was late", "my hen is ill", "who ate the plum"]


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory, tiny_code: Bundle, tiny: Bundle) -> Iterator[Client]:
    """A server that offers a model with a small book, and one without."""
    state, models = tmp_path_factory.mktemp("offering") / "state", (str(tiny_code.folder), str(tiny.folder))
    with in_thread(state, models=models) as running:
        yield running


def sentences(*areas: str, topics: tuple[str, ...] = ()) -> set[str]:
    return {line.sentence for line in book_lines() if line.area in areas or line.topic in topics}


def test_the_areas_of_a_book_and_the_largest_budget_are_told(offering: Client, tiny_code: Bundle, tiny: Bundle) -> None:
    models = {each["name"]: each for each in offering.get("/v1/models").json["models"]}
    told = models[tiny_code.name]
    assert told["sentences"] == 480
    assert {each["name"]: set(each["topics"]) for each in told["areas"]} == {
        area: set(topics) for area, topics in AREAS.items()
    }
    for each in told["areas"]:
        assert each["sentences"] == 160
        assert set(each["examples"]) <= sentences(each["name"])
    assert told["budgets"] == [row[0] for row in TABLE]
    assert (models[tiny.name]["sentences"], models[tiny.name]["areas"], models[tiny.name]["budgets"]) == (0, [], [])


def test_a_budget_is_explained_for_the_chosen_areas(offering: Client, tiny_code: Bundle) -> None:
    def book(*more: tuple[str, str]) -> str:
        query = urlencode([("model", str(tiny_code.folder)), ("epsilon", "50"), *more])
        words = offering.get(f"/v1/noise?{query}").json["words"]
        return str(next(each["words"] for each in words if each["name"] == "Book"))

    assert book() == "the whole book: 480 sentences; a code names some of them, or holds a text's own words"
    chosen = (("areas", "farm"), ("areas", "kitchen"), ("topics", "boats"), ("book_only", "true"))
    expected = "the areas farm, kitchen and the topic boats: 360 sentences; a code chooses among 255 of them"
    assert book(*chosen) == expected
    assert book(*chosen[:3], ("book_only", "false")).endswith("or holds a text's own words")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("areas=nothing", "has no area 'nothing'. It has: "),
        ("topics=nothing", "has no topic 'nothing'. It has: "),
        ("book_only=yes", "book_only must be true or false."),
        ("epsilon=201", "epsilon must be at most 200 for 'tiny-code', got 201: its longest code has 270 bits"),
    ],
)
def test_a_wrong_choice_is_refused_in_words(offering: Client, tiny_code: Bundle, query: str, words: str) -> None:
    refused = offering.get(f"/v1/noise?epsilon=4&{urlencode({'model': tiny_code.folder})}&{query}")  # the last counts
    assert refused.status == 422
    assert words in refused.json["detail"]


def test_pasted_texts_come_out_as_sentences_of_the_chosen_areas(
    offering: Client, tiny_code: Bundle, tmp_path: Path
) -> None:
    chosen: dict[str, Any] = {"model": str(tiny_code.folder), "areas": ["farm"], "topics": ["boats"], "book_only": True}
    answer = offering.rewrite(*TEXTS, **chosen, epsilon=4, card=True).json
    assert set(answer["texts"]) <= sentences("farm", topics=("boats",))
    card = json.loads(answer["card"]["json"])
    assert card["model"]["areas"] == ["farm"]
    assert (card["model"]["topics"], card["model"]["book_only"], card["model"]["sentences"]) == (["boats"], True, 200)
    assert "No name, number or address of yours can." in answer["card"]["html"]
    other = offering.rewrite(*TEXTS, **{**chosen, "areas": ["kitchen"], "topics": []}, epsilon=4).json
    assert set(other["texts"]) <= sentences("kitchen")  # not from the batch or the model of the others


def test_a_file_comes_out_as_sentences_of_the_chosen_areas(offering: Client, tiny_code: Bundle) -> None:
    options = {"model": str(tiny_code.folder), "epsilon": 4, "areas": ["harbour"], "text_column": "text"}
    file = "text\n" + "".join(f"{text}\n" for text in TEXTS)
    job = offering.upload("notes.csv", file.encode(), options).json
    held = offering.wait_for(job["id"], "done", "failed")
    assert held["status"] == "done", held
    said = "Only sentences of this area can come out: harbour (160 sentences)."
    assert any(notice.startswith(said) for notice in held["notices"])
    written = offering.get(f"/v1/jobs/{job['id']}/result").body.decode().splitlines()[1:]
    assert len(written) == 3
    assert set(written) <= sentences("harbour")


def test_a_choice_that_the_model_does_not_have_is_refused_before_anything_is_rewritten(
    offering: Client, tiny_code: Bundle, tiny: Bundle
) -> None:
    unknown = offering.rewrite(*TEXTS, model=str(tiny_code.folder), areas=["nothing"])
    assert (unknown.status, "has no area 'nothing'" in unknown.json["detail"]) == (422, True)
    bookless = offering.rewrite(*TEXTS, model=str(tiny.folder), book_only=True)
    assert (bookless.status, "has no book." in bookless.json["detail"]) == (422, True)
    wrong = offering.rewrite(*TEXTS, model=str(tiny_code.folder), areas="farm")
    assert (wrong.status, wrong.json["detail"]) == (422, "areas must be a list, got str.")


def test_examples_follow_the_chosen_areas(offering: Client, tiny_code: Bundle) -> None:
    asked = urlencode({"model": str(tiny_code.folder), "epsilon": "4", "areas": "farm"})
    written = {each["rewritten"] for each in offering.get(f"/v1/examples?{asked}").json["examples"]}
    assert written <= sentences("farm")
