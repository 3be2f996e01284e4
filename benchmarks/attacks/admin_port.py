"""What strangers send to an admin port: requests that are none, other hosts' names, and bytes now and then."""

import contextlib
import random
import socket
from collections.abc import Mapping

_TIMEOUT_S = 5.0
_SLOW_CLIENTS = 20

REQUESTS: Mapping[str, bytes] = {
    "another host's name": b"GET /api/groups HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two equal Content-Length": (
        b"GET /api/groups HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"
    ),
    "no HTTP": b"\x16\x03\x01\x00\xee\x01\x00\x00\xea\x03\x03",
    "no end of the head": b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
    "a body on its way for ever": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\nx",
    "bytes that are no text": b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
}


def answer(port: int, request: bytes) -> str:
    """Send bytes, and return the status of the answer; "closed" if there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as line:
            line.sendall(request)
            head = line.recv(4096)
    except OSError:
        return "closed"
    return head.split(b" ")[1].decode(errors="replace") if head.count(b" ") > 1 else "closed"


class AdminFire:
    """Requests of all these kinds to some ports, and clients that say a byte now and then. One turn at a time."""

    def __init__(self, ports: list[int], seed: int) -> None:
        self._ports = ports
        self._dice = random.Random(seed)
        self._slow: list[socket.socket] = []
        self.sent = 0

    def turn(self) -> None:
        """Send one bad request, one good one under a stranger's name, and a byte of each slow client."""
        port = self._dice.choice(self._ports)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5) as line:
            line.sendall(self._dice.choice((*REQUESTS.values(), self._dice.randbytes(500))))
            if self._dice.random() < 0.5:
                line.recv(4096)
        self.sent += 1
        self._dribble(port)

    def _dribble(self, port: int) -> None:
        for line in list(self._slow):
            try:
                line.sendall(b"G")
            except OSError:  # it was given up
                self._slow.remove(line)
                line.close()
        if len(self._slow) < _SLOW_CLIENTS:
            with contextlib.suppress(OSError):
                self._slow.append(socket.create_connection(("127.0.0.1", port), timeout=0.5))

    def end(self) -> None:
        """Close what is open."""
        for line in self._slow:
            line.close()
