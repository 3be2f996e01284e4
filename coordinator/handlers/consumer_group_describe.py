"""ConsumerGroupDescribe (69), v0 and v1: returns the whole state of consumer groups."""

from coordinator.consumer_groups.client_side.choice import chosen_assignor
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import RequestRefused
from coordinator.image import MetadataImage
from coordinator.partitions import Partitions
from coordinator.shard import Call, Shard
from protocol_codecs.all_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def serve(shard: Shard, request: ConsumerGroupDescribeRequest, _call: Call) -> ConsumerGroupDescribeResponse:
    """Serve the request."""
    return ConsumerGroupDescribeResponse(
        groups=tuple(_described(shard, group_id) for group_id in request.group_ids)
    )


def _described(shard: Shard, group_id: str) -> ConsumerGroupDescribeResponseDescribedGroup:
    if not group_id:
        return ConsumerGroupDescribeResponseDescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = shard.consumer_group(group_id)
    except RequestRefused as refused:
        return ConsumerGroupDescribeResponseDescribedGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=_assignor_of(shard, group),
        members=tuple(_member(shard, group, member) for member in group.members_in_order()),
    )


def _assignor_of(shard: Shard, group: ConsumerGroup) -> str:
    if shard.config.experimental_client_assignors:
        name = chosen_assignor(group.members.values())
        if name is not None:
            return name
    return group.described_assignor() or shard.config.consumer_assignors[0]


def _member(
    shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember
) -> ConsumerGroupDescribeResponseMember:
    shown = [member.assigned]
    if shard.config.consumer_describes_pending_revocation:
        shown.append(member.pending_revocation)
    owned: dict[Uuid, tuple[int, ...]] = {}
    for partitions in shown:
        for topic_id, numbers in partitions.items():
            owned[topic_id] = (*owned.get(topic_id, ()), *numbers)
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned, shard.image),
        target_assignment=_assignment(group.target_assignment.get(member.member_id, {}), shard.image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, image: MetadataImage) -> ConsumerGroupDescribeResponseAssignment:
    """Return the partitions with their topics' names; deleted topics are left out."""
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=tuple(numbers)
            )
            for topic_id, numbers in partitions.items()
            if (topic := image.by_id(topic_id)) is not None
        )
    )
