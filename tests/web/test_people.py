"""One person in the ledger, found by an id that stands in no address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.privacy.budget import database
from dpbart.privacy.budget.ledger import Ledger
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
    words = f"nobody with the id {person!r} is in the ledger. Check the id: upper and lower case are different."
    assert answer.json["detail"] == words


@pytest.mark.parametrize("body", [{}, {"person": None}, {"person": " "}, {"person": "zoe", "run": 1}])
def test_a_request_that_names_nobody_is_refused(counting: Client, body: object) -> None:
    assert counting.post("/v1/ledger/person", body).status == 422  # an empty id would be the limit of everybody


def test_an_id_stands_in_no_address(counting: Client) -> None:
    assert counting.get("/v1/ledger/person?person=zoe").status == 404
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
    asked = document["paths"]["/v1/ledger/person"]["post"]
    example = asked["responses"]["200"]["content"]["application/json"]["example"]
    told = [counting.post("/v1/ledger/person", {"person": person}).json for person in ("7", "zoe")]
    for name, value in (*(("Person", each) for each in (example, *told)), ("Ledger", counting.get("/v1/ledger").json)):
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": document["components"]})
    assert set(told[0]) == set(example)
