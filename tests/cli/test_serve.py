"""dpbart serve: what it refuses before it listens, and whom it lets in."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.cli.serve import serve
from dpbart.web.guard import Limits, is_loopback
from dpbart.web.queue import STOP_SECONDS
from dpbart.web.server import Listen
from tests.web.running import PATIENCE, process, start


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name))
    refused = CliRunner().invoke(cli, ["serve"])
    assert refused.exit_code == 1
    assert refused.output == "Error: serving needs extra packages. Install them with: pip install 'dpbart[web]'\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "70000"], "port must be from 0 to 65535, got 70000."),
        (["--host", ""], "a host must be an address or a name, got an empty one."),
        (["--allow-host", ""], "a host must be an address or a name, got an empty one."),
        (["--tls-cert", "cert.pem"], "TLS needs a certificate and its key."),
        (["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "there is no file 'cert.pem' for TLS."),
        (
            ["--tls-cert", "short", "--tls-key", "short"],
            "'short' and 'short' must be a certificate and its private key",
        ),
        (["--host", "192.0.2.7"], "the server cannot listen on 192.0.2.7, port 8000: Cannot assign requested address."),
        (["--token-file", "token"], "the token file 'token' cannot be read: No such file or directory."),
        (["--host", "no name"], "the server cannot listen on no name, port 8000: Name or service not known."),
        (["--token-file", "short"], "must be one line of at least 16 printable ASCII characters."),
        (["--sign-key", "short"], "'short' must be an ed25519 private key in PEM, without a passphrase."),
        (["--model", "nothing"], "no model named 'nothing'."),
    ],
)
def test_wrong_options_are_refused_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("secret\n")
    refused = CliRunner().invoke(cli, ["serve", "--state", "state", *options])
    assert refused.exit_code == 1
    assert words in refused.output


def test_a_port_that_another_program_has_is_refused_before_a_token_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = CliRunner().invoke(cli, ["serve", "--port", port, "--state", str(tmp_path / "state")])
    assert refused.exit_code == 1
    assert refused.output.startswith(
        f"Error: the server cannot listen on 127.0.0.1, port {port}: Address already in use."
    )
    assert not (tmp_path / "state").exists()


def test_on_loopback_nobody_needs_a_token_and_anywhere_else_everybody_does() -> None:
    said: list[str] = []
    assert Listen().access(said.append).token is None
    assert said == []
    for host in ("0.0.0.0", "::", "192.0.2.7", "dp.example.org"):
        assert not is_loopback(host)
        said.clear()
        access = Listen(host).access(said.append)
        assert access.token is not None
        assert len(access.token) > 40
        assert said[0] == f"Token: {access.token}"
        assert sum(access.token in line for line in said) == 1
        assert any(line.startswith("Warning: without --tls-cert") for line in said)
        assert access.token not in repr(access)


def test_a_token_from_a_file_is_not_printed_and_holds_on_loopback_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct-horse-battery-staple\n")
    (tmp_path / "token").chmod(0o640)
    said: list[str] = []
    assert Listen(token_file=tmp_path / "token").access(said.append).token == "correct-horse-battery-staple"
    assert said == []
    (tmp_path / "token").chmod(0o644)
    Listen(token_file=tmp_path / "token").access(said.append)
    assert [line.partition(" can read")[0] for line in said] == ["Warning: every user of this machine"]


def test_it_speaks_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    options = ["--tls-cert", str(cert), "--tls-key", str(key)]
    with process(tmp_path / "state", *options) as running:
        context = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(f"https://localhost:{running.client.port}/healthz", context=context) as answer:
            assert answer.status == 200


def make_certificate(cert: Path, key: Path) -> None:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, private.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    key.write_bytes(private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


STOPPED = "\nStopped. The next server with the same --state continues unfinished jobs.\n"


@pytest.mark.parametrize(("told", "code", "said"), [(signal.SIGTERM, 143, ""), (signal.SIGINT, 130, STOPPED)])
def test_it_ends_quietly_when_it_is_told_to(tmp_path: Path, told: signal.Signals, code: int, said: str) -> None:
    command = [sys.executable, "-m", "dpbart", "serve", "--port", "0", "--state", str(tmp_path / "state")]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a shell does the same for a command that ends in &
    try:
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert running.stderr is not None
    line, what_to_do = running.stderr.readline(), running.stderr.readline()
    assert re.fullmatch(r"dpbart listens on http://127\.0\.0\.1:\d+/\n", line)
    assert what_to_do == "Open this address in a browser. Press Ctrl-C to stop.\n"
    running.send_signal(told)
    assert running.wait(PATIENCE) == code
    assert running.stderr.read() == said
    running.stderr.close()


LONGEST_STOP = (
    Limits().drain_seconds + 2 * STOP_SECONDS
)  # requests, then the thread of the jobs, then that of the models


def example(kind: str, name: str) -> str:
    """The block on docs/serve.md that has this name in it."""
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    blocks: list[str] = re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if name in block)


def test_the_unit_for_systemd_starts_a_server_and_lets_it_stop(tmp_path: Path) -> None:
    unit = dict(line.split("=", 1) for line in example("ini", "ExecStart").splitlines() if "=" in line)
    program, command, *given = unit["ExecStart"].split()
    assert (Path(program).name, command) == ("dpbart", "serve")
    places = {"/var/lib/dpbart": str(tmp_path), "${CREDENTIALS_DIRECTORY}": str(tmp_path)}
    for place, ours in places.items():
        given = [word.replace(place, ours) for word in given]
    state = given.index("--state")
    (tmp_path / "token").write_text("correct-horse-battery-staple\n")
    running = start(Path(given[state + 1]), *given[:state], *given[state + 2 :])
    assert running.client.get("/v1/models").status == 401
    assert running.client.get("/v1/ledger", Authorization="Bearer correct-horse-battery-staple").status == 200
    status, said = running.stop(signal.SIGTERM)
    assert str(status) == unit["SuccessExitStatus"]
    assert [json.loads(line)["message"] for line in said.splitlines()[-2:]] == ["request", "request"]
    assert int(unit["TimeoutStopSec"]) >= LONGEST_STOP


def test_the_example_for_compose_has_options_that_there_are() -> None:
    compose = example("yaml", "services:")
    found, grace = re.search(r"command: (\[.*\])", compose), re.search(r"stop_grace_period: (\d+)s", compose)
    assert found is not None
    assert grace is not None
    given = serve.make_context("serve", json.loads(found[1])).params
    assert (given["log_format"], str(given["ledger"])) == ("json", "/var/lib/dpbart/budgets.db")
    assert int(grace[1]) >= LONGEST_STOP
