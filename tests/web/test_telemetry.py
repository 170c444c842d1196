"""What operators see: a line in the log for each request, and figures for Prometheus. Neither tells about a person."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpbart.web.guard import Access
from tests.web.running import PATIENCE, Client, Process, in_thread, process, start, until

SECRET = "zanzibar"
FIGURE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)*)\})? (-?[0-9.e+-]+)')


def ask_for_all_kinds(client: Client) -> None:
    """Requests of which each has the word in another place."""
    assert client.rewrite(SECRET, key=f"a-key-with-{SECRET}").status == 200
    assert client.rewrite(*[SECRET] * 11).status == 200
    assert client.rewrite(f"a {SECRET}", epsilon=-1).status == 422
    assert client.get(f"/v1/noise?epsilon=10&{SECRET}=1").status == 422
    assert client.get(f"/{SECRET}.html").status == 404
    assert client.get(f"/v1/{SECRET}").status == 404
    assert client.get(f"/v1/jobs/{SECRET}").status == 404
    assert client.send(SECRET.upper(), "/healthz").status == 405
    assert client.post("/v1/ledger/person", {"person": SECRET}).status == 404
    job = client.upload(f"{SECRET}.csv", f"{SECRET}\na text\n".encode(), {"epsilon": 10, "text_column": SECRET})
    assert job.status == 202
    assert client.wait_for(job.json["id"], "done")
    assert client.get(f"/v1/jobs/{job.json['id']}/card.json").status == 200
    assert client.get("/").status == client.get("/app.js").status == 200


TOLD = [
    ("POST", "/v1/rewrite", 200, "1"),
    ("POST", "/v1/rewrite", 200, "11-100"),
    ("POST", "/v1/rewrite", 422, None),
    ("GET", "/v1/noise", 422, None),
    ("GET", "other", 404, None),
    ("GET", "other", 404, None),
    ("GET", "/v1/jobs/{id}", 404, None),
    ("other", "/healthz", 405, None),
    ("POST", "/v1/ledger/person", 404, None),
    ("POST", "/v1/jobs", 202, None),
    ("GET", "/v1/jobs/{id}/card.{kind}", 200, None),
    ("GET", "page", 200, None),
    ("GET", "page", 200, None),
]
FILES = {'"page"': 2, '.{kind}"': 1}


def test_each_request_is_a_line_of_json_without_anything_of_it(tmp_path: Path) -> None:
    with process(tmp_path / "state", "--log-format", "json", "--log-level", "debug") as running:
        ask_for_all_kinds(running.client)
        # A file is closed after it was sent, and then logged: perhaps after the next request.
        until(lambda: all(running.log.read_text().count(route) == times for route, times in FILES.items()))
    log = running.log.read_text()
    assert SECRET not in log.lower()
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    told = [(line["method"], line["route"], line["status"], line.get("texts")) for line in requests]
    polls = ("GET", "/v1/jobs/{id}", 200, None)
    assert Counter(each for each in told if each != polls) == Counter(TOLD)
    assert {tuple(line) for line in requests} <= {
        ("time", "level", "message", "method", "route", "status", "milliseconds"),
        ("time", "level", "message", "method", "route", "status", "milliseconds", "texts"),
    }
    assert all(isinstance(line["milliseconds"], int) and line["level"] == "info" for line in requests)
    assert {line["texts"] for line in lines if line["message"] == "batch"} == {"1", "11-100"}
    assert "listens on" in lines[0]["message"]


def test_levels_leave_out_what_is_less_important(tmp_path: Path) -> None:
    for level, count in (("info", 2), ("warning", 0)):
        with process(tmp_path / level, "--log-level", level) as running:
            assert running.client.rewrite("a text").status == 200
            assert running.client.get("/healthz").status == 200
            until(lambda: running.log.read_text().count(" info request ") == count)  # noqa: B023
            lines = running.log.read_text().splitlines()[2:]  # after where it listens
        assert len(lines) == count
        if lines:
            when, what = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r"POST /v1/rewrite 200 milliseconds=\d+ texts=1"
            assert re.fullmatch(f"{when} info request {what}", lines[0])


def figures(client: Client, **headers: str) -> dict[str, float]:
    """The page of figures, checked against the text format of Prometheus."""
    answer = client.get("/metrics", **headers)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    held: dict[str, float] = {}
    kinds: dict[str, str] = {}
    assert answer.body.endswith(b"\n")
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            found = FIGURE.fullmatch(line)
            assert found is not None, line
            name = re.sub("_(bucket|sum|count)$", "", found[1]) if "seconds_" in found[1] else found[1]
            assert (name if name in kinds else found[1]) in kinds
            key = line.rpartition(" ")[0]
            assert key not in held
            held[key] = float(found[3])
    return held


def test_the_figures_count_requests_batches_and_jobs_and_nobody(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        assert client.rewrite(SECRET, people=[SECRET]).status == 200
        assert client.rewrite(*[SECRET] * 40, people=[SECRET] * 40).status == 200
        assert client.rewrite(SECRET).status == 422
        options = {"epsilon": 10, "text_column": SECRET, "person_column": "id"}
        job = client.upload(f"{SECRET}.csv", f"id,{SECRET}\n{SECRET},a text\n".encode(), options).json["id"]
        client.wait_for(job, "done")
        page = client.get("/metrics").body.decode()
        assert SECRET not in page
        assert job not in page
        held = figures(client)
    assert held['dpbart_requests_total{method="POST",route="/v1/rewrite",status="200"}'] == 2
    assert held['dpbart_requests_total{method="POST",route="/v1/rewrite",status="422"}'] == 1
    assert held['dpbart_rewrites_total{texts="1"}'] == 2
    assert held['dpbart_rewrites_total{texts="11-100"}'] == 1
    assert held['dpbart_request_seconds_count{route="/v1/rewrite"}'] == 3
    assert held['dpbart_request_seconds_bucket{route="/v1/rewrite",le="+Inf"}'] == 3
    assert held["dpbart_batch_seconds_count"] == 4  # 1, 32 and 8 texts, and the job
    assert held["dpbart_waiting_requests"] == 0
    assert held['dpbart_jobs{status="done"}'] == 1
    steps = [count for name, count in held.items() if name.startswith("dpbart_batch_seconds_bucket")]
    assert steps == sorted(steps)


def test_the_figures_need_the_token(tmp_path: Path) -> None:
    token = "correct-horse-battery-staple"
    with in_thread(tmp_path / "state", access=Access(token=token)) as client:
        assert client.get("/metrics").status == 401
        held = figures(client, Authorization=f"Bearer {token}")
        assert held['dpbart_requests_total{method="GET",route="/metrics",status="401"}'] == 1


def rest_of(running: Process, connection: socket.socket) -> bytes:
    """What comes on a connection until its end."""
    said = b""
    connection.settimeout(PATIENCE)
    while part := connection.recv(1 << 16):
        said += part
    return said


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_answers_what_it_has_begun(tmp_path: Path, told: signal.Signals) -> None:
    """And takes nothing new. A job stops after its batch and is left to the next server."""
    running = start(tmp_path / "state", "--ledger", str(tmp_path / "l.db"))
    client, texts, rows = running.client, 160, 6_400
    job = client.upload("a.csv", b"id,text\n" + b"a,it was cold\n" * rows, {"epsilon": 10, "person_column": "id"})
    until(lambda: client.get(f"/v1/jobs/{job.json['id']}").json["done"] >= 32)
    body = json.dumps({"texts": ["it was cold"] * texts, "epsilon": 10, "people": ["anna"] * texts}).encode()
    with client.open() as connection, ThreadPoolExecutor() as waiting:
        connection.sendall(
            b"POST /v1/rewrite HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        until(lambda: figures(client)["dpbart_waiting_requests"] >= 2)
        answer = waiting.submit(rest_of, running, connection)
        code, said = running.stop(told)
        head, _, sent = answer.result().partition(b"\r\n\r\n")
    assert code == (143 if told == signal.SIGTERM else 130), said
    assert b" 200 " in head.splitlines()[0]
    assert len(json.loads(sent)["texts"]) == texts
    assert "info stopping; requests in progress: 1" in said
    with pytest.raises(ConnectionRefusedError):
        client.get("/healthz")
    record = json.loads((tmp_path / "state" / "jobs" / job.json["id"] / "job.json").read_text())
    assert (record["status"], record["rows"]) == ("running", rows), "the next server continues it"
