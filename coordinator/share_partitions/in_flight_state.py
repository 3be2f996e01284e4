"""The state of one record, or of a batch of records that share it."""

from typing import NamedTuple

from coordinator.errors import BrokenInvariant
from coordinator.share_partitions.record_state import RecordState


class _Before(NamedTuple):
    """What a transition is rolled back to."""

    state: RecordState
    member_id: str | None
    delivery_count_limit: int


class InFlightState:
    """A record's state, who acquired it until when, and how often it was delivered.

    A transition that has to be persisted is *begun*: the new state shows at once, but nothing else can happen to the
    record until the transition is committed or rolled back.
    """

    __slots__ = ("_before", "_is_gone", "deadline_ms", "delivery_count", "member_id", "state")

    def __init__(
        self,
        state: RecordState,
        delivery_count: int,
        member_id: str | None = None,
        deadline_ms: int | None = None,
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        """When the acquisition lock ends; None while there is none."""
        self._before: _Before | None = None
        self._is_gone = False

    @property
    def is_in_transition(self) -> bool:
        """Whether a transition is begun and not finished."""
        return self._before is not None

    @property
    def is_available(self) -> bool:
        """Whether the record can be acquired."""
        return self.state is RecordState.AVAILABLE and self._before is None

    @property
    def is_done(self) -> bool:
        """Whether the record is in a terminal state for good."""
        return self.state.is_terminal and self._before is None

    def has_expired(self, now_ms: int) -> bool:
        """Whether a lock has ended that nobody has acknowledged."""
        return (
            self.state is RecordState.ACQUIRED
            and self._before is None
            and self.deadline_ms is not None
            and self.deadline_ms <= now_ms
        )

    def copy(self) -> "InFlightState":
        """Return the same state for one record of a batch. A transition stays with the original."""
        return InFlightState(self.state, self.delivery_count, self.member_id, self.deadline_ms)

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        """Lock what is available; this is one more delivery."""
        if not self.is_available:
            raise BrokenInvariant(f"a record is acquired that is {self.state.name}")
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def begin(self, to: RecordState, delivery_count_limit: int) -> None:
        """Begin the transition of what is acquired; to ARCHIVED instead of AVAILABLE at the delivery count limit."""
        before = _Before(self.state, self.member_id, delivery_count_limit)
        self._leave_acquired(to, delivery_count_limit)
        self._before = before

    def release(self, to: RecordState, delivery_count_limit: int) -> None:
        """Make the transition of what is acquired at once, when its lock has ended."""
        self._leave_acquired(to, delivery_count_limit)
        self.deadline_ms = None

    def commit(self) -> None:
        """Finish the transition; the lock ends."""
        self.deadline_ms = None
        self._before = None

    def roll_back(self, now_ms: int) -> None:
        """Undo the transition. If the lock has ended meanwhile, the record is released instead."""
        before = self._before
        if self._is_gone or before is None:
            self.commit()
            return
        self._before = None
        if self.deadline_ms is not None and self.deadline_ms <= now_ms:
            is_last = self.delivery_count >= before.delivery_count_limit
            self.state = RecordState.ARCHIVED if is_last else RecordState.AVAILABLE
            self.member_id = None
            self.deadline_ms = None
        else:
            self.state = before.state
            self.member_id = before.member_id

    def archive(self) -> None:
        """Archive whatever the state is, for good: a transition that is rolled back later does not undo it."""
        self.state = RecordState.ARCHIVED
        self.member_id = None
        self.deadline_ms = None
        self._is_gone = True

    def _leave_acquired(self, to: RecordState, delivery_count_limit: int) -> None:
        if self.state is not RecordState.ACQUIRED or self._before is not None:
            raise BrokenInvariant(f"a record becomes {to.name} that is {self.state.name}")
        if to is RecordState.AVAILABLE and self.delivery_count >= delivery_count_limit:
            to = RecordState.ARCHIVED
        self.state = to
        self.member_id = None
