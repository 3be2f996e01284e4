"""Reads the server name (SNI) of a TLS client from the first bytes of its connection (RFC 8446 4.1.2, RFC 6066).

OpenSSL alone would not do: for a session of TLS 1.2 that is resumed it returns the name of the first handshake,
whatever the client names now, and it has no upper limit below 128 KiB. The bytes are only read here; OpenSSL gets the
same ones afterwards and does the handshake.
"""

import struct

MAX_BYTES = 32 * 1024
"""Bytes of a ClientHello with its record headers at most. Those of real clients have up to a few KiB: a ticket with the
client's certificate in it, and keys against quantum computers."""

_MOST_EXTENSIONS = 128
"""Those of real clients are about 20. Reading 8000 of them took 15 ms, in which the process does nothing else."""

_RECORD_HEADER = struct.Struct(">BHH")
_HANDSHAKE = 22
_MAX_RECORD = 16 * 1024
_CLIENT_HELLO = 1
_HANDSHAKE_HEADER = 4
_VERSION_AND_RANDOM = 2 + 32
_SERVER_NAME = 0
_HOST_NAME = 0
_U16 = struct.Struct(">H")


class ClientHelloError(Exception):
    """The bytes are no ClientHello; the message says why."""


class ClientHelloReader:
    """Takes the first bytes of a connection, in pieces of any size, until the ClientHello is complete.

    ``server_name`` is the name as the client sent it; None if it sent none.
    """

    def __init__(self) -> None:
        self.server_name: bytes | None = None
        self._taken = 0
        self._record = bytearray()  # of the stream, from the header of the record that is not complete yet
        self._message = bytearray()

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; return whether the ClientHello is complete. Bytes behind it are left alone.

        :raises ClientHelloError: they can't be those of a ClientHello, or are too many.
        """
        self._taken += len(data)
        self._record += data
        while len(self._record) >= _RECORD_HEADER.size:
            kind, version, size = _RECORD_HEADER.unpack_from(self._record)
            if kind != _HANDSHAKE or version >> 8 != 3 or not 0 < size <= _MAX_RECORD:
                raise ClientHelloError("a record that is not one of a handshake")
            end = _RECORD_HEADER.size + size
            if len(self._record) < end:
                break
            self._message += self._record[_RECORD_HEADER.size : end]
            del self._record[:end]
            if self._is_complete():
                return True
        if self._taken > MAX_BYTES:
            raise ClientHelloError(f"more than {MAX_BYTES} bytes")
        return False

    def _is_complete(self) -> bool:
        message = self._message
        if message[0] != _CLIENT_HELLO:
            raise ClientHelloError(f"the handshake begins with a message of type {message[0]}")
        if len(message) < _HANDSHAKE_HEADER:
            return False
        end = _HANDSHAKE_HEADER + int.from_bytes(message[1:_HANDSHAKE_HEADER])
        if end > MAX_BYTES:
            raise ClientHelloError(f"more than {MAX_BYTES} bytes")
        if len(message) < end:
            return False
        self.server_name = _server_name(bytes(message[_HANDSHAKE_HEADER:end]))
        return True


def _server_name(body: bytes) -> bytes | None:
    """Return the name in the body of a ClientHello."""
    rest = body[_VERSION_AND_RANDOM:]
    _, rest = _vector(rest, 1)  # the session id
    _, rest = _vector(rest, 2)  # cipher suites
    _, rest = _vector(rest, 1)  # compression methods
    if not rest:
        return None  # TLS 1.2 without extensions
    extensions, rest = _vector(rest, 2)
    if rest:
        raise ClientHelloError("bytes behind the extensions")
    found: dict[int, bytes] = {}
    while extensions:
        if len(extensions) < _U16.size:
            raise ClientHelloError("an extension is cut short")
        (kind,) = _U16.unpack_from(extensions)
        if kind in found:
            raise ClientHelloError(f"the extension {kind} is there twice")
        if len(found) == _MOST_EXTENSIONS:
            raise ClientHelloError(f"more than {_MOST_EXTENSIONS} extensions")
        found[kind], extensions = _vector(extensions[_U16.size :], 2)
    return None if _SERVER_NAME not in found else _host_name(found[_SERVER_NAME])


def _host_name(extension: bytes) -> bytes:
    names, rest = _vector(extension, 2)
    if rest or not names or names[0] != _HOST_NAME:
        raise ClientHelloError("the server name can't be read")
    name, rest = _vector(names[1:], 2)
    if rest or not name:
        raise ClientHelloError("there is not one server name")
    return name


def _vector(data: bytes, length_size: int) -> tuple[bytes, bytes]:
    """Return a vector, which its length precedes, and what is behind it."""
    end = length_size + int.from_bytes(data[:length_size])
    if len(data) < max(end, length_size):
        raise ClientHelloError("a field is cut short")
    return data[length_size:end], data[end:]
