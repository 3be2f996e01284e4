"""Encode and decode: the functions that everyone uses."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from protocol_codecs.compiler import DecoderBuilder, EncoderBuilder
from protocol_codecs.compiler.runtime import REFERENCE_SLOWNESS
from protocol_codecs.errors import UnsupportedVersion
from protocol_codecs.message import M, Message

Buffer = bytes | bytearray | memoryview

# Compiled functions by message class and version, filled on first use.
_encoders: defaultdict[type[Message], dict[int, Callable[[Any], bytes]]] = defaultdict(dict)
_decoders: defaultdict[type[Message], dict[int, Callable[[Buffer, int], Any]]] = defaultdict(dict)
_prefix_decoders: defaultdict[type[Message], dict[int, Callable[[Buffer, int], Any]]] = defaultdict(dict)
_bounded_decoders: defaultdict[type[Message], dict[int, Callable[[Buffer, int, int], Any]]] = defaultdict(
    dict
)


def encode(message: Message, version: int) -> bytes:
    """The body of a message on the wire, without header.

    A field that ``version`` does not carry must have its default, unless Kafka's schema lets it be dropped
    silently. Raises UnencodableMessage, and UnsupportedVersion if the message has no such version.
    """
    try:
        encoder = _encoders[type(message)][version]
    except KeyError:
        encoder = encoder_for(type(message), version)
    return encoder(message)


def decode(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """The message that lies in ``buffer`` from ``offset`` (not negative) to the buffer's end.

    Raises MalformedMessage, also for bytes left over, and UnsupportedVersion.
    """
    try:
        decoder: Callable[[Buffer, int], M] = _decoders[message_type][version]
    except KeyError:
        decoder = decoder_for(message_type, version)
    return decoder(buffer, offset)


def decode_prefix(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """The message that begins at ``offset`` (not negative), and the offset at which it ends: for headers.

    Raises MalformedMessage and UnsupportedVersion.
    """
    try:
        decoder: Callable[[Buffer, int], tuple[M, int]] = _prefix_decoders[message_type][version]
    except KeyError:
        _check_version(message_type, version)
        decoder = DecoderBuilder(message_type, version, whole=False).build()
        _prefix_decoders[message_type][version] = decoder
    return decoder(buffer, offset)


def decode_bounded(
    message_type: type[M], version: int, buffer: Buffer, offset: int, most_elements: int
) -> tuple[M, int]:
    """As :func:`decode_prefix`, for bytes from a peer that may have put millions of elements into them.

    ``most_elements`` bounds the elements of all arrays of the message together, and its tagged fields, which count as
    elements too. They are counted before anything is made of them. A message that only the reference codec can read,
    or refuse, may have a tenth as many, because that one is slower by as much.

    Raises TooManyElements, MalformedMessage and UnsupportedVersion.
    """
    if len(buffer) - offset <= most_elements // REFERENCE_SLOWNESS:
        return decode_prefix(message_type, version, buffer, offset)  # no element takes less than a byte
    try:
        decoder: Callable[[Buffer, int, int], tuple[M, int]] = _bounded_decoders[message_type][version]
    except KeyError:
        _check_version(message_type, version)
        decoder = DecoderBuilder(message_type, version, whole=False, bounded=True).build()
        _bounded_decoders[message_type][version] = decoder
    return decoder(buffer, offset, most_elements)


def encoder_for(message_type: type[M], version: int) -> Callable[[M], bytes]:
    """The function that ``encode`` calls for this message and version, for those who call it often."""
    _check_version(message_type, version)
    known = _encoders[message_type]
    if version not in known:
        known[version] = EncoderBuilder(message_type, version).build()
    return known[version]


def decoder_for(message_type: type[M], version: int) -> Callable[[Buffer, int], M]:
    """The function that ``decode`` calls for this message and version, for those who call it often."""
    _check_version(message_type, version)
    known = _decoders[message_type]
    if version not in known:
        known[version] = DecoderBuilder(message_type, version, whole=True).build()
    return known[version]


def _check_version(message_type: type[Message], version: int) -> None:
    schema = message_type.__schema__
    if version not in schema.versions:
        raise UnsupportedVersion(schema.name, version, str(schema.versions))
