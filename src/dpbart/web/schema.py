"""The API, described: a record of each answer, and the OpenAPI document that follows from them and the routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from dpbart.options.declare import Flat
from dpbart.privacy.scale import LEVELS
from dpbart.version import __version__
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


class Answer(BaseModel):
    """What the server answers. It has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class ProblemAnswer(BaseModel):
    """A problem (RFC 9457), in the words of the command line."""

    type: str = Field(examples=["urn:dpbart:budget-exceeded"])
    title: str
    status: int
    detail: str
    left: list[SpendingAnswer] = Field([], description="With a refused budget: what each person has left.")


class LimitsAnswer(Answer):
    body: int = Field(description="Bytes of a request, other than an upload.")
    upload: int = Field(description="Bytes of an upload.")
    unpacked: int = Field(description="Bytes that an uploaded file may unpack to.")
    row: int = Field(description="Characters of one of its rows.")
    texts: int = Field(description="Texts in one request.")
    searched: int = Field(description="Texts times beams in one request.")
    characters: int = Field(description="Characters of one text.")
    jobs: int = Field(description="File jobs that wait or run.")
    job_seconds: int = Field(description="How long the files of a job are kept after it ended.")
    downloaded_seconds: int = Field(description="How long they are kept after the result was downloaded.")
    answer_seconds: int = Field(description="How long the answer to an Idempotency-Key is kept.")


class HealthAnswer(Answer):
    status: Literal["ok"]
    version: str
    token: bool = Field(description="Whether requests need a token.")
    ledger: bool = Field(description="Whether the server counts what people spend.")
    limits: LimitsAnswer


class AreaAnswer(Answer):
    name: str = Field(examples=["health"], description="For `areas`.")
    sentences: int
    topics: list[str] = Field(description="For `topics`.")
    examples: list[str] = Field(description="Some of its sentences.")


class ModelAnswer(Answer):
    name: str
    variant: str
    summary: str
    length: int = Field(description="Tokens that it reads and writes by default.")
    mechanisms: list[str] = Field(description="The first one is its own.")
    budgets: list[float] = Field(
        description="The epsilons that a code model was made for, the largest last; it takes none above. Empty if it "
        "takes any."
    )
    sentences: int = Field(description="Of its book of public sentences; 0 if it has none.")
    areas: list[AreaAnswer] = Field(description="Of its book; empty if it has none.")


class ModelsAnswer(Answer):
    default: str
    models: list[ModelAnswer]


class GuaranteeAnswer(Answer):
    epsilon: float | None = Field(description="null if the output is NOT PRIVATE.")
    delta: float
    private: bool
    level: str = Field(json_schema_extra={"enum": [level.name for level in LEVELS]})
    words: str = Field(examples=["(epsilon 10, delta 0)"])


class WorstAnswer(Answer):
    """The weakest promise that anybody gets from these texts alone."""

    guarantee: GuaranteeAnswer
    texts: int = Field(description="How many texts it is for.")
    words: str = Field(description="What it is for.", examples=["all 11 texts of one person"])


class WordsAnswer(Answer):
    name: str
    words: str


class PersonNoiseAnswer(Answer):
    texts: int
    guarantee: GuaranteeAnswer
    composition: str = Field(description="How the texts add up.")
    words: str


class ShuffledNoiseAnswer(Answer):
    people: int
    guarantee: GuaranteeAnswer = Field(description="To those who see only the shuffled output.")
    rule: Literal["blanket", "clones", "local"]
    known: int = Field(description="How many rows the second reader knows.")
    known_guarantee: GuaranteeAnswer = Field(description="To those who also know these rows.")
    words: list[WordsAnswer]


class NoiseAnswer(Answer):
    mechanism: str
    guarantee: GuaranteeAnswer = Field(description="Of one text.")
    figures: dict[str, float | int | str | None]
    bits: float | None = Field(description="null if there is no bound.")
    kept_of_100: float | None = Field(description="null for mechanisms that do not keep a text or lose it.")
    right_of_two: float
    right_of_a_million: float
    words: list[WordsAnswer]
    person: PersonNoiseAnswer | None = Field(
        None, description="With `texts`: at the delta of the ledger, or else its own."
    )
    shuffled: ShuffledNoiseAnswer | None = Field(None, description="With `people`.")


