"""Runs one consumer process for the demo."""

import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec
import trio

from proxy.demo.failure import DemoFailed
from proxy.demo.reports import ConsumerSettings, Failed, Left, Report, ShareConsumerSettings

_STDERR_LINES = 5
_GRACE_S = 3.0
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class ConsumerProcess:
    """A consumer process that leaves its group or is killed on request.

    Calls ``on_report`` with each report, and ``on_exit`` with the time (``monotonic_ns``) at which a killed process
    had ended; both before :meth:`run` returns.
    """

    def __init__(
        self,
        settings: ConsumerSettings | ShareConsumerSettings,
        on_report: Callable[[Report], None],
        on_exit: Callable[[int], None],
        *,
        program: str = "proxy.demo.consumer",
    ) -> None:
        self.name = settings.name
        self._settings = settings
        self._program = program
        self._on_report = on_report
        self._on_exit = on_exit
        self._process: trio.Process | None = None
        self._ending = False
        self._left = False
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)

    async def run(self) -> None:
        """Start the process, pass on its reports, and return when it has ended on request.

        :raises DemoFailed: it ended without a request.
        """
        command = [sys.executable, "-m", self._program, msgspec.json.encode(self._settings).decode()]
        # A session of its own: Ctrl-C reaches only the demo, which then ends its consumers.
        process = self._process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._collect_stderr, process)
                await self._forward_reports(process)
            await process.wait()
        finally:
            await self._ensure_dead(process)
        if not self._left:
            self._on_exit(time.monotonic_ns())
        if not self._ending:
            words = " | ".join(self._stderr) or "no output"
            raise DemoFailed(f"{self.name} ended unexpectedly with exit code {process.returncode}: {words}")

    async def tell(self, command: str) -> None:
        """Pass on a command, a line of the program's standard input; one that has ended ignores it."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._process.stdin.send_all(f"{command}\n".encode())

    async def leave(self) -> None:
        """Make the consumer leave its group and exit, by closing its standard input."""
        self._ending = True
        if self._process is not None and self._process.stdin is not None:
            await self._process.stdin.aclose()

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that it can't leave its group."""
        self._ending = True
        if self._process is not None:
            self._process.kill()

    async def _forward_reports(self, process: trio.Process) -> None:
        async for line in _lines(process.stdout):
            report = _reports.decode(line)
            if isinstance(report, Failed):
                raise DemoFailed(f"{self.name}: {report.reason}")
            self._left = self._left or isinstance(report, Left)
            self._on_report(report)

    async def _collect_stderr(self, process: trio.Process) -> None:
        async for line in _lines(process.stderr):
            self._stderr.append(line.decode(errors="replace"))

    async def _ensure_dead(self, process: trio.Process) -> None:
        with trio.CancelScope(shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()  # which asks it to leave
            with trio.move_on_after(_GRACE_S):
                await process.wait()
            if process.poll() is None:
                process.kill()
            await process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    await pipe.aclose()


async def _lines(stream: trio.abc.ReceiveStream | None) -> AsyncIterator[bytes]:
    """Yield the complete lines of a stream. An unfinished last line was cut off by a kill and is skipped."""
    if stream is None:
        return
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
