"""Start the server: where it listens, with which token, and with which certificate."""

from __future__ import annotations

import os
import secrets
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket

import uvicorn

from dpbart.errors import BadParameter
from dpbart.files import reason
from dpbart.rewrite.durable.stopping import Stopped
from dpbart.web.app import make_app
from dpbart.web.connections import connection_of
from dpbart.web.guard import Access, Guard, is_loopback
from dpbart.web.limits import Limits
from dpbart.web.place import Place
from dpbart.web.service import Service

_LEAST_TOKEN = 16  # characters
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Listen:
    """Where and how to listen.

    Attributes:
        host: an address of this machine.
        port: 0 for any free one.
        token_file: a file with the token; without one, a token is made if anybody but this machine can ask.
        certificate: of TLS, in PEM, with its private key in `key`.
        names: host names under which clients know this server.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise BadParameter(f"port must be from 0 to 65535, got {self.port}.")
        if not all((self.host, *self.names)):
            raise BadParameter(
                "a host must be an address or a name, got an empty one. Leave out --host or --allow-host."
            )
        if (self.certificate is None) != (self.key is None):
            raise BadParameter("TLS needs a certificate and its key. Pass --tls-cert FILE with --tls-key FILE.")
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise BadParameter(f"there is no file {str(file)!r} for TLS.")
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)

    def access(self, tell: Tell) -> Access:
        """Who may ask. A new token is told once, and never again."""
        token = None if self.token_file is None else _read_token(self.token_file)
        if self.token_file is not None and self.token_file.stat().st_mode & stat.S_IROTH:
            tell(f"Warning: every user of this machine can read {str(self.token_file)!r}. Change that with: chmod 600")
        if token is None and not is_loopback(self.host):
            token = secrets.token_urlsafe(32)
            tell(f"Token: {token}")
            tell("It is shown only once. Clients send it as 'Authorization: Bearer TOKEN'.")
        if self.certificate is None and not is_loopback(self.host):
            tell("Warning: without --tls-cert and --tls-key, texts and token cross the network as they are.")
        return Access(
            frozenset(name.lower() for name in (*self.names, self.host)),
            token,
            addresses=not is_loopback(self.host),
        )


def serve(listen: Listen, place: Place, *, tell: Tell) -> None:
    """Serve until the process is told to stop."""
    with _bound(listen) as bound:
        access = listen.access(tell)
        service = Service(place, Limits())
        try:
            _Server(configured(make_app(service, access), listen, service.limits), tell).run([bound])
        except KeyboardInterrupt:
            raise Stopped("Stopped. The next server with the same --state continues unfinished jobs.") from None
        finally:
            service.close()


def configured(app: Guard, listen: Listen, limits: Limits) -> uvicorn.Config:
    """How to listen, for uvicorn."""
    return uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        ssl_certfile=None if listen.certificate is None else os.fspath(listen.certificate),
        ssl_keyfile=None if listen.key is None else os.fspath(listen.key),
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        http=connection_of(limits),
        ws="none",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=64 << 10,
    )


def _bound(listen: Listen) -> socket:
    """A socket at the address, so that nothing else happens if another program has it."""
    try:
        family = AF_INET6 if ":" in listen.host else AF_INET
        return create_server((listen.host, listen.port), family=family, backlog=2048)
    except OSError as error:
        why = reason(error).partition(" (while")[0]  # the library adds the address, which stands here already
        raise BadParameter(
            f"the server cannot listen on {listen.host}, port {listen.port}: {why}. Pass another --port, or a --host "
            "that is an address of this machine."
        ) from None


def _check_certificate(certificate: Path, key: Path) -> None:
    """Refuse what TLS cannot use. A key with a passphrase is refused too: nobody is there to type it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except OSError:  # the words of OpenSSL help nobody
        raise BadParameter(
            f"{str(certificate)!r} and {str(key)!r} must be a certificate and its private key in PEM, without a "
            "passphrase, and are not."
        ) from None


class _Server(uvicorn.Server):
    """Tells where it listens as soon as it does."""

    def __init__(self, config: uvicorn.Config, tell: Tell) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._tell(f"dpbart listens on {scheme}://{f'[{host}]' if ':' in host else host}:{port}/")
            self._tell("Open this address in a browser. Press Ctrl-C to stop.")


def _read_token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is not text"
        raise BadParameter(f"the token file {str(file)!r} cannot be read: {why}.") from None
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise BadParameter(
            f"the token in {str(file)!r} must be one line of at least {_LEAST_TOKEN} printable ASCII characters. "
            "Make one with: openssl rand -hex 32"
        )
    return token
