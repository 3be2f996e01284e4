"""The supervisor's handle of one worker: starts its process, exchanges messages with it, and ends it.

The handle outlives its processes (:mod:`proxy.workers.worker_restart` starts the next one). Connections that arrive
while no process runs wait in its queue, so the clients of a worker that crashed reach the next one.
"""

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TypeVar

import msgspec
import structlog
import trio

from proxy.metrics.registry import Metrics
from proxy.transport.write_buffer import WriteBuffer
from proxy.workers.control_messages import (
    MessageDecoder,
    PortDown,
    PortKey,
    PortUp,
    Query,
    QueryResult,
    Serving,
    Start,
    ToSupervisor,
    ToWorker,
    encode_message,
)
from proxy.workers.fd_passing import HandoffQueue

T = TypeVar("T")
_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")


class WorkerHandle:
    """One worker and the process that it has at the moment, if any.

    ``start_message`` makes the first message for each new process. ``on_ports_changed`` is called when the worker
    reports that a node became reachable or unreachable, ``on_exit`` with its number when its process has ended.
    """

    def __init__(
        self,
        number: int,
        start_message: Callable[[], Start],
        metrics: Metrics,
        *,
        on_ports_changed: Callable[[], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self.number = number
        self.queue = HandoffQueue()
        self.down_ports: set[PortKey] = set()
        """Ports whose node this worker can't reach."""
        self.serving = False
        self.has_served = trio.Event()
        """Set once any process of this worker has been ready for clients."""
        self.incarnation = 0
        """How many processes have been started for this worker."""
        self._start_message = start_message
        self._metrics = metrics
        self._on_ports_changed = on_ports_changed
        self._on_exit = on_exit
        self._process: trio.Process | None = None
        self._out: WriteBuffer | None = None
        self._stopping = False
        self._query_ids = count(1)
        self._pending_queries: dict[int, tuple[trio.Event, list[bytes | None]]] = {}

    async def run_once(self) -> str:
        """Run one process to its end and return how it ended, for the log."""
        try:
            return f"ended with exit code {await self._run_process()}"
        except OSError as error:  # no descriptors, no memory, too many processes: the other workers go on
            return f"could not be started: {error.strerror}"

    def is_stopping(self) -> bool:
        """Whether no other process is to be started."""
        return self._stopping

    def send(self, message: ToWorker) -> None:
        """Send a message to the process; without a process it is dropped."""
        if self._out is not None:
            self._out.write([encode_message(message)])

    def send_signal(self, number: int) -> None:
        """Send a signal to the process if it is serving; before that it has no handler for it."""
        if self._process is not None and self.serving:
            self._process.send_signal(number)

    async def drain(self) -> None:
        """Tell the process to drain (SIGTERM), wait until it has ended, and start no other."""
        self._stopping = True
        self.queue.close()
        if (process := self._process) is not None:
            process.terminate()
            await process.wait()

    def restart(self) -> None:
        """Kill the process, if there is one; the next one begins with another first message."""
        if self._process is not None:
            self._process.kill()

    def kill(self) -> None:
        """Kill the process (SIGKILL) and start no other."""
        self._stopping = True
        if self._process is not None:
            self._process.kill()

    async def query(self, name: str, kind: type[T], argument: bytes = b"") -> T | None:
        """Return the process's result; None if it ends first or has no such query. Waits without a timeout."""
        number = next(self._query_ids)
        arrived, answers = trio.Event(), list[bytes | None]()
        self._pending_queries[number] = arrived, answers
        try:
            self.send(Query(number, name, argument))
            await arrived.wait()
        finally:
            self._pending_queries.pop(number, None)
        if not answers or answers[0] is None:
            return None
        return msgspec.msgpack.decode(answers[0], type=kind)

    async def _run_process(self) -> int:
        control, its_control = socket.socketpair()
        connections, its_connections = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with control, connections, its_control, its_connections:
            connections.settimeout(0)
            descriptors = its_control.fileno(), its_connections.fileno()
            self._process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "proxy.workers", *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # the terminal's signals go to the supervisor alone
            )
            its_control.close()
            its_connections.close()
            self.incarnation += 1
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(control))
            try:
                async with stream, trio.open_nursery() as nursery:
                    self._out = WriteBuffer(stream, nursery)
                    try:
                        self.send(self._start_message())
                        nursery.start_soon(self._listen, stream, connections, nursery)
                        code = await self._process.wait()
                    finally:
                        self._out = None  # a nursery that has ended takes no writes
                    nursery.cancel_scope.cancel()
            finally:
                await self._clean_up(self._process)
        return code

    async def _clean_up(self, process: trio.Process) -> None:
        if process.returncode is None:  # the supervisor itself is ending
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        self._process = None
        self.serving = False
        for arrived, _ in self._pending_queries.values():
            arrived.set()
        self._on_exit(self.number)
        if self.down_ports:
            self.down_ports.clear()
            self._on_ports_changed()

    async def _listen(
        self, stream: trio.abc.ReceiveStream, connections: socket.socket, nursery: trio.Nursery
    ) -> None:
        decoder = MessageDecoder(ToSupervisor)
        try:
            while data := await stream.receive_some():
                for message in decoder.feed(bytes(data)):
                    self._handle(message)
                    if isinstance(message, Serving):
                        nursery.start_soon(self._forward, connections)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except msgspec.DecodeError as error:
            _log.error("killing a worker that sent an invalid message", worker=self.number, reason=str(error))
            self._metrics.internal_errors.labels("worker").inc()
            if self._process is not None:
                self._process.kill()

    async def _forward(self, connections: socket.socket) -> None:
        with suppress(OSError):  # the process has ended; queued connections go to the next one
            await self.queue.forward(connections)

    def _handle(self, message: object) -> None:
        if isinstance(message, Serving):
            self.serving = True
            self.has_served.set()
        elif isinstance(message, PortDown):
            self.down_ports.add(message.port)
            self._on_ports_changed()
        elif isinstance(message, PortUp):
            self.down_ports.discard(message.port)
            self._on_ports_changed()
        elif (
            isinstance(message, QueryResult)
            and (pending := self._pending_queries.get(message.number)) is not None
        ):
            arrived, answers = pending
            answers.append(message.value)
            arrived.set()
