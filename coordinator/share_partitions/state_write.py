"""What has to be persisted of a share partition: the arguments of the share coordinator's write."""

import msgspec

from coordinator.share_partitions.in_flight_state import InFlightState
from protocol_codecs.records import ShareStateBatch


class StateWrite(msgspec.Struct, frozen=True, eq=False):
    """One write of state.

    It goes to :meth:`coordinator.share_state.ShareState.write`, and its outcome to
    :meth:`~coordinator.share_partitions.in_flight.InFlightRecords.written` or
    :meth:`~coordinator.share_partitions.in_flight.InFlightRecords.write_failed`. Until then the records are in
    transition: nobody can acquire or acknowledge them.
    """

    start_offset: int
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]
    in_transition: tuple[InFlightState, ...] = ()
    """The records' states, one for each batch. Empty if nothing is to be undone, whatever becomes of the write."""
