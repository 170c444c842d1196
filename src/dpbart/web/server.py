"""Start the server: where it listens, with which token, and with which certificate."""

from __future__ import annotations

import secrets
import signal
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket

import uvicorn
from starlette.types import ASGIApp

from dpbart.errors import BadParameter
from dpbart.files import reason
from dpbart.rewrite.durable.unfinished import Stopped
from dpbart.web.app import make_app
from dpbart.web.guard import Access, Limits, is_loopback, logger
from dpbart.web.job import Place
from dpbart.web.service import Service

_LEAST_TOKEN = 16  # characters
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Listen:
    """Where and how to listen."""

    host: str = "127.0.0.1"  # an address of this machine
    port: int = 8000  # 0 for any free one
    token_file: Path | None = None  # without one, a token is made if anybody but this machine can ask
    certificate: Path | None = None  # of TLS, in PEM
    key: Path | None = None  # its private key
    names: tuple[str, ...] = ()  # of hosts under which clients know this server

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise BadParameter(f"port must be from 0 to 65535, got {self.port}.")
        if not all((self.host, *self.names)):
            words = "a host must be an address or a name, got an empty one. Leave out --host or --allow-host."
            raise BadParameter(words)
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
        names = frozenset(name.lower() for name in (*self.names, self.host))
        return Access(names, token, addresses=not is_loopback(self.host))


def serve(listen: Listen, place: Place, *, tell: Tell) -> None:
    """Serve until SIGINT. uvicorn stops at it even if the shell started the process with SIGINT ignored, as for `&`."""
    with _bound(listen) as bound:
        access = listen.access(tell)
        service = Service(place, Limits())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _Server(configured(make_app(service, access), listen, service.limits), tell, service.drain).run([bound])
        except KeyboardInterrupt:
            raise Stopped("Stopped. The next server with the same --state continues unfinished jobs.") from None
        finally:
            service.close()


def configured(app: ASGIApp, listen: Listen, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.drain_seconds,
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
    """Tells where it listens as soon as it does. When it is told to stop, it answers the requests in progress first."""

    def __init__(self, config: uvicorn.Config, tell: Tell, drain: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell, self._drain = tell, drain

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._tell(f"dpbart listens on {scheme}://{f'[{host}]' if ':' in host else host}:{port}/")
            self._tell("Open this address in a browser. Press Ctrl-C to stop.")

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._drain()
        if self.server_state.tasks:
            logger.info("stopping; requests in progress: %d", len(self.server_state.tasks))
        await super().shutdown(sockets)


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
