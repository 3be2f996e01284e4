"""Kafka's wire format: bytes to typed messages and back.

Holds the message declarations, the compiler that turns a declaration into an encoder and a decoder for each version,
and the embedded consumer protocol. It uses no socket and no clock, and keeps no group state.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import Buffer, decode, decode_bounded, decode_prefix, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import (
    CodecError,
    MalformedMessage,
    TooManyElements,
    UnencodableMessage,
    UnsupportedVersion,
)
from protocol_codecs.message import Message
from protocol_codecs.uuids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text

__all__ = [
    "ZERO_UUID",
    "ApiKey",
    "Buffer",
    "CodecError",
    "ErrorCode",
    "MalformedMessage",
    "Message",
    "TooManyElements",
    "UnencodableMessage",
    "UnsupportedVersion",
    "Uuid",
    "decode",
    "decode_bounded",
    "decode_prefix",
    "encode",
    "uuid_from_text",
    "uuid_to_text",
]
