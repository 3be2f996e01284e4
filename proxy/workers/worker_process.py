"""One worker's place in the supervisor: the process in it now, and what is said to it and heard from it.

The place outlives its processes. Connections that come while there is none wait, so that clients of a worker that
died find the next one.
"""

import random
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
from proxy.server.process import StartError
from proxy.transport.write_buffer import WriteBuffer
from proxy.workers.control_messages import (
    Answer,
    Ask,
    Away,
    Back,
    Decoder,
    PortKey,
    Serving,
    Start,
    ToSupervisor,
    ToWorker,
    encoded,
)
from proxy.workers.fd_passing import WaitingLine

T = TypeVar("T")
_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_LIVED_WELL_S = 60.0


class Slot:
    """``start`` gives the first message for a new process. The callbacks tell the supervisor what changes."""

    def __init__(
        self,
        number: int,
        start: Callable[[], Start],
        metrics: Metrics,
        *,
        on_away: Callable[[], None],
        on_death: Callable[[int], None],
    ) -> None:
        self.number = number
        self.line = WaitingLine()
        self.away: set[PortKey] = set()
        """Ports whose node this worker can't reach."""
        self.serving = False
        self.served = trio.Event()
        """Set once a process has taken clients."""
        self.life = 0
        """How many processes there have been in this place."""
        self._start = start
        self._metrics = metrics
        self._on_away = on_away
        self._on_death = on_death
        self._process: trio.Process | None = None
        self._out: WriteBuffer | None = None
        self._ending = False
        self._numbers = count(1)
        self._asked: dict[int, tuple[trio.Event, list[bytes | None]]] = {}

    async def run(self) -> None:
        """Keep a process in this place until :meth:`drained`.

        :raises StartError: the first one ended before it took clients.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            began = trio.current_time()
            ending = await self._live()
            if self._has_to_end():
                return
            if not self.served.is_set():
                raise StartError(f"worker {self.number} {ending} before it took clients")
            if trio.current_time() - began > _LIVED_WELL_S:
                pause_s = _FIRST_PAUSE_S
            self._metrics.worker_restarts.labels(str(self.number)).inc()
            _log.error("a worker is started again", worker=self.number, reason=ending)
            await trio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            if self._has_to_end():
                return

    def _has_to_end(self) -> bool:
        return self._ending

    def say(self, message: ToWorker) -> None:
        """Tell the process something, if there is one."""
        if self._out is not None:
            self._out.write([encoded(message)])

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it takes clients (before, it would not know what to do with it)."""
        if self._process is not None and self.serving:
            self._process.send_signal(number)

    async def drained(self) -> None:
        """Have the process drain, start no other, and wait until it has ended."""
        self._ending = True
        self.line.close()
        if (process := self._process) is not None:
            process.terminate()
            await process.wait()

    def kill(self) -> None:
        """End the process at once."""
        self._ending = True
        if self._process is not None:
            self._process.kill()

    async def ask(self, what: str, kind: type[T]) -> T | None:
        """The process's answer; None if it ends before, or does not know what is asked."""
        number = next(self._numbers)
        came, answers = trio.Event(), list[bytes | None]()
        self._asked[number] = came, answers
        try:
            self.say(Ask(number, what))
            await came.wait()
        finally:
            self._asked.pop(number, None)
        if not answers or answers[0] is None:
            return None
        return msgspec.msgpack.decode(answers[0], type=kind)

    async def _live(self) -> str:
        """Have one process live from its start to its end; how that was."""
        try:
            return f"ended with exit code {await self._process_lives()}"
        except (
            OSError
        ) as error:  # no descriptors, no memory, too many processes: the others serve on meanwhile
            return f"could not be started: {error.strerror}"

    async def _process_lives(self) -> int:
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
            self.life += 1
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(control))
            try:
                async with stream, trio.open_nursery() as nursery:
                    self._out = WriteBuffer(stream, nursery)
                    self.say(self._start())
                    nursery.start_soon(self._listen, stream, connections, nursery)
                    code = await self._process.wait()
                    nursery.cancel_scope.cancel()
            finally:
                await self._bury(self._process)
        return code

    async def _bury(self, process: trio.Process) -> None:
        if process.returncode is None:  # the supervisor itself is ending
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        self._process = self._out = None
        self.serving = False
        for came, _ in self._asked.values():
            came.set()
        self._on_death(self.number)
        if self.away:
            self.away.clear()
            self._on_away()

    async def _listen(
        self, stream: trio.abc.ReceiveStream, connections: socket.socket, nursery: trio.Nursery
    ) -> None:
        decoder = Decoder(ToSupervisor)
        try:
            while data := await stream.receive_some():
                for message in decoder.feed(bytes(data)):
                    self._heard(message)
                    if isinstance(message, Serving):
                        nursery.start_soon(self._hand_over, connections)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except msgspec.DecodeError as error:
            _log.error(
                "a worker says what can't be read, and is killed", worker=self.number, reason=str(error)
            )
            self._metrics.internal_errors.labels("worker").inc()
            if self._process is not None:
                self._process.kill()

    async def _hand_over(self, connections: socket.socket) -> None:
        with suppress(OSError):  # the process is gone; who waits is handed to the next one
            await self.line.hand_over(connections)

    def _heard(self, message: object) -> None:
        if isinstance(message, Serving):
            self.serving = True
            self.served.set()
        elif isinstance(message, Away):
            self.away.add(message.port)
            self._on_away()
        elif isinstance(message, Back):
            self.away.discard(message.port)
            self._on_away()
        elif isinstance(message, Answer) and (asked := self._asked.get(message.number)) is not None:
            came, answers = asked
            answers.append(message.value)
            came.set()
