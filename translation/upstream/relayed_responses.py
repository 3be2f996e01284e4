"""Learns from the broker's responses to group calls that were relayed: a call counts here once the broker accepted
it. Also before which conversions JoinGroup goes out once more, as a timer of the broker may run.

Most calls that are relayed are not asked for first (:mod:`translation.admission.authorization`), because the broker
itself answers them. Its response then authorizes the connection as the answer to that question would.
"""

import math
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import EventKind, Request
from translation.engine.classic_members import ClassicMember
from translation.engine.context import Context
from translation.error_mapping import MOVED_AWAY
from translation.members import rebalance_timeout
from translation.members.environment import Environment
from translation.members.member_ids import LONGEST_MEMBER_ID
from translation.members.member_state import MemberEvent
from translation.mending.findings import assigned_by
from translation.policy.client_offer import why_not_translated
from translation.policy.policy import LONGEST_GROUP_ID, Mode

_CONSUMER = "consumer"
_OF_CLASSIC_MEMBER = frozenset({ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP})

_ACCEPTED = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})
"""Answers that the broker gives only to a principal that may act in the group."""


class RelayedResponses:
    """Learns from responses of brokers to the calls that were relayed."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._authorized_groups = context.authorized_groups
        self._classic_members = context.classic_members
        self._member_log = context.member_log
        self._ids = context.ids
        self._rules = context.rules
        self._registry = context.registry
        self._natives = context.natives
        self._unowned = context.unowned
        self._memberships = context.memberships
        self._uses = context.uses

    def observe_response(self, request: Request, response: Any) -> None:
        """Learn from the response to a relayed JoinGroup, SyncGroup or LeaveGroup, or to a heartbeat of any
        protocol."""
        connection = request.connection
        if response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            self._authorized_groups.withdraw(connection.id, request.message.group_id)
        elif response.error_code in MOVED_AWAY:
            self._member_log.withdraw_confirmations(connection.id)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS and request.api_key in _OF_CLASSIC_MEMBER:
            message = request.message
            self._classic_members.rebalance_announced(
                message.group_id, message.member_id, self._environment.now
            )
        if response.error_code not in _ACCEPTED:
            return
        self._authorized_groups.add(connection.id, request.message.group_id)
        self._uses(connection.id, request.message.group_id)
        match request.api_key:
            case ApiKey.JOIN_GROUP:
                self._joined_classic(request, response)
            case ApiKey.SYNC_GROUP:
                self._ids.has_joined_classic(request.message.member_id)
                self._assigned(request.message, response)
            case ApiKey.LEAVE_GROUP:
                self._left(request.message, response)
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self._heard_native(request.message, response)

    def _joined_classic(self, request: Request, response: JoinGroupResponse) -> None:
        """Relay the calls of a client that can't be translated and has joined a group that is to be translated.

        Those of the whole group are relayed too, unless other clients of it are translated.
        """
        message: JoinGroupRequest = request.message
        if response.error_code == ErrorCode.NONE:
            self.learn_join(request, response)
        reason = why_not_translated(message, self._rules.policy, self._rules.rule_for(message.group_id))
        if reason is None or self._rules.rule_for(message.group_id).mode is not Mode.TRANSLATE:
            return
        group = self._registry.group(message.group_id)
        if response.member_id:
            self._registry.relay(group, response.member_id, math.inf)
        if not any(member.joined for member in group.members.values()):
            group.migration.relay_until_join()

    def learn_join(self, request: Request, response: JoinGroupResponse) -> None:
        """Remember a classic member, from a JoinGroup's answer without an error; and the leader of a group that may
        have to be mended."""
        message: JoinGroupRequest = request.message
        group_id = message.group_id
        self._natives.discard(group_id, response.member_id)  # whatever it was before
        metadata = {protocol.name: protocol.metadata for protocol in message.protocols}
        protocol_name = response.protocol_name or ""
        if message.protocol_type == _CONSUMER and protocol_name in metadata:
            member = ClassicMember(
                member_id=response.member_id,
                instance_id=message.group_instance_id or None,
                client_id=request.client_id,
                client_host=request.connection.client_host,
                joined_on=request.connection.id,
                protocol_type=message.protocol_type,
                protocol_name=protocol_name,
                offered=tuple(metadata),
                metadata=bytes(metadata[protocol_name]),
                session_timeout_ms=message.session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout.of_client_ms(message),
                generation=response.generation_id,
            )
            self._classic_members.joined(group_id, member)
            if (
                response.leader
                and not self._environment.settings.sole_process
                and self._member_log.log is None
            ):
                # The JoinGroup of a classic group. A consumer group may have answered the client REBALANCE_IN_PROGRESS
                # at another process before, and the timer that this starts outlives the change to a classic group.
                self._classic_members.rebalance_announced(group_id, member.member_id, self._environment.now)
            if self._classic_members.find(group_id, response.member_id) is member:
                group = self._registry.groups.get(group_id)
                if group is not None:
                    group.asked_to_rejoin.pop(response.member_id, None)
        else:
            self._classic_members.forget(group_id, response.member_id)
        if self._may_be_mended(group_id) and len(response.leader) <= LONGEST_MEMBER_ID:
            self._unowned.learn_leader(group_id, response.leader, response.member_id)

    def _assigned(self, message: SyncGroupRequest, response: SyncGroupResponse) -> None:
        self._classic_members.synced(
            message.group_id, message.member_id, message.generation_id, bytes(response.assignment)
        )
        if self._may_be_mended(message.group_id) and len(message.member_id) <= LONGEST_MEMBER_ID:
            partitions = assigned_by(response.assignment)
            if partitions is not None:
                self._unowned.learn_assignment(message.group_id, message.member_id, partitions)

    def _may_be_mended(self, group_id: str) -> bool:
        if len(group_id) > LONGEST_GROUP_ID:
            return False
        return self._rules.rule_for(group_id).mend is True or self._unowned.mend(group_id)[0].moved_back

    def _left(self, message: LeaveGroupRequest, response: LeaveGroupResponse) -> None:
        """The broker has removed members whose ids the member log may know."""
        for member_id in (message.member_id, *(member.member_id for member in response.members)):
            self._classic_members.forget(message.group_id, member_id)
        if message.member_id:
            self._member_log.end(message.group_id, message.member_id)
        for member in response.members:
            if member.error_code == ErrorCode.NONE:
                self._member_log.end(message.group_id, member.member_id)

    def _heard_native(
        self, message: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Remember a native member by its ConsumerGroupHeartbeat, or forget it when it leaves (epoch below 0)."""
        member_id = response.member_id or message.member_id
        if message.member_epoch < 0:
            self._natives.discard(message.group_id, member_id)
            return
        self._natives.add(message.group_id, member_id)
        member = self._registry.find(message.group_id, member_id)
        if member is not None and member.adopted and member.last_join_on is None:
            # It was taken for a classic client because of the form of its id, and no classic client has joined under
            # it.
            self._memberships.end(
                member, MemberEvent.LEFT, EventKind.LEFT, "it speaks the new protocol by itself"
            )
            self._registry.drop_if_idle(member)
