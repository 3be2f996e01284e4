"""Observes the members of streams groups: follows each by its StreamsGroupHeartbeats (KIP-1071).

A member has tasks: active ones, which process records, and standby and warm-up ones, which keep copies of state. The
broker waits until a member has given up a task of any role before another one gets it in that role, so all of them are
revoked as partitions of consumers are.
"""

from protocol_codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from translation.actions import MemberProtocol
from translation.passthrough.heartbeat_observer import HeartbeatObserver
from translation.passthrough.observed_partitions import Owned, in_tasks


class StreamsObserver(HeartbeatObserver):
    """Applies StreamsGroupHeartbeats."""

    protocol = MemberProtocol.STREAMS
    api_name = "StreamsGroupHeartbeat"

    def _reported(self, message: StreamsGroupHeartbeatRequest) -> Owned | None:
        return _tasks(message)

    def _assigned(self, response: StreamsGroupHeartbeatResponse) -> Owned | None:
        return _tasks(response)

    def _subscribed(self, message: StreamsGroupHeartbeatRequest, member_id: str) -> None:
        """Tasks need no names of topics."""


def _tasks(message: StreamsGroupHeartbeatRequest | StreamsGroupHeartbeatResponse) -> Owned | None:
    """Return the tasks of all roles; None if nothing has changed. A message names either all roles or none."""
    if message.active_tasks is None:
        return None
    return in_tasks(message.active_tasks, message.standby_tasks or (), message.warmup_tasks or ())
