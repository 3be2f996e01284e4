"""Refuses those who may not join a group: the policy rejects it (``reject``), or names another ``type`` of group.

A stray client would otherwise decide the type of a group that has no members yet, and since Kafka 4.2 a JoinGroup
deletes a streams group that has none at the moment
(``GroupMetadataManager.classicGroupJoin``). The answers are those of a broker that has a group of the other type. Its
sender has to be one who may act in the group (:mod:`translation.admission.authorization`): to others the broker's own
refusal goes, as without a proxy.
"""

from functools import partial
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from protocol_codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from translation.actions import EventKind, Request
from translation.admission import authorization
from translation.engine.connections import ClientConnections
from translation.engine.context import Context
from translation.engine.events import Events
from translation.engine.join_outcomes import refused
from translation.policy.group_type import JOINED_BY
from translation.policy.policy import Mode, Rule

_JOINS = 0
"""The member epoch of a heartbeat that joins."""

HEARTBEAT_RESPONSES: dict[int, type[Any]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatResponse,
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatResponse,
    ApiKey.STREAMS_GROUP_HEARTBEAT: StreamsGroupHeartbeatResponse,
}


def route_member_heartbeat(context: Context, request: Request, *, authorized: bool = False) -> None:
    """Route a heartbeat of a member that speaks to the broker itself: relay it unless it joins and may not."""
    message: Any = request.message
    rule = context.rules.rule_for(message.group_id)
    if message.member_epoch != _JOINS or not message.group_id or rule.refusal(request.api_key) is None:
        context.connections.forward(request)
        return
    proceed = partial(route_member_heartbeat, context, request, authorized=True)
    if authorized or authorization.is_authorized(context, request, None, proceed):
        refuse(context.events, context.connections, request, rule)


def refuse(events: Events, connections: ClientConnections, request: Request, rule: Rule) -> None:
    """Answer a call that joins a group which this rule does not let it join, and emit why."""
    group_id: str = request.message.group_id
    code = rule.refusal(request.api_key) or ErrorCode.NONE
    if rule.mode is Mode.REJECT:
        reason, text = "the policy rejects this group", None
    else:
        reason = f"the policy says that this is a {rule.type} group"
        text = f"Group {group_id} is not a {JOINED_BY[request.api_key]} group."
    events.emit_group(EventKind.CALL_REFUSED, group_id, request, reason)
    if request.api_key == ApiKey.JOIN_GROUP:
        connections.answer(request, refused(request, code))
    else:
        connections.answer(request, HEARTBEAT_RESPONSES[request.api_key](error_code=code, error_message=text))
