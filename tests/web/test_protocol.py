"""Requests that no client of ours would send: each is refused or harmless, and nothing is logged."""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from dpbart.web.guard import Access
from tests.web.running import Client, heard, in_thread

TOKEN = "correct-horse-battery-staple"
SECRET = b"zanzibar"
LET_IN = f"Authorization: Bearer {TOKEN}"
CHUNKED = ("Transfer-Encoding: chunked",)
END = "Connection: close"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    access = Access(token=TOKEN, addresses=True)
    with in_thread(tmp_path_factory.mktemp("protocol") / "state", access=access) as running:
        yield running


def asked(line: str, *headers: str, host: str = "localhost") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1")


def statuses(client: Client, *parts: bytes) -> list[int]:
    """The status of each answer on one connection, which the server has to end."""
    with client.open() as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            for part in parts:
                connection.sendall(part)
        answer = heard(connection)
    assert SECRET not in answer
    ours = len(re.findall(b"HTTP/1.1 ", answer)) - answer.count(b"Invalid HTTP request received.")  # from uvicorn
    assert ours == len(re.findall(b"(?i)content-security-policy", answer))
    return [int(each) for each in re.findall(rb"HTTP/1.1 (\d+)", answer)]


@pytest.fixture(autouse=True)
def nothing_is_logged(
    guarded: Client, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []
    assert guarded.get("/v1/models", Authorization=f"Bearer {TOKEN}").status == 200
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize(
    "host",
    [
        "localhost@evil.example",
        "localhost:80@evil.example",
        "localhost.",
        "localhost, evil.example",
        "[::1]evil.example",
        "[::1].evil.example",
        "localhost/evil",
        "localhost:8000:8000",
        "localhost:8000x",
        "127.0.0.1.nip.example",
        "0x7f.1",
        "[::1",
        "::1:80",
    ],
)
def test_a_host_that_only_looks_like_ours_is_refused(guarded: Client, host: str) -> None:
    assert statuses(guarded, asked("GET /v1/models", LET_IN, END, host=host)) == [421]


@pytest.mark.parametrize(
    "host", ["LocalHost:8000", "[::1]:8000", "[fe80::1%eth0]:8000", "127.0.0.1", "[::ffff:127.0.0.1]"]
)
def test_a_host_of_ours_is_let_in_however_it_is_written(guarded: Client, host: str) -> None:
    assert statuses(guarded, asked("GET /v1/models", LET_IN, END, host=host)) == [200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((LET_IN, "Host: evil.example"), 400),
        ((LET_IN, "Origin: http://localhost", "Origin: http://evil.example"), 403),
        ((LET_IN, "Authorization: Bearer wrong"), 401),
        (("Authorization: Bearer wrong", LET_IN), 401),
        (("Authorization: Bearer \xff\xe9",), 401),
        ((f"Authorization: Bearer {TOKEN}\xe9",), 401),
        ((LET_IN, "Content-Length: 2", "Content-Length: 3"), 400),
        ((LET_IN, f"Content-Length: {'9' * 5000}"), 400),
        ((LET_IN, "Content-Length: +2"), 400),
        ((LET_IN, "Transfer-Encoding: gzip, chunked"), 400),
        ((LET_IN, f"X: {'a' * 1_000_000}"), 400),
    ],
)
def test_a_header_that_is_there_twice_or_wrong_is_refused(guarded: Client, headers: Sequence[str], status: int) -> None:
    assert statuses(guarded, asked("GET /v1/models", *headers, END)) == [status]


@pytest.mark.parametrize(
    "target",
    ["http://localhost/v1/models", "http://evil.example/v1/models", "//v1/models", "/./v1/models", "/V1/models", "*"],
)
def test_no_other_spelling_of_an_address_needs_no_token(guarded: Client, target: str) -> None:
    assert statuses(guarded, asked(f"GET {target}", END)) == [404]


@pytest.mark.parametrize("target", ["/%761/models", "/v1%2fmodels", "/v1/models;x", "/v1/../v1/models", "/v1/"])
def test_another_spelling_of_our_address_needs_the_token(guarded: Client, target: str) -> None:
    assert statuses(guarded, asked(f"GET {target}", END)) == [401]


