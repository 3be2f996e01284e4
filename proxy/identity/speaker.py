"""Speaks at brokers for one client with a certificate: opens connections, and authenticates them in its place, all
within 10 s; a failure ends the client's connection.

Nothing of the client is relayed before that has succeeded. A token reaches brokers by the metadata log: a new one is
used after a pause, and if a broker does not know it even then, it is tried again, each time on a fresh connection.
"""

import math
import time
from typing import Protocol

import structlog
import trio
from msgspec.structs import replace

from proxy import VERSION
from proxy.identity.client_certificate import CertificatePrincipals, NoClientPrincipal
from proxy.identity.credentials import Credentials
from proxy.identity.spoken_for import SpokenFor
from proxy.identity.token_store import TokenRefused
from proxy.metrics.registry import Metrics
from proxy.session.errors import ClientError, NoPrincipalError, UpstreamError
from proxy.transport.broker_calls import BrokerCalls, NoAnswerError, WrongRouteError
from proxy.transport.dialer import Dialed, Dialer, UnreachableError
from proxy.transport.sasl_exchange import SaslRefused, authenticate
from proxy.transport.tls_errors import TlsError
from proxy.wire.sasl_login import Login, LoginError

NEW_FOR_S = 60.0
"""A token that a broker does not know is one that has not reached it yet if it is younger."""

RETRIED_FOR_S = 5.0
"""Seconds for which such a token is tried again."""

_SETTLES_S, _SETTLES_PART = 5.0, 0.05
"""A new token is used in the middle of a connection only when it is this old, in seconds and of its life: a failure
there would cost the connection."""

