"""Fetches groups, and the configuration, from a running proxy's admin port, for ``epochgate status`` and the like."""

import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import typer

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.admin.config_view import ConfigView
from proxy.config.loader import ConfigError, load_config
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.schema import Admin

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
        help="Take the address of the admin port from this configuration file, with its certificate and token.",
    ),
]

_DEFAULT = "127.0.0.1:9080"
_MOST_BYTES = 1024 * 1024 * 1024
"""Of all pages together, more than a proxy can have: what answers may be anything."""
_PAGE = 6
_ALL = 60
"""So many times the timeout a page may take to its end, and all pages; the timeout itself is for each piece of one."""
_PIECE_BYTES = 256 * 1024
_MOST_FILE_BYTES = 64 * 1024


class NoAnswerError(Exception):
    """No proxy answers at an address, or something else does. The message is for a person."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a client shows to an admin port, and which certificate it accepts there; the paths of files, as texts.

    ``ca``: authorities of the port's certificate, those of the system if None. ``pinned``: the port's own certificate,
    instead, which is then accepted under any name. ``server_name``: the name that a certificate of an authority must
    have, instead of the host in the URL.
    """

    token_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password_file: str | None = None
    pinned: str | None = None
    server_name: str | None = None

    @classmethod
    def of(cls, admin: Admin) -> "Credentials":
        """The credentials for an admin port with this configuration, for who can read its files.

        Its certificate is not known by an authority, so it is pinned. It is shown too, where a token is not enough.
        """
        tls = admin.tls
        if tls is None:
            return cls(token_file=admin.token_file)
        if not admin.needs_certificate:
            return cls(token_file=admin.token_file, pinned=tls.certificate)
        return cls(
            token_file=admin.token_file,
            pinned=tls.certificate,
            certificate=tls.certificate,
            key=tls.key,
            key_password_file=tls.key_password_file,
        )

    def token(self) -> str | None:
        """The token, of several in the file the first; None without a file.

        :raises ConfigError: the file can't be read, or has none.
        """
        if self.token_file is None:
            return None
        try:
            words = _text(self.token_file).split()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.token_file}: {unreadable(error)}") from None
        if not words:
            raise ConfigError(f"{self.token_file}: has no token")
        return words[0]

    def tls(self) -> ssl.SSLContext:
        """The context for a port with TLS.

        :raises ConfigError: a file can't be used.
        """
        try:
            if self.pinned is None:
                context = ssl.create_default_context(cafile=self.ca)
            else:
                own = _text(self.pinned).partition(_END)  # the first alone: authorities may follow
                context = ssl.create_default_context(cadata="".join(own[:2]))
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                context.check_hostname = False
            if self.certificate is not None:
                password = None if self.key_password_file is None else _text(self.key_password_file).strip()
                context.load_cert_chain(self.certificate, self.key, password or "")
        except (OSError, ValueError) as error:  # also ssl.SSLError
            raise ConfigError(
                f"the admin port's certificate, or the client's, can't be used: {error}"
            ) from None
        return context


_END = "-----END CERTIFICATE-----"
NO_CREDENTIALS = Credentials()
_REFUSED = (401, 403)
_NEEDS = ": it needs a token or a client certificate (--token-file, --cert and --key)"


def _text(file: str) -> str:
    return read_regular_file(Path(file), _MOST_FILE_BYTES).decode("ascii")


