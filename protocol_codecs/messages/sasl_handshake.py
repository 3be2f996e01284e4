"""SaslHandshake (17): agree on a mechanism. Never flexible.

- v0: the tokens follow without Kafka's headers.
- v1: the tokens travel in SaslAuthenticate.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, string
from protocol_codecs.message import Message


class SaslHandshakeRequest(Message, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """The client names its mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """The mechanisms that the broker supports."""

    error_code: int = int16()
    mechanisms: tuple[str, ...] = array(string)
