"""A member's acknowledgements, applied to what it has acquired."""

from collections.abc import Sequence

from coordinator.errors import RequestRefused
from coordinator.share_partitions.acknowledgements import AcknowledgementBatch, AcknowledgeType
from coordinator.share_partitions.in_flight_batch import InFlightBatch
from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState
from coordinator.share_partitions.settings import ShareSettings
from coordinator.share_partitions.transition import Transition
from coordinator.share_partitions.window import InFlightWindow
from protocol_codecs.error_code import ErrorCode

_BECOMES = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class Acknowledging:
    """Applies acknowledgements of one member at one time. What it raises leaves a transition to be rolled back."""

    def __init__(
        self,
        window: InFlightWindow,
        settings: ShareSettings,
        transition: Transition,
        member_id: str,
        now_ms: int,
    ) -> None:
        self._window = window
        self._can_renew = settings.renew_enabled
        self._deadline_ms = now_ms + settings.record_lock_duration_ms
        self._transition = transition
        self._member_id = member_id

    def apply(self, acknowledged: AcknowledgementBatch) -> None:
        """Apply one of them. Raises RequestRefused; see :meth:`InFlightRecords.acknowledge`."""
        try:
            kinds = [AcknowledgeType(kind) for kind in acknowledged.types]
        except ValueError as error:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{error}") from error
        if acknowledged.last_offset < self._window.start_offset:
            return
        for batch in self._in_flight(acknowledged):
            if batch.last_offset >= self._window.start_offset:
                self._apply_to(batch, acknowledged, kinds)

    def _in_flight(self, acknowledged: AcknowledgementBatch) -> Sequence[InFlightBatch]:
        first, last = acknowledged.first_offset, acknowledged.last_offset
        window = self._window
        floor = window.batches.floor(first)
        if floor is None and first < window.start_offset:
            floor = window.batches.floor(window.start_offset)
        if floor is None:
            raise _not_acquired(first)
        found = window.batches.between(floor.first_offset, last)
        if found[-1].last_offset < last:
            raise RequestRefused(
                ErrorCode.INVALID_REQUEST,
                f"nothing was ever acquired from offset {found[-1].last_offset + 1} on",
            )
        return found

    def _apply_to(
        self, batch: InFlightBatch, acknowledged: AcknowledgementBatch, kinds: Sequence[AcknowledgeType]
    ) -> None:
        if batch.offsets is None:
            self._check(batch.first_offset, batch.shared)
        first, last = acknowledged.first_offset, acknowledged.last_offset
        is_whole = (
            batch.offsets is None
            and batch.lies_in(first, last)
            and len(kinds) == 1
            and not batch.contains_after_first(self._window.start_offset)
        )
        if is_whole:
            self._move(batch.first_offset, batch.last_offset, batch.shared, kinds[0])
            return
        for offset, state in batch.split().items():
            if max(first, self._window.start_offset) <= offset <= last:
                self._check(offset, state)
                self._move(offset, offset, state, kinds[offset - first if len(kinds) > 1 else 0])

    def _check(self, offset: int, state: InFlightState) -> None:
        if state.state is not RecordState.ACQUIRED:
            raise _not_acquired(offset)
        if state.member_id != self._member_id:
            raise RequestRefused(
                ErrorCode.INVALID_RECORD_STATE, f"another member has acquired offset {offset}"
            )

    def _move(self, first: int, last: int, state: InFlightState, kind: AcknowledgeType) -> None:
        if kind is not AcknowledgeType.RENEW:
            self._transition.begin(first, last, state, _BECOMES[kind])
        elif self._can_renew:
            state.deadline_ms = self._deadline_ms
        else:
            raise RequestRefused(ErrorCode.INVALID_RECORD_STATE, "the group does not renew locks")


def _not_acquired(offset: int) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_RECORD_STATE, f"offset {offset} is not acquired")
