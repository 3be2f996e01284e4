"""One plain connection to a broker (or to the proxy) that sends what a test says, encoded by kio.

kio is somebody else's codec: nothing of ours stands between the test and the wire.
"""

import io
import select
import socket
import ssl
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from kio.index import load_response_schema
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest as BareSaslHandshakeRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload


class PlainLogin(NamedTuple):
    """A user of SASL PLAIN; `bare` are tokens without headers, as after SaslHandshake v0."""

    user: str
    password: str
    bare: bool = False


class RawConnection:
    """Requests one at a time, in any version that kio knows; also bytes that are no request at all."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str = "epochgate-raw",
        timeout_s: float = 15.0,
        login: "PlainLogin | None" = None,
        source_host: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._client_id = client_id
        self._correlation_id = 0
        self._socket = socket.create_connection((host, int(port)), timeout_s, (source_host, 0))
        if tls is not None:
            self._socket = _with_tls(self._socket, tls, host)
        if login is not None:
            try:
                self.log_in(login)
            except BaseException:
                self.close()
                raise

    def log_in(self, login: "PlainLogin") -> None:
        """Authenticate by SASL PLAIN. Raises PermissionError, or ConnectionError where the broker just closes."""
        token = b"\0".join((b"", login.user.encode(), login.password.encode()))
        if login.bare:
            assert self.call(BareSaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
            self.send_bytes(struct.pack(">i", len(token)) + token)
            assert self.receive_frame() == b""
            return
        assert self.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
        answer = self.call(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code != 0:
            raise PermissionError(answer.error_message)

    def call(self, request: RequestPayload) -> Any:
        """The answer to `request`."""
        self.send(request)
        return self.receive(request)

    def send(self, request: RequestPayload) -> None:
        """Send without waiting."""
        frame = self.frame(request)
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def receive(self, request: RequestPayload) -> Any:
        """The answer to `request`, which must be the oldest one that was sent and not received."""
        frame = self.receive_frame()
        schema = load_response_schema(request.__api_key__, request.__version__)
        _header, header_size = entity_reader(schema.__header_schema__)(frame, 0)
        response, _size = entity_reader(schema)(frame, header_size)
        return response

    def frame(self, request: RequestPayload) -> bytes:
        """The bytes of a request without their length."""
        self._correlation_id += 1
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(self._correlation_id),
            client_id=self._client_id,
        )
        buffer = io.BytesIO()
        entity_writer(type(header))(buffer, header)
        entity_writer(type(request))(buffer, request)
        return buffer.getvalue()

    def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """One frame without its length. Raises ConnectionError when the other side closed."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def has_answer(self, within_s: float = 0.0) -> bool:
        """Whether there is something to receive, or the other side has closed, before so many seconds have passed."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        poll = select.poll()  # select() knows no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def wait_closed(self) -> bytes:
        """What the other side still sent before it closed. Raises TimeoutError when it does not close."""
        received = bytearray()
        try:
            while part := self._socket.recv(65_536):
                received += part
        except ConnectionResetError:
            pass
        return bytes(received)

    def close(self) -> None:
        """Close in an orderly way."""
        self._socket.close()

    def vanish(self) -> None:
        """Close with a reset, as a machine does that lost its power and came back."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError(f"closed after {len(received)} of {count} bytes")
            received += part
        return bytes(received)


def _with_tls(plain: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def to_coordinator(bootstrap: str, group: str, **options: Any) -> RawConnection:
    """A connection to the group's coordinator. Raises LookupError when there is none at this moment."""
    request = FindCoordinatorRequest(coordinator_keys=(group,))
    with RawConnection(bootstrap.split(",", maxsplit=1)[0], **options) as connection:
        found = connection.call(request).coordinators[0]
    if found.error_code:
        raise LookupError(f"coordinator of {group}: {found.error_code!r}")
    return RawConnection(f"{found.host}:{found.port}", **options)
