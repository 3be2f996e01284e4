"""The numbers of hosted groups, with the reason for each."""

import msgspec

from coordinator.config import CoordinatorConfig
from protocol_codecs.bounds import MAX_INT


class HostedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in milliseconds."""

    initial_delay_ms: int = 3_000
    """How long the first JoinGroup of an empty group waits for others (``group.initial.rebalance.delay.ms``)."""

    longest_join_ms: int = 10_000
    """How long a JoinGroup waits for a computed target, and for partitions that others have not given up yet. What
    comes later costs the member another rejoin, and it consumes nothing while it waits."""

    session_timeout_min_ms: int = 6_000
    """``group.min.session.timeout.ms``."""

    session_timeout_max_ms: int = 1_800_000
    """``group.max.session.timeout.ms``."""

    most_groups: int = 1_000
    """Groups that are hosted at a time; what is kept of clients has a bound."""

    most_members: int = 250
    """Members of a group."""

    most_bytes: int = 8 * 1024 * 1024
    """Bytes of all subscriptions of a group, which a leader is told in one answer; and of what it answers."""

    most_bytes_of_all: int = 256 * 1024 * 1024
    """Bytes of all groups together."""

    bytes_of_a_topic: int = 100
    """What a subscribed topic counts beside its name in the subscription: it is kept as a string of its own."""

    bytes_of_a_work: int = 200
    """What a connector or task counts beside its name, wherever it is kept."""


COORDINATOR_CONFIG = CoordinatorConfig(
    experimental_client_assignors=True,
    # The sessions are the classic clients', and are kept by the room.
    consumer_session_timeout_ms=MAX_INT,
    consumer_min_session_timeout_ms=MAX_INT,
    consumer_max_session_timeout_ms=MAX_INT,
)
"""The settings of the coordinator of one group."""
