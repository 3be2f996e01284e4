"""Signed varints, as records use them: zigzag, seven bits a byte, the lowest bits first."""

_MAX_BYTES = 10


def append_varint(buffer: bytearray, value: int) -> None:
    """Append ``value``, which must fit in 64 bits."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        buffer.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    buffer.append(zigzag)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the value at ``position`` and its end. Raises ValueError if there is none."""
    zigzag = shift = 0
    for end in range(position, min(position + _MAX_BYTES, len(buffer))):
        byte = buffer[end]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), end + 1
        shift += 7
    raise ValueError(f"no varint at byte {position}")
