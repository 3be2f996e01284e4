"""Who may read an admin port: TLS, and the token or certificate that a request needs (401, 403). Health needs
neither.

A browser asks a person for the token by itself (``Basic``), and from then on sends it with each request to this port,
also with one that a page of another site makes. The port changes nothing, and such a page can't read an answer; still
its requests are refused, but for a link that a person follows.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from pathlib import Path

import structlog
import trio
from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.admin.allowed_hosts import UNCHECKED
from proxy.config.fleet import UnreadableSecret
from proxy.config.network import Admin
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.tls import ClientAuth
from proxy.metrics.registry import Metrics
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.tls_context import Certificates

LEAST_CHARACTERS = 16
"""A token with fewer could be guessed."""
MOST_TOKENS = 16
HANDSHAKE_S = 10.0
HAS_CERTIFICATE = "has_certificate"
"""Key in the state of a connection: whether the client has shown a certificate of `client_ca`."""

_WHERE = "admin"
_WHERE_TOKENS = "admin.token_file"
_MOST_BYTES = 64 * 1024
_TOKEN = re.compile(rb"[\x21-\x7e]+")
_LINES_PER_S, _LINES_AT_ONCE = 1 / 60, 5
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_CHALLENGES = (
    (b"www-authenticate", b'Bearer realm="epochgate"'),
    (b"www-authenticate", b'Basic realm="epochgate"'),
)
_NAVIGATION = ("navigate", "document")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.admin")


def read_tokens(file: str) -> tuple[bytes, ...]:
    """Return the digests of a file's tokens, one a line.

    :raises UnreadableSecret: it can't be read, others may read it, or what it has are no tokens. No message has one.
    """
    path, named = Path(file), f"`{_WHERE_TOKENS}`: {file}:"
    try:
        mode = path.stat().st_mode & 0o777
        tokens = read_regular_file(path, _MOST_BYTES).split()
    except (OSError, ValueError) as error:
        why = unreadable(error) if isinstance(error, OSError) else f"can't be read: {error}"
        raise UnreadableSecret(f"{named} {why}") from None
    if mode & 0o007:
        raise UnreadableSecret(
            f"{named} everybody on this machine may use it (mode {mode:04o}): chmod o= {file}"
        )
    if not tokens:
        raise UnreadableSecret(f"{named} has no token")
    if len(tokens) > MOST_TOKENS:
        raise UnreadableSecret(f"{named} has {len(tokens)} tokens, more than {MOST_TOKENS}")
    for number, token in enumerate(tokens, 1):
        if len(token) < LEAST_CHARACTERS:
            raise UnreadableSecret(
                f"{named} token {number} has {len(token)} characters, fewer than {LEAST_CHARACTERS}"
            )
        if _TOKEN.fullmatch(token) is None:
            raise UnreadableSecret(f"{named} token {number} has characters that are not printable ASCII")
    return tuple(map(_digest, tokens))


class Tokens:
    """The tokens in force, of a file that is read again when it changes.

    :raises UnreadableSecret: see :func:`read_tokens`.
    """

    def __init__(self, file: str, metrics: Metrics) -> None:
        self.files = (Path(file),)
        self._file = file
        self._metrics = metrics
        self._digests = read_tokens(file)
        metrics.tls_is_current.labels(_WHERE_TOKENS).set(1)

    def has(self, token: bytes) -> bool:
        """Whether this is one of them. It takes as long whichever it is, and however much of it is right."""
        digest = _digest(token)
        return sum(hmac.compare_digest(digest, one) for one in self._digests) > 0

    def reload(self, why: str) -> None:
        """Read the file again; if it can't be used, the tokens before stay."""
        try:
            self._digests = read_tokens(self._file)
        except UnreadableSecret as error:
            self._metrics.tls_reloads.labels(_WHERE_TOKENS, "refused").inc()
            self._metrics.tls_is_current.labels(_WHERE_TOKENS).set(0)
            _log.error("admin tokens refused, those before stay", why=why, reason=str(error))
            return
        self._metrics.tls_reloads.labels(_WHERE_TOKENS, "applied").inc()
        self._metrics.tls_is_current.labels(_WHERE_TOKENS).set(1)
        _log.info("admin tokens applied", why=why, tokens=len(self._digests))


