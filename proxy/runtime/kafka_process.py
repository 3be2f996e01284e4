"""Runs librdkafka in a process of its own (``epochgate_kafka_process_crashes_total``), and exchanges frames with it
over its standard streams.

librdkafka parses what brokers answer, and some answers end its process: Metadata with a topic name that is null is
SIGSEGV in 2.16.1. So the process that serves clients never loads it. What a child says is taken for untrusted bytes
(:mod:`proxy.runtime.frames`), and its end is an exception here (:class:`ProcessEnded`).
"""

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import trio

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from proxy.runtime.frames import BadFrame, FrameSplitter, framed

T = TypeVar("T")

_RECEIVE_BYTES = 64 * 1024
_ENDS_WITHIN_S = 1.0
"""A child whose output has ended gets so long to end itself, so that its exit code says why."""


class ProcessEnded(Exception):
    """The child has ended, or was ended since it broke the protocol; the message says how."""


class KafkaProcess:
    """One child, which runs ``python -m module``. ``crashed`` is called once if it ends by itself.

    One task at a time may send, and one may receive.
    """

    def __init__(self, module: str, crashed: Callable[[], None] = lambda: None) -> None:
        self._module = module
        self._crashed = crashed
        self._process: trio.Process | None = None
        self._splitter = FrameSplitter()
        self._received: deque[bytes] = deque()
        self._cause: str | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id; None if there is no child."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the child.

        :raises ProcessEnded: the system refuses another process.
        """
        try:
            self._process = await trio.lowlevel.open_process(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # the terminal's signals are for the proxy alone
            )
        except OSError as error:  # no descriptors, no memory, too many processes
            raise ProcessEnded(f"it could not be started: {error.strerror}") from error

    async def send(self, *messages: bytes) -> None:
        """Send messages; waits while the child does not read.

        :raises ProcessEnded: see the class.
        """
        assert self._process is not None  # noqa: S101  it was started
        assert self._process.stdin is not None  # noqa: S101  it is a pipe
        try:
            await self._process.stdin.send_all(b"".join(map(framed, messages)))
        except (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame) as error:
            raise await self._ended(str(error) if isinstance(error, BadFrame) else None) from error

    async def receive(self) -> bytes:
        """Wait for the next message.

        :raises ProcessEnded: see the class.
        """
        assert self._process is not None  # noqa: S101  it was started
        assert self._process.stdout is not None  # noqa: S101  it is a pipe
        while not self._received:
            try:
                data = await self._process.stdout.receive_some(_RECEIVE_BYTES)
                self._received.extend(self._splitter.feed(data))
            except (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame) as error:
                raise await self._ended(str(error) if isinstance(error, BadFrame) else None) from error
            if not data:
                raise await self._ended()
        return self._received.popleft()

    async def receive_message(self, decoder: MsgpackDecoder[T]) -> T:
        """Wait for the next message, and decode it; a child that sends what is none is ended.

        :raises ProcessEnded: see the class.
        """
        message = await self.receive()
        try:
            return decoder.decode(message)
        except Undecodable as error:
            raise await self.refuse(f"it sent what is no message: {error}") from None

    async def refuse(self, what: str) -> ProcessEnded:
        """End the child, which has sent what is no message; return what is to be raised."""
        return await self._ended(what)

    async def close(self, grace_s: float = 0.0) -> None:
        """End the child; it gets ``grace_s`` seconds after the end of its input. Not to be cancelled."""
        if self._process is None:
            return
        self._cause = self._cause or "it was ended"
        with trio.CancelScope(shield=True):
            assert self._process.stdin is not None  # noqa: S101  they are pipes
            assert self._process.stdout is not None  # noqa: S101
            await self._process.stdin.aclose()
            with trio.move_on_after(grace_s):
                await self._process.wait()
            self._process.kill()
            await self._process.stdout.aclose()
            await self._process.wait()

    async def _ended(self, cause: str | None = None) -> ProcessEnded:
        assert self._process is not None  # noqa: S101  it was started
        if self._cause is None:
            with trio.CancelScope(shield=True):
                if cause is None:
                    with trio.move_on_after(_ENDS_WITHIN_S):
                        await self._process.wait()
                self._process.kill()
                code = await self._process.wait()
            self._cause = cause or exit_text(code)
            self._crashed()
        return ProcessEnded(self._cause)


def exit_text(code: int) -> str:
    """Say how a process ended that has this code (negative: of the signal)."""
    if code >= 0:
        return f"it ended with the exit code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by the signal {-code}"
