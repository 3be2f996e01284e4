"""The HTTP server of the admin port: ``/metrics``, ``/healthz``, ``/readyz`` (when it answers 503), groups as pages
and JSON. Read only.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

import h11
import hypercorn.protocol
import structlog
import trio
from hypercorn.config import Config as HypercornConfig
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio import run as hypercorn_run
from hypercorn.trio import serve
from hypercorn.trio.tcp_server import TCPServer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from proxy.admin.allowed_hosts import AllowedHosts
from proxy.admin.preflight_view import PreflightBoard
from proxy.admin.process_queries import Processes, QueryHandlers, SingleProcess
from proxy.admin.text_format import render_metrics
from proxy.config.schema import Admin, Visibility
from proxy.metrics.registry import Metrics
from proxy.runtime.computing_thread import in_thread
from proxy.runtime.log_throttle import LogThrottle

if TYPE_CHECKING:
    from proxy.admin.access import Access
    from proxy.admin.api import InForce

_OK = 200
_UNAVAILABLE = 503
_GRACEFUL_S = 1.0
_MOST_CONNECTIONS = 256
"""A connection costs up to 90 kB. One more ends the oldest, so strangers who hold many keep no probe out."""
_SEND_S = 60.0
"""In this time a client has to take what is sent to it at once, at most one whole answer."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.admin")


