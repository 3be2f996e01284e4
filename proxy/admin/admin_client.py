"""Fetches groups from a running proxy's admin port, for ``epochgate status`` and ``epochgate policy plan``."""

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import msgspec
import typer

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.config.loader import ConfigError, load_config
from proxy.config.schema import Address

AdminAddress = Annotated[
    str | None,
    typer.Option(
        "--admin",
        metavar="HOST:PORT",
        help="Admin port of the running proxy; a URL is fine too. Default: 127.0.0.1:9080.",
    ),
]
AdminConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Take the address of the admin port from this configuration file.",
    ),
]

_DEFAULT = "127.0.0.1:9080"
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  what a proxy may listen on


_MOST_BYTES = 1024 * 1024 * 1024
"""Of all pages together, more than a proxy can have: what answers may be anything."""
_PAGE = 6
_ALL = 60
"""So many times the timeout a page may take to its end, and all pages; the timeout itself is for each piece of one."""
_PIECE_BYTES = 256 * 1024


class NoAnswerError(Exception):
    """No proxy answers at an address, or something else does. The message is for a person."""


def admin_url(address: str | None, config: Path | None) -> str:
    """Return the URL of an admin port: from ``--admin``, else from the configuration file, else the default.

    :raises ConfigError: the address or the configuration is invalid.
    """
    if address is None and config is not None:
        section = load_config(config).admin
        address = str(Address("127.0.0.1" if section.bind in _EVERYWHERE else section.bind, section.port))
    url = address or _DEFAULT
    url = url if "://" in url else f"http://{url}"
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"--admin: expected host:port or a URL, got {address!r}")
    return url.rstrip("/")


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


class Page(Protocol):
    """A page of ``/api/groups``, or the part of it that the caller needs."""

    @property
    def groups(self) -> tuple[_HasId, ...]:
        """The groups of this page, by id."""
        ...

    @property
    def left_out(self) -> int:
        """How many groups follow after this page."""
        ...


P = TypeVar("P", bound=Page)


def fetch_groups(
    url: str, kind: type[P], *, timeout_s: float, events: bool = False, group: str | None = None
) -> P:
    """Fetch all groups of the proxy at ``url`` (``http://host:port``) page by page, or one. ``kind`` is a Struct.

    :raises NoAnswerError: nothing answers there, or it answers with an error, or it is not Epochgate.
    """
    parameters = {"events": "1"} if events else {}
    if group is not None:
        parameters["id"] = group
    asking = _Asking(url, timeout_s)
    page = asking.page(parameters, kind)
    groups = page.groups
    known = {one.id for one in groups}
    while page.left_out and page.groups:
        page = asking.page(parameters | {"after": groups[-1].id}, kind)
        if not known.isdisjoint(one.id for one in page.groups):
            break  # an older proxy without pagination repeats the same groups
        known.update(one.id for one in page.groups)
        groups += page.groups
    if group is not None:
        groups = tuple(one for one in groups if one.id == group)
    return msgspec.structs.replace(page, groups=groups)  # type: ignore[type-var]  # kind is a Struct


class _Asking:
    """Asks one proxy for pages, within bounds for all of them together: what answers there may be anything."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._ends = time.monotonic() + _ALL * timeout_s
        self._bytes_left = _MOST_BYTES

    def page(self, parameters: dict[str, str], kind: type[P]) -> P:
        query = f"?{urllib.parse.urlencode(parameters, errors='replace')}" if parameters else ""
        url = self._url
        try:
            with urllib.request.urlopen(f"{url}/api/groups{query}", timeout=self._timeout_s) as answer:  # noqa: S310  http(s) only
                return JsonDecoder(kind, _MOST_BYTES).decode(self._read(answer))
        except (Undecodable, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise NoAnswerError(f"{url}: what answers there is not Epochgate: {why}") from error
        except urllib.error.HTTPError as error:
            error.close()
            raise NoAnswerError(f"{url}: {error}") from error
        except urllib.error.URLError as error:
            raise NoAnswerError(f"{url}: {error.reason}") from error
        except (OSError, ValueError) as error:
            raise NoAnswerError(f"{url}: {error}") from error

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        ends = min(self._ends, time.monotonic() + _PAGE * self._timeout_s)
        body = bytearray()
        while piece := answer.read1(_PIECE_BYTES):
            body += piece
            self._bytes_left -= len(piece)
            if self._bytes_left < 0:
                raise NoAnswerError(f"{self._url}: the answer is longer than any of a proxy")
            if time.monotonic() > ends:
                raise NoAnswerError(f"{self._url}: the answer does not end")
        return bytes(body)
