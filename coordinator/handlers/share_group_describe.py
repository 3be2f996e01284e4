"""ShareGroupDescribe (77), v1: returns the state and the members of share groups."""

from coordinator.assignors import SHARE_ASSIGNOR
from coordinator.errors import RequestRefused
from coordinator.image import MetadataImage
from coordinator.shard import Call, Shard
from coordinator.share_groups.member import ShareGroupMember
from protocol_codecs.all_messages import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
    ShareGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.error_code import ErrorCode


def serve(shard: Shard, request: ShareGroupDescribeRequest, _call: Call) -> ShareGroupDescribeResponse:
    """Serve the request."""
    return ShareGroupDescribeResponse(
        groups=tuple(_described(shard, group_id) for group_id in request.group_ids)
    )


def _described(shard: Shard, group_id: str) -> ShareGroupDescribeResponseDescribedGroup:
    if not group_id:
        return ShareGroupDescribeResponseDescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = shard.share_group(group_id)
    except RequestRefused as refused:
        return ShareGroupDescribeResponseDescribedGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
    return ShareGroupDescribeResponseDescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SHARE_ASSIGNOR,
        members=tuple(_member(member, shard.image) for member in group.members_in_order()),
    )


def _member(member: ShareGroupMember, image: MetadataImage) -> ShareGroupDescribeResponseMember:
    """Return one member; partitions of deleted topics are left out."""
    return ShareGroupDescribeResponseMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        assignment=ShareGroupDescribeResponseAssignment(
            topic_partitions=tuple(
                ShareGroupDescribeResponseTopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=numbers
                )
                for topic_id, numbers in member.assigned.items()
                if (topic := image.by_id(topic_id)) is not None
            )
        ),
    )
