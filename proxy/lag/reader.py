"""Reads the lag of groups at the brokers, for whoever needs it: gates, exporters.

The thin shell of :mod:`proxy.lag.rounds`: it runs the asking process (``python -m proxy.lag``), carries questions and
answers, and knows the time. Nothing here blocks, and a broker that is slow, dead or hostile to the account costs its
groups their readings and nothing else.
"""

import subprocess
import sys
from collections.abc import Collection, Mapping
from importlib.util import find_spec

import msgspec
import structlog
import trio

from proxy.config.fleet import Property
from proxy.lag.messages import AccountRefused, Answer, Begin, ToAsker
from proxy.lag.readings import Reading, Unknown, Why
from proxy.lag.rounds import Rounds
from proxy.runtime.time_slice import TimeSlice

PATIENCE_S = 3.0
"""How long one reading waits for brokers that are not known to be slow."""
TIMEOUT_S = 10.0
"""How long one request to a broker may take, with all of librdkafka's retries. What comes late counts next time."""

_STUCK_AFTER_S = 3 * TIMEOUT_S
_RESTART_S = 2.0
_GRACE_S = 0.5
"""So long even those are waited for that were slow or failed before: they may have recovered."""
_MAX_LINE = 16 * 1024 * 1024
"""Bytes of one answer: one group's commits or one leader's ends."""

_logger = structlog.get_logger()


class LagReader:
    """Reads commits and log ends with one account; shared by all who need the lag of groups.

    ``account`` are librdkafka properties (:func:`proxy.config.fleet.kafka_properties`), with at least DESCRIBE on the
    groups and their topics; None: the configuration names none, and nothing is ever known. :meth:`run` has to run
    beside.
    """

    def __init__(self, account: Mapping[str, Property] | None) -> None:
        self._account = account
        self._rounds = Rounds()
        self._wanted = trio.Event()
        self._changed = trio.Event()
        self.process_id = 0
        """The process that asks; 0: none."""
        self._unsent: list[bytes] = []
        self._send = trio.Event()
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(Answer)

    async def run(self) -> None:
        """Ask, until cancelled. No process is started before the first :meth:`read`."""
        if self._account is None or find_spec("confluent_kafka") is None:
            await trio.sleep_forever()
        await self._wanted.wait()
        while True:
            try:
                await self._run_process()
            except OSError as error:  # no descriptors, no memory, too many processes
                _logger.warning("the process that reads lag could not be started", reason=str(error))
            self._rounds.lose(Unknown(Why.NO_ANSWER, "the process that asks has ended"))
            self._unsent.clear()
            self._has_changed()
            await trio.sleep(_RESTART_S)

    async def read(self, group_ids: Collection[str], patience_s: float = PATIENCE_S) -> dict[str, Reading]:
        """Read the lag of these groups; each of them has an entry in the result.

        It returns as soon as all groups have answered whose last reading did, and after ``patience_s`` at the latest. A
        group that did not answer keeps its last reading: :attr:`GroupLag.stale` then has the reason, and
        :meth:`GroupLag.age_s` its age. Of more than :data:`~proxy.lag.rounds.MAX_GROUPS` groups the first are read.
        Readings of the last second are used again, so several callers cost little more than one.
        """
        unable = self._why_unable()
        if unable is not None:
            return dict.fromkeys(group_ids, unable)
        self._wanted.set()
        now = trio.current_time()
        for question in self._rounds.begin(group_ids, now):
            self._ask(question)
        with trio.move_on_at(now + min(_GRACE_S, patience_s)):
            await self._wait_for(group_ids, also_slow=True)
        with trio.move_on_at(now + patience_s):
            await self._wait_for(group_ids, also_slow=False)
        self._rounds.close(group_ids, trio.current_time())
        return self._rounds.results(group_ids, trio.current_time())

    def known(self, group_ids: Collection[str]) -> dict[str, Reading]:
        """The same without asking: what is known now. A reading of last time is not called stale for that."""
        unable = self._why_unable()
        if unable is not None:
            return dict.fromkeys(group_ids, unable)
        return self._rounds.results(group_ids, trio.current_time())

    def _why_unable(self) -> Unknown | None:
        if self._account is None:
            return Unknown(Why.NO_ACCOUNT, "the configuration has no `fleet`, whose account reads the lag")
        if find_spec("confluent_kafka") is None:
            return Unknown(
                Why.BAD_ACCOUNT, "confluent-kafka is not installed: pip install 'epochgate[fleet]'"
            )
        return None

    async def _wait_for(self, group_ids: Collection[str], *, also_slow: bool) -> None:
        while self._rounds.is_awaited(group_ids, also_slow=also_slow):
            await self._changed.wait()

    def _has_changed(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _ask(self, message: ToAsker) -> None:
        self._unsent.append(self._encoder.encode(message) + b"\n")
        self._send.set()

    # -- the process -------------------------------------------------------------------------------------------

    async def _run_process(self) -> None:
        assert self._account is not None  # noqa: S101  run() has looked
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "proxy.lag"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # the terminal's signals are for the proxy alone
        )
        self.process_id = process.pid
        try:
            async with process.stdin, process.stdout, trio.open_nursery() as nursery:  # type: ignore[union-attr]
                self._unsent.insert(0, self._encoder.encode(Begin(dict(self._account), TIMEOUT_S)) + b"\n")
                nursery.start_soon(self._write, process.stdin)
                nursery.start_soon(self._keep_time, process)
                await self._listen(process.stdout)
                nursery.cancel_scope.cancel()
        finally:
            self.process_id = 0
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def _write(self, stream: trio.abc.SendStream | None) -> None:
        assert stream is not None  # noqa: S101  it is a pipe
        while True:
            while self._unsent:
                unsent, self._unsent = self._unsent, []
                try:
                    await stream.send_all(b"".join(unsent))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # the end of its answers says the same
            self._send = trio.Event()
            await self._send.wait()

    async def _listen(self, stream: trio.abc.ReceiveStream | None) -> None:
        assert stream is not None  # noqa: S101  it is a pipe
        rest = b""
        slice_ = TimeSlice()
        async for data in stream:
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _MAX_LINE:
                _logger.warning("an answer about lag is too long")
                return
            for line in lines:
                self._take(line)
                await slice_.yield_if_spent()
            self._go_on()

    def _take(self, line: bytes) -> None:
        answer = self._decoder.decode(line)
        now = trio.current_time()
        if isinstance(answer, AccountRefused):
            self._rounds.account_refused(answer.detail, now)
        else:
            self._rounds.answered(answer, now)

    def _go_on(self) -> None:
        for question in self._rounds.next_questions(trio.current_time()):
            self._ask(question)
        self._has_changed()

    async def _keep_time(self, process: trio.Process) -> None:
        """Questions that are due without an answer; and the end of a process that answers nothing any more."""
        while True:
            await trio.sleep(0.05)
            now = trio.current_time()
            deadline = self._rounds.next_deadline()
            if deadline is not None and deadline <= now:
                self._go_on()
            since = self._rounds.in_flight_since
            if since is not None and now - since > _STUCK_AFTER_S:
                _logger.warning("the process that reads lag is replaced: it answers nothing")
                process.kill()
                return
