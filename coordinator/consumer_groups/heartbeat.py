"""Serves a heartbeat of a new-protocol member: declare, assign, reconcile (KIP-848, "Heartbeat Handling")."""

from coordinator.consumer_groups import admission, assigning, regular_expressions, stepping, subscription
from coordinator.consumer_groups.client_side import answering, choice, computing, declaring
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.consumer_groups.regular_expressions import RegexChange
from coordinator.partitions import heartbeat_assignment
from coordinator.shard import Call, Shard
from coordinator.timers import SessionTimeout
from protocol_codecs.all_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol_codecs.uuids import uuid_to_text

_NOT_SET = -1


def heartbeat(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse:
    """Serve a heartbeat with an epoch of 0 or more. Raises RequestRefused."""
    joins = request.member_epoch == admission.JOIN_EPOCH
    draft = admission.open_group(shard, request.group_id, create=joins)
    admission.check_size(draft, request.member_id, request.instance_id)
    member_id = request.member_id or uuid_to_text(shard.uuids.next())
    owned = request.topic_partitions
    if request.instance_id is None:
        member = admission.dynamic_member(draft, member_id, create=joins)
        admission.check_epoch(member, request.member_epoch, owned)
    else:
        member = admission.static_member(
            draft, member_id, request.instance_id, create=joins, uses_classic_protocol=False
        )
        if not joins:
            admission.check_epoch(member, request.member_epoch, owned)

    # 1. The member's declarations; a changed subscription, or another assignor of the group, bumps the group epoch.
    declared = member.replace(
        **_declared(request), client_id=call.client_id, client_host=call.client_host, classic=None
    )
    declared = _with_client_assignors(draft, request, member, declared)
    names_changed = subscription.record_subscription(draft, member, declared)
    regex_change = regular_expressions.record_regex(draft, member, declared)
    bump = (
        names_changed
        or regex_change is RegexChange.UPDATED_AND_RESOLVED
        or assigning.assignor_changes(draft, member, declared)
        or declaring.asks_for_assignment(member, declared)
    )
    version = subscription.current_version(draft)
    if bump or draft.group.metadata_expired(shard.now_ms):
        version = subscription.version_after(draft, member, declared, bump=bump)

    # 2. The target assignment, if the group epoch is ahead of it.
    target = assigning.target_for(draft, version, member, declared)

    # 3. One step of this member towards it.
    updated = stepping.step(
        draft,
        declared,
        target,
        subscription_changed=names_changed or regex_change is not RegexChange.NONE,
        owned=owned,
    )
    shard.schedule(SessionTimeout(request.group_id, member_id), shard.session_timeout_ms(request.group_id))
    shard.apply(draft.records)
    news = joins or _is_full(request) or updated.assigned != member.assigned
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=shard.heartbeat_interval_ms(request.group_id),
        assignment=heartbeat_assignment(updated.assigned) if news else None,
    )
    if not shard.config.experimental_client_assignors:
        return response
    computing.keep_up(shard, request.group_id)
    if not updated.client_assignors:
        return response
    news = news or updated.member_epoch != member.member_epoch or updated.state is not member.state
    return answering.with_client_assignors(draft, response, updated, target, has_news=news)


def _with_client_assignors(
    draft: Draft,
    request: ConsumerGroupHeartbeatRequest,
    member: ConsumerGroupMember,
    declared: ConsumerGroupMember,
) -> ConsumerGroupMember:
    """Return the member with its client-side assignors (an experiment). Raises RequestRefused."""
    if not draft.shard.config.experimental_client_assignors:
        return declared
    declared = declared.replace(client_assignors=declaring.declared_by(request, member))
    if declared.client_assignors:
        declared = declared.replace(server_assignor=None)
    if declared.client_assignors != member.client_assignors:
        declaring.check_against(declared, choice.members_after(draft.group, declared)[:-1])
    return declared


def _declared(request: ConsumerGroupHeartbeatRequest) -> dict[str, object]:
    """Return the fields that the request sets; the member keeps its values of the others."""
    names = request.subscribed_topic_names
    fields: dict[str, object | None] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None
        if request.rebalance_timeout_ms == _NOT_SET
        else request.rebalance_timeout_ms,
        "server_assignor": request.server_assignor,
        "subscribed_topic_names": None if names is None else tuple(sorted(set(names))),
        "subscribed_topic_regex": request.subscribed_topic_regex,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as after a lost answer; the response then has the assignment."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != _NOT_SET and subscribes and request.topic_partitions is not None