class Health:
    """Whether the process is ready for clients."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._failure: str | None = None
        self._reason: str | None = None
        self.not_ready("starting")

    @property
    def reason(self) -> str | None:
        """Why the process is not ready; None if it is."""
        return self._failure or self._reason

    def not_ready(self, reason: str) -> None:
        """Report that the process should get no new clients, and why."""
        self._reason = reason
        self._metrics.ready.set(0)

    def ready(self) -> None:
        """Report that the process is ready for clients. It is not while a failure is reported (:meth:`fail`)."""
        self._reason = None
        self._metrics.ready.set(self._failure is None)

    def fail(self, reason: str | None) -> None:
        """Report a failure, whatever else is ready: the process should get no new clients. None: it is over."""
        self._failure = reason
        self._metrics.ready.set(self.reason is None)


class AdminBackend(Processes, Protocol):
    """The data behind the admin port: of one process, or of a supervisor and its workers."""

    async def exposition(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...

    async def not_ready(self) -> str | None:
        """Return why the proxy should get no clients; None if it should."""
        ...

    async def not_alive(self) -> str | None:
        """Return why the process should be restarted; None if it is healthy."""
        ...


class SingleProcessBackend(SingleProcess):
    """The backend of a process that serves alone."""

    def __init__(self, metrics: Metrics, health: Health, handlers: QueryHandlers) -> None:
        super().__init__(handlers)
        self._metrics = metrics
        self._health = health

    async def exposition(self) -> bytes:
        """See :class:`AdminBackend`."""
        return await render_metrics(self._metrics)

    async def not_ready(self) -> str | None:
        """See :class:`AdminBackend`."""
        return self._health.reason

    async def not_alive(self) -> str | None:
        """See :class:`AdminBackend`. A process that answers is alive."""
        return None


def admin_app(
    backend: AdminBackend,
    limits: Visibility | None = None,
    preflight: PreflightBoard | None = None,
    in_force: "InForce | None" = None,
) -> Starlette:
    """Make the ASGI application of the admin port.

    ``limits`` bound its responses; None means the defaults. ``preflight`` has the proxy's own preflight; None: it makes
    none. ``in_force`` returns the configuration for ``/api/config``.
    """

    async def expose(_request: Request) -> Response:
        return Response(await backend.exposition(), media_type=CONTENT_TYPE_LATEST)

    async def alive(_request: Request) -> Response:
        return _health_response("alive", await backend.not_alive())

    async def ready(_request: Request) -> Response:
        return _health_response("ready", await backend.not_ready())

    app = Starlette(
        routes=[
            Route("/metrics", expose),
            Route("/healthz", alive),
            Route("/readyz", ready),
        ],
        exception_handlers={HTTPException: _refuse},
    )
    app.router.default = Groups(backend, limits or Visibility(), preflight or PreflightBoard(), in_force)
    return app


class Groups:
    """Serves groups: as JSON below ``/api``, and as pages. The first request for either loads it: many get none."""

    def __init__(
        self, backend: AdminBackend, limits: Visibility, board: PreflightBoard, in_force: "InForce | None"
    ) -> None:
        self._backend, self._limits, self._board, self._in_force = backend, limits, board, in_force
        self._routers: dict[bool, Router] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        as_json = scope["path"].startswith("/api")
        if as_json not in self._routers:
            self._routers[as_json] = await in_thread(partial(self.load, as_json=as_json))
        await self._routers[as_json](scope, receive, send)

    def load(self, *, as_json: bool) -> Router:
        """Load the JSON interface, or the pages, which takes a tenth of a second."""
        if as_json:
            from proxy.admin.api import api_routes  # noqa: PLC0415 - see the class

            return Router(api_routes(self._backend, self._limits, self._board, self._in_force))
        from proxy.admin.status_page import page_routes  # noqa: PLC0415

        return Router(page_routes(self._backend, self._board))


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer what no route takes (404) or a method that none has (405): with JSON below ``/api``, else with text."""
    assert isinstance(error, HTTPException)  # noqa: S101  what it is registered for
    if request.url.path.startswith("/api"):
        from proxy.admin.api import problem  # noqa: PLC0415

        answer = problem(error.status_code, error.detail.lower())
    else:
        answer = PlainTextResponse(error.detail, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def _health_response(what: str, why_not: str | None) -> Response:
    if why_not is None:
        return JSONResponse({what: True}, _OK)
    return JSONResponse({what: False, "reason": why_not}, _UNAVAILABLE)


def access_to(config: Admin, metrics: Metrics) -> "Access | None":
    """Return the access to this admin port; None if it has neither TLS nor credentials.

    :raises TlsFilesError: a certificate can't be used.
    :raises UnreadableSecret: the token can't be used.
    """
    if config.tls is None and config.token_file is None:
        return None
    from proxy.admin.access import Access  # noqa: PLC0415 - many are on loopback, and have none

    return Access(config, metrics)


class _Settings(HypercornConfig):
    access: "Access | None" = None
    failures: LogThrottle
    connections: dict[trio.CancelScope, None]
    """Those that are open, the oldest first."""


class _Http1(H11Protocol):
    """HTTP/1.1 alone: a client that wants HTTP/2 or a WebSocket is answered as if it did not.

    Hypercorn takes both without TLS or ALPN too, and what it parses there of a stranger may raise anything.
    """

    async def _check_protocol(self, event: h11.Request) -> None:
        """Go on with HTTP/1.1, whatever the client offers."""

    async def _create_stream(self, request: h11.Request) -> None:
        headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
        method, target, version = request.method, request.target, request.http_version
        await super()._create_stream(
            h11.Request(method=method, target=target, headers=headers, http_version=version)
        )


class _Connection(TCPServer):
    """A connection of the admin port that makes the TLS handshake, and leaves nothing behind.

    An exception in it ends it and nothing else: the other connections and the proxy share its nursery.

    Hypercorn's protocol and its connection refer to each other, with the bytes that were read: 60 kB for a head without
    an end. Only a full collection finds such a cycle, and thousands of strangers' connections fit between two of these.
    """

    config: _Settings

    async def run(self) -> None:
        scope, connections = trio.CancelScope(), self.config.connections
        if len(connections) >= _MOST_CONNECTIONS:
            oldest = next(iter(connections))
            del connections[oldest]
            oldest.cancel()
        connections[scope] = None
        try:
            with scope:
                if await self._is_secured():
                    await super().run()
        except* Exception as errors:  # noqa: BLE001  what a stranger sends ends its own connection
            if (suppressed := self.config.failures.suppressed("failed")) is not None:
                _log.error("a connection of the admin port failed", exc_info=errors, suppressed=suppressed)
        finally:
            connections.pop(scope, None)
            if isinstance(self.stream, trio.SSLStream):
                from proxy.admin.access import forget  # noqa: PLC0415 - loaded, as it has secured the stream

                forget(self.stream)
            vars(self).clear()

    async def protocol_send(self, event: Event) -> None:
        """Send, within a bound and as long as the server runs. Hypercorn waits for ever for a client that does not
        read, also when the process is to end."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        try:
            async with self.send_lock:
                with trio.fail_after(_SEND_S):
                    await self.stream.send_all(event.data)
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(self.stream)
            await self.protocol.handle(Closed())

    async def _is_secured(self) -> bool:
        """Make the handshake of a port with TLS; return whether the connection can go on."""
        access = self.config.access
        if access is None or access.certificates is None:
            return True
        from proxy.admin.access import HAS_CERTIFICATE  # noqa: PLC0415 - loaded, as there is an access

        secured = await access.secured(cast("trio.SocketStream", self.stream))
        if secured is None:
            return False
        self.stream, has_certificate = secured
        self.state = {**self.state, HAS_CERTIFICATE: has_certificate}
        return True


# There are no settings for these.
vars(hypercorn_run)["TCPServer"] = _Connection
vars(hypercorn.protocol)["H11Protocol"] = _Http1


async def serve_admin(
    sock: socket.socket,
    app: Starlette,
    until: Callable[[], Awaitable[None]],
    hosts: Iterable[str] = (),
    access: "Access | None" = None,
) -> None:
    """Serve the application on a bound socket until ``until()`` returns.

    ``hosts`` are names that clients may give as ``Host``, beside those that they always may
    (:class:`~proxy.admin.allowed_hosts.AllowedHosts`). ``access`` makes TLS, and asks for credentials.
    """
    config = _Settings()
    config.access = access
    config.failures = LogThrottle()
    config.connections = {}
    config.bind = [f"fd://{sock.detach()}"]  # closed by hypercorn
    config.graceful_timeout = _GRACEFUL_S
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    guarded = AllowedHosts(app if access is None else access.guard(app), hosts)
    await serve(guarded, config, shutdown_trigger=until)  # type: ignore[arg-type]
