"""A worker process: a proxy that gets its connections from the supervisor, and drains when that ends."""

import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

import proxy.runtime.without_rich  # noqa: F401  # isort: skip
import structlog
import trio

from proxy.admin.snapshot_encoding import encode_cooperatively
from proxy.config.document import ConfigError
from proxy.groups.observability import replica_name
from proxy.groups.snapshot import Snapshot
from proxy.metrics.periodic import keep_running
from proxy.metrics.registry import Metrics
from proxy.runtime.computing_thread import in_thread
from proxy.runtime.file_watcher import FileWatcher
from proxy.runtime.log_setup import configure
from proxy.server.process import make_fleet, make_translator, run_to_exit
from proxy.server.server import Server
from proxy.transport.write_buffer import WriteBuffer
from proxy.workers.control_messages import (
    COMMAND,
    PREPARE,
    Drop,
    MessageDecoder,
    PutInForce,
    Query,
    QueryResult,
    Reconfigure,
    Serving,
    SetPolicy,
    Start,
    ToSupervisor,
    ToWorker,
    encode_message,
)
from proxy.workers.worker_ports import WorkerPorts
from translation.policy.policy import Policy
from translation.rollout.commands import Command

if TYPE_CHECKING:
    from proxy.server.reconfigure import Prepared

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")


class SupervisorGone(Exception):
    """The supervisor ended before it sent the first message."""


class Worker:
    """Runs a server in this process. ``control`` carries messages, ``connections`` the clients' connections."""

    def __init__(self, control: socket.socket, connections: socket.socket) -> None:
        self._control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self._connections = connections
        self._connections.settimeout(0)
        self._out: WriteBuffer
        self._messages = MessageDecoder(ToWorker)
        self._server: Server
        self._ports: WorkerPorts
        self._preparing = trio.CancelScope()
        self._prepared: Prepared | None = None
        """The configuration that waits to be put in force."""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the supervisor ends; then drain.

        :raises UnreachableError: no broker answered in time.
        :raises SupervisorGone: the supervisor ended before it sent the first message.
        """
        async with self._control, trio.open_nursery() as control_nursery:
            self._out = WriteBuffer(self._control, control_nursery)
            start, rest = await self._receive_start()
            structlog.contextvars.bind_contextvars(worker=start.worker)
            configure(start.config.log)
            self._ports = ports = WorkerPorts(start.ports, self._connections, self._send)
            replica, metrics = f"{replica_name()}/{start.worker}", Metrics()
            fleet = make_fleet(start.config, replica, metrics)
            self._server = Server(
                start.config,
                make_translator(start.config, start.policy, fleet),
                binder=ports,
                metrics=metrics,
                policy=start.policy,
                replica=replica,
                fleet=fleet,
                folder=Path(start.folder),
                last_good_tls=start.tls,
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._server.stop_at_signals)
                nursery.start_soon(
                    keep_running,
                    FileWatcher(lambda: self._server.reloadables).run,
                    self._server.metrics,
                )
                nursery.start_soon(self._receive, rest, nursery)
                nursery.start_soon(ports.run, self._server.metrics.connections_refused.labels("descriptors"))
                await self._server.run(task_status=self)
                await self._out.flushed()
                nursery.cancel_scope.cancel()
            control_nursery.cancel_scope.cancel()

    def started(self, _value: None = None) -> None:
        """Tell the supervisor that this process is ready for clients. See :class:`trio.TaskStatus`."""
        self._send(Serving())

    async def _receive_start(self) -> tuple[Start, list[object]]:
        while data := await self._control.receive_some():
            messages = list(self._messages.feed(bytes(data)))
            if messages:
                return cast("Start", messages[0]), messages[1:]
        raise SupervisorGone

    async def _receive(self, received: list[object], nursery: trio.Nursery) -> None:
        for message in received:
            await self._handle(message, nursery)
        try:
            while data := await self._control.receive_some():
                for message in self._messages.feed(bytes(data)):
                    await self._handle(message, nursery)
        except trio.BrokenResourceError:
            pass
        _log.warning("draining", reason="the supervisor has ended")
        self._server.stop()

    async def _handle(self, message: object, nursery: trio.Nursery) -> None:
        if isinstance(message, SetPolicy):
            self._server.set_policy(await in_thread(partial(_prepared, message.policy, self._server.policy)))
        elif isinstance(message, PutInForce):
            assert self._prepared is not None  # noqa: S101  else it would serve by the one before: it begins again
            if not self._server.is_draining():
                self._prepared.commit()
            self._prepared = None
        elif isinstance(message, Drop):
            self._drop()
        elif isinstance(message, Query):
            nursery.start_soon(self._run_query, message)

    async def _run_query(self, query: Query) -> None:
        if query.name == COMMAND:
            command = msgspec.msgpack.decode(query.argument, type=Command)
            value: bytes | None = msgspec.msgpack.encode(await self._server.command(command))
        elif query.name == PREPARE:
            value = msgspec.msgpack.encode(await self._prepare(query.argument))
        else:
            answer = self._server.query_handlers.get(query.name)
            value = None if answer is None else await _encode_result(await answer())
        self._send(QueryResult(query.number, value))

    async def _prepare(self, argument: bytes) -> list[str]:
        """Prepare another configuration; return what is wrong with it."""
        self._drop()
        message = msgspec.msgpack.decode(argument, type=Reconfigure)
        with trio.CancelScope() as self._preparing:
            self._ports.expect(message.ports)
            try:
                self._prepared = await self._server.prepare(message.config, message.tls)
            except ConfigError as refused:
                return list(refused.problems)
            return []
        return ["it was given up"]

    def _drop(self) -> None:
        self._preparing.cancel()
        if self._prepared is not None:
            self._prepared.drop()
            self._prepared = None

    def _send(self, message: ToSupervisor) -> None:
        self._out.write([encode_message(message)])


def _prepared(encoded: bytes, in_force: Policy) -> Policy:
    policy = msgspec.msgpack.decode(encoded, type=Policy)
    policy.prepare(in_force)
    return policy


async def _encode_result(value: object) -> bytes:
    if isinstance(value, Snapshot):
        return await encode_cooperatively(value, msgspec.msgpack.encode)
    return msgspec.msgpack.encode(value)


def main() -> None:
    """Run ``python -m proxy.workers CONTROL CONNECTIONS``; the arguments are descriptors from the supervisor."""
    # Until the file watcher handles it; by default it would end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    control, connections = (socket.socket(fileno=int(text)) for text in sys.argv[1:])
    run_to_exit(lambda: trio.run(Worker(control, connections).run))
