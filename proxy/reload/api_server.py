"""Asks the Kubernetes API server as the pod's service account: HTTP/1.1 by h11, one connection for each request.

Certificates and token are read for each request, since kubelet replaces them (a token after some 50 minutes).
"""

import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import msgspec
import trio

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.config.regular_file import read_regular_file

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token, the CA and the namespace of its service account."""

ANSWER_TIMEOUT_S = 10.0
"""Seconds in which the API server must be connected, and in which it must begin to answer."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A ConfigMap has at most 1 MiB; as JSON, with what else is said of it, it may be a few times that."""
_RECEIVE_BYTES = 65_536
_OK = 200

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A watch is silent most of the time, so only the kernel notices that the other end went away: within 25 s."""


class ApiError(Exception):
    """The API server does not answer, or refuses. The message is for a person."""


class ServiceAccount(msgspec.Struct, frozen=True):
    """Where the API server is, and the folder with what a client needs there."""

    host: str
    port: int
    folder: Path = FOLDER

    @classmethod
    def of_pod(cls, environment: Mapping[str, str]) -> "ServiceAccount":
        """Return that of the pod whose environment this is.

        :raises ApiError: this is not the environment of a pod.
        """
        host = environment.get("KUBERNETES_SERVICE_HOST", "")
        port = environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port.isdecimal():
            raise ApiError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod"
            )
        return cls(host, int(port))

    @property
    def namespace(self) -> str:
        """The namespace of the pod.

        :raises ApiError: its file can't be read.
        """
        return self._read("namespace")

    @property
    def token(self) -> str:
        """The token as it is now.

        :raises ApiError: its file can't be read.
        """
        return self._read("token")

    def tls(self) -> ssl.SSLContext:
        """Return a context that trusts the cluster's CA only.

        :raises ApiError: the CA can't be read.
        """
        try:
            return ssl.create_default_context(cafile=self.folder / "ca.crt")
        except OSError as error:  # also ssl.SSLError
            raise ApiError(f"{self.folder / 'ca.crt'}: {error}") from None

    def _read(self, name: str) -> str:
        try:
            return read_regular_file(self.folder / name).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"{self.folder / name}: {error}") from None


class Answer:
    """The body of a response, line by line: a watch sends one event a line, everything else is one line."""

    def __init__(
        self,
        stream: trio.SSLStream[trio.SocketStream],
        connection: h11.Connection,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._stream = stream
        self._connection = connection
        self._unread = bytearray()
        self._ended = False

    async def begin(self, request: h11.Request) -> None:
        """Send the request and receive the head of the response.

        :raises ApiError: the API server refuses the request; the message is its own.
        """
        await self._stream.send_all(
            (self._connection.send(request) or b"") + (self._connection.send(h11.EndOfMessage()) or b"")
        )
        response = await self._event()
        while isinstance(response, h11.InformationalResponse):
            response = await self._event()
        if not isinstance(response, h11.Response):
            raise ApiError(f"{type(response).__name__} instead of a response")
        if response.status_code != _OK:
            raise ApiError(f"status {response.status_code}: {said(await self.line())}")

    async def line(self) -> bytes | None:
        """Return the next line that is not empty; None after the last.

        :raises ApiError: it is longer than what was asked for can be.
        """
        searched = 0
        while True:
            end = self._unread.find(b"\n", searched)
            if end < 0 and self._ended:
                end = len(self._unread)
            if end >= 0:
                line = bytes(self._unread[:end]).strip()
                del self._unread[: end + 1]
                searched = 0
                if line:
                    return line
                if self._ended and not self._unread:
                    return None
                continue
            searched = len(self._unread)
            if searched > self._max_line_bytes:
                raise ApiError(f"a line of more than {self._max_line_bytes} bytes")
            event = await self._event()
            if isinstance(event, h11.Data):
                self._unread += event.data
            else:
                self._ended = True

    async def _event(self) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(bytes(await self._stream.receive_some(_RECEIVE_BYTES)))
        return event


@asynccontextmanager
async def get(
    account: ServiceAccount, target: str, max_line_bytes: int = MAX_LINE_BYTES
) -> AsyncIterator[Answer]:
    """Ask for ``target``, a path with its query; the connection is closed at the end.

    :raises ApiError: no answer, or a refusal, or the answer breaks off while it is read.
    """
    headers = [
        ("Host", f"[{account.host}]" if ":" in account.host else account.host),
        ("Authorization", f"Bearer {account.token}"),
        ("Accept", "application/json"),
        ("Connection", "close"),
    ]
    try:
        request = h11.Request(method="GET", target=target, headers=headers)
        with trio.fail_after(ANSWER_TIMEOUT_S):
            stream = await _connect(account)
        async with stream:
            answer = Answer(stream, h11.Connection(h11.CLIENT), max_line_bytes)
            with trio.fail_after(ANSWER_TIMEOUT_S):
                await answer.begin(request)
            yield answer
    except trio.TooSlowError:
        raise ApiError(f"{account.host}:{account.port} does not answer") from None
    except (OSError, trio.BrokenResourceError, h11.ProtocolError) as error:
        raise ApiError(f"{account.host}:{account.port}: {error.__cause__ or error}") from None


async def _connect(account: ServiceAccount) -> trio.SSLStream[trio.SocketStream]:
    tcp = await trio.open_tcp_stream(account.host, account.port)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    stream = trio.SSLStream(tcp, account.tls(), server_hostname=account.host, https_compatible=True)
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


class _Status(msgspec.Struct):
    message: str = ""


_status_decoder = JsonDecoder(_Status, MAX_LINE_BYTES)


def said(status: bytes | None) -> str:
    """Return the message of a Status, with which the API server explains a refusal."""
    try:
        return _status_decoder.decode(status or b"{}").message
    except Undecodable:
        return repr(status)[:200]
