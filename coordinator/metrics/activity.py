"""What a coordinator has done, counted at the places where Kafka records its sensors."""

import msgspec


class Activity(msgspec.Struct):
    """Counts since they were last taken. They say nothing about the state, and nothing depends on them."""

    consumer_group_rebalances: int = 0
    """Group epochs that moved for a subscription, an assignor or a topic. As in Kafka, a member that leaves or is
    removed moves the epoch too and is not counted."""
    share_group_rebalances: int = 0
    """Group epochs of share groups that moved at a heartbeat."""
    completed_rebalances: int = 0
    """Classic groups that became stable."""
    offset_commits: int = 0
    """Offsets that were stored, also for a transaction that has not ended."""
    offset_expirations: int = 0
    offset_deletions: int = 0
    """Offsets that OffsetDelete removed, not those of a deleted group or topic."""
    client_side_installs: int = 0
    """Assignments that members computed and that became targets (an experiment, as the next two)."""
    client_side_refusals: int = 0
    """Assignments that members computed and that are none."""
    client_side_timeouts: int = 0
    """Members that did not install an assignment in time."""
