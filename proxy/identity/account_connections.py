"""Connections on which the account of delegation tokens asks brokers: a few at most, authenticated, and kept."""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from protocol_codecs import ApiKey, Message
from protocol_codecs.message import M
from proxy import VERSION
from proxy.identity.credentials import Credentials
from proxy.transport.broker_calls import BrokerCalls, NoAnswerError
from proxy.transport.dialer import Dialed, UnreachableError
from proxy.transport.sasl_exchange import SaslRefused, authenticate
from proxy.wire.sasl_login import LoginError

_CLIENT_ID = "epochgate-identity"
_MOST_BYTES = 64 * 1024
_MOST_ELEMENTS = 2_000
_ASK_S = 10.0
"""Seconds for one question in all: to wait for a free connection, to connect, to authenticate, and for the answer."""

_KEPT_S = 5.0
"""Seconds of these for connections that were kept: they may have died unnoticed, and a fresh one needs its time too."""

_SESSION_USED = 0.8

_UNREACHED = (
    NoAnswerError,
    UnreachableError,
    SaslRefused,
    LoginError,
    trio.TooSlowError,
    trio.BrokenResourceError,
)


class AccountError(Exception):
    """The account could not ask; the message says why and holds no secret. Trying again may help."""


class AccountConnections:
    """See the module. ``dial`` connects to any broker, ``clock`` returns seconds, ``most`` are open at once."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[Dialed]],
        credentials: Credentials,
        clock: Callable[[], float],
        most: int,
    ) -> None:
        self._dial = dial
        self._credentials = credentials
        self._clock = clock
        self._slots = trio.CapacityLimiter(most)
        self._kept: list[tuple[BrokerCalls, float]] = []

    async def ask(
        self, api_key: ApiKey, version: int, request: Message, response: type[M]
    ) -> tuple[M, float]:
        """Ask on a connection that was kept, and if it has ended meanwhile on a fresh one.

        Returns the answer, and when the request was written.

        :raises AccountError: see there.
        """
        try:
            with trio.fail_after(_ASK_S):
                async with self._slots:
                    with trio.move_on_after(_KEPT_S):
                        while self._kept:
                            calls, until = self._kept.pop()
                            if self._clock() >= until:
                                await calls.aclose()
                                continue
                            with suppress(*_UNREACHED):
                                return await self._ask_on(calls, until, api_key, version, request, response)
                    calls, until = await self._connected()
                    return await self._ask_on(calls, until, api_key, version, request, response)
        except _UNREACHED as error:
            raise AccountError(_why(error)) from None

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        while self._kept:
            await self._kept.pop()[0].aclose()

    async def _ask_on(
        self,
        calls: BrokerCalls,
        until: float,
        api_key: ApiKey,
        version: int,
        request: Message,
        response: type[M],
    ) -> tuple[M, float]:
        asked_at = self._clock()
        answered = False
        try:
            answer = await calls.call(api_key, version, request, response)
            answered = True
        finally:
            if not answered:
                await calls.aclose()
        self._kept.append((calls, until))
        return answer, asked_at

    async def _connected(self) -> tuple[BrokerCalls, float]:
        """Return an authenticated connection, and until when it may be used."""
        began = self._clock()
        dialed = await self._dial()
        calls = BrokerCalls(dialed.stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
        try:
            await calls.api_versions(VERSION)
            mechanism, tokens = self._credentials.mechanism, self._credentials.login()
            lifetime_s = await authenticate(calls, mechanism, tokens)
        except BaseException:
            await calls.aclose()
            raise
        return calls, began + _SESSION_USED * (math.inf if lifetime_s is None else lifetime_s)


def _why(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {_ASK_S:g} s"
    return str(error) or type(error).__name__
