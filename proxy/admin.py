"""HTTP for operators: metrics and health. It only reads."""

import logging
import socket
from collections.abc import Awaitable, Callable

from hypercorn.config import Config as HypercornConfig
from hypercorn.trio import serve
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from proxy.metrics import Metrics

_OK = 200
_UNAVAILABLE = 503
_GRACEFUL_S = 1.0


class Health:
    """Whether the process should be given clients; ``reason`` says why not, None if it should."""

    def __init__(self, metrics: Metrics) -> None:
        self.reason: str | None = None
        self._metrics = metrics
        self.not_ready("starting")

    def not_ready(self, reason: str) -> None:
        """No new clients, please."""
        self.reason = reason
        self._metrics.ready.set(0)

    def ready(self) -> None:
        """Clients are welcome."""
        self.reason = None
        self._metrics.ready.set(1)


def admin_app(metrics: Metrics, health: Health) -> Starlette:
    """The application behind the admin port."""

    async def expose(_request: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def alive(_request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def ready(_request: Request) -> Response:
        if health.reason is None:
            return JSONResponse({"ready": True}, _OK)
        return JSONResponse({"ready": False, "reason": health.reason}, _UNAVAILABLE)

    return Starlette(
        routes=[Route("/metrics", expose), Route("/healthz", alive), Route("/readyz", ready)],
    )


async def serve_admin(sock: socket.socket, app: Starlette, until: Callable[[], Awaitable[None]]) -> None:
    """Serve the application on a bound socket until the awaitable returns."""
    config = HypercornConfig()
    config.bind = [f"fd://{sock.detach()}"]  # closed by hypercorn
    config.graceful_timeout = _GRACEFUL_S
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    await serve(app, config, shutdown_trigger=until)  # type: ignore[arg-type]
