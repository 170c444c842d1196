"""The routes: each reads its request, asks the service, and answers in JSON."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles

from dpbart.card.card import PAGE_TYPES
from dpbart.collect.expect import Expected
from dpbart.errors import DpbartError
from dpbart.options.collecting import CollectionBudget
from dpbart.options.declare import from_flat
from dpbart.options.settings import Settings
from dpbart.privacy.guarantee import exactly
from dpbart.rewrite.chosen import refuse_idle_delta
from dpbart.rewrite.figures import noise_json, shuffled_json
from dpbart.version import __version__
from dpbart.web import answers, bodies, schema
from dpbart.web.advice import advice_json, advice_request
from dpbart.web.figures import models_json, person_json
from dpbart.web.guard import METRICS, Access, Guard, Problem
from dpbart.web.job import COLLECTION, TEXTS, FileJob, columns_json, job_json, topics_json
from dpbart.web.releases import Key, file_hmac, job_id
from dpbart.web.service import Service
from dpbart.web.telemetry import METRICS_TYPE, Watch
from dpbart.web.transfers import Download, received, save, saved_as

_PAGE = 100  # people in one answer of /v1/ledger
_CARD_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
_REPLAYED = {"Idempotency-Replayed": "true"}
_V1, _DOCUMENT = "/v1", "/openapi.json"

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
        self._advising = asyncio.Lock()  # one advice is measured at a time: each takes a core for a while

    @_Route("GET /healthz", "Whether the server is up, and its limits", answers.HealthAnswer)
    async def health(self, request: Request) -> Response:
        limits = self._service.limits
        told = {"token": self._access.token is not None, "ledger": self._service.ledger is not None}
        shown = {name: getattr(limits, name) for name in answers.LimitsAnswer.model_fields}
        return JSONResponse({"status": "ok", "version": __version__, **told, "limits": shown})

    @_Route("GET /metrics", "Figures for Prometheus, without anything about a person", "text/plain")
    async def metrics(self, request: Request) -> Response:
        states = Counter(job.record.status for job in self._jobs.all())
        page = self._service.tally.page(waiting=self._service.batcher.waiting(), jobs=states)
        return Response(page, headers={"Content-Type": METRICS_TYPE})

    @_Route("GET /v1/models", "The models that the server offers", answers.ModelsAnswer)
    async def models(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(models_json, list(self._service.bundles.values())))

    @_Route("GET /v1/noise", "What a budget means", answers.NoiseAnswer, bodies.NoiseQuery)
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
        answers.CollectionNoiseAnswer,
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
        "GET /v1/examples", "Made-up public texts, rewritten at a budget", answers.ExamplesAnswer, bodies.ExamplesQuery
    )
    async def examples(self, request: Request) -> Response:
        settings = from_flat(Settings, bodies.queried(bodies.ExamplesQuery, request.query_params))
        return JSONResponse(await _unless_gone(request, self._service.examples(settings)))

    @_Route(
        "GET /v1/ledger",
        f"People and what they have spent, {_PAGE} at a time",
        answers.LedgerAnswer,
        bodies.LedgerQuery,
        fails=(404, 503),
    )
    async def ledger(self, request: Request) -> Response:
        asked = from_flat(bodies.LedgerPage, bodies.queried(bodies.LedgerQuery, request.query_params))
        return JSONResponse(await self._service.people.page(start=asked.start, count=_PAGE))

    @_Route(
        "POST /v1/ledger/person",
        "All that the ledger holds about one person",
        answers.PersonAnswer,
        bodies.PersonBody,
        fails=(404, 503),
    )
    async def person(self, request: Request) -> Response:
        return JSONResponse(await self._service.people.person(await request.body()))

    @_Route(
        "POST /v1/rewrite", "Rewrite texts", answers.RewriteAnswer, bodies.RewriteBody, key=True, fails=(409, 429, 503)
    )
    async def rewrite(self, request: Request) -> Response:
        body = await request.body()
        given = request.headers.get("idempotency-key")
        key = None if given is None else Key.of(given, body)
        settings, asked = bodies.read_texts(body, self._service.limits)
        request.state.texts = len(asked.texts)  # for the log
        answer, again = await _unless_gone(request, self._service.rewrite(settings, asked, key))
        return Response(answer, media_type="application/json", headers=_REPLAYED if again else {})

    @_Route("GET /v1/jobs", "All jobs", answers.JobsAnswer)
    async def list_jobs(self, request: Request) -> Response:
        jobs, limits = self._service.jobs.all(), self._service.limits
        # In a thread: each job that is done has its card read.
        return JSONResponse(await run_in_threadpool(lambda: {"jobs": [job_json(job, limits) for job in jobs]}))

    @_Route(
        "POST /v1/jobs",
        "Upload a file to rewrite",
        answers.JobAnswer,
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
        answers.JobAnswer,
        bodies.CollectionOptions,
        status=202,
        key=True,
        fails=(409,),
    )
    async def create_collection(self, request: Request) -> Response:
        return await self._create(request, COLLECTION)

    async def _create(self, request: Request, kind: str) -> Response:
        async with received(request) as (upload, name, given):
            key = request.headers.get("idempotency-key")
            id, made = job_id(key), None if key is None else await asyncio.to_thread(file_hmac, key, upload.file)
            job = self._jobs.known(id, kind, name, given, made)
            headers = {"Location": f"/v1/jobs/{id}", **({} if job is None else _REPLAYED)}
            if job is None:
                job = self._jobs.create(id, kind, name, given, made)
                try:
                    await asyncio.to_thread(save, upload, job.folder.source)
                    self._jobs.start(job)
                except BaseException:
                    job.folder.remove()
                    raise
        return self._job(job, 202, headers)

    @_Route(
        "POST /v1/columns",
        "The names of the columns of a file, which is not kept",
        answers.ColumnsAnswer,
        bodies.ColumnsOptions,
    )
    async def columns(self, request: Request) -> Response:
        def told(upload: UploadFile, name: str, given: bodies.Fields) -> dict[str, Any]:
            with self._jobs.lent(name) as folder:
                save(upload, folder.source)
                return columns_json(folder, name, given, self._service.limits)

        async with received(request) as sent:
            return JSONResponse(await asyncio.to_thread(told, *sent))

    @_Route(
        "POST /v1/advice",
        "Advice about epsilon from a file of public texts, which is not kept",
        answers.AdviceAnswer,
        bodies.AdviceOptions,
    )
    async def advice(self, request: Request) -> Response:
        def told(upload: UploadFile, name: str, given: bodies.Fields) -> dict[str, Any]:
            with self._jobs.lent(name) as folder:
                asked = advice_request(folder, given)
                self._service.offered(Settings(asked.model, epsilon=1.0))
                save(upload, folder.source)
                return advice_json(asked, folder, name, self._service.limits)

        async with received(request) as sent, self._advising:
            return JSONResponse(await asyncio.to_thread(told, *sent))

    @_Route("GET /v1/jobs/{id}", "A job", answers.JobAnswer)
    async def show_job(self, request: Request) -> Response:
        return self._job(self._jobs.find(request.path_params["id"]))

    @_Route("DELETE /v1/jobs/{id}", "Delete a job with its files", None, status=204, fails=(409,))
    async def delete_job(self, request: Request) -> Response:
        await run_in_threadpool(self._jobs.delete, request.path_params["id"])
        return Response(status_code=204)

    @_Route("POST /v1/jobs/{id}/cancel", "Stop a job after its current batch", answers.JobAnswer)
    async def cancel_job(self, request: Request) -> Response:
        return self._job(self._jobs.cancel(request.path_params["id"]))

    @_Route(
        "POST /v1/jobs/{id}/resume",
        "Continue a cancelled or failed job, or one that asks",
        answers.JobAnswer,
        status=202,
        fails=(409, 507),
    )
    async def resume_job(self, request: Request) -> Response:
        return self._job(self._jobs.resume(request.path_params["id"]), 202)

    @_Route("GET /v1/jobs/{id}/result", "The output", "application/octet-stream", fails=(409,))
    async def result(self, request: Request) -> Response:
        job = self._jobs.result(request.path_params["id"])
        whole = request.method == "GET" and "range" not in request.headers
        return Download(job, (lambda: self._jobs.downloaded(job)) if whole else None)

    @_Route("GET /v1/jobs/{id}/card.{kind}", "The privacy card: json, html or txt", "application/json", fails=(409,))
    async def card(self, request: Request) -> Response:
        kind, job = request.path_params["kind"], self._jobs.result(request.path_params["id"])
        if kind not in PAGE_TYPES:
            raise HTTPException(404)
        # The page for people opens in the browser, with its own styles and without any script; others are downloaded.
        headers = (
            {"Content-Security-Policy": _CARD_POLICY} if kind == "html" else saved_as(f"{job.result_name}.card.{kind}")
        )
        return FileResponse(job.folder.card(kind), media_type=PAGE_TYPES[kind], headers=headers)

    @_Route(
        "GET /v1/jobs/{id}/topics",
        "What the output says by topic of the book, and how much of it is noise",
        answers.TopicsAnswer,
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
