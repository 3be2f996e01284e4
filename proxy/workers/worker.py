"""A worker process: a proxy whose connections are handed to it by the supervisor."""

import signal
import socket
import sys
from pathlib import Path
from typing import cast

import msgspec
import structlog
import trio

from proxy.config.file_watcher import FileWatch
from proxy.observability.observability import replica_name
from proxy.observability.snapshot import Snapshot
from proxy.observability.snapshot_encoding import encode_cooperatively
from proxy.runtime.log_setup import configure
from proxy.server.process import make_translator, run_to_exit
from proxy.server.server import Server
from proxy.transport.write_buffer import WriteBuffer
from proxy.workers.control_messages import (
    Answer,
    Ask,
    Decoder,
    Serving,
    SetPolicy,
    Start,
    ToSupervisor,
    ToWorker,
    encoded,
)
from proxy.workers.worker_ports import Doors

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")


class SupervisorGone(Exception):
    """The supervisor has ended without a word: nobody hands connections over any more."""


class Worker:
    """``control`` is the socket for messages, ``connections`` the one for clients' connections."""

    def __init__(self, control: socket.socket, connections: socket.socket) -> None:
        self._control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self._connections = connections
        self._connections.settimeout(0)
        self._out: WriteBuffer
        self._messages = Decoder(ToWorker)
        self._server: Server

    async def run(self) -> None:
        """Serve until a signal or the supervisor's end.

        :raises UnreachableError: no broker answered in time.
        :raises SupervisorGone: before it said what to do.
        """
        async with self._control, trio.open_nursery() as talking:
            self._out = WriteBuffer(self._control, talking)
            start, rest = await self._first()
            structlog.contextvars.bind_contextvars(worker=start.worker)
            configure(start.config.log)
            doors = Doors(start.config, start.ports, self._connections, self._say)
            self._server = Server(
                start.config,
                make_translator(start.config, start.policy),
                listeners=doors.listeners,
                policy=start.policy,
                replica=f"{replica_name()}/{start.worker}",
                folder=Path(start.folder),
                last_good_tls=start.tls,
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._server.stop_at_signals)
                nursery.start_soon(FileWatch(self._server.certificates).run)
                nursery.start_soon(self._listen, rest, nursery)
                nursery.start_soon(doors.run, self._server.metrics.connections_refused.labels("descriptors"))
                await self._server.run(task_status=self)
                await self._out.flushed()
                nursery.cancel_scope.cancel()
            talking.cancel_scope.cancel()

    def started(self, _value: None = None) -> None:
        """See :class:`trio.TaskStatus`: clients are welcome."""
        self._say(Serving())

    async def _first(self) -> tuple[Start, list[object]]:
        while data := await self._control.receive_some():
            messages = list(self._messages.feed(bytes(data)))
            if messages:
                return cast("Start", messages[0]), messages[1:]
        raise SupervisorGone

    async def _listen(self, came_already: list[object], nursery: trio.Nursery) -> None:
        for message in came_already:
            self._heard(message, nursery)
        try:
            while data := await self._control.receive_some():
                for message in self._messages.feed(bytes(data)):
                    self._heard(message, nursery)
        except trio.BrokenResourceError:
            pass
        _log.warning("draining", reason="the supervisor is gone")
        self._server.stop()

    def _heard(self, message: object, nursery: trio.Nursery) -> None:
        if isinstance(message, SetPolicy):
            self._server.set_policy(message.policy)
        elif isinstance(message, Ask):
            nursery.start_soon(self._answer, message)

    async def _answer(self, question: Ask) -> None:
        answer = self._server.answers.get(question.what)
        value = None if answer is None else await _encoded(await answer())
        self._say(Answer(question.number, value))

    def _say(self, message: ToSupervisor) -> None:
        self._out.write([encoded(message)])


async def _encoded(value: object) -> bytes:
    if isinstance(value, Snapshot):
        return await encode_cooperatively(value, msgspec.msgpack.encode)
    return msgspec.msgpack.encode(value)


def main() -> None:
    """``python -m proxy.workers CONTROL CONNECTIONS``: two descriptors from the supervisor."""
    signal.signal(
        signal.SIGHUP, signal.SIG_IGN
    )  # until somebody listens to it; the default would end the process
    control, connections = (socket.socket(fileno=int(text)) for text in sys.argv[1:])
    run_to_exit(lambda: trio.run(Worker(control, connections).run))
