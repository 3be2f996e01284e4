"""The PROXY protocol's header: what is valid, where it ends however it is cut, and what anything else comes to."""

import random
import socket
import struct

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.proxy_header import MAX_HEADER, MAX_LINE, HeaderParser, ProxyHeader, ProxyHeaderError

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
IPV4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack(">HH", 40_000, 9092)
IPV6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + struct.pack(">HH", 40_000, 9092)
)
LATER = b"\x16\x03\x01 what comes after the header, such as TLS"


def binary(command: int, family: int, block: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(block)) + block


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def with_crc(block: bytes, wrong: int = 0) -> bytes:
    """A header of a TCP connection over IPv4 with its checksum between two other TLVs."""
    zeros = binary(0x21, 0x11, block + tlv(0xEA, b"\x01vpce-1") + tlv(0x03, bytes(4)) + tlv(0x04, b"\0"))
    at = len(zeros) - 8
    return zeros[:at] + struct.pack(">I", crc32c.crc32c(zeros) ^ wrong) + zeros[at + 4 :]


VALID = {
    "v1 IPv4": (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 9092\r\n", "192.0.2.7"),
    "v1 IPv6": (b"PROXY TCP6 2001:DB8:0::7 2001:db8::1 40000 0\r\n", "2001:db8::7"),
    "v1, the longest": (b"PROXY UNKNOWN " + b"x" * (MAX_LINE - 16) + b"\r\n", None),
    "v1 UNKNOWN": (b"PROXY UNKNOWN\r\n", None),
    "v1 UNKNOWN with addresses": (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    "v2 IPv4": (binary(0x21, 0x11, IPV4), "192.0.2.7"),
    "v2 IPv6": (binary(0x21, 0x21, IPV6), "2001:db8::7"),
    "v2 IPv4 over UDP": (binary(0x21, 0x12, IPV4), None),
    "v2 IPv6 over UDP": (binary(0x21, 0x22, IPV6), None),
    "v2 Unix socket": (binary(0x21, 0x31, bytes(216)), None),
    "v2 UNSPEC": (binary(0x21, 0x00, b"anything"), None),
    "v2 LOCAL": (binary(0x20, 0x00, b""), None),
    "v2 LOCAL with addresses": (binary(0x20, 0x11, IPV4), None),
    "v2 LOCAL of an unknown family": (binary(0x20, 0xFF, b"x"), None),
    "v2 with TLVs": (binary(0x21, 0x11, IPV4 + tlv(0x04, bytes(40)) + tlv(0xEE, b"")), "192.0.2.7"),
    "v2 with its checksum": (with_crc(IPV4), "192.0.2.7"),
    "v2, the longest": (
        binary(0x21, 0x11, IPV4 + tlv(0x04, bytes(MAX_HEADER - 31))),
        "192.0.2.7",
    ),
}
INVALID = {
    "no header": (b"\0\0\0\x20\0\x12\0\3", "no PROXY header"),
    "TLS": (LATER, "no PROXY header"),
    "the other's case": (b"proxy TCP4 ", "no PROXY header"),
    "no space": (b"PROXYTCP4", "no PROXY header"),
    "v1, too long": (b"PROXY UNKNOWN " + b"x" * 200, "no end of the line within 107 bytes"),
    "v1, too long by one": (b"PROXY UNKNOWN " + b"x" * (MAX_LINE - 15) + b"\r\n", "no end of the line"),
    "v1 without CR": (b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\nPROXY UNKNOWN\r\n", "no line"),
    "v1 of another family": (b"PROXY UDP4 192.0.2.7 192.0.2.8 1 2\r\n", "no line"),
    "v1, IPv6 as IPv4": (b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n", "no line"),
    "v1, IPv4 as IPv6": (b"PROXY TCP6 192.0.2.7 192.0.2.8 1 2\r\n", "no line"),
    "v1, leading zeros": (b"PROXY TCP4 192.0.2.007 192.0.2.8 1 2\r\n", "no line"),
    "v1, a number of 256": (b"PROXY TCP4 192.0.2.256 192.0.2.8 1 2\r\n", "no line"),
    "v1, three numbers": (b"PROXY TCP4 192.0.2 192.0.2.8 1 2\r\n", "no line"),
    "v1, a zone": (b"PROXY TCP6 fe80::1%lo fe80::2 1 2\r\n", "no line"),
    "v1, a port of zeros": (b"PROXY TCP4 192.0.2.7 192.0.2.8 01 2\r\n", "no line"),
    "v1, a port too high": (b"PROXY TCP4 192.0.2.7 192.0.2.8 1 65536\r\n", "no line"),
    "v1, a bad target": (b"PROXY TCP4 192.0.2.7 1.2.3.4.5 1 2\r\n", "no line"),
    "v1, two spaces": (b"PROXY  TCP4 192.0.2.7 192.0.2.8 1 2\r\n", "no line"),
    "v1, more behind": (b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2 3\r\n", "no line"),
    "v1, a NUL": (b"PROXY TCP4 192.0.2.7\0 192.0.2.8 1 2\r\n", "no line"),
    "v1 UNKNOWN, nothing between": (b"PROXY UNKNOWNX\r\n", "no line"),
    "v2 of version 1": (binary(0x11, 0x11, IPV4), "no version and command"),
    "v2 of another command": (binary(0x22, 0x11, IPV4), "no version and command"),
    "v2 of an unknown family": (binary(0x21, 0x41, bytes(300)), "no family and transport"),
    "v2 of an unknown transport": (binary(0x21, 0x13, IPV4), "no family and transport"),
    "v2 without transport": (binary(0x21, 0x10, IPV4), "no family and transport"),
    "v2, addresses cut short": (binary(0x21, 0x11, IPV4[:11]), "11 bytes are too few"),
    "v2, IPv4 as IPv6": (binary(0x21, 0x21, IPV4), "12 bytes are too few"),
    "v2, too long by one": (
        binary(0x21, 0x11, bytes(MAX_HEADER - 15)),
        "a header of 4097 bytes, more than 4096",
    ),
    "v2, as long as can be": (binary(0x20, 0x00, bytes(65_535)), "65551 bytes"),
    "v2, a TLV without length": (binary(0x21, 0x11, IPV4 + b"\x04\0"), "beyond the header"),
    "v2, a TLV too long": (binary(0x21, 0x11, IPV4 + b"\x04\0\x01"), "type 0x04 goes beyond the header"),
    "v2, a short checksum": (binary(0x21, 0x11, IPV4 + tlv(0x03, b"abc")), "a CRC32C of 3 bytes"),
    "v2, a wrong checksum": (with_crc(IPV4, wrong=1), "the header has the CRC32C 0x"),
}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_header_names_the_client_or_nobody(name):
    header, host = VALID[name]
    parser = HeaderParser()
    assert parser.feed(header + LATER) == len(header)
    assert parser.header == ProxyHeader(host)


@pytest.mark.parametrize("name", INVALID)
def test_what_is_no_header_is_an_error_that_names_it(name):
    data, said = INVALID[name]
    with pytest.raises(ProxyHeaderError, match=said):
        HeaderParser().feed(data)


@pytest.mark.parametrize("name", [*VALID, *INVALID])
def test_the_outcome_is_the_same_however_the_header_is_cut(name):
    """Nobody waits for more bytes of what can't become a header: not one of a message of Kafka, or of TLS."""
    data = {**VALID, **INVALID}[name][0] + LATER

    def outcome(sizes: list[int]) -> tuple[object, int]:
        parser, taken = HeaderParser(), 0
        for size in sizes:
            try:
                n = parser.feed(data[taken : taken + size])
            except ProxyHeaderError:
                return "error", 0
            taken += n
            if parser.header is not None:
                return parser.header, taken
            assert n == size
        raise AssertionError("neither a header nor an error")

    whole = outcome([len(data)])
    assert outcome([1] * len(data)) == whole
    chance = random.Random(name)  # noqa: S311  no secret
    for _ in range(20):
        assert outcome([chance.randint(1, 40) for _ in range(len(data))]) == whole


def test_no_byte_is_waited_for_that_a_kafka_client_does_not_send_by_itself():
    for first in (b"\0", b"\x16", b"G"):
        with pytest.raises(ProxyHeaderError, match="no PROXY header"):
            HeaderParser().feed(first)


def feed(data: bytes) -> tuple[HeaderParser, int] | None:
    parser = HeaderParser()
    try:
        return parser, parser.feed(data)
    except ProxyHeaderError:
        return None


@given(st.binary(max_size=400))
def test_any_bytes_are_a_header_or_an_error(data):
    assert feed(data) is None or data[:1] in (b"", b"P", b"\r")


@given(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=300))
def test_any_block_behind_the_signature_is_a_header_or_an_error(command, family, block):
    found = feed(binary(command, family, block) + LATER)
    if found is not None:
        parser, taken = found
        assert parser.header is not None
        assert taken == 16 + len(block)
        assert (command, family in (0x11, 0x21)) == (0x21, True) or parser.header.client_host is None


@given(st.binary(max_size=120))
def test_any_line_is_a_header_or_an_error(rest):
    found = feed(b"PROXY " + rest)
    if found is not None:
        parser, taken = found
        assert taken <= MAX_LINE
        assert parser.header is None or (b"PROXY " + rest)[:taken].endswith(b"\r\n")


def test_valid_headers_with_bytes_changed_are_headers_or_errors():
    """Bits flipped, bytes cut out, doubled and replaced: no other exception, and never more than the bound."""
    chance = random.Random(20)  # noqa: S311  no secret
    valid = [header for header, _ in VALID.values()]
    headers = errors = 0
    for _ in range(30_000):
        data = bytearray(chance.choice(valid))
        for _ in range(chance.randint(1, 4)):
            at, n = chance.randrange(len(data)), chance.randint(1, 8)
            match chance.randrange(4):
                case 0:
                    data[at] ^= 1 << chance.randrange(8)
                case 1 if len(data) > 20:
                    del data[at : at + n]
                case 2:
                    data[at:at] = data[at : at + n]
                case _:
                    data[at : at + n] = chance.randbytes(n)
        found = feed(bytes(data))
        if found is None:
            errors += 1
            continue
        parser, taken = found
        assert taken <= min(len(data), MAX_HEADER)
        assert parser.header is not None or taken == len(data)
        headers += parser.header is not None
    assert headers > 1000
    assert errors > 1000


@given(st.ip_addresses(), st.integers(0, 65_535), st.booleans())
def test_every_address_is_that_of_the_header(address, port, is_text):
    if is_text:
        header = f"PROXY TCP{address.version} {address} {address} {port} {port}\r\n".encode()
    else:
        block = address.packed * 2 + struct.pack(">HH", port, port)
        header = binary(0x21, 0x11 if address.version == 4 else 0x21, block)
    parser = HeaderParser()
    assert parser.feed(header + LATER) == len(header)
    assert parser.header is not None
    host = parser.header.client_host
    assert host is not None
    assert (
        socket.inet_pton(socket.AF_INET if address.version == 4 else socket.AF_INET6, host) == address.packed
    )
