"""Share partitions: records acquired, acknowledged and released, and the share sessions that do it (KIP-932).

What a broker does in Kafka as the leader of a partition. The state that survives it is in
:mod:`coordinator.share_state`, the groups' members are in :mod:`coordinator.share_groups`.
"""

from coordinator.share_partitions.acknowledgements import (
    AcknowledgementBatch,
    AcknowledgeType,
    check_acknowledgements,
)
from coordinator.share_partitions.acquired import AcquiredRecords, AcquireMode, count_of
from coordinator.share_partitions.fetched import FetchedBatch, fetched_batches, records_of
from coordinator.share_partitions.in_flight import InFlightRecords
from coordinator.share_partitions.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ClosedSession,
    SessionFetch,
    SessionPartition,
    ShareSessions,
)
from coordinator.share_partitions.settings import ShareSettings
from coordinator.share_partitions.state_write import StateWrite

__all__ = [
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "AcknowledgeType",
    "AcknowledgementBatch",
    "AcquireMode",
    "AcquiredRecords",
    "ClosedSession",
    "FetchedBatch",
    "InFlightRecords",
    "SessionFetch",
    "SessionPartition",
    "ShareSessions",
    "ShareSettings",
    "StateWrite",
    "check_acknowledgements",
    "count_of",
    "fetched_batches",
    "records_of",
]
