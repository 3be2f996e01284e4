"""Verifies a journal while it is written: lines come as they are read, each group is proven since some time, and a
process that writes nothing counts as ended.

Theory of operation. What several processes write arrives in no order, so events wait for ``delay_us`` and are then gone
through by their time. What comes even later is left out, and the time until then counts as incomplete. A process
writes an ``alive`` event now and then; one that has written nothing for ``delay_us`` has ended, as far as anybody can
tell, and what it wrote last may be missing unless it has said ``stopped``.

Each group has a window that begins when nothing speaks against it, and ends with the last look (:meth:`look`). It
begins anew when a look finds something: a violation, events that are missing, an owner that nobody knows. So a group
that is proven since ten minutes had ten complete minutes. The certificate is about all that has been read, as
`epochgate verify` writes it.

Everything is bounded: events that wait, groups, and what is kept of each. What is beyond is not proven. Nothing here
knows a clock: whoever feeds it says what time it is, in microseconds since 1970.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from pipeline.rules.certificate import Certificate, Verdict
from pipeline.rules.classes import Replicas
from pipeline.rules.gains import Gains
from pipeline.rules.lines import Key, Line, key_of, parse_line
from pipeline.rules.losses import Loss, Process, merged
from pipeline.rules.numbers import Numbers
from pipeline.rules.ordering import AFTER_LAST_US, FAR_US
from pipeline.rules.verified_group import Counts
from pipeline.rules.verifier import DEFAULT_SKEW_US, Doubt, Journal, Verifier, Window

ROOM_US = 10_000_000
"""How often, at most, groups that hold nothing are forgotten to make room for others."""

_LONG_GONE_US = 7_200_000_000
"""The numbers of a process that has ended are forgotten after so long."""

_MOST_GONE = 1_000
"""Gaps in the numbers of processes that are forgotten; of more, those of one process become one."""

_MOST_PAIRS = 1_000
_MOST_PROCESSES = 1_000
"""Of more processes those that have ended are forgotten at once."""

_KILLED = "{} has ended, and did not say so: what it wrote last may be missing"


class Bounds(NamedTuple):
    """How much is kept: events that wait for their turn, groups, and things of one group, roughly."""

    waiting: int = 100_000
    groups: int = 10_000
    of_group: int = 100_000


class Proven(msgspec.Struct, frozen=True):
    """What speaks for a group: nothing has spoken against it from ``since_us`` until the last look at ``until_us``.

    ``why`` is what a look found last that did. ``violated_us`` is the end of the newest violation of all the time; it
    may still turn out to be due to clocks unless ``is_final``.
    """

    verdict: Verdict
    since_us: int
    until_us: int
    why: tuple[str, ...] = ()
    violated_us: int | None = None
    is_final: bool = False


class LiveVerifier:
    """Takes the lines of all processes. ``delay_us`` is 0 if there is only one, whose lines come in order."""

    def __init__(
        self, *, delay_us: int, skew_us: int = DEFAULT_SKEW_US, bounds: Bounds | None = None
    ) -> None:
        self.proven: dict[str, Proven] = {}
        """By group, as of the last look."""
        self.gains: dict[str, Gains] = {}
        """By group."""
        self.left_out = 0
        """Events of groups that there was no room for."""
        self.until_us = 0
        """All events before that have been gone through."""
        self._bounds = bounds or Bounds()
        self._delay_us = delay_us
        self._skew_us = skew_us
        self._verifier = Verifier(skew_us=skew_us, most_pairs=_MOST_PAIRS)
        self._waiting: list[tuple[int, str, str, int, int, Line]] = []
        self._arrived = 0
        self._floor: Key = (-1, "", "", 0)
        self._numbers: dict[Process, Numbers] = {}
        self._gone: list[Loss] = []
        """What of processes that are forgotten is missing."""
        self._read_us: dict[Process, int] = {}
        """The time of the newest event of each process that has been read, also of those that wait."""
        self._doubts: dict[str, int] = {}
        """Why the journal was not complete, each until when."""
        self._window_doubts: dict[str, int] = {}
        """The same for windows alone."""
        self._clocks: dict[Replicas, int] = {}
        """What the clocks of replicas accounted for at the last look."""
        self._too_large: set[str] = set()
        self._made_room_us = 0
        self._swept_us = 0
        self._known: tuple[object, Journal] | None = None

    @property
    def waiting(self) -> int:
        """Return how many events wait for their turn."""
        return len(self._waiting)

    @property
    def newest_us(self) -> int:
        """Return the time of the newest event that has been read."""
        return max(self._read_us.values(), default=0)

    # -- lines ---------------------------------------------------------------------------------------------------

    def add(self, lines: Iterable[bytes | None]) -> None:
        """Take lines as they arrive."""
        for line in lines:
            event = parse_line(line)
            if not isinstance(event, Line):
                self._doubt("lines that can't be read", self.newest_us + AFTER_LAST_US)
                continue
            key, process = key_of(event), event.process
            if key[0] >= self._read_us.get(process, -1):
                self._read_us[process] = key[0]
                self._verifier.ended.pop(process, None)  # it was only silent
            if key < self._floor:
                self._late(event)
                continue
            self._arrived += 1
            heappush(self._waiting, (*key, self._arrived, event))

    def incomplete(self, text: str, until_us: int) -> None:
        """Whoever reads the lines may have missed some until then."""
        self._doubt(text, until_us)

    def go_through(self, until_us: int, most: int) -> bool:
        """Go through events before ``until_us``, at most so many; return whether there are more of these."""
        waiting, bounds = self._waiting, self._bounds
        self._find_ended(until_us)
        while most and waiting and (waiting[0][0] < until_us or len(waiting) > bounds.waiting):
            most -= 1
            time_us, replica, boot, seq, _, event = heappop(waiting)
            self._floor = time_us, replica, boot, seq
            self._take(event)
        if waiting and (waiting[0][0] < until_us or len(waiting) > bounds.waiting):
            return True
        if until_us > self.until_us:
            self.until_us = until_us
            self._verifier.forget(until_us)
            self._forget_ended(until_us)
        return False

    def _find_ended(self, until_us: int) -> None:
        """Who has written nothing since ``until_us``, and by now would have, has ended."""
        if not self._delay_us:
            return
        ended = self._verifier.ended
        for process, read_us in list(self._read_us.items()):
            if read_us >= until_us:
                continue
            if process not in ended:
                self._verifier.process_ended(process, read_us)
                self._window_doubts[_KILLED.format(".".join(process))] = until_us
            elif read_us < until_us - _LONG_GONE_US or len(self._read_us) > _MOST_PROCESSES:
                self._forget(process)

    def _forget(self, process: Process) -> None:
        del self._read_us[process]
        self._verifier.stopped.discard(process)
        numbers = self._numbers.pop(process, None)
        if numbers is not None and numbers.lost:
            self._doubt("events of processes that are gone are missing", numbers.last_us)
            self._gone += numbers.losses(process)
            if len(self._gone) > _MOST_GONE:
                self._gone = merged(self._gone)[-_MOST_GONE:]

    def _forget_ended(self, until_us: int) -> None:
        """Forget that processes have ended, now and then, but for those that a hold depends on.

        Who gets such a partition, however much later, takes it from a process that is known to have ended.
        """
        ended = self._verifier.ended
        if len(ended) <= len(self._read_us) or until_us - self._swept_us < ROOM_US:
            return
        self._swept_us = until_us
        asked_for = {
            one for group in self._verifier.groups.values() for one in group.ownership.may_have_ended()
        }
        for process in [one for one in ended if one not in self._read_us and one not in asked_for]:
            del ended[process]

    def _late(self, event: Line) -> None:
        """It is left out, so its number stays missing: an overlap may be due to that."""
        if not self._numbers_of(event.process).has(event.seq or 0):
            self._doubt("events that came too late and are left out", self.until_us + 1)

    def _take(self, event: Line) -> None:
        numbers = self._numbers_of(event.process)
        lost = numbers.lost
        if not numbers.take(event.seq, event.time_us):  # type: ignore[arg-type]  # parse_line has looked
            return
        if numbers.lost > lost:
            self._window_doubts["events are missing"] = event.time_us or 0
        name = event.group
        if name:
            if name in self._too_large:
                return
            if name not in self._verifier.groups and not self._has_room(event):
                self.left_out += 1
                return
        self._verifier.take(event)
        if name:
            gains = self.gains.get(name) or self.gains.setdefault(name, Gains(self._verifier.ended))
            if event.member:
                gains.take(event)
            if self._verifier.groups[name].size + gains.size > self._bounds.of_group:
                self._drop(name)
                self._too_large.add(name)

    def _numbers_of(self, process: Process) -> Numbers:
        found = self._numbers.get(process)
        if found is None:
            found = self._numbers[process] = Numbers()
        return found

    def _has_room(self, event: Line) -> bool:
        """Whether another group can be taken; those that hold nothing make room for it."""
        if len(self._verifier.groups) + len(self._too_large) < self._bounds.groups:
            return True
        now_us = event.time_us or 0
        if now_us - self._made_room_us < ROOM_US:
            return False
        self._made_room_us = now_us
        for name, group in list(self._verifier.groups.items()):
            if not group.ownership.members():
                self._drop(name)
        return len(self._verifier.groups) + len(self._too_large) < self._bounds.groups

    def _drop(self, name: str) -> None:
        del self._verifier.groups[name]
        self.proven.pop(name, None)
        self.gains.pop(name, None)

    def _doubt(self, text: str, until_us: int) -> None:
        for doubts in (self._doubts, self._window_doubts):
            doubts[text] = max(until_us, doubts.get(text, 0))

    # -- verdicts ------------------------------------------------------------------------------------------------

    def look(self) -> Iterator[None]:
        """Look at all groups, a part of one at each step; nothing may be taken meanwhile.

        :attr:`proven` is what it finds.
        """
        until_us, journal = self.until_us, self._journal()
        stopped = {_KILLED.format(".".join(process)) for process in self._verifier.stopped}
        doubts = tuple(Doubt(us, text) for text, us in self._window_doubts.items() if text not in stopped)
        names = [name for name, group in self._verifier.groups.items() if group.is_exclusive]
        found: dict[str, Window] = {}
        for ask_clocks in (False, True):
            if ask_clocks:
                if not any(one.asks_for_clocks for one in found.values()):
                    break
                yield from self._ask_clocks(names)
            for name in names:
                if not ask_clocks or found[name].asks_for_clocks:
                    since_us = self._before(name, until_us).since_us
                    found[name] = self._verifier.window(name, journal, self._clocks, doubts, since_us)
                yield
        for name, window in found.items():
            self.proven[name] = self._proven(name, window, until_us)
        self._window_doubts = {text: us for text, us in self._window_doubts.items() if us > until_us}

    def _ask_clocks(self, names: Iterable[str]) -> Iterator[None]:
        evidence = self._verifier.evidence()
        for name in names:
            self._verifier.add_open(name, evidence)
            yield
        self._clocks = self._verifier.clocks(evidence)

    def _before(self, name: str, until_us: int) -> Proven:
        first_us = self._verifier.groups[name].first_us
        return self.proven.get(name) or Proven(Verdict.UNPROVEN, first_us, until_us)

    def _proven(self, name: str, window: Window, until_us: int) -> Proven:
        before = self._before(name, until_us)
        is_clean = window.verdict is Verdict.PROVEN and not window.why
        if not is_clean:
            self._verifier.groups[name].window = Counts(self._skew_us, until_us + 1)
        verdict = Verdict.PROVEN if is_clean else Verdict.UNPROVEN
        return Proven(
            verdict if window.violated_us is None else Verdict.VIOLATED,
            before.since_us if is_clean else until_us + 1,
            until_us,
            before.why if is_clean else window.why or ("a partition had two owners",),
            window.violated_us,
            window.is_final,
        )

    def certificate(self, name: str) -> Certificate | None:
        """Return what all that has been read says of a group; None if it is not judged."""
        group = self._verifier.groups.get(name)
        if group is None or not group.is_exclusive:
            return None
        return self._verifier.certificate(name, self._journal(), self._clocks)

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is missing in all that has been read."""
        return not self._doubts and not any(numbers.lost for numbers in self._numbers.values())

    def why_not_judged(self, name: str) -> str | None:
        """Return why there is no certificate of a group; None if there is one, or nothing to judge."""
        if name in self._too_large:
            return f"more than {self._bounds.of_group} members and partitions are not verified live"
        if self.left_out and name not in self._verifier.groups:
            return f"more than {self._bounds.groups} groups are not verified live"
        return None

    def _journal(self) -> Journal:
        as_of = self._arrived, self.until_us, self._floor
        if self._known is None or self._known[0] != as_of:
            self._known = as_of, self._read_journal()
        return self._known[1]

    def _read_journal(self) -> Journal:
        losses = (
            *(loss for process, numbers in sorted(self._numbers.items()) for loss in numbers.losses(process)),
            *self._gone,
        )
        doubts = tuple(Doubt(us, text) for text, us in self._doubts.items())
        ended = self._verifier.ended
        last_us = {
            process: numbers.last_us if process in ended else FAR_US
            for process, numbers in self._numbers.items()
        }
        return Journal(losses, doubts, last_us)
