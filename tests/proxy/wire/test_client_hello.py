"""Which server name a ClientHello has: those of OpenSSL, in any pieces, and what is no ClientHello."""

import random
import ssl

import pytest

from proxy.wire.client_hello import MAX_BYTES, ClientHelloError, ClientHelloReader
from tests.proxy.fakes.hellos import extension, hello_of, message, record, server_name, vector

NAME = "b1.kafka.example"


def read(data: bytes) -> bytes | None:
    reader = ClientHelloReader()
    assert reader.feed(data), "it is complete"
    return reader.server_name


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_that_openssl_sends(version: ssl.TLSVersion) -> None:
    assert read(hello_of(NAME, version)) == NAME.encode()
    assert read(hello_of(None, version)) is None


def test_a_hello_without_extensions_names_no_server() -> None:
    assert read(record(message(None))) is None


def test_pieces_of_single_bytes() -> None:
    hello, reader = hello_of(NAME), ClientHelloReader()
    assert [reader.feed(bytes([byte])) for byte in hello] == [False] * (len(hello) - 1) + [True]
    assert reader.server_name == NAME.encode()


def test_records_of_single_bytes() -> None:
    """A message may be split over records too (RFC 8446 5.1)."""
    whole = hello_of(NAME)[5:]
    assert read(b"".join(record(bytes([byte])) for byte in whole)) == NAME.encode()


def test_what_follows_the_hello_is_left_alone() -> None:
    assert read(hello_of(NAME) + b"\x17anything") == NAME.encode()


@pytest.mark.parametrize(
    "data",
    [
        record(message(server_name(b"a") + server_name(b"b"))),
        record(message(extension(43, b"") + extension(43, b""))),
        record(message(server_name(b"a", b"b"))),
        record(message(server_name(b""))),
        record(message(server_name())),
        record(message(server_name(b"a", kind=1))),
        record(message(extension(0, b""))),
        record(message(extension(0, vector(b"\x00\xff\xffa")))),
        record(message(server_name(b"a")[:-1])),
        record(message(server_name(b"a") + b"\x00")),
        record(message(None, kind=2)),
        record(b"\x01\x00\x00\x05\x03\x03\x00\x00\x00"),
        record(b""),
        record(b"\x01", kind=23),
        b"\x16\x02\x00\x00\x01\x01",
        b"\x16\x03\x01\xff\xff",
        record(b"\x01\x01\x00\x00"),
    ],
    ids=str,
)
def test_what_is_no_hello_is_refused(data: bytes) -> None:
    with pytest.raises(ClientHelloError):
        ClientHelloReader().feed(data)


def test_the_number_of_extensions_is_bounded() -> None:
    """Thousands of empty ones fit into the bytes, and each costs time in which no other connection is served."""
    others = [extension(kind, b"") for kind in range(1000, 1128)]
    assert read(record(message(b"".join([*others[1:], server_name(b"a")])))) == b"a"
    with pytest.raises(ClientHelloError, match="more than 128 extensions"):
        read(record(message(b"".join([*others, server_name(b"a")]))))


def test_its_size_is_bounded_also_in_small_records() -> None:
    reader = ClientHelloReader()
    endless = record(b"\x01\x00\x7f\x00") + record(b"x") * 10_000
    for byte in endless[:MAX_BYTES]:
        assert not reader.feed(bytes([byte]))
    with pytest.raises(ClientHelloError, match=f"more than {MAX_BYTES} bytes"):
        reader.feed(endless[MAX_BYTES : MAX_BYTES + 1])


def test_damaged_hellos_end_in_a_name_a_wait_or_an_error() -> None:
    """Nothing else is ever raised, whatever is changed in a real one."""
    of, hello = random.Random(7), hello_of(NAME)  # noqa: S311  no secret
    for _ in range(5_000):
        damaged = bytearray(hello)
        for _ in range(of.randrange(1, 4)):
            damaged[of.randrange(len(damaged))] = of.randrange(256)
        reader = ClientHelloReader()
        try:
            reader.feed(bytes(damaged[: of.randrange(1, len(damaged) + 1)]))
        except ClientHelloError:
            continue
        assert reader.server_name is None or len(reader.server_name) <= len(hello)
