"""Encode and decode: the two functions that everyone uses."""

from protocol_codecs import reference
from protocol_codecs.errors import UnsupportedVersion
from protocol_codecs.message import M, Message

Buffer = bytes | bytearray | memoryview


def encode(message: Message, version: int) -> bytes:
    """The body of a message on the wire, without header.

    A field that ``version`` does not carry must have its default, unless Kafka's schema lets it be dropped
    silently. Raises UnencodableMessage, and UnsupportedVersion if the message has no such version.
    """
    _check_version(type(message), version)
    return reference.encode(message, version)


def decode(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """The message that lies in ``buffer`` from ``offset`` to the buffer's end.

    Raises MalformedMessage, also for bytes left over, and UnsupportedVersion.
    """
    _check_version(message_type, version)
    return reference.decode_whole(message_type, version, bytes(buffer), offset)


def decode_prefix(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """The message that begins at ``offset``, and the offset at which it ends: for headers.

    Raises MalformedMessage and UnsupportedVersion.
    """
    _check_version(message_type, version)
    return reference.decode_prefix(message_type, version, bytes(buffer), offset)


def _check_version(message_type: type[Message], version: int) -> None:
    schema = message_type.__schema__
    if version not in schema.versions:
        raise UnsupportedVersion(schema.name, version, str(schema.versions))
