"""Listens for commands, and decides who may give them: on a Unix socket, or by TLS for clients whose certificate has
one of ``control.allowed_subjects``.

Strangers may connect, so everything is bounded: connections at a time, the time for the handshake and the request
together, and the bytes of it (:mod:`proxy.control.http_exchange`). Who speaks is known before a request is read: on a
Unix socket the kernel says which user it is.
"""

import math
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

import structlog
import trio
from cryptography import x509

from proxy.config.control import Control
from proxy.config.network import Address
from proxy.control.http_exchange import ConnectionEnded, HttpAnswer, HttpExchange, RequestRefused
from proxy.control.requests import NotACommand, RunCommand, answer_of, command_of
from proxy.metrics.registry import Metrics
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.listeners import BindError, bind
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_context import Certificates
from proxy.transport.tls_errors import TlsError
from proxy.transport.tls_stream import TlsStream

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.control")

CONNECTIONS = 16
"""At a time; further ones are closed at once. People give a command now and then."""

REQUEST_S = 5.0
"""Seconds for the TLS handshake and the whole request."""

ANSWER_S = 20.0
"""Seconds for the whole connection: also the command, and the answer to somebody who does not read it."""

WHERE = "control"
"""Names the listener in log and metrics."""

_PEER = struct.Struct("3i")
_BACKLOG = 16
_RETRY_S = 0.1
_LONGEST_SUBJECT = 200


