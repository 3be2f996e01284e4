"""Public entry points: encode and decode a message of any API in any version."""

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
    """Encode the body of a message, without header.

    A field that ``version`` does not carry must have its default, unless Kafka's schema marks it ignorable. Raises
    UnencodableMessage, and UnsupportedVersion if the message has no such version.
    """
    try:
        encoder = _encoders[type(message)][version]
    except KeyError:
        encoder = encoder_for(type(message), version)
    return encoder(message)


def decode(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """Decode the message that fills ``buffer`` from ``offset`` (not negative) to its end.

    Raises UnsupportedVersion, and MalformedMessage, also if bytes are left over.
    """
    try:
        decoder: Callable[[Buffer, int], M] = _decoders[message_type][version]
    except KeyError:
        decoder = decoder_for(message_type, version)
    return decoder(buffer, offset)


def decode_prefix(message_type: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """Decode the message that begins at ``offset`` (not negative); return it and its end offset. Used for headers."""
    try:
        decoder: Callable[[Buffer, int], tuple[M, int]] = _prefix_decoders[message_type][version]
    except KeyError:
        _check_version(message_type, version)
        decoder = DecoderBuilder(message_type, version, whole=False).build()
        _prefix_decoders[message_type][version] = decoder
    return decoder(buffer, offset)


def decode_bounded(
    message_type: type[M], version: int, buffer: Buffer, offset: int, max_elements: int
) -> tuple[M, int]:
    """Like :func:`decode_prefix`, with a limit on elements, for bytes from an untrusted peer.

    ``max_elements`` bounds the elements of all arrays of the message together; tagged fields count as elements too.
    Elements are counted before any object is created for them. A message that needs the reference codec may have a
    tenth as many, because that codec is about ten times slower.

    Raises TooManyElements, MalformedMessage and UnsupportedVersion.
    """
    if len(buffer) - offset <= max_elements // REFERENCE_SLOWNESS:
        return decode_prefix(message_type, version, buffer, offset)  # no element takes less than a byte
    try:
        decoder: Callable[[Buffer, int, int], tuple[M, int]] = _bounded_decoders[message_type][version]
    except KeyError:
        _check_version(message_type, version)
        decoder = DecoderBuilder(message_type, version, whole=False, bounded=True).build()
        _bounded_decoders[message_type][version] = decoder
    return decoder(buffer, offset, max_elements)


def encoder_for(message_type: type[M], version: int) -> Callable[[M], bytes]:
    """Return the function that ``encode`` calls for this message and version, for callers that use it often."""
    _check_version(message_type, version)
    known = _encoders[message_type]
    if version not in known:
        known[version] = EncoderBuilder(message_type, version).build()
    return known[version]


def decoder_for(message_type: type[M], version: int) -> Callable[[Buffer, int], M]:
    """Return the function that ``decode`` calls for this message and version, for callers that use it often."""
    _check_version(message_type, version)
    known = _decoders[message_type]
    if version not in known:
        known[version] = DecoderBuilder(message_type, version, whole=True).build()
    return known[version]


def _check_version(message_type: type[Message], version: int) -> None:
    schema = message_type.__schema__
    if version not in schema.versions:
        raise UnsupportedVersion(schema.name, version, str(schema.versions))
