"""The account that makes delegation tokens for clients, on connections of its own: a few at most, which are kept.

It is authenticated by SASL PLAIN or SCRAM and needs CREATE_TOKENS on the users that it speaks for (KIP-373). At each
token it names itself as renewer, else it could not expire it. What brokers answer is bounded and checked.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from protocol_codecs import ApiKey, ErrorCode, Message
from protocol_codecs.error_code import error_name
from protocol_codecs.message import M
from protocol_codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from protocol_codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from proxy import VERSION
from proxy.identity.credentials import Credentials, Token
from proxy.identity.token_store import TokenRefused
from proxy.transport.broker_calls import BrokerCalls, NoAnswerError
from proxy.transport.dialer import Dialed, UnreachableError
from proxy.transport.sasl_exchange import SaslRefused, authenticate
from proxy.wire.sasl_login import LoginError

USER = "User"
"""The type of all principals that Kafka's own principal builder makes."""

_CLIENT_ID = "epochgate-identity"
_CREATE_VERSION, _EXPIRE_VERSION = 3, 2
_AT_ONCE_MS = -1
_MOST_BYTES = 64 * 1024
_MOST_ELEMENTS = 2_000
_CONNECTIONS = 4
_MOST_ID_CHARS, _MOST_HMAC_BYTES = 256, 1024
_REQUEST_S = 10.0
_SESSION_USED = 0.8

_FINAL = {
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the account may not make tokens for it (CREATE_TOKENS on the "
    "user)",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no `delegation.token.secret.key`",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the account is not authenticated by SASL and a password",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers can't make tokens for others (KIP-373, Kafka 3.3)",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "the brokers take no principals of type User",
}

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


class TokenAccount:
    """See the module. ``dial`` connects to any broker, ``clock`` returns seconds.

    ``mechanism`` is the one by which tokens authenticate, SCRAM-SHA-256 or SCRAM-SHA-512.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Dialed]],
        credentials: Credentials,
        mechanism: str,
        max_lifetime_ms: int,
        clock: Callable[[], float],
    ) -> None:
        self._dial = dial
        self._credentials = credentials
        self._mechanism = mechanism
        self._max_lifetime_ms = max_lifetime_ms
        self._clock = clock
        self._slots = trio.CapacityLimiter(_CONNECTIONS)
        self._kept: list[tuple[BrokerCalls, float]] = []

    async def create(self, owner: str) -> Token:
        """Make a token for the principal ``User:owner``.

        :raises TokenRefused: the broker refuses, and will refuse the next time.
        :raises AccountError: see there.
        """
        request = CreateDelegationTokenRequest(
            owner_principal_type=USER,
            owner_principal_name=owner,
            renewers=(CreatableRenewers(principal_type=USER, principal_name=self._credentials.user),),
            max_lifetime_ms=self._max_lifetime_ms,
        )
        asked_at = self._clock()
        answer = await self._ask(
            ApiKey.CREATE_DELEGATION_TOKEN, _CREATE_VERSION, request, CreateDelegationTokenResponse
        )
        if answer.error_code in _FINAL:
            raise TokenRefused(_FINAL[ErrorCode(answer.error_code)])
        if answer.error_code:
            raise AccountError(f"the broker answers {error_name(answer.error_code)}")
        life_ms = min(answer.expiry_timestamp_ms - answer.issue_timestamp_ms, self._max_lifetime_ms)
        if (
            (answer.principal_type, answer.principal_name) != (USER, owner)
            or not 0 < len(answer.token_id) <= _MOST_ID_CHARS
            or not answer.token_id.isprintable()
            or not 0 < len(answer.hmac) <= _MOST_HMAC_BYTES
            or life_ms <= 0
        ):
            raise AccountError("the broker answers with a token that can't be one")
        return Token.of(
            self._mechanism, owner, answer.token_id, answer.hmac, asked_at, asked_at + life_ms / 1000
        )

    async def expire(self, token: Token) -> None:
        """End a token. One that brokers do not know any more is no error.

        :raises AccountError: see there.
        """
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=_AT_ONCE_MS)
        answer = await self._ask(
            ApiKey.EXPIRE_DELEGATION_TOKEN, _EXPIRE_VERSION, request, ExpireDelegationTokenResponse
        )
        over = (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if answer.error_code not in over:
            raise AccountError(f"the broker answers {error_name(answer.error_code)}")

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        while self._kept:
            await self._kept.pop()[0].aclose()

    async def _ask(self, api_key: ApiKey, version: int, request: Message, response: type[M]) -> M:
        """Ask on a connection that was kept, and if it has ended meanwhile on a fresh one.

        :raises AccountError: see there.
        """
        async with self._slots:
            while self._kept:
                calls, until = self._kept.pop()
                if self._clock() < until:
                    with suppress(AccountError):
                        return await self._ask_on(calls, until, api_key, version, request, response)
                else:
                    await calls.aclose()
            calls, until = await self._connected()
            return await self._ask_on(calls, until, api_key, version, request, response)

    async def _ask_on(
        self,
        calls: BrokerCalls,
        until: float,
        api_key: ApiKey,
        version: int,
        request: Message,
        response: type[M],
    ) -> M:
        answered = False
        try:
            with trio.fail_after(_REQUEST_S):
                answer = await calls.call(api_key, version, request, response)
            answered = True
        except _UNREACHED as error:
            raise AccountError(_why(error)) from None
        finally:
            if not answered:
                await calls.aclose()
        self._kept.append((calls, until))
        return answer

    async def _connected(self) -> tuple[BrokerCalls, float]:
        """Return an authenticated connection, and until when it may be used.

        :raises AccountError: see there.
        """
        began = self._clock()
        try:
            with trio.fail_after(_REQUEST_S):
                dialed = await self._dial()
                calls = BrokerCalls(dialed.stream, _CLIENT_ID, _MOST_BYTES, _MOST_ELEMENTS)
                try:
                    await calls.api_versions(VERSION)
                    mechanism, tokens = self._credentials.mechanism, self._credentials.login()
                    lifetime_s = await authenticate(calls, mechanism, tokens)
                except BaseException:
                    await calls.aclose()
                    raise
        except _UNREACHED as error:
            raise AccountError(_why(error)) from None
        return calls, began + _SESSION_USED * (math.inf if lifetime_s is None else lifetime_s)


def _why(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {_REQUEST_S:g} s"
    return str(error) or type(error).__name__
