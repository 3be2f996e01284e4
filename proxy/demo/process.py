"""One consumer process, as the demo drives it."""

import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec
import trio

from proxy.demo.failure import DemoFailed
from proxy.demo.reports import ConsumerSettings, Failed, Left, Report

_LAST_WORDS = 5
_GRACE_S = 3.0
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class ConsumerProcess:
    """A consumer that was started, and that is told to leave or is killed.

    ``on_report`` takes each report as it comes, and ``on_exit`` the time at which a killed process was
    certainly dead; both are called before :meth:`run` returns.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        on_report: Callable[[Report], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self.name = settings.name
        self._settings = settings
        self._on_report = on_report
        self._on_death = on_exit
        self._process: trio.Process | None = None
        self._ending = False
        self._left = False
        self._stderr: deque[str] = deque(maxlen=_LAST_WORDS)

    async def run(self) -> None:
        """Start it, hand over what it reports, and return when it has ended as it was told to.

        :raises DemoFailed: it ended by itself.
        """
        command = [sys.executable, "-m", "proxy.demo.consumer", msgspec.json.encode(self._settings).decode()]
        # A session of its own: Ctrl-C is for the demo, which then ends its consumers itself.
        process = self._process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_last_words, process)
                await self._hand_over_reports(process)
            await process.wait()
        finally:
            await self._make_sure_it_is_dead(process)
        if not self._left:
            self._on_death(time.monotonic_ns())
        if not self._ending:
            words = " | ".join(self._stderr) or "it said nothing"
            raise DemoFailed(f"{self.name} ended by itself with exit code {process.returncode}: {words}")

    async def leave(self) -> None:
        """Tell it to close in an orderly way; it reports that it has left."""
        self._ending = True
        if self._process is not None and self._process.stdin is not None:
            await self._process.stdin.aclose()

    def kill(self) -> None:
        """kill -9: it says goodbye to nobody."""
        self._ending = True
        if self._process is not None:
            self._process.kill()

    async def _hand_over_reports(self, process: trio.Process) -> None:
        async for line in _lines(process.stdout):
            report = _reports.decode(line)
            if isinstance(report, Failed):
                raise DemoFailed(f"{self.name}: {report.reason}")
            self._left = self._left or isinstance(report, Left)
            self._on_report(report)

    async def _keep_last_words(self, process: trio.Process) -> None:
        async for line in _lines(process.stderr):
            self._stderr.append(line.decode(errors="replace"))

    async def _make_sure_it_is_dead(self, process: trio.Process) -> None:
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
    """The whole lines of a stream; a last one without its end was cut off by a kill and is left out."""
    if stream is None:
        return
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