SPREADS_S = 0.1
"""No connection is authenticated by a token that was requested less than this many seconds ago. Brokers of 4.4.0 knew
a token after about 45 ms, and refuse one that they do not know: that takes 300 ms, and stands in their metrics."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 0.5
_IN_ALL_S = 10.0
"""Seconds for a token, a connection and its authentication together."""

_CLIENT_ID = "epochgate-identity"
_MOST_BYTES = 64 * 1024
_MOST_ELEMENTS = 2_000

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.identity")


class Source(Protocol):
    """Where credentials come from: :class:`proxy.identity.token_source.TokenSource`, or a file."""

    def connected(self, principal: str) -> None:
        """A connection of this principal begins."""
        ...

    def disconnected(self, principal: str) -> None:
        """It has ended."""
        ...

    async def credentials_of(self, principal: str) -> Credentials:
        """Return the credentials of a principal."""
        ...

    def useless(self, credentials: Credentials) -> None:
        """Drop credentials that brokers do not know."""
        ...


class CertificateListener:
    """The clients of one listener. ``source`` has the credentials of their principals."""

    def __init__(
        self,
        source: Source,
        principals: CertificatePrincipals,
        spoken_for: SpokenFor,
        dialer: Dialer,
        metrics: Metrics,
    ) -> None:
        self.source = source
        self.dialer = dialer
        self.metrics = metrics
        self._principals = principals
        self._spoken_for = spoken_for

    def identify(self, stream: trio.abc.Stream) -> "CertificateSpeaker | None":
        """Return who speaks for this client, whose TLS handshake is over; None if it has shown no certificate.

        :raises ClientError: the proxy does not speak for it.
        """
        certificate = getattr(stream, "peer_certificate", None)
        if certificate is None:
            return None
        principal = self.principal_of(certificate)
        if not self._spoken_for.includes(principal):
            raise self.refused(
                principal, "`identity.allow` and `identity.deny` do not let the proxy speak for it"
            )
        try:
            self.source.connected(principal)
        except TokenRefused as error:
            raise self.refused(principal, str(error)) from None
        return CertificateSpeaker(self, principal, certificate)

    def principal_of(self, certificate: bytes) -> str:
        """Return the principal of a certificate in DER.

        :raises NoPrincipalError: it has none, or has expired.
        """
        try:
            return self._principals.principal_of(certificate, time.time())
        except NoClientPrincipal as error:
            self.metrics.identity_authentications.labels("refused").inc()
            raise NoPrincipalError(f"the client's certificate has no principal: {error}") from None

    def refused(self, principal: str, why: str) -> ClientError:
        """Count a client that nobody speaks for, and return its error."""
        self.metrics.identity_authentications.labels("refused").inc()
        return ClientError("principal", f"nobody speaks for User:{principal}: {why}")


class CertificateSpeaker:
    """See the module; one for each connection of a client."""

    def __init__(self, listener: CertificateListener, principal: str, certificate: bytes) -> None:
        self.principal = principal
        self._certificate = certificate
        self._listener = listener
        self._credentials: Credentials | None = None
        self._waits_for = "token"

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect as :meth:`proxy.transport.dialer.Dialer.dial` does, and authenticate.

        :raises UnreachableError: no broker accepted a connection.
        :raises ClientError: there are no credentials for the principal.
        :raises UpstreamError: the broker refuses them, or there is no token or no usable answer in time.
        """
        try:
            with trio.fail_after(_IN_ALL_S):
                return await self._dial(node_id)
        except trio.TooSlowError:
            why = f"no {self._waits_for} within {_IN_ALL_S:g} s"
            if self._waits_for == "connection":
                raise UnreachableError(why, timed_out=True) from None
            raise self._failed(why) from None

    async def _dial(self, node_id: int | None) -> Dialed:
        listener = self._listener
        credentials = await self._current()
        await trio.sleep_until(credentials.made_at + SPREADS_S)
        may_have_another = True
        give_up_at = math.inf
        pause_s = _FIRST_PAUSE_S
        while True:
            self._waits_for = "connection"
            dialed = await listener.dialer.dial(node_id)
            self._waits_for = "answer"
            try:
                return await self._authenticated(dialed, credentials)
            except SaslRefused as error:
                now = trio.current_time()
                is_new = now - credentials.made_at < NEW_FOR_S
                if give_up_at == math.inf:
                    give_up_at = now + RETRIED_FOR_S
                if not (error.is_unknown_user and credentials.is_token):
                    raise self._failed(str(error)) from None
                if is_new and now + pause_s > give_up_at:
                    raise self._failed(f"{error}, {RETRIED_FOR_S:g} s after its token was made") from None
                if not is_new:
                    listener.source.useless(credentials)
                    if not may_have_another:
                        raise self._failed(str(error)) from None
                    may_have_another, give_up_at = False, math.inf
                    credentials = await self._current()
                    await trio.sleep_until(credentials.made_at + SPREADS_S)
                    continue
            listener.metrics.identity_authentications.labels("retried").inc()
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def login(self) -> tuple[str, Login]:
        """Return the mechanism and the tokens of another authentication.

        :raises ClientError: there are no credentials for the principal any more, or none in time.
        :raises NoPrincipalError: the client's certificate has expired.
        """
        self._listener.principal_of(self._certificate)
        try:
            with trio.fail_after(_IN_ALL_S):
                credentials = await self._current()
        except trio.TooSlowError:
            raise self._listener.refused(self.principal, f"no token within {_IN_ALL_S:g} s") from None
        if credentials.is_token:
            life_s = credentials.expires_at - credentials.made_at
            settled_at = credentials.made_at + min(_SETTLES_S, _SETTLES_PART * life_s)
            await trio.sleep(max(0.0, settled_at - trio.current_time()))
        return credentials.mechanism, credentials.login()

    def authenticated_again(self, pause_s: float) -> None:
        """Count an authentication in the middle of a connection."""
        self._listener.metrics.identity_authentications.labels("again").inc()
        self._listener.metrics.identity_pauses.observe(pause_s)

    def lifetime_of(self, lifetime_s: float | None) -> float | None:
        """Return how long a session lives that began now: as the broker says, and no longer than its token."""
        expires_at = math.inf if self._credentials is None else self._credentials.expires_at
        if expires_at == math.inf:
            return lifetime_s
        left_s = max(0.0, expires_at - trio.current_time())
        return left_s if lifetime_s is None else min(left_s, lifetime_s)

    def close(self) -> None:
        """The client's connection has ended."""
        self._listener.source.disconnected(self.principal)

    async def _current(self) -> Credentials:
        self._waits_for = "token"
        try:
            self._credentials = await self._listener.source.credentials_of(self.principal)
        except TokenRefused as error:
            raise self._listener.refused(self.principal, str(error)) from None
        return self._credentials

    async def _authenticated(self, dialed: Dialed, credentials: Credentials) -> Dialed:
        """Authenticate a connection, and have the broker check its route; it is closed unless both succeed.

        :raises SaslRefused: the broker refuses the credentials.
        :raises UpstreamError: there is no usable answer, or it is another broker's.
        """
        calls = BrokerCalls(dialed.stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
        is_done = False
        try:
            if dialed.identity is None:
                await calls.api_versions(VERSION)
            lifetime_s = await authenticate(calls, credentials.mechanism, credentials.login())
            if dialed.identity is not None:  # brokers do not check it before
                await calls.api_versions(VERSION, dialed.identity)
            if calls.has_leftovers:
                raise NoAnswerError("the broker sent more than it was asked for")
            is_done = True
        except WrongRouteError as error:
            raise self._failed(f"{dialed.address}: {error}", "wrong_route") from None
        except (NoAnswerError, LoginError, trio.BrokenResourceError) as error:
            kind = error.__cause__.kind if isinstance(error.__cause__, TlsError) else "authentication"
            raise self._failed(str(error), kind) from None
        finally:
            if not is_done:
                await calls.aclose()
        self._listener.metrics.identity_authentications.labels("done").inc()
        return replace(dialed, lifetime_s=self.lifetime_of(lifetime_s))

    def _failed(self, why: str, kind: str = "authentication") -> UpstreamError:
        self._listener.metrics.identity_authentications.labels("failed").inc()
        return UpstreamError(kind, f"no authentication for User:{self.principal}: {why}")
