"""Estimates the pauses of a move by a model of who waits for whom (docs/explanation/shadow.md).

* A client is told at its Heartbeat, gives up its partitions and joins anew: ROUND_TRIPS_S at most. What it gave up is
  free at the broker at once, and is assigned when targets are next computed, ASSIGNMENT_INTERVAL_S later at most.
* A client whose target consists only of partitions that others have waits until they hear of it at their Heartbeats.
* A partition that goes from one client to another is free when the first has heard of it, and reaches the other one at
  its next heartbeat.
* The next client is told at the first Heartbeat after ``switch_pause_ms``, whosever that is.

The model leaves out how long an application takes for its last batch: the proxy does not know.
"""

from proxy.shadow.group import ClassicGroup
from proxy.shadow.view import PauseView, SpanS

HEARTBEAT_S = 3.0
"""``heartbeat.interval.ms`` of Java's consumer and of librdkafka by default; clients do not tell it."""
ASSIGNMENT_INTERVAL_S = 1.0
"""``group.consumer.assignment.interval.ms`` since Kafka 4.3; before, 0."""
JOIN_POLL_S = 0.25
"""How often a client that waits in JoinGroup is heartbeated (``TranslatorSettings.join_poll_s``)."""
ROUND_TRIPS_S = 0.5
"""Join, sync and what the proxy asks in between."""


def pause_of(group: ClassicGroup, waits: int, switch_pause_s: float) -> PauseView:
    """Estimate the pauses of a move in which ``waits`` clients wait for others when they join."""
    members = len(group.clients)
    at_most = ROUND_TRIPS_S + ASSIGNMENT_INTERVAL_S
    if group.moves_at_once is not None:
        # All leave, within one Heartbeat; then all join, and all but the first wait for the first.
        longest = 2 * HEARTBEAT_S + at_most
        return PauseView(
            member=SpanS(low=0.0, high=longest),
            partition=SpanS(low=0.0, high=longest),
            group=SpanS(low=HEARTBEAT_S / 2, high=longest + HEARTBEAT_S),
            heartbeat_s=HEARTBEAT_S,
        )
    gaps = [switch_pause_s + HEARTBEAT_S / (left + 1) for left in range(members - 1, 0, -1)]
    return PauseView(
        member=SpanS(low=0.0, high=at_most + (HEARTBEAT_S if waits else 0.0)),
        partition=SpanS(low=0.0, high=2 * HEARTBEAT_S + at_most),
        group=SpanS(
            low=round((members - 1) * switch_pause_s, 3),
            high=round(1.5 * sum(gaps) + 2 * HEARTBEAT_S + at_most, 3),
        ),
        heartbeat_s=HEARTBEAT_S,
    )
