"""Nobody but the owner's programs and page can ask, and nobody can fill the memory or read other files."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpbart.web.guard import Access, Limits
from dpbart.web.releases import Key, job_id
from tests.web.running import PATIENCE, Client, Held, in_thread, reached

TOKEN = "correct-horse-battery-staple"
SECRET = "zanzibar marmalade"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with a token and small limits."""
    limits = Limits(body=20_000, upload=50_000, texts=5, characters=1_000, kept_jobs=2)
    access = Access(frozenset({"dp.example.org"}), TOKEN, addresses=True)
    with in_thread(tmp_path_factory.mktemp("guarded") / "state", limits=limits, access=access) as running:
        yield running


BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/v1/rewrite"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", ""])
def test_another_host_is_refused(client: Client, path: str, host: str) -> None:
    answer = client.send("POST" if path.endswith("rewrite") else "GET", path, headers={"Host": host})
    assert answer.status == 421


def test_our_own_names_are_not_refused(client: Client, guarded: Client) -> None:
    for host in (f"localhost:{client.port}", f"127.0.0.1:{client.port}", f"[::1]:{client.port}", "LOCALHOST"):
        assert client.get("/healthz", Host=host).status == 200
    assert guarded.get("/healthz", Host="dp.example.org:8000").status == 200
    assert guarded.get("/healthz", Host="192.0.2.7:8000").status == 200
    assert client.get("/healthz", Host="192.0.2.7:8000").status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost", "http://127.0.0.1:1"])
def test_another_origin_is_refused(client: Client, origin: str) -> None:
    answer = client.post("/v1/rewrite", {"texts": ["a"], "epsilon": 10}, {"Origin": origin})
    assert (answer.status, answer.json["type"]) == (403, "urn:dpbart:foreign-origin")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_another_site_cannot_even_read(client: Client) -> None:
    for site in ("cross-site", "same-site"):
        assert client.get("/v1/jobs", **{"Sec-Fetch-Site": site}).status == 403
    assert client.send("OPTIONS", "/v1/rewrite", headers={"Origin": "http://evil.example"}).status == 403
    own = f"http://127.0.0.1:{client.port}"
    assert client.get("/v1/jobs", Origin=own, **{"Sec-Fetch-Site": "same-origin"}).status == 200


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/jobs", "/v1/ledger", "/v1/nothing"])
def test_without_the_token_nothing_is_told(guarded: Client, given: str | None, path: str) -> None:
    answer = guarded.send("GET", path, headers={} if given is None else {"Authorization": given})
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in answer.body.decode()


def test_with_the_token_everything_works(guarded: Client) -> None:
    assert guarded.get("/v1/models", **BEARER).status == 200
    assert guarded.get("/healthz").json["token"] is True


def test_the_token_is_compared_in_constant_time(guarded: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[object, object]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)  # type: ignore[func-returns-value]
    assert guarded.get("/v1/models", Authorization="Bearer wrong").status == 401
    assert guarded.get("/v1/models", **BEARER).status == 200
    assert compared == [(b"wrong", TOKEN.encode()), (TOKEN.encode(), TOKEN.encode())]


def test_a_huge_body_is_refused_before_it_is_read(guarded: Client) -> None:
    head = f"POST /v1/rewrite HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    for size in ("999999999999", "-1", "1e9"):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as connection:
            connection.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
            assert connection.recv(100).split()[1] in (b"413", b"400")


def test_a_body_without_a_length_ends_at_the_limit(guarded: Client) -> None:
    head = f"POST /v1/rewrite HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(3):
            connection.sendall(b"2710\r\n" + b"a" * 10_000 + b"\r\n")
        assert connection.recv(100).split()[1] == b"413"


