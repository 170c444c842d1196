"""One person: found in the ledger by an id that stands in no address, and what their texts would spend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.ledger import database
from dpbart.ledger.ledger import Ledger
from dpbart.options.settings import Settings
from dpbart.privacy.composition import Release, compose
from dpbart.rewrite.chosen import ChosenModel
from tests.web.running import Client, in_thread

HTML = "<b>anna</b>"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everybody may spend 30. Zoe has a limit of her own, and has spent nothing."""
    made = tmp_path_factory.mktemp("ledger") / "budgets.db"
    ledger = Ledger(made, create=True)
    ledger.set_limit(Decimal(30))
    ledger.set_limit(Decimal(5), "zoe")
    ledger.close()
    return made


@pytest.fixture(scope="module")
def counting(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with in_thread(tmp_path_factory.mktemp("server") / "state", ledger=file) as client:
        assert client.rewrite("a", "b", "c", people=["7", "7.0", HTML]).status == 200
        assert client.rewrite("d", people=[7], epsilon=5).status == 200
        yield client


def test_a_person_is_told_as_on_the_command_line(counting: Client, file: Path) -> None:
    told = counting.post("/v1/ledger/person", {"person": " 7.00 "}).json
    shown = CliRunner().invoke(cli, ["budget", "show", str(file), "--person", "007", "--json"])
    assert told == {**json.loads(shown.stdout), "texts": 3}
    assert (told["person"], told["spent"], told["limit"], told["left"]) == ("7", "25", "30", "5")
    runs = {(run["texts"], run["epsilon"], run["mechanism"]) for run in told["runs"]}
    assert runs == {(2, "10", "response"), (1, "5", "response")}
    listed = counting.get("/v1/ledger").json["spending"]
    assert {name: told[name] for name in listed[0]} == next(each for each in listed if each["person"] == "7")


def test_who_has_only_a_limit_is_in_the_ledger(counting: Client, file: Path) -> None:
    told = counting.post("/v1/ledger/person", {"person": "zoe"}).json
    assert (told["spent"], told["limit"], told["left"], told["composition"], told["runs"]) == ("0", "5", "5", None, [])
    shown = CliRunner().invoke(cli, ["budget", "show", str(file), "--person", "zoe", "--json"])
    assert told == {**json.loads(shown.stdout), "texts": 0}


@pytest.mark.parametrize("person", ["Zoe", "nobody", "%", "zo*", "' OR 1=1 --"])
def test_who_is_not_in_the_ledger_is_not_found(counting: Client, person: str) -> None:
    answer = counting.post("/v1/ledger/person", {"person": person})
    assert (answer.status, answer.json["type"]) == (404, "urn:dpbart:no-such-person")
    words = f"nobody with the id {person!r} is in the ledger. Check the id: ids are case-sensitive."
    assert answer.json["detail"] == words


@pytest.mark.parametrize("body", [{}, {"person": None}, {"person": " "}, {"person": "zoe", "run": 1}])
def test_a_request_that_names_nobody_is_refused(counting: Client, body: object) -> None:
    assert counting.post("/v1/ledger/person", body).status == 422  # an empty id would be the limit of everybody


def test_an_id_stands_in_no_address(counting: Client) -> None:
    assert counting.get("/v1/ledger/person?person=zoe").status == 405
    assert counting.post("/v1/ledger/person?person=zoe", {}).status == 422


def test_without_a_ledger_nobody_is_found(client: Client) -> None:
    answer = client.post("/v1/ledger/person", {"person": "zoe"})
    assert (answer.status, answer.json["type"]) == (404, "urn:dpbart:no-ledger")


def test_the_ledger_is_checked_once_and_not_for_every_question(
    counting: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a million people, the check takes a third of a second."""
    counting.get("/v1/ledger")
    monkeypatch.setattr(database, "_check", lambda *_: pytest.fail("the whole file was checked again"))
    assert counting.get("/v1/ledger").json["people"] == 2
    assert counting.post("/v1/ledger/person", {"person": HTML}).json["person"] == HTML
    refused = counting.rewrite("e", people=["zoe"])
    assert (refused.status, refused.json["left"][0]["left"]) == (409, "5")


def test_a_refusal_tells_what_is_left_of_the_smaller_budget(counting: Client) -> None:
    for budget, limit in ((4, "4"), (40, "30")):
        refused = counting.rewrite("e", people=["new"], epsilon=35, person_budget=budget)
        assert (refused.status, refused.json["left"][0]["limit"], refused.json["left"][0]["left"]) == (
            409,
            limit,
            limit,
        )


def test_a_release_without_a_guarantee_is_infinite(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        client.rewrite("a", people=["anna"])
        assert client.get("/v1/ledger").json["private"] is True
        client.rewrite("a", people=["ben"], epsilon=None, mechanism="none")
        assert client.get("/v1/ledger").json["private"] is False
        told = client.post("/v1/ledger/person", {"person": "ben"}).json
        assert (told["spent"], told["runs"][0]["epsilon"]) == ("infinite", "infinite")


def test_the_answers_are_as_openapi_describes_them(counting: Client) -> None:
    document = counting.get("/openapi.json").json

    def check(name: str, *told: Any) -> None:
        for each in told:
            jsonschema.validate(each, {"$ref": f"#/components/schemas/{name}", "components": document["components"]})

    check("PersonAnswer", *(counting.post("/v1/ledger/person", {"person": person}).json for person in ("7", "zoe")))
    check("LedgerAnswer", counting.get("/v1/ledger").json)
    both = counting.get("/v1/noise?epsilon=10&texts=10&people=1000").json
    check("NoiseAnswer", both, counting.get("/v1/noise?mechanism=none&texts=3").json)
    assert both["person"]["words"].startswith("A person with 10 texts has epsilon 100, delta 0 for all of them")


def noise(client: Client, query: str) -> Any:
    answer = client.get(f"/v1/noise?{query}")
    assert answer.status == 200, answer.json
    return answer.json


def test_texts_of_one_person_are_counted_as_the_ledger_counts_them(counting: Client, client: Client) -> None:
    for epsilon, texts in ((10, 1), (10, 3), (2, 40)):
        event = ChosenModel(Settings("mini-code", epsilon)).channel.facts.event
        expected = compose({Release((event,)): texts}, delta=Decimal("1e-5"))
        told = noise(client, f"epsilon={epsilon}&texts={texts}")
        assert told["person"]["guarantee"]["epsilon"] == float(expected.epsilon)
        assert (told["person"]["texts"], told["person"]["composition"]) == (texts, expected.rule)
        assert told["guarantee"]["epsilon"] == epsilon  # of one text
        assert noise(counting, f"epsilon={epsilon}&texts={texts}")["person"] == told["person"]
    assert told["person"]["guarantee"]["epsilon"] < 80  # less than the sum
    assert noise(client, "mechanism=none&texts=2")["person"]["guarantee"]["private"] is False
    assert "person" not in noise(client, "epsilon=10")


def test_a_ledger_counts_at_its_own_delta(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.set_delta(Decimal("1e-9"))
    ledger.close()
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as strict:
        event = ChosenModel(Settings("mini-code", 2)).channel.facts.event
        expected = compose({Release((event,)): 40}, delta=Decimal("1e-9"))
        assert noise(strict, "epsilon=2&texts=40")["person"]["guarantee"]["epsilon"] == float(expected.epsilon)


def test_a_shuffled_output_is_told_as_on_the_command_line(client: Client) -> None:
    told = noise(client, "epsilon=6&people=1000&delta=1e-6")["shuffled"]
    asked = ["noise", "--epsilon", "6", "--people", "1000", "--delta", "1e-6", "--json"]
    assert json.loads(CliRunner().invoke(cli, asked).stdout)["shuffled"] == told
    said = " ".join(CliRunner().invoke(cli, asked[:-1]).stdout.split())
    assert all(f"{line['name']} {line['words']}" in said for line in told["words"])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("epsilon=10&texts=0", "texts must be from 1 to 1,000,000, got 0."),
        ("epsilon=10&texts=1000001", "texts must be from 1 to 1,000,000"),
        ("epsilon=10&texts=-1", "texts must be a whole number"),
        ("epsilon=10&texts=1e3", "texts must be a whole number"),
        ("epsilon=10&people=0", "people must be at least 1, got 0."),
        ("epsilon=10&people=9999999999999", "people must be a whole number"),
        ("epsilon=10&people=100000", "delta must be below 1 / 100000 for 100,000 people"),
        ("epsilon=10&people=10&model=mini&mechanism=gaussian", "--shuffle needs a mechanism of pure epsilon"),
        ("mechanism=none&people=10", "--shuffle needs private texts"),
    ],
)
def test_numbers_that_nobody_can_answer_for_are_refused(client: Client, query: str, words: str) -> None:
    answer = client.get(f"/v1/noise?{query}")
    assert answer.status == 422
    assert words in answer.json["detail"]
