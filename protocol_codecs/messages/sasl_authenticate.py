"""SaslAuthenticate (36): exchange one token of the chosen mechanism in each direction.

- v1: the response has the session's lifetime (KIP-368).
- v2: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import binary, int16, int64, string
from protocol_codecs.message import Message


class SaslAuthenticateRequest(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The client's token."""

    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The broker's token."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)
