"""Converts live groups between the protocols (KIP-848, "Supporting Online Consumer Group Upgrade").

A classic group becomes a consumer group when the first new-protocol member joins, and a classic group again when the
last one leaves. The generation becomes the group epoch and vice versa, and the assignment is taken over, so members
keep their partitions.
"""

from collections.abc import Sequence

import msgspec

from coordinator import records
from coordinator.classic_groups import rebalance, waiting
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import EMPTY_ASSIGNMENT, ClassicMember
from coordinator.consumer_groups.client_side import computing
from coordinator.consumer_groups.client_side.declarations import NO_DETAILS
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.embedded import assigned_partitions, embedded_assignment, embedded_version
from coordinator.consumer_groups.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.consumer_groups.member_timers import cancel_timers
from coordinator.errors import BrokenInvariant, RequestRefused
from coordinator.image import metadata_hash
from coordinator.partitions import Partitions, with_epoch
from coordinator.shard import Shard
from coordinator.timers import SessionTimeout
from protocol_codecs.all_messages import JoinGroupRequestProtocol
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.messages.consumer_protocol import decode_subscription, lacks_owned_partitions
from protocol_codecs.records import (
    ConsumerGroupClassicMemberMetadata,
    ConsumerGroupClassicProtocol,
    CoordinatorRecord,
)


class Replacement(msgspec.Struct, frozen=True):
    """A classic member that replaces the last new-protocol member of the same instance id."""

    old: ConsumerGroupMember
    new: ConsumerGroupMember


# Upgrade


def check_upgrade(shard: Shard, group: ClassicGroup) -> None:
    """Raise RequestRefused with GROUP_ID_NOT_FOUND unless the classic group may become a consumer group."""
    if not shard.config.consumer_migration_policy.upgrade_enabled:
        raise _not_convertible(group.group_id, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _not_convertible(group.group_id, f"its members are no consumers but {group.protocol_type!r}")
    if len(group.members) > shard.config.consumer_max_size:
        raise _not_convertible(group.group_id, f"it has {len(group.members)} members")


def upgraded(shard: Shard, group: ClassicGroup) -> Draft:
    """Return the consumer group that a classic group is converted to, with the records of the conversion.

    All members keep their assignments. Requests that wait in a rebalance are answered REBALANCE_IN_PROGRESS. Raises
    RequestRefused with GROUP_ID_NOT_FOUND if subscriptions or assignments cannot be read.
    """
    for member in group.members.values():
        waiting.answer_join_with_error(shard, member, ErrorCode.REBALANCE_IN_PROGRESS)
        waiting.answer_sync_with_error(shard, member, ErrorCode.REBALANCE_IN_PROGRESS)
    if group.protocol_name is None:
        # Kafka fails here too: no rebalance has completed, so there is no protocol yet.
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id!r} has no protocol yet")
    consumer_group = ConsumerGroup(group.group_id)
    consumer_group.group_epoch = consumer_group.assignment_epoch = group.generation
    try:
        for member in group.members_in_order():
            _take_over(shard, group, member, consumer_group)
    except MalformedMessage as error:
        raise _not_convertible(group.group_id, f"an embedded message cannot be read: {error}") from error
    consumer_group.metadata_hash = metadata_hash(consumer_group.subscribed_topics, shard.image)
    for member_id, converted in consumer_group.members.items():
        if converted.classic is not None:
            shard.schedule(SessionTimeout(group.group_id, member_id), converted.classic.session_timeout_ms)
    tombstone = records.classic_group_tombstone(group.group_id)
    return Draft(shard, consumer_group, [tombstone, *_creation(consumer_group)])


def _take_over(shard: Shard, group: ClassicGroup, member: ClassicMember, into: ConsumerGroup) -> None:
    target: Partitions = {}
    if member.assignment != EMPTY_ASSIGNMENT:
        target, user_data = assigned_partitions(member.assignment, shard.image)
        if user_data:
            raise _not_convertible(group.group_id, "a custom assignor's user data would be lost")
    metadata = member.metadata(group.protocol_name or "")
    if lacks_owned_partitions(metadata):
        raise _not_convertible(group.group_id, f"the subscription of {member.member_id!r} is cut short")
    _, subscription = decode_subscription(metadata)
    into.update_target(member.member_id, target)
    into.update_member(
        ConsumerGroupMember(
            member_id=member.member_id,
            member_epoch=group.generation,
            previous_member_epoch=group.generation,
            state=MemberState.STABLE,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            assigned=with_epoch(target, group.generation),
            classic=ConsumerGroupClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=tuple(
                    ConsumerGroupClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                    for protocol in member.protocols
                ),
            ),
        )
    )


