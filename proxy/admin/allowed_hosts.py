"""Which ``Host`` a request to an admin port may name (``admin.hosts``, else 421), so that a web page can't read it by
DNS rebinding.

A page of ``evil.example`` may have its name resolve to the admin port's address; the browser then takes what is served
there for the page's own. But it names ``evil.example`` as ``Host``. Nobody can make a browser name an IP address, or a
name without a dot, that is not what it connects to: a stranger owns neither.
"""

import ipaddress
import socket
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

UNCHECKED = frozenset({"/healthz", "/readyz"})
"""They tell no more than that the process serves, and load balancers name them as they like."""

_BAD_REQUEST = 400
_MISDIRECTED = 421


class AllowedHosts:
    """An ASGI application that answers 421 to requests with a ``Host`` that is not allowed, and else is ``app``.

    It answers 400 to requests with none, or with several.

    Allowed are IP addresses, names without a dot (``localhost``, the Services of a namespace), the machine's own name,
    and ``names``, of which those with ``*.`` at the beginning stand for all names below one.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        names = [_normal(name) for name in (*names, socket.gethostname())]
        self._names = frozenset(name for name in names if not name.startswith("*."))
        self._suffixes = tuple(name.removeprefix("*") for name in names if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] == "http" and scope["path"] not in UNCHECKED:
            hosts = Headers(scope=scope).getlist("host")
            if len(hosts) != 1:
                await JSONResponse({"error": "a request needs one `Host`"}, _BAD_REQUEST)(
                    scope, receive, send
                )
                return
            if not self.allow(hosts[0]):
                text = "this name is not served here: use an IP address, or add the name to `hosts` (admin or exporter)"
                await JSONResponse({"error": text}, _MISDIRECTED)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def allow(self, host: str) -> bool:
        """Whether the value of a ``Host`` header, with or without a port, is allowed."""
        name = _without_port(host)
        if name is None:
            return False
        if "." not in name or name in self._names or name.endswith(self._suffixes):
            return True
        return _is_address(name)


def _without_port(host: str) -> str | None:
    """The name in lower case and without its last dot; None if it is no ``Host``."""
    if host.startswith("["):
        address, bracket, port = host[1:].partition("]")
        return "localhost" if bracket and _is_address(address) and _is_port(port) else None
    name, colon, port = host.partition(":")
    return _normal(name) if _is_port(colon + port) else None


def _is_port(text: str) -> bool:
    return text == "" or (text[0] == ":" and text[1:].isascii() and (text[1:] == "" or text[1:].isdigit()))


def _normal(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
