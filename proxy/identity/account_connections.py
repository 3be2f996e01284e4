"""Connections on which the account of delegation tokens asks brokers: a few at most, authenticated, and kept."""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

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


class _Kept(NamedTuple):
    """An authenticated connection, until when it may be used, and by which credentials it was authenticated."""

    calls: BrokerCalls
    until: float
    credentials: Credentials


class AccountConnections:
    """See the module. ``dial`` connects to any broker, ``clock`` returns seconds, ``most`` are open at once.

    ``credentials`` may be replaced: connections that others authenticated are closed instead of used again.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Dialed]],
        credentials: Credentials,
        clock: Callable[[], float],
        most: int,
    ) -> None:
        self._dial = dial
        self.credentials = credentials
        self._clock = clock
        self._slots = trio.CapacityLimiter(most)
        self._kept: list[_Kept] = []

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
                            kept = self._kept.pop()
                            if self._clock() >= kept.until or kept.credentials is not self.credentials:
                                await kept.calls.aclose()
                                continue
                            with suppress(*_UNREACHED):
                                return await self._ask_on(kept, api_key, version, request, response)
                    return await self._ask_on(await self._connected(), api_key, version, request, response)
        except _UNREACHED as error:
            raise AccountError(_why(error)) from None

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        while self._kept:
            await self._kept.pop().calls.aclose()

    async def _ask_on(
        self, kept: _Kept, api_key: ApiKey, version: int, request: Message, response: type[M]
    ) -> tuple[M, float]:
        asked_at = self._clock()
        answered = False
        try:
            answer = await kept.calls.call(api_key, version, request, response)
            answered = True
        finally:
            if not answered:
                await kept.calls.aclose()
        self._kept.append(kept)
        return answer, asked_at

    async def _connected(self) -> _Kept:
        began, credentials = self._clock(), self.credentials
        dialed = await self._dial()
        calls = BrokerCalls(dialed.stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
        try:
            await calls.api_versions(VERSION)
            lifetime_s = await authenticate(calls, credentials.mechanism, credentials.login())
        except BaseException:
            await calls.aclose()
            raise
        until = began + _SESSION_USED * (math.inf if lifetime_s is None else lifetime_s)
        return _Kept(calls, until, credentials)


def _why(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {_ASK_S:g} s"
    return str(error) or type(error).__name__