@pytest.mark.parametrize(("size", "status"), [(20_000, 422), (20_001, 413)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_be_as_large_as_the_limit(guarded: Client, size: int, status: int, chunked: bool) -> None:
    body = b"{}" + b" " * (size - 2)
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (size, body) if chunked else body
    length = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(size)}
    assert guarded.send("POST", "/v1/rewrite", framed, {**BEARER, **length}).status == status


def test_a_huge_upload_is_refused(guarded: Client) -> None:
    assert guarded.upload("a.csv", b"text\n" + b"a" * 60_000, headers=BEARER).status == 413


def test_too_many_or_too_long_texts_are_refused(guarded: Client) -> None:
    for texts in (["a"] * 6, ["a" * 1_001]):
        answer = guarded.post("/v1/rewrite", {"texts": texts, "epsilon": 10}, BEARER)
        assert answer.status == 413


def test_too_many_jobs_are_refused(guarded: Client) -> None:
    jobs = [guarded.upload(f"{name}.csv", b"text\nhello\n", headers=BEARER) for name in "abc"]
    assert [job.status for job in jobs] == [202, 202, 429]
    assert jobs[-1].headers["retry-after"] == "5"


@pytest.mark.parametrize(
    "path",
    [
        "/../../pyproject.toml",
        "/..%2f..%2fpyproject.toml",
        "/%2e%2e/%2e%2e/problems.py",
        "/....//problems.py",
        "//etc/passwd",
        "/%00",
        "/v1/jobs/..%2f..%2fanswers.db",
        "/v1/jobs/%2e%2e/result",
        "/v1/jobs/../answers.db/result",
        "/v1/jobs/x/card.../../lock",
    ],
)
def test_no_path_leads_out_of_the_pages(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status in (404, 400)
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


def test_html_in_a_text_or_a_file_name_stays_data(client: Client) -> None:
    answer = client.rewrite("<script>alert(1)</script>", mechanism="none", epsilon=None)
    assert answer.headers["content-type"] == "application/json"
    job = client.upload("<img src=x onerror=alert(1)>.csv", b"text\n<script>alert(1)</script>\n").json
    assert job["name"] == "<img src=x onerror=alert(1)>.csv"
    done = client.wait_for(job["id"], "done")
    result = client.get(done["result"])
    assert result.headers["content-type"] == "application/octet-stream"
    assert result.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%3Cimg%20src")
    card = client.get(f"/v1/jobs/{job['id']}/card.html")
    assert "<img src=x" not in card.body.decode()
    assert "sandbox" in card.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["../../../tmp/evil.csv", "..\\evil.csv", "/etc/evil.csv", "\x00evil.csv"])
def test_a_file_name_is_never_a_path(client: Client, name: str) -> None:
    job = client.upload(name, b"text\nhello\n").json
    assert job["name"].endswith("evil.csv")
    assert not {"/", "\\..", "\x00"} & set(job["name"])
    client.wait_for(job["id"], "done")


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/v1/nothing", "/nothing"])
def test_every_answer_has_the_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "set-cookie" not in headers


def test_an_unexpected_error_tells_and_logs_no_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(settings: object) -> object:
        raise ValueError(SECRET)

    with in_thread(tmp_path / "state", load=broken) as client:  # type: ignore[arg-type]
        answer = client.rewrite(SECRET)
        job = client.wait_for(client.upload("a.csv", f"text\n{SECRET}\n".encode()).json["id"], "failed")
    assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
    said = answer.body.decode() + str(job) + "".join(capfd.readouterr())
    assert "ValueError" in said
    assert SECRET not in said
    assert "zanzibar" not in said


def test_no_original_stays_on_disk_and_nobody_else_can_read_the_rest(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with in_thread(state) as client:
        assert client.rewrite(SECRET, key="a-key-with-a-secret-text").status == 200
        job = client.upload("a.csv", f"text\n{SECRET}\n".encode()).json
        client.wait_for(job["id"], "done")
        held = [path for path in state.rglob("*") if path.is_file()]
        assert {"answers.db", "job.json", "output.csv"} <= {path.name for path in held}
        assert all(SECRET.encode() not in path.read_bytes() for path in held)
        for path in (state, *state.rglob("*")):
            closed = path.is_dir() or path.parent.name != "state"  # what is in a closed folder is closed too
            assert closed or stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (state, *state.rglob("*")) if path.is_dir())


@pytest.fixture
def open_to_everybody() -> Iterator[None]:
    """What is not closed on purpose can be read by everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_files_of_a_job_are_closed_from_the_beginning(tmp_path: Path, open_to_everybody: None) -> None:
    held, state = Held(), tmp_path / "state"
    with in_thread(state, load=held.load) as client:
        job = client.upload("a.csv", b"text\nhello\n").json["id"]
        reached(held.entered)
        modes = {path.relative_to(state).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in state.rglob("*")}
        assert modes["jobs"] == modes[f"jobs/{job}"] == 0o700
        assert modes[f"jobs/{job}/input.csv"] == modes[f"jobs/{job}/job.json"] == 0o600
        assert modes["answers.db"] == modes["answers.db-wal"] == modes["lock"] == 0o600
        held.go.set()
        client.wait_for(job, "done")


@pytest.mark.parametrize(
    ("key", "good"),
    [("k" * 15, False), ("k" * 16, True), ("k" * 255, True), ("k" * 256, False), ("k" * 16 + "\xe9", False)],
)
def test_a_key_must_be_long_enough_to_be_unique(client: Client, key: str, good: bool) -> None:
    refused = client.rewrite("a text", epsilon=-1, key=key)
    assert refused.json["type"] == ("urn:dpbart:bad-parameter" if good else "urn:dpbart:bad-idempotency-key")
    assert client.upload("a.exe", b"", headers={"Idempotency-Key": key}).status == (422 if good else 400)


def test_nothing_about_a_request_can_be_read_from_what_is_stored_of_it() -> None:
    """A hash of the body would let somebody test guesses of its texts. An HMAC does so only for who has the key."""
    one, same, other = (Key.of(key, b"body") for key in ("a" * 16, "a" * 16, "b" * 16))
    assert one == same
    assert one.request != other.request
    assert one.request == hmac.new(b"a" * 16, b"body", "sha256").hexdigest()
    assert one.key == hashlib.sha256(b"a" * 16).hexdigest()
    assert job_id("a" * 16) == job_id("a" * 16) != job_id("b" * 16)
    assert all(len(bytes.fromhex(each)) == 16 for each in (job_id("a" * 16), job_id(None)))
    assert job_id("a" * 16) not in one.key
