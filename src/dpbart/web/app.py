"""The routes: each reads its request, asks the service, and answers in JSON."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles

from dpbart import __version__
from dpbart.errors import BadParameter, DpbartError
from dpbart.privacy.decimals import exactly
from dpbart.rewrite.settings import Settings
from dpbart.web.answers import Key
from dpbart.web.bodies import SETTINGS, refuse_unknown, settings_of
from dpbart.web.figures import models_json, noise_json, person_json, shuffled_json
from dpbart.web.guard import Access, Guard
from dpbart.web.problems import Problem
from dpbart.web.service import Service
from dpbart.web.transfers import Download, receive_columns, receive_job

_PAGE = 100  # people in one answer of /v1/ledger
_DIGITS = 12  # of a number in a query
_CARD_TYPES = [("json", "application/json"), ("html", "text/html"), ("txt", "text/plain")]
_CARD_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
_REPLAYED = {"Idempotency-Replayed": "true"}
_QUERY = (*SETTINGS, "texts", "people")
_QUERY_NUMBERS = ("epsilon", "delta", "length", "beams")


class Routes:
    """The routes of one service."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._access = service, access

    async def health(self, request: Request) -> Response:
        limits = self._service.limits
        return JSONResponse(
            {
                "status": "ok",
                "version": __version__,
                "token": self._access.token is not None,
                "ledger": self._service.ledger is not None,
                "limits": {
                    "body": limits.body,
                    "upload": limits.upload,
                    "unpacked": limits.unpacked,
                    "row": limits.row,
                    "texts": limits.texts,
                    "characters": limits.characters,
                    "jobs": limits.jobs,
                    "job_seconds": limits.job_seconds,
                    "downloaded_seconds": limits.downloaded_seconds,
                    "answer_seconds": limits.answer_seconds,
                },
            }
        )

    async def openapi(self, request: Request) -> Response:
        return Response(_openapi(), media_type="application/json")

    async def models(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(models_json, list(self._service.bundles.values())))

    async def noise(self, request: Request) -> Response:
        settings = self._service.offered(_queried(request))
        texts, people = _counted(request, "texts"), _counted(request, "people")
        delta = None if texts is None else await self._service.people.delta()

        def told() -> dict[str, Any]:
            facts = settings.channel.facts
            at = exactly(settings.delta) if delta is None else delta
            person = {} if texts is None else {"person": person_json(facts, texts=texts, delta=at)}
            some = {} if people is None else {"shuffled": shuffled_json(facts, people=people, delta=settings.delta)}
            return {**noise_json(facts), **person, **some}

        return JSONResponse(await run_in_threadpool(told))

    async def examples(self, request: Request) -> Response:
        return JSONResponse(await self._service.examples(_queried(request)))

    async def ledger(self, request: Request) -> Response:
        start = _counted(request, "start") or 0
        return JSONResponse(await self._service.people.page(start=start, count=_PAGE))

    async def person(self, request: Request) -> Response:
        return JSONResponse(await self._service.people.person(await request.body()))

    async def rewrite(self, request: Request) -> Response:
        body = await request.body()
        given = request.headers.get("idempotency-key")
        key = None if given is None else Key.of(given, body)
        answer, again = await self._service.rewrite(body, key)
        return Response(answer, media_type="application/json", headers=_REPLAYED if again else {})

    async def list_jobs(self, request: Request) -> Response:
        jobs = self._service.jobs
        # In a thread: each job that is done has its card read.
        return JSONResponse(await run_in_threadpool(lambda: {"jobs": [jobs.as_json(job) for job in jobs.all()]}))

    async def create_job(self, request: Request) -> Response:
        jobs = self._service.jobs
        job, again = await receive_job(request, jobs)
        headers = {"Location": f"/v1/jobs/{job.record.id}", **(_REPLAYED if again else {})}
        return JSONResponse(jobs.as_json(job), 202, headers=headers)

    async def columns(self, request: Request) -> Response:
        return JSONResponse(await receive_columns(request, self._service.jobs))

    async def show_job(self, request: Request) -> Response:
        jobs = self._service.jobs
        return JSONResponse(jobs.as_json(jobs.find(_id(request))))

    async def delete_job(self, request: Request) -> Response:
        await run_in_threadpool(self._service.jobs.delete, _id(request))
        return Response(status_code=204)

    async def cancel_job(self, request: Request) -> Response:
        jobs = self._service.jobs
        return JSONResponse(jobs.as_json(jobs.cancel(_id(request))))

    async def resume_job(self, request: Request) -> Response:
        jobs = self._service.jobs
        return JSONResponse(jobs.as_json(jobs.resume(_id(request))), 202)

    async def result(self, request: Request) -> Response:
        jobs = self._service.jobs
        job = jobs.result(_id(request))
        headers = {"Content-Disposition": _attachment(job.result_name)}
        whole = request.method == "GET" and "range" not in request.headers
        return Download(job.folder.target, headers, (lambda: jobs.downloaded(job)) if whole else None)

    async def card(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        job = self._service.jobs.result(_id(request))
        types = dict(_CARD_TYPES)
        if kind not in types:
            raise HTTPException(404)
        # The page for people opens in the browser, with its own styles and without any script; others are downloaded.
        saved = {"Content-Disposition": _attachment(f"{job.result_name}.card.{kind}")}
        headers = {"Content-Security-Policy": _CARD_POLICY} if kind == "html" else saved
        return FileResponse(job.folder.card(kind), media_type=types[kind], headers=headers)


def make_app(service: Service, access: Access) -> Guard:
    """The whole application, behind its guard."""
    routes = Routes(service, access)
    app = Starlette(
        routes=[
            Route("/healthz", routes.health),
            Route("/openapi.json", routes.openapi),
            Mount("/v1", Router(_v1(routes), redirect_slashes=False)),
            Mount("/", StaticFiles(directory=Path(str(files("dpbart.web") / "static")), html=True)),
        ],
        exception_handlers={
            DpbartError: _dpbart_error,
            Problem: _problem,
            HTTPException: _http_error,
            Exception: _unexpected,
        },
    )
    return Guard(app, access, service.limits)


def _v1(routes: Routes) -> list[Route]:
    """The API, apart from the page: an address that is not here is not looked for among the files."""
    return [
        Route("/models", routes.models),
        Route("/noise", routes.noise),
        Route("/examples", routes.examples),
        Route("/ledger", routes.ledger),
        Route("/ledger/person", routes.person, methods=["POST"]),
        Route("/rewrite", routes.rewrite, methods=["POST"]),
        Route("/jobs", routes.list_jobs, methods=["GET"]),
        Route("/jobs", routes.create_job, methods=["POST"]),
        Route("/columns", routes.columns, methods=["POST"]),
        Route("/jobs/{id}", routes.show_job, methods=["GET"]),
        Route("/jobs/{id}", routes.delete_job, methods=["DELETE"]),
        Route("/jobs/{id}/cancel", routes.cancel_job, methods=["POST"]),
        Route("/jobs/{id}/resume", routes.resume_job, methods=["POST"]),
        Route("/jobs/{id}/result", routes.result),
        Route("/jobs/{id}/card.{kind}", routes.card),
    ]


async def _dpbart_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DpbartError)
    return Problem.of(error).response()


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing at this address.", 405: "this address does not know this method."}
    detail = words.get(error.status_code, "the request cannot be answered.")
    allowed = {"Allow": "GET, HEAD"} if error.status_code == 405 else {}  # for the page; the API says it itself
    return Problem(error.status_code, "http", detail, headers={**allowed, **(error.headers or {})}).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    """The words of an unexpected error could hold a text, so only its type is told."""
    return Problem(500, "error", f"the request failed with an unexpected error ({type(error).__name__}).").response()


def _queried(request: Request) -> Settings:
    """The settings in a query: a model and its budget, and no text."""
    given: dict[str, Any] = dict(request.query_params)
    refuse_unknown(given, _QUERY)
    for name in _QUERY_NUMBERS:
        if name in given:
            try:
                given[name] = float(given[name])
            except ValueError:
                raise BadParameter(f"{name} must be a number.") from None
    return settings_of(given)


def _counted(request: Request, name: str) -> int | None:
    """A whole number in a query; None if it is not there."""
    given = request.query_params.get(name)
    if given is not None and (not given.isdecimal() or len(given) > _DIGITS):
        raise BadParameter(f"{name} must be a whole number, at least 0.")
    return None if given is None else int(given)


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _attachment(name: str) -> str:
    """A header that makes a browser save a file, whatever characters its name has (RFC 6266)."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def _openapi() -> str:
    return (files("dpbart.web") / "openapi.json").read_text(encoding="utf-8")
