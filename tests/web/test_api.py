"""What programs get from the API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from starlette.routing import Mount, Route

from dpbart.cli import cli
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.declare import leaves
from dpbart.options.evidence import AdviceRequest
from dpbart.options.rewriting import Dialect
from dpbart.options.rewriting import Request as FileRequest
from dpbart.options.settings import Settings
from dpbart.web.app import make_app
from dpbart.web.guard import _KINDS, Access, Limits
from dpbart.web.job import Place
from dpbart.web.releases import AnswerStore
from dpbart.web.service import Service
from tests.web.running import Client, in_thread, until

ROOT = Path(__file__).parents[2]
KEY = "5f0c1b1e-6f3b-4a52-9d0e-0c9a4d6c1e11"


def test_texts_come_back_with_their_guarantee_and_recipe(client: Client) -> None:
    answer = client.rewrite("The room was clean.", "The food was cold.")
    assert answer.status == 200
    assert len(answer.json["texts"]) == 2
    assert answer.json["guarantee"] == {
        "epsilon": 10.0,
        "delta": 0.0,
        "private": True,
        "level": "limited",
        "words": "(epsilon 10, delta 0)",
    }
    assert answer.json["recipe"].startswith("mech:response|eps:10|")


def test_an_output_that_is_not_private_says_so(client: Client) -> None:
    guarantee = client.rewrite("The room was clean.", epsilon=None, mechanism="none").json["guarantee"]
    assert guarantee["private"] is False
    assert guarantee["epsilon"] is None
    assert guarantee["words"].startswith("NOT PRIVATE")


def test_a_budget_means_the_same_as_on_the_command_line(client: Client) -> None:
    told = client.get("/v1/noise?epsilon=10").json
    said = " ".join(CliRunner().invoke(cli, ["noise", "--epsilon", "10"]).output.split())
    assert all(f"{line['name']} {line['words']}" in said for line in told["words"])
    assert json.loads(CliRunner().invoke(cli, ["noise", "--epsilon", "10", "--json"]).output) == told


def test_a_delta_without_effect_is_refused_and_0_is_right_for_a_pure_mechanism(client: Client) -> None:
    refused = [client.get(f"/v1/{call}?epsilon=10&delta=0.3") for call in ("noise", "examples")]
    for answer in (*refused, client.rewrite("The room was clean.", delta=0.3)):
        assert answer.status == 422
        assert "a delta of 0.3 would have no effect: the mechanism 'response' is pure" in answer.json["detail"]
    assert client.rewrite("The room was clean.", delta=0).json["guarantee"]["delta"] == 0
    assert client.rewrite("The room was clean.", "And the bed.", delta=0.01, people=["a", "a"]).status == 200
    for used in ("people=9", "texts=2"):
        assert client.get(f"/v1/noise?epsilon=10&delta=0.01&{used}").status == 200


def test_examples_are_drawn_once_for_each_budget(client: Client) -> None:
    first, again = client.get("/v1/examples?epsilon=5").json, client.get("/v1/examples?epsilon=5").json
    assert first == again
    assert all(each["original"] and isinstance(each["rewritten"], str) for each in first["examples"])
    assert client.get("/v1/examples?epsilon=6").json["guarantee"]["epsilon"] == 6


def test_the_bundled_models_are_offered_and_no_other(client: Client, tmp_path: Path) -> None:
    offered = client.get("/v1/models").json
    assert offered["default"] == "mini-code"
    assert {"mini", "mini-code"} <= {each["name"] for each in offered["models"]}
    refused = client.rewrite("A text.", model=str(tmp_path))
    assert (refused.status, refused.json["type"]) == (422, "urn:dpbart:no-such-model")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"epsilon": 10}, "texts must be given."),
        ({"epsilon": 10, "texts": []}, "texts must be a list of at least one string"),
        ({"epsilon": 10, "texts": ["a", 7]}, "texts, item 2, must be a string, got int."),
        ({"texts": ["a"]}, "epsilon"),
        ({"texts": ["a"], "epsilon": -1}, "epsilon must be greater than 0, got -1.0."),
        ({"texts": ["a"], "epsilon": True}, "epsilon must be a number, got bool."),
        ({"texts": ["a"], "epsilon": 10**400}, "epsilon must be a number between -1e308 and 1e308."),
        ({"texts": ["a"], "epsilon": 10, "beams": -(10**400)}, "beams must be from 1 to 100, got -1"),
        (
            {"texts": ["a"], "epsilon": 10, "people": ["x", "y"]},
            "people must be a list with one id for each text, so 1 in all.",
        ),
        ({"texts": ["a"], "epsilon": 10, "people": [" "]}, "text 1 has no id"),
        ({"texts": ["a"], "epsilon": 10, "person_budget": 10}, "needs ids"),
        ({"texts": ["a"], "epsilon": 10, "mechanism": "gaussian"}, "the mechanism of 'mini-code' must be one of"),
        ({"texts": ["a"], "epsilon": 10, "epsilom": 1, "self": 2}, "and has 2 more"),
        ({"texts": ["a"], "epsilon": "Ottilie"}, "epsilon must be a number, got str."),
        ({"texts": ["a"], "epsilon": 10, "length": 20.5}, "length must be a whole number, got float."),
        ({"texts": ["a"], "epsilon": 10, "card": 1}, "card must be true or false, got int."),
        ({"texts": ["a"], "epsilon": 10, "people": [True]}, "people, item 1, must be a string, got bool."),
    ],
)
def test_a_wrong_request_is_refused_in_words(client: Client, body: object, words: str) -> None:
    answer = client.post("/v1/rewrite", body)
    assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")
    assert words in answer.json["detail"]
    assert "Ottilie" not in answer.json["detail"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"epsilon": NaN}', b"\xff", b"[" * 100_000, b'{"texts": ["\\udc00"]}']
)
def test_what_is_not_json_is_refused(client: Client, body: bytes) -> None:
    answer = client.send("POST", "/v1/rewrite", body)
    assert (answer.status, answer.json["type"]) == (400, "urn:dpbart:not-json")


def test_without_a_ledger_a_person_budget_holds_for_the_request(client: Client) -> None:
    assert client.rewrite("a", "b", people=["x", "y"], person_budget=10).status == 200
    refused = client.rewrite("a", "b", people=["x", "x"], person_budget=10)
    assert (refused.status, refused.json["type"]) == (409, "urn:dpbart:budget-exceeded")


def test_the_same_key_gets_the_same_answer_without_a_second_draw(client: Client) -> None:
    first = client.rewrite("The room was clean.", epsilon=1, key=KEY)
    drawn = {client.rewrite("The room was clean.", epsilon=1).body for _ in range(5)}
    assert len(drawn) > 1, "a new draw would be another text"
    again = client.rewrite("The room was clean.", epsilon=1, key=KEY)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


def test_a_key_cannot_be_used_for_another_request(client: Client) -> None:
    client.rewrite("One text.", key="a-key-for-one-text")
    refused = client.rewrite("Another text.", key="a-key-for-one-text")
    assert (refused.status, refused.json["type"]) == (422, "urn:dpbart:idempotency-key-reused")


def test_a_refused_request_does_not_use_up_its_key(client: Client) -> None:
    assert client.rewrite("A text.", epsilon=-1, key="a-key-that-is-refused").status == 422
    assert client.rewrite("A text.", epsilon=1, key="a-key-that-is-refused").status == 200


def test_a_key_that_is_too_short_to_be_unique_is_refused(client: Client) -> None:
    assert client.rewrite("A text.", key="1").json["type"] == "urn:dpbart:bad-idempotency-key"


def test_an_old_answer_is_forgotten(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(answer_seconds=0, sweep_seconds=0.1)) as client:
        assert client.rewrite("A text.", key=KEY).status == 200
        assert "idempotency-replayed" not in client.rewrite("A text.", key=KEY).headers
        until(lambda: AnswerStore(tmp_path / "state" / "answers.db", seconds=100).stored() == [])


def routes_of(app: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each method and path that an application answers, other than its files."""
    for route in getattr(app, "routes", ()):
        if isinstance(route, Route):
            yield from ((method.lower(), prefix + route.path) for method in (route.methods or set()) - {"HEAD"})
        elif isinstance(route, Mount):
            yield from routes_of(route.app, prefix + route.path)


