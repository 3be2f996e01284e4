"""Applies the broker's answer to a heartbeat to its member, and maps it to the code that a classic client understands.

The requests and responses themselves are in :mod:`translation.upstream.consumer_group_heartbeat`.
"""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from translation import error_mapping
from translation.actions import EventKind
from translation.engine.context import Context
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent, MemberState
from translation.members.procedure import Procedure
from translation.upstream.consumer_group_heartbeat import (
    UpstreamHeartbeats,
    schedule_keepalive,
)
from translation.upstream.metadata_lookup import learn_topic_names
from translation.upstream.rebalance_detection import detect_rebalance


class HeartbeatOutcomes:
    """Heartbeats for members, and maps what the broker answers."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._events = context.events
        self._topic_names = context.topic_names
        self._upstream_heartbeats = UpstreamHeartbeats(context)

    def heartbeat_upstream(self, member: Member, *, client_is_here: bool = False) -> Procedure[int]:
        """Send one heartbeat upstream and apply its answer; return the code that a classic client understands.

        FENCED_MEMBER_EPOCH is returned as it is: the broker has the member, but another process knows it better.
        ``client_is_here``: see :meth:`.UpstreamHeartbeats.keepalive_heartbeat`.
        """
        epoch = member.member_epoch
        response = yield from self._upstream_heartbeats.keepalive_heartbeat(
            member, client_is_here=client_is_here
        )
        return (yield from self.map_result(member, epoch, response))

    def map_result(
        self, member: Member, epoch: int, response: ConsumerGroupHeartbeatResponse
    ) -> Procedure[int]:
        """Apply the broker's answer to a heartbeat; return the code for the client, as :meth:`heartbeat_upstream` does.

        ``epoch`` is the member's epoch when the heartbeat was sent.
        """
        code = error_mapping.for_heartbeat(response.error_code)
        if code in error_mapping.ENDS_MEMBERSHIP:
            if member.joined:
                reason = ErrorCode(response.error_code).name
                self._memberships.end(member, MemberEvent.FENCED, EventKind.FENCED, reason)
            if response.error_code == ErrorCode.FENCED_MEMBER_EPOCH:
                return response.error_code
        elif response.error_code != ErrorCode.NONE:
            schedule_keepalive(self._environment, member)  # not now, but again after the usual time
        else:
            yield from learn_topic_names(
                self._environment, self._topic_names, member.partitions.broker_assignment
            )
            before = member.state
            detect_rebalance(self._environment, self._topic_names, self._memberships, self._events, member)
            if member.member_epoch != epoch and member.state is before is MemberState.STABLE:
                self._events.emit(EventKind.EPOCH_MOVED, member)
                self._member_log.has_moved(member)
        return code
