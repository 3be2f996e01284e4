"""One HTTP request on a connection, and its answer, by h11: bounded in bytes, and by the caller in time.

A connection has one request, and is closed after its answer: nothing that comes behind a request is read, so no second
one can hide in the first.
"""

import re
from typing import Protocol

import h11
import msgspec
import trio

HEAD_BYTES = 8 * 1024
"""Bytes that request line and headers may have."""

BODY_BYTES = 4 * 1024
"""Bytes that a body may have: a command has a few hundred."""

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length[ \t]*:", re.IGNORECASE | re.MULTILINE)
_LENGTHS = re.compile(rb"^content-length[ \t]*:[^\n]*(\n[ \t][^\n]*)*,", re.IGNORECASE | re.MULTILINE)
"""A list of them, which may go on in a folded line."""
_RECEIVE_BYTES = 4 * 1024
_BAD_REQUEST = 400
_LENGTH_REQUIRED = 411
_TOO_LARGE = 413


class Stream(Protocol):
    """A connection, by TLS or not."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return some bytes; empty at the end."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Send bytes."""
        ...


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. ``target`` is as the client sent it; names of ``headers`` are lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class HttpAnswer(msgspec.Struct, frozen=True):
    """An answer; ``body`` is encoded as JSON."""

    status: int
    body: object
    headers: tuple[tuple[str, str], ...] = ()


class RequestRefused(Exception):
    """The request is not read to its end; ``answer`` says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.answer = HttpAnswer(status, {"error": why})


class ConnectionEnded(Exception):
    """The client has sent no whole request, and waits for no answer."""


class HttpExchange:
    """The server's side of one connection."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._received = bytearray()
        """The request line and headers as they came, and what came with them."""

    async def request(self) -> HttpRequest:
        """Read the request.

        :raises RequestRefused: it is no request that is taken here.
        :raises ConnectionEnded: the client has gone.
        """
        try:
            return await self._request()
        except h11.RemoteProtocolError as error:
            raise RequestRefused(error.error_status_hint or _BAD_REQUEST, "not an HTTP request") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            raise ConnectionEnded from None

    async def _request(self) -> HttpRequest:
        head = await self._event()
        if isinstance(head, h11.ConnectionClosed):
            raise ConnectionEnded
        if not isinstance(head, h11.Request):
            raise RequestRefused(_BAD_REQUEST, "not an HTTP request")
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        if len(headers) != len(list(head.headers)) or _has_two_lengths(bytes(self._received)):
            raise RequestRefused(_BAD_REQUEST, "a header is given twice")
        self._received.clear()
        if "transfer-encoding" in headers:
            raise RequestRefused(_LENGTH_REQUIRED, "send a body with Content-Length")
        if int(headers.get("content-length", "0")) > BODY_BYTES:
            raise RequestRefused(_TOO_LARGE, f"the body has more than {BODY_BYTES} bytes")
        body = bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ConnectionEnded
            body += event.data
        return HttpRequest(head.method.decode("ascii"), head.target.decode("latin-1"), headers, bytes(body))

    async def _event(self) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            data = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
            self._received += data
            self._connection.receive_data(data)
        return event

    async def answer(self, answer: HttpAnswer) -> None:
        """Send the answer, unless the client has gone."""
        body = msgspec.json.encode(answer.body) + b"\n"
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
            *answer.headers,
        ]
        if self._connection.our_state is not h11.SEND_RESPONSE and self._connection.our_state is not h11.IDLE:
            return
        try:
            data = self._connection.send(h11.Response(status_code=answer.status, headers=headers))
            data = (data or b"") + (self._connection.send(h11.Data(data=body)) or b"")
            await self._stream.send_all(data)
        except (h11.LocalProtocolError, trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            return  # nobody reads it


def _has_two_lengths(received: bytes) -> bool:
    """Whether Content-Length is given twice, which h11 takes if both are equal: as two lines, or as ``2, 2``."""
    head = _END_OF_HEAD.split(received, maxsplit=1)[0]
    return len(_LENGTH.findall(head)) > 1 or _LENGTHS.search(head) is not None