def test_openapi_describes_every_route(client: Client, tmp_path: Path) -> None:
    document = client.get("/openapi.json").json
    described = {(method, path) for path, methods in document["paths"].items() for method in methods}
    watch: Any = make_app(Service(Place(tmp_path / "state"), Limits()), Access())
    assert described | {("get", "/openapi.json")} == set(routes_of(watch._app._app))
    example = document["paths"]["/v1/rewrite"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert client.post("/v1/rewrite", {**example, "people": None}).status == 200


def test_the_answers_are_as_openapi_describes_them(client: Client) -> None:
    document = client.get("/openapi.json").json

    def check(name: str, value: object) -> None:
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": document["components"]})

    check("RewriteAnswer", client.rewrite("A text.").json)
    check("RewriteAnswer", client.rewrite("A text.", card=True).json)
    check("ProblemAnswer", client.rewrite("A text.", epsilon=-1).json)
    check("HealthAnswer", client.get("/healthz").json)
    check("ModelsAnswer", client.get("/v1/models").json)
    check("ExamplesAnswer", client.get("/v1/examples?epsilon=5").json)
    job = client.upload("a.csv", b"text\nhello\n", {"epsilon": 2, "shuffle": True}).json
    check("JobAnswer", job)
    check("JobAnswer", client.wait_for(job["id"], "done"))
    check("JobsAnswer", client.get("/v1/jobs").json)
    check("ColumnsAnswer", client.upload("a.csv", b"text\nhello\n", {}, path="/v1/columns").json)
    check("TopicsAnswer", client.get(f"/v1/jobs/{job['id']}/topics").json)
    check("CollectionNoiseAnswer", client.get("/v1/collections/noise?epsilon=1&people=500").json)
    collection = client.upload("a.csv", b"text\nhello\n", {"epsilon": 1}, path="/v1/collections").json
    check("JobAnswer", client.wait_for(collection["id"], "asking"))
    uploads = (
        ("JobOptions", "/v1/jobs"),
        ("CollectionOptions", "/v1/collections"),
        ("ColumnsOptions", "/v1/columns"),
        ("AdviceOptions", "/v1/advice"),
    )
    for name, operation in (("RewriteBody", "/v1/rewrite"), *uploads):
        content = next(iter(document["paths"][operation]["post"]["requestBody"]["content"].values()))
        check(name, content["example"].get("options", content["example"]))


def test_openapi_has_every_declared_option(client: Client) -> None:
    document = client.get("/openapi.json").json
    schemas = document["components"]["schemas"]
    records = {
        "JobOptions": (*leaves(Settings), *leaves(FileRequest)),
        "CollectionOptions": (*leaves(CollectionBudget), *leaves(CollectionRequest)),
        "RewriteBody": leaves(Settings),
        "ColumnsOptions": leaves(Dialect),
        "AdviceOptions": leaves(AdviceRequest),
    }
    for name, options in records.items():
        declared = {leaf.name: leaf for leaf in options if leaf.shown.http}
        assert set(declared) <= set(schemas[name]["properties"])
        for option, leaf in declared.items():
            told = schemas[name]["properties"][option]["description"]
            assert "--" not in told
            over_http = leaf.help.replace("'dpbart models show NAME --areas'", "GET /v1/models")
            assert told.replace("_", "-") == over_http.replace("--", "").replace("_", "-")
    for path in ("/v1/noise", "/v1/examples"):
        asked = {each["name"] for each in document["paths"][path]["get"]["parameters"]}
        assert {leaf.name for leaf in leaves(Settings) if leaf.shown.http} <= asked


def test_openapi_has_no_option_that_an_upload_refuses(client: Client) -> None:
    schemas = client.get("/openapi.json").json["components"]["schemas"]
    uploads = {
        "JobOptions": "/v1/jobs",
        "CollectionOptions": "/v1/collections",
        "ColumnsOptions": "/v1/columns",
        "AdviceOptions": "/v1/advice",
    }
    for name, path in uploads.items():
        refused = client.upload("a.csv", b"text\nhello\n", {"epsilom": 1}, path=path).json["detail"]
        taken = refused.partition("the fields ")[2].partition(", and has 1 more")[0]
        assert set(taken.split(", ")) == set(schemas[name]["properties"])


def test_every_status_of_an_error_is_documented(client: Client) -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    table = page.partition("| Status | When |")[2].partition("\n\n")[0]
    documented = {int(each) for row in re.findall(r"^\| ([^|]+) \|", table, re.M) for each in re.findall(r"\d{3}", row)}
    code = "".join(file.read_text() for file in (ROOT / "src" / "dpbart" / "web").glob("*.py"))
    raised = {int(each) for each in re.findall(r"Problem\(\s*(\d{3})", code)} | {
        status for status, _ in _KINDS.values()
    }
    described = {
        int(status)
        for methods in client.get("/openapi.json").json["paths"].values()
        for method in methods.values()
        for status in method["responses"]
        if status != "default" and int(status) >= 400
    }
    assert raised | described | {405} == documented
    assert {408, 503, 507} <= described


@pytest.mark.parametrize(
    ("asked", "status", "allow"),
    [
        ("GET /v1/rewrite", 405, "POST"),
        ("HEAD /v1/rewrite", 405, "POST"),
        ("POST /v1/models", 405, "GET, HEAD"),
        ("POST /healthz", 405, "GET, HEAD"),
        ("POST /v1/rewrite/", 404, None),
        ("POST /v1/nothing", 404, None),
        ("GET /v1/index.html", 404, None),
    ],
)
def test_another_method_and_another_address_are_told_apart(
    client: Client, asked: str, status: int, allow: str | None
) -> None:
    method, path = asked.split()
    answer = client.send(method, path)
    assert answer.status == status
    given = answer.headers.get("allow")
    assert (given and set(given.split(", "))) == (allow and set(allow.split(", ")))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("epsilon=nan", "epsilon must be a number between"),
        ("epsilon=ten", "epsilon must be a number."),
        ("epsilon=10&mechansim=none", "and has 1 more. Leave them out."),  # otherwise it would seem to be private
    ],
)
def test_a_wrong_question_about_a_budget_is_refused_in_words(client: Client, query: str, words: str) -> None:
    for path in ("/v1/noise", "/v1/examples"):
        answer = client.get(f"{path}?{query}")
        assert (answer.status, words in answer.json["detail"]) == (422, True)
