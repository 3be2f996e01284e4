"""The public interface: requests and time in, answers out. Every request is answered at once.

coordinator = ConnectGroupCoordinator(ConnectGroupSettings(), log=MemoryLog(codec=CONNECT_GROUPS))
coordinator.load(now_ms)
response = coordinator.handle(request, call, now_ms)
coordinator.advance(now_ms)                         # when next_deadline_ms() has come
"""

from collections.abc import Callable
from typing import Any

from coordinator.connect_groups import (
    classic_members,
    computing,
    conversion,
    fencing,
    heartbeat,
    installing,
    preparing,
)
from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.member import MemberState
from coordinator.connect_groups.replay import replay
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import (
    ConnectComputationTimeout,
    ConnectRebalanceTimeout,
    ConnectSessionTimeout,
)
from coordinator.errors import BrokenInvariant, RequestRefused
from coordinator.handlers.refusal import refusal as classic_refusal
from coordinator.log.batches import RecordLog
from coordinator.shard import Call, Shard
from protocol_codecs import all_messages as m
from protocol_codecs import connect_groups as c
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message

Handler = Callable[[ConnectShard, Any, Call], Message]

HANDLERS: dict[type[Message], Handler] = {
    c.ConnectGroupHeartbeatRequest: heartbeat.serve,
    c.ConnectGroupPrepareAssignmentRequest: preparing.serve,
    c.ConnectGroupInstallAssignmentRequest: installing.serve,
}

CLASSIC_HANDLERS: dict[type[Message], Callable[[ConnectShard, ConnectGroup, Any, Call], Message]] = {
    m.JoinGroupRequest: classic_members.join,
    m.SyncGroupRequest: lambda shard, group, request, _call: classic_members.sync(shard, group, request),
    m.HeartbeatRequest: lambda shard, group, request, _call: classic_members.heartbeat(shard, group, request),
    m.LeaveGroupRequest: classic_members.leave,
}
"""The calls of classic workers (``JoinGroup, SyncGroup and Heartbeat need to be translated``)."""

_RESPONSES: dict[type[Message], Callable[..., Message]] = {
    api.request: api.response for api in c.CONNECT_APIS.values()
}


def refusal(request: Message, error: ErrorCode, message: str | None = None) -> Message:
    """Return the answer that contains only this error."""
    return _RESPONSES[type(request)](error_code=error, error_message=message)


class ConnectGroupCoordinator:
    """One coordinator of Connect groups, and their log."""

    def __init__(
        self,
        settings: ConnectGroupSettings,
        *,
        log: RecordLog | None = None,
        others: Shard | None = None,
    ) -> None:
        """Start empty. ``others`` are the groups of other types, whose answers and timers the caller sees to."""
        self.shard = ConnectShard(settings, log=log, others=others)

    def serves(self, request: Message) -> bool:
        """Whether it is a classic worker's call about a Connect group."""
        return type(request) in CLASSIC_HANDLERS and getattr(request, "group_id", "") in self.shard.groups

    def handle(self, request: Message, call: Call, now_ms: int) -> Message:
        """Serve a request. Raises KeyError for one of another API."""
        self.advance(now_ms)
        if type(request) in CLASSIC_HANDLERS:
            return self._handle_classic(request, call)
        handler = HANDLERS[type(request)]
        try:
            return handler(self.shard, request, call)
        except RequestRefused as refused:
            return refusal(request, refused.code, refused.message)

    def _handle_classic(self, request: Any, call: Call) -> Message:
        group = self.shard.groups.get(request.group_id)
        handler = CLASSIC_HANDLERS[type(request)]
        try:
            if group is None:  # it has become classic by a timer, just now
                raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, "the group is gone")
            return handler(self.shard, group, request, call)
        except RequestRefused as refused:
            return classic_refusal(request, call.version, refused.code)

    def advance(self, now_ms: int) -> None:
        """Run all timers that are due."""
        self.shard.now_ms = now_ms
        while (timer := self.shard.timers.pop_due(now_ms)) is not None:
            match timer:
                case ConnectSessionTimeout() | ConnectRebalanceTimeout():
                    fencing.expire(self.shard, timer.group_id, timer.member_id)
                case ConnectComputationTimeout():
                    computing.on_timeout(self.shard, timer)
                case _:
                    raise BrokenInvariant(f"{type(timer).__name__} is no timer of a Connect group")

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` must be called next; None without timers."""
        return self.shard.timers.next_deadline_ms()

    def load(self, now_ms: int) -> None:
        """Read the log, and start all sessions, and the computations that are due. Raises CorruptLog."""
        shard = self.shard
        shard.now_ms = now_ms
        conversion.resume(shard)
        for batch in shard.log.read() if shard.log is not None else ():
            for record in batch.records:
                replay(shard.groups, record)
        for group in shard.groups.values():
            for member in group.members.values():
                own = member.classic
                session_ms = shard.settings.session_timeout_ms if own is None else own.session_timeout_ms
                shard.schedule(ConnectSessionTimeout(group.group_id, member.member_id), session_ms)
                if member.state is MemberState.UNREVOKED:
                    shard.schedule(
                        ConnectRebalanceTimeout(group.group_id, member.member_id),
                        member.rebalance_timeout_ms,
                    )
            conversion.take_over(shard, group.group_id)  # it was logged twice, and the last step was lost
            computing.keep_up(shard, group.group_id)
