"""Variable-length numbers and tagged fields (KIP-482), where the relay steps over them by hand.

Everything raises IndexError for bytes that end too early; callers say what that means.
"""

_MOST_BYTES = 5
_MOST_TAGS = 1000
"""Headers have a few at most; each takes time, and a peer could send a million."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at ``at``, and where it ends.

    :raises IndexError: the bytes end within it, or it is longer than 32 bits need.
    """
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for n in range(1, _MOST_BYTES):
        byte = data[at + n]
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            return value, at + n + 1
    raise IndexError("a number without an end")


def encode_varint(value: int) -> bytes:
    """The bytes of an unsigned number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: bytes, at: int) -> int:
    """Where the tagged fields that begin at ``at`` end, which may be beyond the end of the bytes.

    :raises IndexError: the bytes end within a tag or a size, or there are absurdly many.
    """
    if data[at] == 0:
        return at + 1
    count, at = varint(data, at)
    if count > _MOST_TAGS:
        raise IndexError(f"{count} tagged fields")
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at
