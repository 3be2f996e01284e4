"""The first bytes of TLS clients: OpenSSL's own, those put together field by field, and hostile ones."""

import random
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress

from tests.proxy.fakes import messages


def hello_of(name: str | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """What OpenSSL sends first for a server of this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = version
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def record(content: bytes, kind: int = 22) -> bytes:
    return struct.pack(">BHH", kind, 0x0301, len(content)) + content


def vector(content: bytes, length_size: int = 2) -> bytes:
    return len(content).to_bytes(length_size) + content


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + vector(content)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return extension(0, vector(b"".join(bytes([kind]) + vector(name) for name in names)))


def message(extensions: bytes | None, kind: int = 1) -> bytes:
    """A ClientHello of these extensions; None: without any, as before TLS 1.3."""
    body = b"\x03\x03" + bytes(32) + vector(b"", 1) + vector(b"\x13\x01") + vector(b"\x00", 1)
    return bytes([kind]) + vector(body + (b"" if extensions is None else vector(extensions)), 3)


class Hostile:
    """Clients that are wrong or hostile at the port of ``good`` names, each another one, by a seed."""

    def __init__(self, good: list[str], seed: int) -> None:
        self._good = good
        self._hellos = [hello_of(name) for name in good]
        self._random = random.Random(seed)  # noqa: S311  no secret
        self.kinds: dict[str, Callable[[], list[bytes]]] = {
            "a wrong name": self._wrong_name,
            "no name": lambda: [hello_of(None)],
            "a name too long": self._long_name,
            "a name of any bytes": lambda: [record(message(server_name(self._bytes(1, 300))))],
            "two names": self._two_names,
            "an extension twice": self._twice,
            "any bytes": lambda: [self._bytes(1, 4000)],
            "any handshake": lambda: [record(self._bytes(1, 4000))],
            "any extensions": lambda: [record(message(self._bytes(1, 2000)))],
            "cut short": self._cut_short,
            "in single bytes": self._in_single_bytes,
            "damaged": self._damaged,
            "without an end": self._endless,
            "a real one that says no more": lambda: [self._random.choice(self._hellos)],
            "a real one, then any bytes": lambda: [self._random.choice(self._hellos) + self._bytes(1, 4000)],
            "plaintext Kafka": lambda: [messages.plain(1)],
            "HTTP": lambda: [b"GET / HTTP/1.1\r\nHost: kafka.example\r\n\r\n"],
        }

    def next(self) -> list[bytes]:
        """What the next client sends, in pieces."""
        return self.kinds[self._random.choice(list(self.kinds))]()

    def _bytes(self, least: int, most: int) -> bytes:
        return self._random.randbytes(self._random.randrange(least, most))

    def _wrong_name(self) -> list[bytes]:
        good = self._random.choice(self._good)
        wrong = [
            f"x{good}", f"{good}.evil.example", good[1:], f"b{self._random.randrange(100, 2**40)}.kafka.example",
            f"b{{node}}.{good}", "localhost", good.replace(".", "-"),
        ]  # fmt: skip
        return [hello_of(self._random.choice(wrong))]

    def _long_name(self) -> list[bytes]:
        name = b"a." * self._random.randrange(128, 6000) + self._random.choice(self._good).encode()
        return [record(message(server_name(name)))]

    def _two_names(self) -> list[bytes]:
        names = [name.encode() for name in self._random.choices(self._good, k=2)]
        both = server_name(*names) if self._random.random() < 0.5 else b"".join(map(server_name, names))
        return [record(message(both))]

    def _twice(self) -> list[bytes]:
        one = extension(self._random.choice([10, 13, 43, 45, 51, 65000]), self._bytes(0, 40))
        return [record(message(server_name(self._random.choice(self._good).encode()) + one + one))]

    def _cut_short(self) -> list[bytes]:
        hello = self._random.choice(self._hellos)
        return [hello[: self._random.randrange(1, len(hello))]]

    def _in_single_bytes(self) -> list[bytes]:
        """A wrong name in records of one byte each, in packets that end anywhere."""
        whole = self._wrong_name()[0][5:]
        data = b"".join(record(bytes([byte])) for byte in whole)
        at = self._random.randrange(1, len(data))
        return [data[:at], data[at:]]

    def _damaged(self) -> list[bytes]:
        hello = bytearray(self._random.choice(self._hellos))
        for _ in range(self._random.randrange(1, 6)):
            hello[self._random.randrange(len(hello))] = self._random.randrange(256)
        return [bytes(hello)]

    def _endless(self) -> list[bytes]:
        return [record(b"\x01\x00\x7f\xf0" + bytes(12_000)), *([record(bytes(8_000))] * 4)]
