"""The coordinator's timers: plain data with deadlines, fired by whoever knows the time.

A timer says what is to happen, never how: the coordinator looks at its type. Scheduling a timer with the slot of
another replaces it, as in Kafka.
"""

import heapq

import msgspec


class Timer(msgspec.Struct, frozen=True, tag=True):
    """Something that happens to a group, or to a member of it, when its deadline comes."""

    group_id: str
    member_id: str = ""

    @property
    def slot(self) -> tuple[str, str, str]:
        """Timers of the same slot replace each other."""
        return self.slot_name, self.group_id, self.member_id

    @property
    def slot_name(self) -> str:
        """Which of its timers this is; a class may take another one's place."""
        return type(self).__name__


class SessionTimeout(Timer, frozen=True, tag=True):
    """A member of a consumer group was not heard of for its session timeout."""


class RebalanceTimeout(Timer, frozen=True, tag=True, kw_only=True):
    """A member of a consumer group did not give up its partitions in time, if it still has this epoch."""

    member_epoch: int


class JoinTimeout(Timer, frozen=True, tag=True):
    """A classic member of a consumer group did not join again in time."""


class SyncTimeout(Timer, frozen=True, tag=True):
    """A classic member of a consumer group joined, but did not fetch its assignment in time."""


class RegexResolution(Timer, frozen=True, tag=True, kw_only=True):
    """The regular expressions of a consumer group are to be resolved; Kafka does it in the background."""

    regexes: tuple[str, ...]


class ClassicHeartbeat(Timer, frozen=True, tag=True):
    """A member of a classic group was not heard of for its session timeout."""


class ClassicJoin(Timer, frozen=True, tag=True):
    """Not all members of a classic group joined again in time."""


class InitialRebalance(Timer, frozen=True, tag=True, kw_only=True):
    """A new classic group has waited for more members."""

    delay_ms: int
    remaining_ms: int

    @property
    def slot_name(self) -> str:
        """The place of ClassicJoin: both end the join phase."""
        return ClassicJoin.__name__


class ClassicSync(Timer, frozen=True, tag=True, kw_only=True):
    """Not all members of a classic group asked for their assignment in time."""

    generation: int


class OffsetExpiration(Timer, frozen=True, tag=True):
    """Expired offsets, and empty groups without offsets, are to be removed; concerns all groups."""


Slot = tuple[str, str, str]


class Timers:
    """All timers of a coordinator, in the order of their deadlines; equal deadlines in the order of scheduling."""

    __slots__ = ("_heap", "_scheduled", "_sequence")

    def __init__(self) -> None:
        self._scheduled: dict[Slot, tuple[int, int, Timer]] = {}
        self._heap: list[tuple[int, int, Slot]] = []
        self._sequence = 0

    def schedule(self, timer: Timer, deadline_ms: int) -> None:
        """Let this timer fire at ``deadline_ms``, in place of any other of its slot."""
        self._sequence += 1
        slot = timer.slot
        self._scheduled[slot] = deadline_ms, self._sequence, timer
        heapq.heappush(self._heap, (deadline_ms, self._sequence, slot))
        if len(self._heap) > 2 * len(self._scheduled) + 64:
            self._heap = [(at, number, s) for s, (at, number, _) in self._scheduled.items()]
            heapq.heapify(self._heap)

    def schedule_if_absent(self, timer: Timer, deadline_ms: int) -> None:
        """The same, unless its slot is taken."""
        if timer.slot not in self._scheduled:
            self.schedule(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Let the timer of this one's slot not fire, if there is one."""
        self._scheduled.pop(timer.slot, None)

    def next_deadline_ms(self) -> int | None:
        """When the next timer fires; None if there is none."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """Take the next timer whose deadline has come."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, slot = heapq.heappop(self._heap)
        return self._scheduled.pop(slot)[2]

    def snapshot(self) -> tuple[tuple[int, Timer], ...]:
        """Every timer with its deadline, in the order in which they fire."""
        return tuple((at, timer) for at, _, timer in sorted(self._scheduled.values(), key=lambda s: s[:2]))

    def _drop_stale(self) -> None:
        while self._heap:
            deadline, sequence, slot = self._heap[0]
            current = self._scheduled.get(slot)
            if current is not None and current[:2] == (deadline, sequence):
                return
            heapq.heappop(self._heap)
