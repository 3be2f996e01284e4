"""Encode and decode: the functions that everyone uses."""

from collections.abc import Callable

from protocol_codecs.compiler import DecoderBuilder, EncoderBuilder
from protocol_codecs.errors import UnsupportedVersion
from protocol_codecs.message import M, Message

Buffer = bytes | bytearray | memoryview


def encode(message: Message, version: int) -> bytes:
    """The body of a message on the wire, without header.

    A field that ``version`` does not carry must have its default, unless Kafka's schema lets it be dropped
    silently. Raises UnencodableMessage, and UnsupportedVersion if the message has no such version.
    """
    try:
        encoder = message.__encoders__[version]
    except KeyError:
        encoder = encoder_for(type(message), version)
    return encoder(message)


def decode(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """The message that lies in ``buffer`` from ``offset`` (not negative) to the buffer's end.

    Raises MalformedMessage, also for bytes left over, and UnsupportedVersion.
    """
    try:
        decoder = message_type.__decoders__[version]
    except KeyError:
        return decoder_for(message_type, version)(buffer, offset)
    message: M = decoder(buffer, offset)
    return message


def decode_prefix(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """The message that begins at ``offset`` (not negative), and the offset at which it ends: for headers.

    Raises MalformedMessage and UnsupportedVersion.
    """
    try:
        decoder = message_type.__prefix_decoders__[version]
    except KeyError:
        _check_version(message_type, version)
        decoder = DecoderBuilder(message_type, version, whole=False).build()
        message_type.__prefix_decoders__[version] = decoder
    message: tuple[M, int] = decoder(buffer, offset)
    return message


def encoder_for(message_type: type[M], version: int) -> Callable[[M], bytes]:
    """The function that ``encode`` calls for this message and version, for those who call it often."""
    _check_version(message_type, version)
    encoder = message_type.__encoders__.get(version)
    if encoder is None:
        encoder = message_type.__encoders__[version] = EncoderBuilder(message_type, version).build()
    return encoder


def decoder_for(message_type: type[M], version: int) -> Callable[[Buffer, int], M]:
    """The function that ``decode`` calls for this message and version, for those who call it often."""
    _check_version(message_type, version)
    decoder = message_type.__decoders__.get(version)
    if decoder is None:
        decoder = DecoderBuilder(message_type, version, whole=True).build()
        message_type.__decoders__[version] = decoder
    return decoder


def _check_version(message_type: type[Message], version: int) -> None:
    schema = message_type.__schema__
    if version not in schema.versions:
        raise UnsupportedVersion(schema.name, version, str(schema.versions))