def _creation(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records of a whole consumer group."""
    members = group.members_in_order()
    group_id = group.group_id
    return [
        *(records.member_subscription(group_id, member) for member in members),
        records.group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(
            records.target_assignment(group_id, m.member_id, group.target_assignment[m.member_id])
            for m in members
        ),
        records.target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(records.current_assignment(group_id, member) for member in members),
    ]


def _not_convertible(group_id: str, reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} stays a classic group: {reason}")


# Downgrade


def may_downgrade(shard: Shard, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> bool:
    """Whether the group is converted to a classic one when these members leave."""
    left = len(group.members) - len(leaving)
    return (
        group.all_others_classic(leaving)
        and 0 < left <= shard.config.classic_max_size
        and shard.config.consumer_migration_policy.downgrade_enabled
    )


def may_downgrade_by_replacing(shard: Shard, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
    """Whether the group is converted to a classic one when a classic member replaces this member."""
    return (
        not replaced.uses_classic_protocol
        and group.classic_members == len(group.members) - 1
        and len(group.members) <= shard.config.classic_max_size
        and shard.config.consumer_migration_policy.downgrade_enabled
    )


def downgrade(
    shard: Shard,
    group: ConsumerGroup,
    *,
    leaving: Sequence[ConsumerGroupMember] = (),
    replacement: Replacement | None = None,
    before: Sequence[CoordinatorRecord] = (),
    rebalances: bool = True,
) -> None:
    """Convert a consumer group to a classic one, and start a rebalance; ``before`` are records that come first."""
    for member_id in group.members:
        cancel_timers(shard, group.group_id, member_id)
    computing.end(shard, group)
    classic = _classic_group(shard, group, leaving, replacement)
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    shard.groups[group.group_id] = classic
    shard.append([*before, *deletion(group, replacement), records.classic_group(classic, assignments)])
    for member in classic.members_in_order():
        rebalance.expect_heartbeat(shard, classic, member)
    if rebalances:
        rebalance.prepare(shard, classic)


def _classic_group(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Sequence[ConsumerGroupMember],
    replacement: Replacement | None,
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, state=ClassicGroupState.STABLE, now_ms=shard.now_ms)
    classic.generation = group.group_epoch
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    gone = {member.member_id for member in leaving}
    if replacement is not None:
        gone.add(replacement.old.member_id)
    for member in group.members_in_order():
        if member.member_id not in gone:
            classic.add(_classic_member(member))
    if replacement is not None:
        classic.add(_classic_member(replacement.new))
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.read_subscribed_topics()
    for classic_member in classic.members.values():
        member_id = classic_member.member_id
        if replacement is not None and member_id == replacement.new.member_id:
            member_id = replacement.old.member_id
        target = group.target_assignment.get(member_id, {})
        version = embedded_version(classic_member.metadata(classic.protocol_name))
        user_data = group.target_details.get(member_id, NO_DETAILS).metadata
        classic_member.assignment = embedded_assignment(target, shard.image, version, user_data)
    return classic


def _classic_member(member: ConsumerGroupMember) -> ClassicMember:
    if member.classic is None:
        raise BrokenInvariant(f"member {member.member_id} does not speak the classic protocol")
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=tuple(
            JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)
            for protocol in member.classic.supported_protocols
        ),
    )


def deletion(group: ConsumerGroup, replacement: Replacement | None = None) -> list[CoordinatorRecord]:
    """Return the tombstones of a whole consumer group, in an order in which they can be replayed."""
    group_id = group.group_id
    member_ids = [member.member_id for member in group.members_in_order()]
    if replacement is not None:  # its records were written before, under its new id
        new_id = replacement.new.member_id
        member_ids = [
            new_id if member_id == replacement.old.member_id else member_id for member_id in member_ids
        ]
    return [
        *(records.current_assignment_tombstone(group_id, member_id) for member_id in member_ids),
        *(records.target_assignment_tombstone(group_id, member_id) for member_id in member_ids),
        records.target_epoch_tombstone(group_id),
        *(records.member_subscription_tombstone(group_id, member_id) for member_id in member_ids),
        *(records.resolved_regex_tombstone(group_id, regex) for regex in group.resolved_regexes),
        records.partition_metadata_tombstone(group_id),
        records.group_epoch_tombstone(group_id),
    ]
