"""The header of the PROXY protocol, by which a load balancer says for whom it opened a connection. Versions 1 and 2.

Specification: https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt. The header stands before all other bytes of
the connection, also before TLS. Version 1 is one line of text, version 2 is binary; which one it is shows in the first
byte. Of the header only the client's address is used, if the client came by TCP over IPv4 or IPv6. In every other valid
header (LOCAL, UNKNOWN, UNSPEC, UDP, Unix sockets) the balancer speaks for itself or can't say, and the address of the
connection's peer counts, as the specification has it.

Sans-IO: bytes go in by :meth:`HeaderParser.feed`, which says how many of them are the header's, so that whoever reads
takes no byte more from the connection.
"""

import re
import socket
import struct
from typing import Final

import crc32c
import msgspec

MAX_HEADER: Final = 4096
"""Bytes of the longest header that is read (nginx: the same). With addresses it has at most 232; the rest is for TLVs,
such as the common name of a client's certificate (HAProxy) or the id of an endpoint (clouds)."""

MAX_LINE: Final = 107
"""Bytes of the longest header of version 1, by the specification."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_LINE_START = b"PROXY "
_PORT = rb"(?:0|[1-9][0-9]{0,4})"
_TCP4 = re.compile(rb"PROXY TCP4 ([0-9.]{7,15}) ([0-9.]{7,15}) (%b) (%b)" % (_PORT, _PORT))
_TCP6 = re.compile(rb"PROXY TCP6 ([0-9A-Fa-f:.]{2,45}) ([0-9A-Fa-f:.]{2,45}) (%b) (%b)" % (_PORT, _PORT))
_UNKNOWN = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?")
_MAX_PORT = 65535

_FIXED = struct.Struct(">12sBBH")
_VERSION = 0x2
_LOCAL, _PROXY = 0x0, 0x1
_TCP_OVER_IPV4, _TCP_OVER_IPV6 = 0x11, 0x21
_UNSPEC = 0x00
_ADDRESS_SIZES = {_UNSPEC: 0, 0x11: 12, 0x12: 12, 0x21: 36, 0x22: 36, 0x31: 216, 0x32: 216}
"""Bytes of the addresses, by family and transport: what the specification calls valid."""
_TLV = struct.Struct(">BH")
_TLV_CRC32C = 0x03
_CRC32C = struct.Struct(">I")


class ProxyHeaderError(Exception):
    """The bytes are no valid header; the message says what was seen."""


class ProxyHeader(msgspec.Struct, frozen=True):
    """A whole header. ``client_host`` is the client's IP address; None: the peer of the connection counts."""

    client_host: str | None


class HeaderParser:
    """Reads the header at the beginning of one connection."""

    def __init__(self) -> None:
        self.header: ProxyHeader | None = None
        """None until the header is whole."""
        self._read = bytearray()

    @property
    def begun(self) -> bool:
        """Whether any byte of a header has come."""
        return bool(self._read)

    def feed(self, data: bytes) -> int:
        """Take the bytes that come next, and return how many of them, from the first on, belong to the header.

        As long as :attr:`header` is None that is all of them.

        :raises ProxyHeaderError: this is no valid header.
        """
        before = len(self._read)
        self._read += data[: MAX_HEADER - before]
        if _begins(self._read, _SIGNATURE):
            end = self._binary()
        elif _begins(self._read, _LINE_START):
            end = self._line()
        else:
            raise ProxyHeaderError(
                f"no PROXY header: the connection begins with {bytes(self._read[: _FIXED.size])!r}"
            )
        del self._read[end:]
        return end - before

    def _line(self) -> int:
        """Version 1; returns where the header ends, or what there is of it."""
        end = self._read.find(b"\r\n", 0, MAX_LINE)
        if end >= 0:
            self.header = ProxyHeader(_host_in(bytes(self._read[:end])))
            return end + 2
        if len(self._read) >= MAX_LINE:
            raise ProxyHeaderError(f"no end of the line within {MAX_LINE} bytes: {_shown(self._read)}")
        return len(self._read)

    def _binary(self) -> int:
        """Version 2; as :meth:`_line`."""
        if len(self._read) < _FIXED.size:
            return len(self._read)
        _, command, family, length = _FIXED.unpack_from(self._read)
        if command not in (_VERSION << 4 | _LOCAL, _VERSION << 4 | _PROXY):
            raise ProxyHeaderError(f"no version and command of the PROXY protocol: 0x{command:02x}")
        size: int = _FIXED.size + length
        if size > MAX_HEADER:
            raise ProxyHeaderError(f"a header of {size} bytes, more than {MAX_HEADER}")
        is_local = command & 0x0F == _LOCAL
        if not is_local:
            if family not in _ADDRESS_SIZES:
                raise ProxyHeaderError(f"no family and transport of the PROXY protocol: 0x{family:02x}")
            if length < _ADDRESS_SIZES[family]:
                raise ProxyHeaderError(f"{length} bytes are too few for addresses of 0x{family:02x}")
        if len(self._read) < size:
            return len(self._read)
        block = bytes(self._read[:size])
        # What a LOCAL header or one without a family holds has no meaning.
        host = None if is_local or family == _UNSPEC else _host_of(block, family)
        self.header = ProxyHeader(host)
        return size


def _begins(data: bytearray, start: bytes) -> bool:
    return data[: len(start)] == start[: len(data)]


def _shown(data: bytes | bytearray) -> str:
    return repr(bytes(data[:MAX_LINE]))


def _host_in(line: bytes) -> str | None:
    if _UNKNOWN.fullmatch(line):
        return None
    for family, form in ((socket.AF_INET, _TCP4), (socket.AF_INET6, _TCP6)):
        match = form.fullmatch(line)
        if match is None:
            continue
        source, target, *ports = match.groups()
        if any(int(port) > _MAX_PORT for port in ports):
            break
        try:
            socket.inet_pton(family, target.decode())
            return socket.inet_ntop(family, socket.inet_pton(family, source.decode()))
        except OSError:
            break
    raise ProxyHeaderError(f"no line of the PROXY protocol: {_shown(line)}")


def _host_of(block: bytes, family: int) -> str | None:
    _check_tlvs(block, _FIXED.size + _ADDRESS_SIZES[family])
    if family == _TCP_OVER_IPV4:
        return socket.inet_ntop(socket.AF_INET, block[_FIXED.size : _FIXED.size + 4])
    if family == _TCP_OVER_IPV6:
        return socket.inet_ntop(socket.AF_INET6, block[_FIXED.size : _FIXED.size + 16])
    return None


def _check_tlvs(block: bytes, position: int) -> None:
    """Check that the TLVs fill the rest of the header, and its checksum if it has one; the rest of them is not used."""
    while position < len(block):
        if position + _TLV.size > len(block):
            raise ProxyHeaderError("a TLV goes beyond the header")
        kind, length = _TLV.unpack_from(block, position)
        position += _TLV.size
        if position + length > len(block):
            raise ProxyHeaderError(f"a TLV of type 0x{kind:02x} goes beyond the header")
        if kind == _TLV_CRC32C:
            if length != _CRC32C.size:
                raise ProxyHeaderError(f"a CRC32C of {length} bytes")
            (stated,) = _CRC32C.unpack_from(block, position)
            # The sum is that of the header with zeros in its place.
            found = crc32c.crc32c(block[:position] + bytes(length) + block[position + length :])
            if found != stated:
                raise ProxyHeaderError(
                    f"the header has the CRC32C 0x{stated:08x}, its bytes have 0x{found:08x}"
                )
        position += length