class ControlListener:
    """The listener. Constructing it reads the certificates and binds; ``certificates`` are to be reloaded.

    :raises BindError: the port is taken, or the path of the socket is.
    :raises TlsFilesError: a certificate can't be used.
    """

    def __init__(self, config: Control, metrics: Metrics) -> None:
        self._config = config
        self.certificates = None if config.tls is None else Certificates(WHERE, config.tls, metrics)
        self._commands = metrics.control_requests
        self._throttle = LogThrottle()
        self._open = 0
        self._socket = _unix_socket(config) if config.bind is None else bind(config.bind, config.port)

    @property
    def address(self) -> str:
        """Where it listens, for people."""
        if self._config.socket is not None:
            return self._config.socket
        return str(Address(*self._socket.getsockname()[:2]))

    @property
    def port(self) -> int:
        """The port; 0 for a Unix socket."""
        return 0 if self._config.socket is not None else int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening; the path of a Unix socket is free again."""
        self._socket.close()
        if self._config.socket is not None:
            with suppress(OSError):
                Path(self._config.socket).unlink()

    async def serve(
        self, run: RunCommand, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take commands until cancelled. ``task_status`` starts once somebody can connect."""
        listening = trio.socket.from_stdlib_socket(self._socket)
        listening.listen(_BACKLOG)
        task_status.started()
        _log.info("listening for commands", address=self.address)
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    accepted, _ = await listening.accept()
                except OSError as error:
                    if self._socket.fileno() < 0:
                        return
                    _log.error("can't take a connection", reason=error.strerror)
                    await trio.sleep(_RETRY_S)
                    continue
                if self._open >= CONNECTIONS:
                    accepted.close()
                    self._refused("", "too many connections")
                    continue
                self._open += 1
                nursery.start_soon(self._serve_one, accepted, run)

    async def _serve_one(self, accepted: trio.socket.SocketType, run: RunCommand) -> None:
        try:
            with accepted, trio.move_on_after(ANSWER_S):
                await self._exchange(accepted, run)
        except Exception as error:  # noqa: BLE001  a bug here ends one connection, never the process
            _log.error("a command failed", exc_info=error)
        finally:
            self._open -= 1

    async def _exchange(self, accepted: trio.socket.SocketType, run: RunCommand) -> None:
        deadline = trio.current_time() + REQUEST_S
        stream = None
        with trio.CancelScope(deadline=deadline) as in_time:
            try:
                stream, by, is_allowed = await self._peer(accepted)
            except (TlsError, trio.BrokenResourceError, OSError) as error:
                is_http = isinstance(error, TlsError) and error.kind == "http"
                self._refused("", "HTTP without TLS" if is_http else str(error))
                return
        if stream is None:
            self._refused("", "no TLS handshake in time")
            return
        try:
            with trio.CancelScope(deadline=deadline) as in_time:
                await self._obey(HttpExchange(stream), by, is_allowed, in_time, run)
            if in_time.cancelled_caught:
                self._refused(by, "no whole request in time")
        finally:
            await trio.aclose_forcefully(stream)

    async def _obey(
        self,
        exchange: HttpExchange,
        by: str,
        is_allowed: bool,
        in_time: trio.CancelScope,
        run: RunCommand,
    ) -> None:
        """Read the request, do what it says, and answer; ``in_time`` ends with the request."""
        try:
            request = await exchange.request()
        except ConnectionEnded:
            return
        except RequestRefused as refused:
            await self._refuse(exchange, by, refused.answer)
            return
        in_time.deadline = math.inf
        if not is_allowed:
            why = f"the subject {by} is not one of `control.allowed_subjects`"
            await self._refuse(exchange, by, HttpAnswer(403, {"error": why}))
            return
        try:
            command = command_of(request, by)
        except NotACommand as refused:
            await self._refuse(exchange, by, refused.answer)
            return
        outcome = await run(command)
        self._commands.labels(outcome.state).inc()
        _log.warning(
            "command",
            act=str(command.act),
            group=command.group,
            by=by,
            why=command.why,
            outcome=str(outcome.state),
            said=outcome.text,
        )
        await exchange.answer(answer_of(command, outcome))

    async def _peer(
        self, accepted: trio.socket.SocketType
    ) -> tuple[trio.SocketStream | TlsStream, str, bool]:
        """Return the stream of a connection, who is at its other end, and whether they may give commands."""
        if self.certificates is None:
            data = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            _, user, _ = _PEER.unpack(data)
            return trio.SocketStream(accepted), f"uid {user}", True
        plain = socket.socket(fileno=accepted.detach())
        stream = self.certificates.guard(TcpStream(plain))
        try:
            await stream.handshake()
        except BaseException:
            plain.close()
            raise
        subject = subject_of(stream.peer_certificate)
        return stream, subject, subject in self._config.allowed_subjects

    async def _refuse(self, exchange: HttpExchange, by: str, answer: HttpAnswer) -> None:
        why = answer.body["error"] if isinstance(answer.body, dict) else ""
        self._refused(by, f"{answer.status}: {why}")
        await exchange.answer(answer)

    def _refused(self, by: str, reason: str) -> None:
        self._commands.labels("invalid").inc()
        if (suppressed := self._throttle.suppressed("")) is not None:
            _log.warning("command refused", by=by, reason=reason, suppressed=suppressed)


def subject_of(certificate: bytes | None) -> str:
    """Return the subject of a client's certificate (DER), as RFC 4514 writes it; cut if it is long."""
    if certificate is None:
        return ""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError:
        return ""
    # A cut one is no subject that could be allowed.
    return subject if len(subject) <= _LONGEST_SUBJECT else f"{subject[:_LONGEST_SUBJECT]}…"


def _unix_socket(config: Control) -> socket.socket:
    """Bind the path, which nobody may open before it has its permissions.

    What a process left behind that was killed is replaced, but nothing else, and not where somebody listens.
    """
    assert config.socket is not None  # noqa: S101  see the configuration
    path = Path(config.socket)
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise BindError(f"can't listen on {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    path.chmod(config.mode)
    sock.settimeout(0)
    return sock


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BindError(f"can't listen on {path}: there is a file that is no socket")
    except FileNotFoundError:
        return
    except OSError as error:
        raise BindError(f"can't listen on {path}: {error.strerror}") from None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise BindError(f"can't listen on {path}: {error.strerror}") from None
    raise BindError(f"can't listen on {path}: another process does")