@pytest.mark.parametrize(
    ("line", "status"),
    [("TRACE /v1/models", 405), ("CONNECT localhost:443", 404), ("PATCH /v1/models", 405), ("HEAD /v1/models", 200)],
)
def test_other_methods_are_harmless(guarded: Client, line: str, status: int) -> None:
    assert statuses(guarded, asked(line, LET_IN, "X-Marker: zanzibar", END)) == [status]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_upgrade_is_not_made(guarded: Client, protocol: str) -> None:
    upgrade = ("Connection: upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Version: 13")
    assert statuses(guarded, asked("GET /v1/models", LET_IN, *upgrade), asked("GET /healthz", END)) == [200, 200]


def test_requests_in_one_go_are_answered_in_order(guarded: Client) -> None:
    several = asked("GET /v1/models", LET_IN) + asked("GET /nothing") + asked("GET /v1/models", END)
    assert statuses(guarded, several) == [200, 404, 401]


@pytest.mark.parametrize("chunk", [b"zz\r\nzanzibar\r\n", b"-1\r\nzanzibar", b"\r\n\r\nzanzibar", b"2 2\r\nzanzibar"])
def test_chunks_with_a_wrong_size_are_refused(guarded: Client, chunk: bytes) -> None:
    assert statuses(guarded, asked("POST /v1/rewrite", LET_IN, *CHUNKED), chunk) == [400]


def test_what_follows_a_refused_request_is_not_read_as_another_one(guarded: Client) -> None:
    refused = asked("POST /v1/rewrite", *CHUNKED, host="evil.example")
    with guarded.open() as connection:
        connection.sendall(refused)
        answer = connection.recv(1)  # it is answered before more comes
        connection.sendall(b"zz\r\nzanzibar\r\n" + asked("GET /v1/models", LET_IN))
        answer += heard(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"421"]


@pytest.mark.parametrize(
    "said", [b"\x16\x03\x01\x02\x00\x01" * 20, b"zanzibar\r\n\r\n", b"GET /zanzibar\x00 HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_http_is_refused(guarded: Client, said: bytes) -> None:
    assert statuses(guarded, said) == [400]


def form(*parts: bytes, boundary: bytes = b"x", end: bytes = b"--x--\r\n") -> bytes:
    body = b"".join(b"--x\r\n" + part for part in parts) + end
    kind = f"Content-Type: multipart/form-data; boundary={boundary.decode()}"
    return asked("POST /v1/jobs", LET_IN, kind, f"Content-Length: {len(body)}", END) + body


def part(name: bytes, content: bytes = b"zanzibar", more: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name, more, content)


FILE = part(b"file", b"text\nzanzibar\n", b'; filename="a.csv"')
BROKEN = {
    "many parts": form(*[part(b"p%d" % number) for number in range(5_000)]),
    "many files": form(*[FILE] * 1_000),
    "a long header": form(b"X: " + b"a" * 1_000_000 + b"\r\n" + FILE),
    "many headers": form(b"X: zanzibar\r\n" * 10_000 + FILE),
    "no end": form(FILE, end=b""),
    "no end of the part": form(FILE[:-10], end=b""),
    "another boundary": form(FILE, boundary=b"yzanzibar"),
    "no boundary": form(FILE, boundary=b""),
    "a long field": form(part(b"options", b"zanzibar" * 300_000), FILE),
    "no name": form(b"Content-Disposition: form-data\r\n\r\nzanzibar\r\n"),
    "no header": form(b"\r\nzanzibar\r\n"),
    "half a header": form(b"zanzibar\r\n\r\nzanzibar\r\n"),
    "options that are a file": form(part(b"options", b"{}", b'; filename="o.json"'), part(b"file", b"zanzibar")),
    "deep options": form(part(b"options", b"[" * 100_000), FILE),
    "an unknown character set": form(FILE).replace(b"boundary=x", b"charset=zanzibar; boundary=x"),
}


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Starlette forgets a file without an end
@pytest.mark.parametrize("which", BROKEN)
def test_a_broken_form_is_refused(guarded: Client, which: str) -> None:
    assert statuses(guarded, BROKEN[which])[0] in (400, 422)
    if which.startswith("no end"):
        assert guarded.get("/healthz").status == 200
        gc.collect()  # now, and not in another test
