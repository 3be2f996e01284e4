"""What the computing member is told of the group, and what is kept of that to check its assignment by."""

from msgspec.structs import replace

from coordinator.consumer_groups.client_side import computing
from coordinator.consumer_groups.client_side.choice import offers_of
from coordinator.consumer_groups.client_side.computation import Computation, Prepared, PreparedMember
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.errors import RequestRefused
from coordinator.shard import Shard
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    ConsumerGroupPrepareAssignmentResponseAssignor,
    ConsumerGroupPrepareAssignmentResponseMember,
    ConsumerGroupPrepareAssignmentResponseTopicMetadata,
    ConsumerGroupPrepareAssignmentResponseTopicPartition,
)


def computation_of(
    shard: Shard, request: ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest
) -> tuple[ConsumerGroup, Computation]:
    """Return the group and its computation, if the sender is to do it.

    Raises RequestRefused, in the KIP's order: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID for a stranger,
    STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID for a member that was not chosen, or is not any more.
    """
    for name, text in (("group id", request.group_id), ("member id", request.member_id)):
        if not text.strip():
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"the {name} is empty")
    if request.member_epoch < 0:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"member epoch {request.member_epoch}")
    group = shard.consumer_group(request.group_id)
    member = group.member(request.member_id)
    if request.member_epoch != member.member_epoch:
        raise RequestRefused(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"epoch {request.member_epoch} of member {member.member_id!r}, which is at {member.member_epoch}",
        )
    computing.keep_up(shard, group.group_id)
    if group.computation is None or group.computation.member_id != member.member_id:
        raise RequestRefused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"{member.member_id!r} is not the member that computes the assignment",
        )
    computing.tell(
        shard, group.group_id, member
    )  # whoever asks knows, whatever became of the answer that told it
    return group, group.computation


def prepare(
    shard: Shard, group: ConsumerGroup, computation: Computation
) -> ConsumerGroupPrepareAssignmentResponse:
    """Return the group as it is, and keep in its computation what the assignment will be checked by."""
    draft = Draft(shard, group)
    members: dict[str, PreparedMember] = {}
    told = []
    for member in group.members.values():
        offer = offers_of(member)[computation.assignor]
        subscribed = draft.subscribed_topic_ids(member)
        members[member.member_id] = PreparedMember(
            member.instance_id, subscribed, offer.minimum_version, offer.maximum_version
        )
        told.append(
            ConsumerGroupPrepareAssignmentResponseMember(
                member_id=member.member_id,
                member_epoch=member.member_epoch,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                subscribed_topic_ids=tuple(sorted(subscribed)),
                assignor=ConsumerGroupPrepareAssignmentResponseAssignor(
                    reason=offer.reason,
                    metadata_version=offer.metadata_version,
                    metadata_bytes=offer.metadata,
                ),
                topic_partitions=tuple(
                    ConsumerGroupPrepareAssignmentResponseTopicPartition(
                        topic_id=topic_id, partitions=numbers
                    )
                    for topic_id, numbers in group.target_of(member).items()
                ),
            )
        )
    topic_ids = frozenset[bytes]().union(*(member.subscribed_topic_ids for member in members.values()))
    topics = [topic for topic in shard.image.topics.values() if topic.topic_id in topic_ids]
    prepared = Prepared(group.group_epoch, members, {topic.topic_id: topic.partitions for topic in topics})
    group.computation = replace(computation, prepared=prepared)
    return ConsumerGroupPrepareAssignmentResponse(
        group_epoch=group.group_epoch,
        assignor_name=computation.assignor,
        members=tuple(told),
        topics=tuple(
            ConsumerGroupPrepareAssignmentResponseTopicMetadata(
                topic_id=topic.topic_id, topic_name=topic.name, num_partitions=topic.partitions
            )
            for topic in topics
        ),
    )
