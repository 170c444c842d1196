"""The API, described: the OpenAPI document that follows from the routes, and the records they take and answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dpbart.options.declare import Flat
from dpbart.version import __version__
from dpbart.web.answers import ProblemAnswer
from dpbart.web.bodies import BODY_EXAMPLES
from dpbart.web.guard import UPLOADS, is_guarded

_SCHEMAS = "#/components/schemas/"
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")  # of the command line, in the help of an option
_AREAS = ("'dpbart models show NAME --areas'", "GET /v1/models")  # where the command line and HTTP list them
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "16 to 255 ASCII characters, such as a UUID. The same key gets the same answer, without a second "
    "draw or charge.",
    "schema": {"type": "string", "minLength": 16, "maxLength": 255},
}


@dataclass(frozen=True)
class Operation:
    """What one route does, for its description."""

    at: str  # method and path, with parameters in braces: GET /v1/jobs/{id}
    summary: str
    answer: type[BaseModel] | str | None  # its record, or the media type of a file; None without a body
    takes: type[Flat] | None = None  # the record of its query, its JSON body, or the options of an upload
    status: int = 200
    key: bool = False  # whether it takes an Idempotency-Key
    fails: tuple[int, ...] = ()  # statuses of its problems, besides the usual ones

    @property
    def method(self) -> str:
        return self.at.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.at.partition(" ")[2]


def openapi(operations: Mapping[str, Operation]) -> dict[str, Any]:
    """The OpenAPI document of these operations, which have names for generated code."""
    taken = [each.takes for each in operations.values() if each.method != "GET"]
    answers = [each.answer for each in operations.values()]
    records = [each for each in (ProblemAnswer, *answers, *taken) if isinstance(each, type)]
    _, schemas = models_json_schema(
        [(record, "validation") for record in dict.fromkeys(records)], ref_template=_SCHEMAS + "{model}"
    )
    paths: dict[str, Any] = {}
    for name, operation in operations.items():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(name, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dpbart",
            "version": __version__,
            "description": "Rewrite texts under local differential privacy.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": 'If /healthz says "token": true.'}
            },
            "responses": {"Problem": _content(ProblemAnswer, "A problem.", kind="application/problem+json")},
            "schemas": _over_http(schemas["$defs"]),
        },
    }


def _operation(name: str, operation: Operation) -> dict[str, Any]:
    takes, is_query = operation.takes, operation.method == "GET"
    told: dict[str, Any] = {"summary": operation.summary, "operationId": name}
    usual = {401} if is_guarded(operation.path) else set()
    parameters = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
        for each in re.findall(r"\{(\w+)\}", operation.path)
    ]
    usual |= {404} if parameters else set()
    if takes is not None and is_query:
        usual |= {422}
        properties = _over_http(takes.model_json_schema()["properties"])
        parameters += [{"name": each, "in": "query", "schema": schema} for each, schema in properties.items()]
    if operation.key:
        parameters.append(_KEY)
    if parameters:
        told["parameters"] = parameters
    if takes is not None and not is_query:
        is_upload = operation.path in UPLOADS
        usual |= {400, 408, 413, 422} | ({415, 429, 507} if is_upload else set())
        told["requestBody"] = {"required": True, "content": _form(takes) if is_upload else _json_body(takes)}
    problem = {"$ref": "#/components/responses/Problem"}
    told["responses"] = {
        str(operation.status): _content(operation.answer, "The answer."),
        **{str(status): problem for status in (*sorted({*operation.fails, *usual}), "default")},
    }
    return told


def _json_body(record: type[Flat]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _SCHEMAS + record.__name__}, "example": BODY_EXAMPLES[record]}}


def _form(options: type[Flat]) -> dict[str, Any]:
    """An upload: the file, and its options as JSON."""
    properties = {
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        "options": {"$ref": _SCHEMAS + options.__name__},
    }
    form = {
        "schema": {"type": "object", "required": ["file"], "properties": properties},
        "encoding": {"options": {"contentType": "application/json"}},
        "example": {"file": "reviews.csv", "options": BODY_EXAMPLES[options]},
    }
    return {"multipart/form-data": form}


def _content(answer: type[BaseModel] | str | None, words: str, *, kind: str = "application/json") -> dict[str, Any]:
    if answer is None:
        return {"description": words}
    if isinstance(answer, str):
        return {"description": words, "content": {answer: {"schema": {"type": "string"}}}}
    return {"description": words, "content": {kind: {"schema": {"$ref": _SCHEMAS + answer.__name__}}}}


def _over_http(schema: Any) -> Any:
    """The same schema, whose descriptions name options as HTTP does: `text_column` instead of --text-column."""
    if isinstance(schema, list):
        return [_over_http(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {name: _over_http(each) for name, each in schema.items()}
    if isinstance(same.get("description"), str):
        told = same["description"].replace(*_AREAS)
        same["description"] = _FLAG.sub(lambda flag: flag[1].replace("-", "_"), told)
    return same
