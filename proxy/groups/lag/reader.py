"""Reads the lag of groups at the brokers, for whoever needs it (gates, exporters): which are read, and how often.

The thin shell of :mod:`proxy.groups.lag.rounds`, which decides what is asked: it knows the time, and carries questions
and answers to and from the asking process. Nothing here blocks, and a broker that is slow, dead or hostile to the
account costs its groups their readings and nothing else.
"""

from collections.abc import Callable, Collection, Mapping

import trio

from proxy.config.fleet import Property
from proxy.groups.lag.asking_process import TIMEOUT_S, AskingProcess
from proxy.groups.lag.messages import AccountRefused, Answer, Commits, Ends, Leaders
from proxy.groups.lag.readings import Reading, Unknown, Why
from proxy.groups.lag.rounds import Rounds
from proxy.runtime.time_slice import TimeSlice

PATIENCE_S = 3.0
"""How long one reading waits for brokers that are not known to be slow. What comes later counts for the next one."""

_GRACE_S = 0.5
"""So long even those are waited for that were slow or failed before: they may have recovered."""
_STUCK_AFTER_S = 3 * TIMEOUT_S
_TICK_S = 0.05


class LagReader:
    """Reads commits and log ends with one account; shared by all who need the lag of groups.

    ``account`` are librdkafka properties (:func:`proxy.config.fleet.kafka_properties`), with at least DESCRIBE on the
    groups and their topics; None: the configuration names none, and nothing is ever known. :meth:`run` has to run
    beside. ``crashed`` is called when the process that asks has ended by itself.
    """

    def __init__(
        self, account: Mapping[str, Property] | None, crashed: Callable[[], None] = lambda: None
    ) -> None:
        self.asking = AskingProcess(account, crashed)
        """The process that asks, for others who ask with the same account."""
        self.asking.on_answer.append(self._take)
        self.asking.on_batch.append(self._go_on)
        self.asking.on_lost.append(self._lose)
        self._rounds = Rounds()
        self._changed = trio.Event()
        self._asked = trio.Event()
        self._going_on = trio.Lock()

    async def run(self) -> None:
        """Ask, until cancelled. No process is started before the first :meth:`read`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            await self.asking.run()

    async def read(self, group_ids: Collection[str], patience_s: float = PATIENCE_S) -> dict[str, Reading]:
        """Read the lag of these groups; each of them has an entry in the result.

        It returns as soon as all groups have answered whose last reading did, and after ``patience_s`` at the latest. A
        group that did not answer keeps its last reading: :attr:`GroupLag.stale` then has the reason, and
        :meth:`GroupLag.age_s` its age. Of more than :data:`~proxy.groups.lag.rounds.MAX_GROUPS` groups the first are
        read. Readings of the last second are used again, so several callers cost little more than one.
        """
        unable = self.asking.why_unable()
        if unable is not None:
            return dict.fromkeys(group_ids, unable)
        now = trio.current_time()
        for question in self._rounds.begin(group_ids, now):
            self.asking.ask(question)
        self._asked.set()
        with trio.move_on_at(now + min(_GRACE_S, patience_s)):
            await self._wait_for(group_ids, also_slow=True)
        with trio.move_on_at(now + patience_s):
            await self._wait_for(group_ids, also_slow=False)
        self._rounds.close(group_ids, trio.current_time())
        return self._rounds.results(group_ids, trio.current_time())

    def known(self, group_ids: Collection[str]) -> dict[str, Reading]:
        """The same without asking: what is known now. A reading of last time is not called stale for that."""
        unable = self.asking.why_unable()
        if unable is not None:
            return dict.fromkeys(group_ids, unable)
        return self._rounds.results(group_ids, trio.current_time())

    async def _wait_for(self, group_ids: Collection[str], *, also_slow: bool) -> None:
        while self._rounds.is_awaited(group_ids, also_slow=also_slow):
            await self._changed.wait()

    def _take(self, answer: Answer) -> None:
        now = trio.current_time()
        match answer:
            case AccountRefused(detail):
                self._rounds.account_refused(detail, now)
            case Commits() | Leaders() | Ends():
                self._rounds.answered(answer, now)

    async def _go_on(self) -> None:
        """Put answers together and ask what follows, in time slices: a thousand groups take tens of milliseconds."""
        async with self._going_on:
            steps, time_slice = self._rounds.steps(trio.current_time()), TimeSlice()
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    for question in done.value:
                        self.asking.ask(question)
                    break
                await time_slice.yield_if_spent()
        self._has_changed()

    def _lose(self) -> None:
        self._rounds.lose(Unknown(Why.NO_ANSWER, "the process that asks has ended"))
        self._has_changed()

    def _has_changed(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _keep_time(self) -> None:
        """Questions that are due without an answer; and the end of a process that answers nothing any more."""
        while True:
            await self._asked.wait()
            await trio.sleep(_TICK_S)
            now = trio.current_time()
            deadline = self._rounds.next_deadline()
            if deadline is None and self._rounds.in_flight_since is None:
                self._asked = trio.Event()  # nothing is to be waited for
            if deadline is not None and deadline <= now:
                await self._go_on()
            since = self._rounds.in_flight_since
            if since is not None and now - since > _STUCK_AFTER_S:
                self.asking.replace("it answers nothing")
                self._lose()
