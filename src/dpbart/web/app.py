"""The routes: each reads its request, asks the service, and answers in JSON. Files come and go here too."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from dpbart.card.card import PAGE_TYPES
from dpbart.collect.expect import Expected
from dpbart.errors import DpbartError
from dpbart.files import OWN, create, reason
from dpbart.options.collecting import CollectionBudget
from dpbart.options.declare import from_flat
from dpbart.options.settings import Settings
from dpbart.privacy.guarantee import exactly
from dpbart.rewrite.chosen import refuse_idle_delta
from dpbart.rewrite.figures import noise_json, shuffled_json
from dpbart.version import __version__
from dpbart.web import bodies, schema
from dpbart.web.figures import models_json, person_json
from dpbart.web.guard import METRICS, Access, Guard, Problem
from dpbart.web.job import COLLECTION, TEXTS, FileJob, columns_json, job_json, shown_name, topics_json
from dpbart.web.releases import Key, file_hmac, job_id
from dpbart.web.service import Service
from dpbart.web.telemetry import METRICS_TYPE, Watch

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote characters of a form

_PAGE = 100  # people in one answer of /v1/ledger
_CARD_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
_REPLAYED = {"Idempotency-Replayed": "true"}
_V1, _DOCUMENT = "/v1", "/openapi.json"
_FORM = 'Send a form with the field "options" (JSON) and the field "file".'

Told = TypeVar("Told")
Act = Callable[["Routes", Request], Awaitable[Response]]
_ROUTES: list[tuple[schema.Operation, Act]] = []  # in the order of the class below


class _Route(schema.Operation):
    """Makes a method of `Routes` a route of the API, with its description."""

    def __call__(self, act: Act) -> Act:
        _ROUTES.append((self, act))
        return act


class Routes:
    """The routes of one service."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._access, self._jobs = service, access, service.jobs
        self._counting = asyncio.Lock()  # one output is counted at a time: each is read as a whole

    @_Route("GET /healthz", "Whether the server is up, and its limits", schema.HealthAnswer)
    async def health(self, request: Request) -> Response:
        limits = self._service.limits
        told = {"token": self._access.token is not None, "ledger": self._service.ledger is not None}
        shown = {name: getattr(limits, name) for name in schema.LimitsAnswer.model_fields}
        return JSONResponse({"status": "ok", "version": __version__, **told, "limits": shown})

    @_Route("GET /metrics", "Figures for Prometheus, without anything about a person", "text/plain")
    async def metrics(self, request: Request) -> Response:
        states = Counter(job.record.status for job in self._jobs.all())
        page = self._service.tally.page(waiting=self._service.batcher.waiting(), jobs=states)
        return Response(page, headers={"Content-Type": METRICS_TYPE})

    @_Route("GET /v1/models", "The models that the server offers", schema.ModelsAnswer)
    async def models(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(models_json, list(self._service.bundles.values())))

    @_Route("GET /v1/noise", "What a budget means", schema.NoiseAnswer, bodies.NoiseQuery)
    async def noise(self, request: Request) -> Response:
        given = bodies.queried(bodies.NoiseQuery, request.query_params)
        chosen, counts = self._service.offered(from_flat(Settings, given)), from_flat(bodies.NoiseCounts, given)
        texts, people = counts.texts, counts.people
        delta = None if texts is None else await self._service.people.delta()

        def told() -> dict[str, Any]:
            facts, own = chosen.channel.facts, chosen.settings.delta
            at = exactly(own) if delta is None else delta
            refuse_idle_delta(own, facts, used=people is not None or (texts is not None and delta is None))
            person = {} if texts is None else {"person": person_json(facts, texts=texts, delta=at)}
            some = {} if people is None else {"shuffled": shuffled_json(facts, people=people, delta=own)}
            return {**noise_json(facts, chosen), **person, **some}

        return JSONResponse(await run_in_threadpool(told))

    @_Route(
        "GET /v1/collections/noise",
        "What to expect of a collection",
        schema.CollectionNoiseAnswer,
        bodies.CollectionQuery,
    )
    async def collection_noise(self, request: Request) -> Response:
        given = bodies.queried(bodies.CollectionQuery, request.query_params)
        budget, counts = from_flat(CollectionBudget, given), from_flat(bodies.CollectionCounts, given)

        def told() -> dict[str, Any]:
            self._service.offered_book(budget)
            return Expected.of(budget, people=counts.people, labels=counts.labels or 0).as_json()

        return JSONResponse(await run_in_threadpool(told))

    @_Route(
        "GET /v1/examples", "Made-up public texts, rewritten at a budget", schema.ExamplesAnswer, bodies.ExamplesQuery
    )
    async def examples(self, request: Request) -> Response:
        settings = from_flat(Settings, bodies.queried(bodies.ExamplesQuery, request.query_params))
        return JSONResponse(await _unless_gone(request, self._service.examples(settings)))

    @_Route(
        "GET /v1/ledger",
        f"People and what they have spent, {_PAGE} at a time",
        schema.LedgerAnswer,
        bodies.LedgerQuery,
        fails=(404, 503),
    )
    async def ledger(self, request: Request) -> Response:
        asked = from_flat(bodies.LedgerPage, bodies.queried(bodies.LedgerQuery, request.query_params))
        return JSONResponse(await self._service.people.page(start=asked.start, count=_PAGE))

    @_Route(
        "POST /v1/ledger/person",
        "All that the ledger holds about one person",
        schema.PersonAnswer,
        bodies.PersonBody,
        fails=(404, 503),
    )
    async def person(self, request: Request) -> Response:
        return JSONResponse(await self._service.people.person(await request.body()))

    @_Route(
        "POST /v1/rewrite", "Rewrite texts", schema.RewriteAnswer, bodies.RewriteBody, key=True, fails=(409, 429, 503)
    )
    async def rewrite(self, request: Request) -> Response:
        body = await request.body()
        given = request.headers.get("idempotency-key")
        key = None if given is None else Key.of(given, body)
        settings, asked = bodies.read_texts(body, self._service.limits)
        request.state.texts = len(asked.texts)  # for the log
        answer, again = await _unless_gone(request, self._service.rewrite(settings, asked, key))
        return Response(answer, media_type="application/json", headers=_REPLAYED if again else {})

    @_Route("GET /v1/jobs", "All jobs", schema.JobsAnswer)
    async def list_jobs(self, request: Request) -> Response:
        jobs, limits = self._service.jobs.all(), self._service.limits
        # In a thread: each job that is done has its card read.
        return JSONResponse(await run_in_threadpool(lambda: {"jobs": [job_json(job, limits) for job in jobs]}))

    @_Route(
        "POST /v1/jobs",
        "Upload a file to rewrite",
        schema.JobAnswer,
        bodies.JobOptions,
        status=202,
        key=True,
        fails=(409,),
    )
    async def create_job(self, request: Request) -> Response:
        return await self._create(request, TEXTS)

    @_Route(
        "POST /v1/collections",
        "Upload a file whose collection is released as a whole",
        schema.JobAnswer,
        bodies.CollectionOptions,
        status=202,
        key=True,
        fails=(409,),
    )
    async def create_collection(self, request: Request) -> Response:
        return await self._create(request, COLLECTION)

    async def _create(self, request: Request, kind: str) -> Response:
        async with _received(request) as (upload, name, given):
            key = request.headers.get("idempotency-key")
            id, made = job_id(key), None if key is None else await asyncio.to_thread(file_hmac, key, upload.file)
            job = self._jobs.known(id, kind, name, given, made)
            headers = {"Location": f"/v1/jobs/{id}", **({} if job is None else _REPLAYED)}
            if job is None:
                job = self._jobs.create(id, kind, name, given, made)
                try:
                    await asyncio.to_thread(_save, upload, job.folder.source)
                    self._jobs.start(job)
                except BaseException:
                    job.folder.remove()
                    raise
        return self._job(job, 202, headers)

    @_Route(
        "POST /v1/columns",
        "The names of the columns of a file, which is not kept",
        schema.ColumnsAnswer,
        bodies.ColumnsOptions,
    )
    async def columns(self, request: Request) -> Response:
        def told(upload: UploadFile, name: str, given: bodies.Fields) -> dict[str, Any]:
            with self._jobs.lent(name) as folder:
                _save(upload, folder.source)
                return columns_json(folder, name, given, self._service.limits)

        async with _received(request) as received:
            return JSONResponse(await asyncio.to_thread(told, *received))

    @_Route("GET /v1/jobs/{id}", "A job", schema.JobAnswer)
    async def show_job(self, request: Request) -> Response:
        return self._job(self._jobs.find(request.path_params["id"]))

    @_Route("DELETE /v1/jobs/{id}", "Delete a job with its files", None, status=204, fails=(409,))
    async def delete_job(self, request: Request) -> Response:
        await run_in_threadpool(self._jobs.delete, request.path_params["id"])
        return Response(status_code=204)

    @_Route("POST /v1/jobs/{id}/cancel", "Stop a job after its current batch", schema.JobAnswer)
    async def cancel_job(self, request: Request) -> Response:
        return self._job(self._jobs.cancel(request.path_params["id"]))

    @_Route(
        "POST /v1/jobs/{id}/resume",
        "Continue a cancelled or failed job, or one that asks",
        schema.JobAnswer,
        status=202,
        fails=(409, 507),
    )
    async def resume_job(self, request: Request) -> Response:
        return self._job(self._jobs.resume(request.path_params["id"]), 202)

    @_Route("GET /v1/jobs/{id}/result", "The output", "application/octet-stream", fails=(409,))
    async def result(self, request: Request) -> Response:
        job = self._jobs.result(request.path_params["id"])
        whole = request.method == "GET" and "range" not in request.headers
        return _Download(job, (lambda: self._jobs.downloaded(job)) if whole else None)

    @_Route("GET /v1/jobs/{id}/card.{kind}", "The privacy card: json, html or txt", "application/json", fails=(409,))
    async def card(self, request: Request) -> Response:
        kind, job = request.path_params["kind"], self._jobs.result(request.path_params["id"])
        if kind not in PAGE_TYPES:
            raise HTTPException(404)
        # The page for people opens in the browser, with its own styles and without any script; others are downloaded.
        headers = (
            {"Content-Security-Policy": _CARD_POLICY} if kind == "html" else _saved_as(f"{job.result_name}.card.{kind}")
        )
        return FileResponse(job.folder.card(kind), media_type=PAGE_TYPES[kind], headers=headers)

    @_Route(
        "GET /v1/jobs/{id}/topics",
        "What the output says by topic of the book, and how much of it is noise",
        schema.TopicsAnswer,
        bodies.TopicsQuery,
        fails=(409,),
    )
    async def topics(self, request: Request) -> Response:
        given = bodies.queried(bodies.TopicsQuery, request.query_params)
        job = self._jobs.result(request.path_params["id"])
        async with self._counting:
            return JSONResponse(await run_in_threadpool(topics_json, job, given))

    def _job(self, job: FileJob, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return JSONResponse(job_json(job, self._service.limits), status, headers)


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[tuple[UploadFile, str, bodies.Fields]]:
    """The file of a form, its name and its options.

    A part of the form that does not fit into memory is a file without a name, which nobody else can open.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "not-a-form", f"an upload needs multipart/form-data. {_FORM}")
    try:
        async with request.form(max_files=1, max_fields=1) as form:
            upload, options = form.get("file"), form.get("options", "{}")
            if not isinstance(upload, UploadFile) or not isinstance(options, str):
                raise Problem(422, "bad-parameter", f"an upload needs a file. {_FORM}")
            yield upload, shown_name(upload.filename or ""), bodies.read_object(options.encode())
    except OSError as error:  # perhaps the disk is full
        raise Problem(507, "not-saved", f"the server cannot save the file: {reason(error)}.") from None


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Told]) -> Told:
    """What some work gives, unless the client goes first: then the work is cancelled."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        leaving.result()  # raises if it has a body that is too large or too slow
        raise ClientDisconnect
    finally:
        doing.cancel()
        leaving.cancel()


def _save(upload: UploadFile, file: Path) -> None:
    with os.fdopen(create(file, mode=OWN), "wb") as written:
        shutil.copyfileobj(upload.file, written)
        written.flush()
        os.fsync(written.fileno())


def _saved_as(name: str) -> dict[str, str]:
    """A header that makes a browser save a file, whatever characters its name has (RFC 6266)."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


class _Download(FileResponse):
    """The output of a job. `sent` is called when the client has taken all of it."""

    def __init__(self, job: FileJob, sent: Callable[[], None] | None) -> None:
        super().__init__(job.folder.target, headers=_saved_as(job.result_name), media_type="application/octet-stream")
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            # Asked before the last part: afterwards, a connection counts as closed in any case.
            if last and self._sent is not None and not await Request(scope, receive).is_disconnected():
                self._sent()
            await send(message)

        await super().__call__(scope, receive, watched)


def make_app(service: Service, access: Access) -> Watch:
    """The whole application, behind its guard, and watched for the log."""
    routes = Routes(service, access)
    document = json.dumps(schema.openapi({act.__name__: operation for operation, act in _ROUTES}))

    async def describe(request: Request) -> Response:
        return Response(document, media_type="application/json")

    def route(operation: schema.Operation, act: Act) -> Route:
        return Route(operation.path.removeprefix(_V1), partial(act, routes), methods=[operation.method])

    static = Path(str(files("dpbart.web") / "static"))
    api = [route(operation, act) for operation, act in _ROUTES if operation.path.startswith(_V1)]
    app = Starlette(
        routes=[
            Route("/healthz", routes.health),
            Route(METRICS, routes.metrics),
            Route(_DOCUMENT, describe),
            Mount(_V1, Router(api, redirect_slashes=False)),  # what is not there is not looked for among the files
            Mount("/", StaticFiles(directory=static, html=True)),
        ],
        exception_handlers=dict.fromkeys((DpbartError, Problem, HTTPException, Exception), _failed),
    )
    known = dict.fromkeys([*(operation.path for operation, _ in _ROUTES), _DOCUMENT])
    page = ["/", *(f"/{file.name}" for file in static.iterdir())]
    return Watch(Guard(app, access, service.limits), service.tally, routes=known, files=page)


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):  # nobody waits for an answer
        raise error
    return _problem(error).response()


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, DpbartError):
        return Problem.of(error)
    if isinstance(error, HTTPException):
        words = {404: "there is nothing at this address.", 405: "this address does not know this method."}
        detail = words.get(error.status_code, "the request cannot be answered.")
        allowed = {"Allow": "GET, HEAD"} if error.status_code == 405 else {}  # for the page; the API says it itself
        return Problem(error.status_code, "http", detail, headers={**allowed, **(error.headers or {})})
    # The words of an unexpected error could hold a text.
    return Problem(500, "error", f"the request failed with an unexpected error ({type(error).__name__}).")
