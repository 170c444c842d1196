"""dpbart serve: the same calls over HTTP, for programs and for a browser."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

from dpbart.cli.command import Command


@click.command(cls=Command)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; by default, this machine only."
)
@click.option("--port", type=int, default=8000, show_default=True, help="Port to listen on; 0 for any free one.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="SQLite file that records what each person has spent; created if missing. Requests must then name people.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token that clients must send; by default one is printed if --host is not loopback.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="TLS certificate (PEM); requires --tls-key.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Private key of the TLS certificate (PEM).")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Host name under which clients reach this server. Repeatable."
)
@click.option("--sign-key", type=click.Path(path_type=Path), help="Sign each card with this ed25519 private key (PEM).")
@click.option("-m", "--model", "models", multiple=True, help="Offer this model directory too. Repeatable.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for jobs and stored answers, closed to other users; by default ~/.local/state/dpbart/serve.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the log on standard error is written: lines for people, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["error", "warning", "info", "debug"]),
    default="info",
    show_default=True,
    help="What is logged: errors, also failed requests, also all requests, or also batches. Never a text.",
)
def serve(
    host: str,
    port: int,
    ledger: Path | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    allow_host: tuple[str, ...],
    sign_key: Path | None,
    models: tuple[str, ...],
    state: Path | None,
    log_format: str,
    log_level: str,
) -> None:
    """Serve the page and the API, on this machine only unless told otherwise.

    \b
        dpbart serve
        dpbart serve --port 8080 --ledger budgets.db
        dpbart serve --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem --allow-host dp.example.org
    """
    from dpbart.errors import MissingExtra

    if any(importlib.util.find_spec(each) is None for each in ("starlette", "uvicorn", "python_multipart")):
        raise MissingExtra("serving needs extra packages. Install them with: pip install 'dpbart[web]'")
    from dpbart.web.job import Place
    from dpbart.web.server import Listen, serve
    from dpbart.web.telemetry import log_to_stderr

    # Where programs keep what should survive a restart (XDG Base Directory Specification).
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    place = Place(state or base / "dpbart" / "serve", ledger, models, sign_key)
    listen = Listen(host, port, token_file, tls_cert, tls_key, allow_host)
    with log_to_stderr(log_format, log_level) as tell:
        serve(listen, place, tell=tell)
