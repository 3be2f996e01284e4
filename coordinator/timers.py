"""The coordinator's timers: plain data with deadlines; the caller that knows the time fires them.

A timer names what is due; the coordinator dispatches on its type. Scheduling a timer replaces another one of the same
slot, as in Kafka.
"""

import heapq

import msgspec

from protocol_codecs.uuids import Uuid


class Timer(msgspec.Struct, frozen=True, tag=True):
    """An action on a group, or on a member of it, that is due at a deadline."""

    group_id: str
    member_id: str = ""

    @property
    def slot(self) -> tuple[str, str, str]:
        """Return the slot; timers of the same slot replace each other."""
        return self.slot_name, self.group_id, self.member_id

    @property
    def slot_name(self) -> str:
        """Return the timer's name within its slot; a class may use another class's."""
        return type(self).__name__


class SessionTimeout(Timer, frozen=True, tag=True):
    """A member of a consumer group sent nothing for its session timeout."""


class RebalanceTimeout(Timer, frozen=True, tag=True, kw_only=True):
    """A member of a consumer group did not revoke its partitions in time, if it still has this epoch."""

    member_epoch: int


class ComputationTimeout(Timer, frozen=True, tag=True, kw_only=True):
    """The member that is to compute a consumer group's assignment did not install one in time.

    One for each group; ``computing_member`` is the member, ``attempt`` the number of the computation.
    """

    computing_member: str
    attempt: int


class JoinTimeout(Timer, frozen=True, tag=True):
    """A classic member of a consumer group did not rejoin in time."""


class SyncTimeout(Timer, frozen=True, tag=True):
    """A classic member of a consumer group joined, but did not send SyncGroup in time."""


class RegexResolution(Timer, frozen=True, tag=True, kw_only=True):
    """The regular expressions of a consumer group have to be resolved; Kafka does it in the background."""

    regexes: tuple[str, ...]


class ShareSessionTimeout(Timer, frozen=True, tag=True):
    """A member of a share group sent nothing for its session timeout."""


class ShareStateInitialization(Timer, frozen=True, tag=True, kw_only=True):
    """Partitions of a share group have to be initialized, by topic id, number and start offset; at once."""

    group_epoch: int
    partitions: tuple[tuple[Uuid, int, int], ...]


class ClassicHeartbeat(Timer, frozen=True, tag=True):
    """A member of a classic group sent nothing for its session timeout."""


class ClassicJoin(Timer, frozen=True, tag=True):
    """Not all members of a classic group rejoined in time."""


class InitialRebalance(Timer, frozen=True, tag=True, kw_only=True):
    """The initial rebalance delay of a new classic group has passed."""

    delay_ms: int
    remaining_ms: int

    @property
    def slot_name(self) -> str:
        """Share the slot of ClassicJoin: both end the join phase."""
        return ClassicJoin.__name__


class ClassicSync(Timer, frozen=True, tag=True, kw_only=True):
    """Not all members of a classic group sent SyncGroup in time."""

    generation: int


class OffsetExpiration(Timer, frozen=True, tag=True):
    """Expired offsets, and empty groups without offsets, have to be removed; for all groups."""


Slot = tuple[str, str, str]


class Timers:
    """All timers of a coordinator, by deadline; equal deadlines in the order of scheduling."""

    __slots__ = ("_heap", "_scheduled", "_sequence")

    def __init__(self) -> None:
        self._scheduled: dict[Slot, tuple[int, int, Timer]] = {}
        self._heap: list[tuple[int, int, Slot]] = []
        self._sequence = 0

    def schedule(self, timer: Timer, deadline_ms: int) -> None:
        """Schedule this timer for ``deadline_ms``, replacing any other of its slot."""
        self._sequence += 1
        slot = timer.slot
        self._scheduled[slot] = deadline_ms, self._sequence, timer
        heapq.heappush(self._heap, (deadline_ms, self._sequence, slot))
        if len(self._heap) > 2 * len(self._scheduled) + 64:
            self._heap = [(at, number, s) for s, (at, number, _) in self._scheduled.items()]
            heapq.heapify(self._heap)

    def schedule_if_absent(self, timer: Timer, deadline_ms: int) -> None:
        """Schedule this timer, unless its slot is taken."""
        if timer.slot not in self._scheduled:
            self.schedule(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        """Cancel the timer of this one's slot, if there is one."""
        self._scheduled.pop(timer.slot, None)

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer fires; None if there is none."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """Remove and return the next timer whose deadline has come."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, slot = heapq.heappop(self._heap)
        return self._scheduled.pop(slot)[2]

    def snapshot(self) -> tuple[tuple[int, Timer], ...]:
        """Return every timer with its deadline, in the order in which they fire."""
        return tuple((at, timer) for at, _, timer in sorted(self._scheduled.values(), key=lambda s: s[:2]))

    def _drop_stale(self) -> None:
        while self._heap:
            deadline, sequence, slot = self._heap[0]
            current = self._scheduled.get(slot)
            if current is not None and current[:2] == (deadline, sequence):
                return
            heapq.heappop(self._heap)
