"""Runs ``python -m proxy.groups.lag``, and carries questions to it and answers from it."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec

import msgspec
import structlog
import trio

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.config.fleet import Property
from proxy.groups.lag.messages import Answer, Begin, Question, ToAsker
from proxy.groups.lag.readings import Unknown, Why
from proxy.runtime.kafka_process import exit_text
from proxy.runtime.time_slice import TimeSlice

TIMEOUT_S = 10.0
"""How long one request to a broker may take, with all of librdkafka's retries."""

_RESTART_S = 2.0
_ENDS_WITHIN_S = 1.0
"""A process whose output has ended gets so long to end itself, so that its exit code says why."""
_MAX_LINE = 16 * 1024 * 1024
"""Bytes of one answer: one group's commits or one leader's ends."""

_logger = structlog.get_logger()


class AskingProcess:
    """One process, started anew whenever it ends; for an account, whose librdkafka properties these are.

    ``crashed`` is called when it has ended by itself.
    Who asks sets ``on_answer``, ``on_batch`` (called after some answers, when nothing more is there) and ``on_lost``
    (nothing that was asked before will be answered).
    """

    def __init__(
        self, account: Mapping[str, Property] | None, crashed: Callable[[], None] = lambda: None
    ) -> None:
        self._account = account
        self._crashed = crashed
        self.on_answer: list[Callable[[Answer], None]] = []
        self.on_batch: list[Callable[[], Awaitable[None]]] = []
        self.on_lost: list[Callable[[], None]] = []
        self.process_id = 0
        """0: none runs."""
        self._process: trio.Process | None = None
        self._wanted = trio.Event()
        self._unsent: list[bytes] = []
        self._send = trio.Event()
        self._encoder = msgspec.json.Encoder()
        self._decoder: JsonDecoder[Answer] = JsonDecoder(Answer, _MAX_LINE)  # type: ignore[arg-type]

    def why_unable(self) -> Unknown | None:
        """Why nobody can be asked; None if somebody can."""
        if self._account is None:
            return Unknown(Why.NO_ACCOUNT, "the configuration has no `fleet`, whose account reads the lag")
        if find_spec("confluent_kafka") is None:
            return Unknown(
                Why.BAD_ACCOUNT,
                "confluent-kafka is not installed: pip install '.[fleet]' in a checkout of Epochgate",
            )
        return None

    def ask(self, question: Question) -> None:
        """Ask, as soon as the process runs."""
        self._wanted.set()
        self._queue(question)

    async def run(self) -> None:
        """Run it from the first question on, until cancelled."""
        if self.why_unable() is not None:
            await trio.sleep_forever()
        await self._wanted.wait()
        while True:
            try:
                await self._run_once()
            except OSError as error:  # no descriptors, no memory, too many processes
                _logger.warning("the process that reads lag could not be started", reason=str(error))
            self._unsent.clear()
            for lost in self.on_lost:
                lost()
            await trio.sleep(_RESTART_S)

    def replace(self, why: str) -> None:
        """End the process; another one is started, with the account as it is by then. ``why`` is for the log."""
        if self._process is not None:
            _logger.warning("the process that reads lag is replaced", reason=why)
            process, self._process = self._process, None
            process.kill()

    def _queue(self, message: ToAsker) -> None:
        self._unsent.append(self._encoder.encode(message) + b"\n")
        self._send.set()

    async def _run_once(self) -> None:
        assert self._account is not None  # noqa: S101  run() has looked
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "proxy.groups.lag"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # the terminal's signals are for the proxy alone
        )
        assert process.stdin is not None  # noqa: S101  it is a pipe
        assert process.stdout is not None  # noqa: S101
        self._process, self.process_id = process, process.pid
        # It can be replaced from now on, so the account that it gets is read now.
        self._unsent.insert(0, self._encoder.encode(Begin(dict(self._account), TIMEOUT_S)) + b"\n")
        try:
            async with process.stdin, process.stdout, trio.open_nursery() as nursery:
                nursery.start_soon(self._write, process.stdin)
                await self._listen(process.stdout)
                nursery.cancel_scope.cancel()
            with trio.move_on_after(_ENDS_WITHIN_S):
                await process.wait()
            if process.returncode is not None and self._process is process:
                self._crashed()
                _logger.warning("the process that reads lag has ended", reason=exit_text(process.returncode))
        finally:
            self._process, self.process_id = None, 0
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def _write(self, stream: trio.abc.SendStream) -> None:
        while True:
            while self._unsent:
                unsent, self._unsent = self._unsent, []
                try:
                    await stream.send_all(b"".join(unsent))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # the end of its answers says the same
            self._send = trio.Event()
            await self._send.wait()

    async def _listen(self, stream: trio.abc.ReceiveStream) -> None:
        rest = bytearray()
        time_slice = TimeSlice()
        async for data in stream:
            rest += data
            if b"\n" in data:
                *lines, last = rest.split(b"\n")
                rest = last
                for line in lines:
                    try:
                        answer = self._decoder.decode(bytes(line))
                    except Undecodable as error:
                        _logger.warning(
                            "the process that reads lag sent what is no answer", reason=str(error)
                        )
                        return
                    for told in self.on_answer:
                        told(answer)
                    await time_slice.yield_if_spent()
                for batch in self.on_batch:
                    await batch()
            elif len(rest) > _MAX_LINE:
                _logger.warning("an answer about lag is too long")
                return
