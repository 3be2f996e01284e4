"""Members of a consumer group that speak the classic protocol, during a migration.

The group has no common rebalance: each such member goes through JoinGroup and SyncGroup on its own. JoinGroup acts as
its heartbeat with subscription and owned partitions, SyncGroup returns its assignment, and a Heartbeat is answered
REBALANCE_IN_PROGRESS when the member has to do both again. Its generation is its member epoch.
"""

from coordinator.config import MigrationPolicy
from coordinator.consumer_groups import admission, assigning, regular_expressions, stepping, subscription
from coordinator.consumer_groups.conversion import Replacement, downgrade, may_downgrade_by_replacing
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.embedded import embedded_assignment, embedded_version, owned_topics
from coordinator.consumer_groups.fencing import fence
from coordinator.consumer_groups.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.consumer_groups.reconciliation import Target
from coordinator.consumer_groups.regular_expressions import RegexChange
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.timers import JoinTimeout, SessionTimeout, SyncTimeout
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
    lacks_owned_partitions,
)
from protocol_codecs.records import ConsumerGroupClassicMemberMetadata, ConsumerGroupClassicProtocol
from protocol_codecs.uuids import uuid_to_text

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4


def join(shard: Shard, group: ConsumerGroup, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    """Serve a JoinGroup. Raises RequestRefused."""
    if shard.config.consumer_migration_policy is MigrationPolicy.DISABLED:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "group migration is disabled")
    draft = Draft(shard, group)
    instance_id = request.group_instance_id
    is_unknown = not request.member_id
    member_id = request.member_id or uuid_to_text(shard.uuids.next())
    admission.check_size(draft, member_id, instance_id)
    if not group.supports_protocols(request.protocol_type, [p.name for p in request.protocols]):
        raise RequestRefused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no assignor that all classic members offer"
        )
    if is_unknown and instance_id is None and call.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
        return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
    if instance_id is None:
        member = admission.dynamic_member(draft, member_id, create=True)
    else:
        member = admission.static_member(
            draft, member_id, instance_id, create=is_unknown, uses_classic_protocol=True
        )
    replaced = group.static_member(instance_id)
    downgrades = replaced is not None and may_downgrade_by_replacing(shard, group, replaced)

    # 1. The member's declarations.
    subscribed = _subscription(request)
    declared = _declared(member, request, subscribed, call)
    names_changed = subscription.record_subscription(draft, member, declared)
    regex_change = regular_expressions.record_regex(draft, member, declared)
    bump = names_changed or regex_change is not RegexChange.NONE
    version = subscription.current_version(draft)
    if bump or group.metadata_expired(shard.now_ms):
        version = subscription.version_after(draft, member, declared, bump=bump)
    owned = owned_topics(subscribed.owned_partitions, shard.image)

    # 2. and 3. Its target and its next step, unless the group becomes a classic one with a new assignment to come.
    rebalances = group.assignment_epoch < version.epoch
    if not downgrades:
        target = assigning.target_for(draft, version, member, declared)
        declared = stepping.step(draft, declared, target, subscription_changed=bump, owned=owned)
    elif not rebalances:
        target = Target(group.assignment_epoch, group.target_of(declared), group.details_of(declared))
        declared = stepping.step(draft, declared, target, subscription_changed=bump, owned=owned)

    shard.timers.cancel(JoinTimeout(group.group_id, declared.member_id))
    if downgrades and replaced is not None:
        replacement = Replacement(replaced, declared)
        downgrade(shard, group, replacement=replacement, before=draft.records, rebalances=rebalances)
    else:
        shard.apply(draft.records)
        shard.schedule(SessionTimeout(group.group_id, declared.member_id), request.session_timeout_ms)
        shard.schedule(SyncTimeout(group.group_id, declared.member_id), request.rebalance_timeout_ms)
    return JoinGroupResponse(
        member_id=declared.member_id,
        generation_id=declared.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=declared.classic_protocols[0].name,
    )


def sync(shard: Shard, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    """Serve a SyncGroup: return the assignment in the member's own embedded version. Raises RequestRefused."""
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    _check_protocol(member, request.protocol_type, request.protocol_name)
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(shard, group, member)
        raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer target assignment")
    shard.timers.cancel(SyncTimeout(group.group_id, member.member_id))
    _expect_heartbeat(shard, group, member)
    assigned = {topic_id: tuple(numbers) for topic_id, numbers in member.assigned.items()}
    version = embedded_version(member.classic_protocols[0].metadata)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded_assignment(assigned, shard.image, version, member.details.metadata),
    )


def heartbeat(shard: Shard, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """Serve a Heartbeat: answer REBALANCE_IN_PROGRESS if rejoining would change something. Raises RequestRefused."""
    member = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    _expect_heartbeat(shard, group, member)
    should_join = (
        member.member_epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_partitions(member))
    )
    if not should_join:
        return HeartbeatResponse()
    _expect_join(shard, group, member)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def leave(shard: Shard, group: ConsumerGroup, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Serve a LeaveGroup, for members of either protocol."""
    leaving: dict[str, ConsumerGroupMember] = {}
    responses = []
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            member = _leaving_member(group, identity.member_id, identity.group_instance_id)
            leaving[member.member_id] = member
        except RequestRefused as refused:
            error = refused.code
        responses.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    fence(shard, group, list(leaving.values()))
    return LeaveGroupResponse(members=tuple(responses))


def _leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    if instance_id is None:
        return group.member(member_id)
    existing = group.static_member(instance_id)
    # An administrator removes members by instance id alone.
    return admission.check_static_member(
        group, existing, member_id or (existing.member_id if existing else ""), instance_id
    )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """Return the member of a classic request. Raises RequestRefused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = admission.check_static_member(
            group, group.static_member(instance_id), member_id, instance_id
        )
    if not member.uses_classic_protocol:
        raise RequestRefused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} does not speak the classic protocol"
        )
    return member


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise RequestRefused(
            ErrorCode.ILLEGAL_GENERATION,
            f"generation {generation} of a member at epoch {member.member_epoch}",
        )


def _check_protocol(member: ConsumerGroupMember, protocol_type: str | None, name: str | None) -> None:
    if protocol_type not in {None, CONSUMER_PROTOCOL_TYPE} or name not in {
        None,
        member.classic_protocols[0].name,
    }:
        raise RequestRefused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{protocol_type}/{name} is not what JoinGroup answered"
        )


def _expect_heartbeat(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    if member.classic is not None:
        shard.schedule(SessionTimeout(group.group_id, member.member_id), member.classic.session_timeout_ms)


def _expect_join(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    shard.schedule_if_absent(JoinTimeout(group.group_id, member.member_id), member.rebalance_timeout_ms)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return the client's subscription. Raises RequestRefused with Kafka 4.4's error if it cannot be read."""
    metadata = request.protocols[0].metadata
    try:
        if lacks_owned_partitions(metadata):
            raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the subscription is cut short")
        return decode_subscription(metadata)[1]
    except MalformedMessage as error:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _declared(
    member: ConsumerGroupMember,
    request: JoinGroupRequest,
    subscribed: ConsumerProtocolSubscription,
    call: Call,
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return member.replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscribed.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscribed.topics))),
        subscribed_topic_regex="",
        client_id=call.client_id,
        client_host=call.client_host,
        classic=ConsumerGroupClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ConsumerGroupClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in request.protocols
            ),
        ),
        client_assignors=(),  # its protocols are assignors now
    )
