"""ExpireDelegationToken (40): change when a token ends (KIP-48). Only its owner and its renewers may.

- v0 is gone from Kafka 4. v2: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import binary, int16, int32, int64
from protocol_codecs.message import Message


class ExpireDelegationTokenRequest(
    Message, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    """Ends the token after this time; a negative one ends it at once."""

    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(
    Message, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="1-2", flexible="2+"
):
    """When the token ends."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
