"""The state of share partitions, which Kafka's share coordinator keeps in ``__share_group_state`` (KIP-932).

Here it is one object for the whole process. The calls have the names of the requests between Kafka's brokers
(InitializeShareGroupState and the others), and no request carries them.
"""

from coordinator.share_state.state import (
    UNINITIALIZED_START_OFFSET,
    PartitionState,
    SharePartition,
    ShareState,
)

__all__ = ["UNINITIALIZED_START_OFFSET", "PartitionState", "SharePartition", "ShareState"]
