"""Decodes the strings of Kafka's protocol as the broker does: what is not UTF-8 becomes U+FFFD, and is no error."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_BEHAVIOUR = "epochgate-kafka"
_REPLACEMENT = "\ufffd"
_CONTINUATION = range(0x80, 0xC0)
_SURROGATE_LEAD = 0xED
_SURROGATE_SECOND = range(0xA0, 0xC0)


def decode_text(data: bytes) -> str:
    """Return the text as Java's ``new String(bytes, UTF_8)`` does, by which Kafka reads strings.

    So an id is here the one that the broker knows, whatever bytes a client has made it of.
    """
    return data.decode("utf-8", _BEHAVIOUR)


_strict: ContextVar[bool] = ContextVar("strict", default=False)


@contextmanager
def strict_text() -> Iterator[None]:
    """Inside, a string that is not UTF-8 raises UnicodeDecodeError.

    That is for records that a broker has written: it has replaced what its client sent, so such a record is damaged.
    """
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Java has one replacement for an encoded surrogate, where Python's ``replace`` has three."""
    if not isinstance(error, UnicodeDecodeError) or _strict.get():
        raise error
    data, at = error.object, error.start
    if data[at] == _SURROGATE_LEAD and data[at + 1 : at + 2] and data[at + 1] in _SURROGATE_SECOND:
        third = data[at + 2 : at + 3]
        return _REPLACEMENT, at + (3 if third and third[0] in _CONTINUATION else 2)
    return _REPLACEMENT, error.end


codecs.register_error(_BEHAVIOUR, _replace)