class Access:
    """The access to one admin port, for :func:`proxy.admin.admin_http.serve_admin`.

    :raises TlsFilesError: a certificate can't be used.
    :raises UnreadableSecret: the token can't be used.
    """

    def __init__(self, config: Admin, metrics: Metrics) -> None:
        self._needs_certificate = config.needs_certificate
        self._open = UNCHECKED | (frozenset() if config.metrics_need_credentials else {"/metrics"})
        self._refusals = metrics.admin_refusals
        self._throttle = LogThrottle(_LINES_PER_S, _LINES_AT_ONCE)
        self.certificates: Certificates | None = None
        if config.tls is not None:
            # A probe of health has no certificate, so the request is refused and not the handshake.
            tls = (
                replace(config.tls, client_auth=ClientAuth.OPTIONAL)
                if config.needs_certificate
                else config.tls
            )
            self.certificates = Certificates(_WHERE, tls, metrics)
        self._tokens = None if config.token_file is None else Tokens(config.token_file, metrics)

    @property
    def reloadables(self) -> "list[Certificates | Tokens]":
        """What has to be reloaded when its files change."""
        return [one for one in (self.certificates, self._tokens) if one is not None]

    async def secured(
        self, stream: trio.SocketStream
    ) -> "tuple[trio.SSLStream[trio.SocketStream], bool] | None":
        """Shake hands. Returns the stream, and whether the client has shown a certificate; None if it failed."""
        assert self.certificates is not None  # noqa: S101  who calls has looked
        secured = trio.SSLStream(stream, self.certificates.context, server_side=True, https_compatible=True)
        has_certificate = None
        try:
            has_certificate = await self._shake_hands(secured, self.certificates.may_resume, _peer(stream))
        finally:
            if has_certificate is None:
                forget(secured)
        return None if has_certificate is None else (secured, has_certificate)

    async def _shake_hands(
        self,
        secured: "trio.SSLStream[trio.SocketStream]",
        may_resume: Callable[[bytes], bool] | None,
        peer: str,
    ) -> bool | None:
        failure = "no TLS handshake in time"
        with trio.move_on_after(HANDSHAKE_S):
            try:
                await secured.do_handshake()
                failure = ""
            except trio.BrokenResourceError as error:
                failure = str(error.__cause__ or "the peer closed the connection in the TLS handshake")
        certificate = None if failure else secured.getpeercert(binary_form=True)
        if certificate is not None and may_resume is not None and secured.session_reused:
            failure = (
                ""
                if may_resume(certificate)
                else "the revocation list of the client's authority is out of date"
            )
        if failure:
            self._refused("tls", peer, failure)
            return None
        return certificate is not None

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return the application that refuses requests without credentials, and else is ``app``."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                refusal = self._refusal(scope)
                await (app if refusal is None else refusal)(scope, receive, send)
            elif scope["type"] == "lifespan":
                await app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})

        return guarded

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        if scope["path"] in self._open:
            return None
        headers = Headers(scope=scope)
        peer = (scope.get("client") or ("",))[0]
        if not _is_of_this_site(headers):
            self._refused("cross_site", peer, "a page of another site made the request")
            return _answer(_FORBIDDEN, "a page of another site may not ask here")
        has_certificate = bool(scope.get("state", {}).get(HAS_CERTIFICATE))
        if self._needs_certificate and not has_certificate:
            self._refused("missing", peer, "no certificate")
            return _answer(_FORBIDDEN, "a client certificate is needed")
        if self._tokens is None or (has_certificate and not self._needs_certificate):
            return None
        tokens = [_token_in(value) for value in headers.getlist("authorization")]
        if len(tokens) == 1 and tokens[0] is not None and self._tokens.has(tokens[0]):
            return None
        self._refused("wrong" if tokens else "missing", peer, "wrong token" if tokens else "no token")
        answer = _answer(_UNAUTHORIZED, "a token is needed: as `Bearer`, or as the password of `Basic`")
        answer.raw_headers.extend(_CHALLENGES)
        return answer

    def _refused(self, kind: str, peer: str, reason: str) -> None:
        self._refusals.labels(kind).inc()
        if (suppressed := self._throttle.suppressed(kind)) is not None:
            _log.warning("admin request refused", peer=peer, reason=reason, suppressed=suppressed)


def forget(secured: "trio.SSLStream[trio.SocketStream]") -> None:
    """Empty a stream that has ended. It refers to itself by a method, so only a full collection would find it."""
    vars(secured).clear()


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _token_in(authorization: str) -> bytes | None:
    """The token that a header ``Authorization`` has; None if it is none, of either scheme."""
    scheme, _, rest = authorization.partition(" ")
    value = rest.strip().encode("latin-1")
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except binascii.Error:
        return None


def _is_of_this_site(headers: Headers) -> bool:
    """Whether no page of another site has made the request; a link to here may be on any."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == _NAVIGATION


def _answer(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status, headers={"cache-control": "no-store"})


def _peer(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""