def credentials_for(
    config: Path | None,
    token_file: Path | None = None,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Credentials:
    """Return the credentials that options name; what they leave out is the configuration's, unless they are for TLS.

    :raises ConfigError: the configuration is invalid, or a file that an option names.
    """
    found = NO_CREDENTIALS if config is None else Credentials.of(load_config(config).admin)
    if token_file is not None:
        found = msgspec.structs.replace(found, token_file=str(token_file))
        found.token()
    named = {"ca": ca, "certificate": certificate, "key": key}
    given = {name: str(file) for name, file in named.items() if file is not None}
    if given:
        found = Credentials(token_file=found.token_file, **given)
        found.tls()
    return found


def admin_url(address: str | None, config: Path | None) -> str:
    """Return the URL of an admin port: from ``--admin``, else from the configuration file, else the default.

    :raises ConfigError: the address or the configuration is invalid.
    """
    if address is None and config is not None:
        return load_config(config).admin.url()
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
T = TypeVar("T")


def fetch_groups(
    url: str,
    kind: type[P],
    *,
    timeout_s: float,
    events: bool = False,
    group: str | None = None,
    credentials: Credentials = NO_CREDENTIALS,
) -> P:
    """Fetch all groups of the proxy at ``url`` (``http://host:port``) page by page, or one. ``kind`` is a Struct.

    :raises NoAnswerError: nothing answers there, or it answers with an error, or it is not Epochgate.
    :raises ConfigError: a file of the credentials can't be used.
    """
    parameters = {"events": "1"} if events else {}
    if group is not None:
        parameters["id"] = group
    asking = _Asking(url, timeout_s, credentials)
    page = asking.answer("/api/groups", parameters, kind)
    groups = page.groups
    known = {one.id for one in groups}
    while page.left_out and page.groups:
        page = asking.answer("/api/groups", parameters | {"after": groups[-1].id}, kind)
        if not known.isdisjoint(one.id for one in page.groups):
            break  # an older proxy without pagination repeats the same groups
        known.update(one.id for one in page.groups)
        groups += page.groups
    if group is not None:
        groups = tuple(one for one in groups if one.id == group)
    return msgspec.structs.replace(page, groups=groups)  # type: ignore[type-var]  # kind is a Struct


def fetch_config(url: str, *, timeout_s: float, credentials: Credentials = NO_CREDENTIALS) -> ConfigView:
    """Fetch the configuration that is in force in the proxy at ``url``.

    :raises NoAnswerError: see :func:`fetch_groups`.
    :raises ConfigError: a file of the credentials can't be used.
    """
    return _Asking(url, timeout_s, credentials).answer("/api/config", {}, ConfigView)


class _Asking:
    """Asks one proxy, within bounds for all answers together: what answers there may be anything."""

    def __init__(self, url: str, timeout_s: float, credentials: Credentials) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._token = credentials.token()
        https = [_Https(credentials.tls(), credentials.server_name)] if url.startswith("https:") else []
        # Not through a proxy of the environment, which would get the token.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *https)
        self._ends = time.monotonic() + _ALL * timeout_s
        self._bytes_left = _MOST_BYTES

    def answer(self, path: str, parameters: dict[str, str], kind: type[T]) -> T:
        query = f"?{urllib.parse.urlencode(parameters, errors='replace')}" if parameters else ""
        url = self._url
        try:
            request = urllib.request.Request(f"{url}{path}{query}")  # noqa: S310  http(s) only
            if self._token is not None:  # never to where a redirect leads
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return JsonDecoder(kind, _MOST_BYTES).decode(self._read(answer))
        except (Undecodable, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise NoAnswerError(f"{url}: what answers there is not Epochgate: {why}") from error
        except urllib.error.HTTPError as error:
            error.close()
            more = _NEEDS if error.code in _REFUSED else ""
            raise NoAnswerError(f"{url}: {error}{more}") from error
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


class _Https(urllib.request.HTTPSHandler):
    """Opens https with a context, where the certificate must have a name; None: that of the URL."""

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        super().__init__()
        self._tls, self._server_name = context, server_name

    def https_open(self, req: urllib.request.Request) -> Any:
        """See :class:`urllib.request.HTTPSHandler`."""
        return self.do_open(partial(_HttpsConnection, self._tls, self._server_name), req)


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, tls: ssl.SSLContext, server_name: str | None, host: str, **options: Any) -> None:
        super().__init__(host, context=tls, **options)
        self._tls, self._server_name = tls, server_name

    def connect(self) -> None:
        """See :class:`http.client.HTTPConnection`."""
        if self._server_name is None:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name)
