"""The account (``identity.account``) that makes delegation tokens for clients (``max_lifetime_ms``), and which
account expires a token after it was replaced.

It is authenticated by SASL PLAIN or SCRAM and needs CREATE_TOKENS on the users that it speaks for (KIP-373). At each
token it names itself as renewer, else it could not expire it. What brokers answer is bounded and checked.

Another user may take its place. Brokers let only a token's owner and its renewer expire it, and no connection that was
authenticated by a token may expire any. So the users before are kept, with their last passwords, to expire the tokens
that they made. If brokers refuse such a user by then, its tokens end by themselves after ``identity.max_lifetime_ms``.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from protocol_codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from proxy.identity.account_connections import AccountConnections, AccountError
from proxy.identity.credentials import Credentials, Token
from proxy.identity.token_store import TokenRefused
from proxy.transport.dialer import Dialed

USER = "User"
"""The type of all principals that Kafka's own principal builder makes."""

_CREATE_VERSION, _EXPIRE_VERSION = 3, 2
_AT_ONCE_MS = -1
_USERS = 4
"""The account's present user, and those before it whose tokens are expired."""

_CREATING, _EXPIRING = 4, 16
"""Connections of their own for either, so that creations, for which clients wait, never queue behind expiries."""

_MOST_ID_CHARS, _MOST_HMAC_BYTES = 256, 1024

_FINAL = {
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the account may not make tokens for it (CREATE_TOKENS on the "
    "user)",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no `delegation.token.secret.key`",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the account is not authenticated by SASL and a password",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers can't make tokens for others (KIP-373, Kafka 3.3)",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "the brokers take no principals of type User",
}


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
        self._creating = AccountConnections(dial, credentials, clock, _CREATING)
        self._new_expiring = partial(AccountConnections, dial, clock=clock, most=_EXPIRING)
        self._expiring: dict[str, AccountConnections] = {}
        """By user, the present one last."""
        self.use(credentials, mechanism, max_lifetime_ms)

    def use(self, credentials: Credentials, mechanism: str, max_lifetime_ms: int) -> None:
        """Ask with these credentials from now on, and make such tokens; both are the constructor's.

        Connections that are kept are closed before their next use, and those in use after it.
        """
        self._creating.credentials = credentials
        self._mechanism = mechanism
        self._max_lifetime_ms = max_lifetime_ms
        expiring = self._expiring.pop(credentials.user, None) or self._new_expiring(credentials)
        expiring.credentials = credentials
        self._expiring[credentials.user] = expiring

    async def create(self, owner: str) -> Token:
        """Make a token for the principal ``User:owner``. Its life counts from when the request was written.

        :raises TokenRefused: the broker refuses, and will refuse the next time.
        :raises AccountError: see there.
        """
        while len(self._expiring) > _USERS:
            await self._expiring.pop(next(iter(self._expiring))).aclose()
        renewer = self._creating.credentials.user
        request = CreateDelegationTokenRequest(
            owner_principal_type=USER,
            owner_principal_name=owner,
            renewers=(CreatableRenewers(principal_type=USER, principal_name=renewer),),
            max_lifetime_ms=self._max_lifetime_ms,
        )
        answer, asked_at = await self._creating.ask(
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
        ends_at = asked_at + life_ms / 1000
        return Token.of(self._mechanism, owner, answer.token_id, answer.hmac, asked_at, ends_at, renewer)

    async def expire(self, token: Token) -> None:
        """End a token. One that brokers do not know any more is no error.

        :raises AccountError: see there.
        """
        request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=_AT_ONCE_MS)
        expiring = self._expiring.get(token.renewer)
        if expiring is None:
            raise AccountError(f"its renewer is not among the last {_USERS} users of the account")
        answer, _ = await expiring.ask(
            ApiKey.EXPIRE_DELEGATION_TOKEN, _EXPIRE_VERSION, request, ExpireDelegationTokenResponse
        )
        over = (ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if answer.error_code not in over:
            raise AccountError(f"the broker answers {error_name(answer.error_code)}")

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._creating.aclose()
        for expiring in [*self._expiring.values()]:
            await expiring.aclose()