class CollectionNoiseAnswer(Answer):
    people: int
    labels: int
    guarantee: GuaranteeAnswer = Field(description="Of one person.")
    cells: int = Field(description="Parts of the book that are counted.")
    scale_votes: float = Field(description="Of the noise on each count, in votes.")
    topics_told_apart: int
    share_error: float = Field(description="Of a topic's share, at most, in 19 of 20 releases.")
    least_people: int = Field(description="From how many people on it is worth it.")
    enough: bool
    words: list[WordsAnswer]


class ExampleAnswer(Answer):
    original: str
    rewritten: str


class ExamplesAnswer(Answer):
    model: str
    guarantee: GuaranteeAnswer
    examples: list[ExampleAnswer]


class OutputAnswer(Answer):
    name: str
    content: str = Field(description="A table of the new texts. The card holds the SHA-256 of its UTF-8.")


class CardAnswer(Answer):
    json_page: str = Field(alias="json", description="Save it as it is, as NAME.card.json.")
    html: str


class RewriteAnswer(Answer):
    texts: list[str]
    guarantee: GuaranteeAnswer
    recipe: str
    model: str
    worst: WorstAnswer
    output: OutputAnswer | None = Field(None, description="With `card`.")
    card: CardAnswer | None = Field(None, description="With `card`.")


class SpendingAnswer(Answer):
    person: str
    texts: int
    spent: str = Field(description="A decimal, or 'infinite' if a release has no guarantee.")
    delta: str = Field(description="At which spending is measured, a decimal.")
    limit: str | None = Field(description="A decimal; null without a limit.")
    left: str | None = Field(description="A decimal; null without a limit.")


class RunAnswer(Answer):
    run: str
    begun: str = Field(description="Date and time, UTC.")
    last: str = Field(description="When this person's last text of the run was recorded, UTC.")
    texts: int
    mechanism: str
    epsilon: str = Field(description="Of each text: a decimal, or 'infinite'.")
    delta: str = Field(description="Of each text, a decimal.")
    model: str


class PersonAnswer(SpendingAnswer):
    composition: str | None = Field(description="How the releases add up; null if there are none.")
    runs: list[RunAnswer]


class LedgerAnswer(Answer):
    people: int
    texts: int
    limit: str | None = Field(description="For everybody without a limit of their own: a decimal; null without one.")
    delta: str = Field(description="At which spending is measured, a decimal.")
    private: bool = Field(description="Whether every release in the ledger has a guarantee.")
    start: int
    spending: list[SpendingAnswer]


class ColumnsAnswer(Answer):
    columns: list[str] = Field(description="An object is replaced by its keys, such as note.text.")
    reading: str | None = Field(description="How the file is read, if users may expect something else.")


class JobAnswer(Answer):
    id: str
    name: str
    kind: Literal["texts", "collection"] = Field(description="Each text is rewritten, or the collection as a whole.")
    status: Literal["waiting", "running", "asking", "cancelled", "failed", "done"]
    rows: int | None = Field(description="To rewrite, or to read for a collection; null until they are counted.")
    done: int | None
    created: float = Field(description="Seconds since 1970, like all times.")
    ended: float | None
    expires: float | None = Field(description="When its files are deleted; null while it waits or runs.")
    notices: list[str]
    problem: ProblemAnswer | None = Field(description="Why it failed.")
    worst: WorstAnswer | None = Field(description="null until the people are counted.")
    guarantee: GuaranteeAnswer | None = Field(description="Of one text, or of one person in a collection, when done.")
    shuffled: GuaranteeAnswer | None = Field(description="To those who see only the shuffled output.")
    result: str | None = Field(description="The address of the output, when the job is done.")
    card: str | None


class JobsAnswer(Answer):
    jobs: list[JobAnswer] = Field(description="The newest first.")


class ShareAnswer(Answer):
    name: str
    area: str
    estimate: float = Field(description="A share, or a difference of shares; it may be below 0 by chance.")
    low: float
    high: float
    told_from_noise: bool = Field(description="Whether the interval excludes 0.")


class GroupAnswer(Answer):
    name: str = Field(description="Empty for all.")
    counted: float = Field(description="Texts, or people.")
    shares: list[ShareAnswer]


class DifferenceAnswer(Answer):
    first: str
    second: str
    shares: list[ShareAnswer]


class TopicsAnswer(Answer):
    release: Literal["rewritten", "shuffled", "synthesised"]
    epsilon: float
    counted: Literal["texts", "people"]
    parts: Literal["topics", "areas", "cells"]
    estimated: str = Field(description="What a share is.")
    level: float = Field(description="How often all intervals hold together.")
    by: str | None
    groups: list[GroupAnswer]
    differences: list[DifferenceAnswer]


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
