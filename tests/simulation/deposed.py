"""A coordinator that has been deposed and goes on answering for a while, from the state that it had.

It may not have heard of its successor (it is cut off from the controller), or have heard of it and not unloaded the
group yet. What Kafka's ``CoordinatorRuntime`` does meanwhile on the connections that clients have to it:

* A read (ConsumerGroupDescribe, DescribeGroups, OffsetFetch) is answered from what was committed last.
* A heartbeat, of either protocol, is an operation that may write. If it has nothing to write it is answered from
  memory, with an error too: whoever is not in the group's old state is told UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH.
* What has to be written is never acknowledged. A leader that knows it is none refuses at once: NOT_COORDINATOR. One
  that does not know appends it, and nobody replicates that: the answer waits, and with it that of every later
  heartbeat, although it writes nothing, because it may have seen what is not committed.

``offsets.commit.timeout.ms`` (5 s) bounds that wait, and this coordinator here is gone sooner or not much later. Then
what waits is answered NOT_COORDINATOR, and its connections end. JoinGroup, SyncGroup, LeaveGroup and commits count as
what has to be written; a classic group's JoinGroup and LeaveGroup would be served from memory alone, and lost.

Its timers do nothing: what they end has to be written.
"""

import copy
from collections.abc import Sequence
from typing import Any

from coordinator.group_coordinator import HANDLERS, GroupCoordinator
from coordinator.shard import Call
from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.wire import Ask

_READS = frozenset({ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH})
_MAY_WRITE_NOTHING = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.HEARTBEAT})


class Deposed:
    """The old state, and who asks for it. ``knows`` is whether this coordinator has heard that it is deposed."""

    def __init__(self, coordinator: GroupCoordinator, *, knows: bool) -> None:
        self._coordinator = _copy_of(coordinator)
        self._knows = knows
        self._has_pending_writes = False

    def serve(self, ask: Ask, now_ms: int) -> Any:
        """Return the answer, NOT_COORDINATOR if it is refused, or None if it waits for what is never committed."""
        if ask.api_key in _READS:
            return self._try(ask, now_ms)
        if ask.api_key in _MAY_WRITE_NOTHING:
            response = self._try(ask, now_ms)
            if response is not None and (response.error_code or not self._has_pending_writes):
                return response
        if self._knows:
            return ErrorCode.NOT_COORDINATOR
        self._has_pending_writes = True
        return None

    def _try(self, ask: Ask, now_ms: int) -> Any:
        """Return the answer to a request, None if something has to be written for it; the state stays as it is."""
        shard = _copy_of(self._coordinator).shard
        shard.now_ms = now_ms
        response = HANDLERS[type(ask.message)](
            shard, ask.message, Call(0, ask.version, ask.client_id, "/proxy")
        )
        assert isinstance(shard.log, _Unwritable)
        return None if shard.log.was_written else response


class _Unwritable:
    """A log that only remembers that something was to be appended to it."""

    def __init__(self) -> None:
        self.was_written = False

    def append(self, records: Sequence[Any], now_ms: int, producer_id: int = -1) -> None:
        self.was_written = True


def _copy_of(coordinator: GroupCoordinator) -> GroupCoordinator:
    """Return a copy that shares nothing but the configuration, and that writes nothing."""
    shard = coordinator.shard
    return copy.deepcopy(coordinator, {id(shard.log): _Unwritable(), id(shard.config): shard.config})
