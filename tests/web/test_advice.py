"""Advice from an uploaded file of public texts: nothing stays on disk, and somebody must say that they are public."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpbart.evidence import advise as measuring
from dpbart.web import advice
from dpbart.web.guard import Limits
from tests.web.running import Answer, Client, in_thread

COUNTS = {"public": True, "texts_per_person": 1, "people": 2000}
SECRET = "Ottilie"
TEXTS = "".join(f"{SECRET} asked for song {number} in the kitchen.\n" for number in range(70)).encode()


def ask(client: Client, content: bytes, name: str = "public.txt", **options: object) -> Answer:
    return client.upload(name, content, {**COUNTS, **options}, path="/v1/advice")


def test_advice_is_words_a_page_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "BUDGETS", (4.0,))
    monkeypatch.setattr(measuring, "COLLECTION_BUDGETS", (4.0,))
    with in_thread(tmp_path / "state") as client:
        told = ask(client, TEXTS, trusted_curator=True)
        assert told.status == 200, told.body
        assert told.json["headline"].endswith(".")
        assert told.json["page"].startswith("<!DOCTYPE html>")
        assert told.json["headline"] in told.json["page"]
        figures = told.json["figures"]
        assert figures["file"] == {"texts_per_person": 1, "people": 2000, "trusted_curator": True, "delta": 1e-5}
        assert [each["release"] for each in figures["options"]] == ["single texts", "shuffled", "collection"]
        assert SECRET not in told.body.decode()
        assert list((tmp_path / "state" / "jobs").iterdir()) == []
    answer = client_schema(tmp_path)
    assert set(answer["properties"]) == set(told.json)


def client_schema(folder: Path) -> dict[str, dict[str, object]]:
    with in_thread(folder / "other") as client:
        found: dict[str, dict[str, object]] = client.get("/openapi.json").json["components"]["schemas"]["AdviceAnswer"]
        return found


def test_what_cannot_be_advised_is_refused_without_a_word_of_the_file(client: Client) -> None:
    for content, options, words in (
        (TEXTS, {"public": False}, "never on the private ones"),
        (TEXTS, {"people": 1}, "people must be from 2 to 10,000,000, got 1."),
        (TEXTS, {"model": "/etc"}, "no model named"),
        (TEXTS, {"judge": "/etc"}, "1 more"),
        (TEXTS[:200], {}, "at least 60 texts"),
        (TEXTS, {"label_column": "mood"}, "mood"),
    ):
        told = ask(client, content, **options)
        assert told.status == 422, (options, told.body)
        assert words in told.json["detail"]
        assert SECRET not in json.dumps(told.json)
        assert "/input" not in told.json["detail"]
    assert ask(client, TEXTS, name="public.csv").status == 422  # it has no column "text"


def test_the_limits_of_uploads_hold(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(upload=2_000)) as client:
        assert ask(client, TEXTS).status == 413
    with in_thread(tmp_path / "other", limits=Limits(row=20)) as client:
        assert ask(client, TEXTS).status == 422  # a row is too long
