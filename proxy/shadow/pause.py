"""Estimates the pauses of a move by a model of who waits for whom (docs/explanation/shadow.md).

* A client that moves gives up its partitions and joins anew: ROUND_TRIPS_S at most. What it gave up is free at the
  broker at once, and is assigned when targets are next computed, ASSIGNMENT_INTERVAL_S later at most.
* A client whose target consists only of partitions that others have waits until these hear of it at their Heartbeats.
* Where members are left empty, one that has moved may get nothing until others have moved too: it waits in JoinGroup
  for JOIN_WAIT_S at most, and may be without partitions for the whole move.
* A partition that goes from one client to another is free when the first has heard of it, and reaches the other one at
  its next heartbeat.
* Eager clients move when they rejoin, within a heartbeat interval. Cooperative ones are told one after another, and
  since they all rejoin together at each move, hardly ever more than one in a heartbeat interval.

The model leaves out how long an application takes for its last batch: the proxy does not know.
"""

from collections.abc import Sequence

from proxy.shadow.group import ClassicGroup
from proxy.shadow.view import PauseView, SpanS

HEARTBEAT_S = 3.0
"""``heartbeat.interval.ms`` of Java's consumer and of librdkafka by default; clients do not tell it."""
ASSIGNMENT_INTERVAL_S = 1.0
"""``group.consumer.assignment.interval.ms`` since Kafka 4.3; before, 0."""
JOIN_POLL_S = 0.25
"""How often a client that waits in JoinGroup is heartbeated (``TranslatorSettings.join_poll_s``)."""
JOIN_WAIT_S = 10.0
"""How long a client without an assignment waits in JoinGroup at most (``TranslatorSettings.join_wait_s``)."""
ROUND_TRIPS_S = 0.5
"""Join, sync and what the proxy asks in between."""


def pause_of(
    group: ClassicGroup, waits: int, took_s: Sequence[float], switch_pause_s: float, *, leaves_empty: bool
) -> PauseView:
    """Estimate the pauses of a move.

    ``waits`` clients wait for others when they join; ``took_s`` are the seconds in which the clients of some runs have
    moved; ``leaves_empty``: some members have no partitions before or after it.
    """
    settles = ROUND_TRIPS_S + ASSIGNMENT_INTERVAL_S
    member = settles + (HEARTBEAT_S if waits else 0.0)
    whole = 1.25 * max(took_s) + 2 * HEARTBEAT_S + settles
    if group.moves_at_once is not None:
        # All leave, within one Heartbeat; then all join, and all but the first wait for the first.
        member = 2 * HEARTBEAT_S + settles
        whole = member + HEARTBEAT_S
    elif group.cooperative:
        in_turn = (len(group.clients) - 1) * max(HEARTBEAT_S, switch_pause_s)
        whole = max(whole, in_turn + HEARTBEAT_S + settles)
    if leaves_empty:
        whole += JOIN_WAIT_S
        member = whole
    return PauseView(
        member=SpanS(low=0.0, high=round(member, 1)),
        partition=SpanS(low=0.0, high=round(max(member, 2 * HEARTBEAT_S + settles), 1)),
        group=SpanS(low=round(min(took_s), 1), high=round(whole, 1)),
        heartbeat_s=HEARTBEAT_S,
    )
