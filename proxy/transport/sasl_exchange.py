"""Authenticates a connection of the proxy's own by SASL: SaslHandshake and SaslAuthenticate (KIP-43, KIP-152)."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.error_code import error_name
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.transport.broker_calls import BrokerCalls
from proxy.wire.sasl_login import Login

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 1
"""The first with tokens in SaslAuthenticate, and the first with the session's lifetime (KIP-368)."""

_MOST_STEPS = 4


class SaslRefused(Exception):
    """The broker does not have the mechanism, or refuses the credentials. ``code`` is its error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_unknown_user(self) -> bool:
        """Whether the broker knows no such credentials; those that are new may reach it later."""
        return self.code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def authenticate(calls: BrokerCalls, mechanism: str, tokens: Login) -> float | None:
    """Authenticate with the tokens of a login; return how many seconds the session lives, None if it has no end.

    :raises SaslRefused: see there.
    :raises LoginError: the broker does not know the password itself.
    :raises NoAnswerError: there is no usable answer.
    """
    handshake = SaslHandshakeRequest(mechanism=mechanism)
    agreed = await calls.call(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, handshake, SaslHandshakeResponse)
    if agreed.error_code:
        raise SaslRefused(agreed.error_code, f"the broker has no SASL mechanism {mechanism}")
    token = next(tokens)
    for _ in range(_MOST_STEPS):
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = await calls.call(
            ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, request, SaslAuthenticateResponse
        )
        if answer.error_code:
            raise SaslRefused(
                answer.error_code, f"the broker refuses the account: {error_name(answer.error_code)}"
            )
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            return answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else None
    raise SaslRefused(ErrorCode.ILLEGAL_SASL_STATE, "the authentication has too many steps")
