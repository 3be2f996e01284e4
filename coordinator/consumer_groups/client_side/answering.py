"""What the answer to a heartbeat tells a member with client-side assignors, and nobody else."""

from msgspec.structs import asdict

from coordinator.consumer_groups.client_side import computing
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.consumer_groups.reconciliation import Target
from coordinator.partitions import Partitions, heartbeat_assignment, heartbeat_topics
from protocol_codecs.all_messages import ConsumerGroupHeartbeatResponse
from protocol_codecs.experimental import ClientAssignorsHeartbeatResponse, HeartbeatAssignmentDetails


def with_client_assignors(
    draft: Draft,
    response: ConsumerGroupHeartbeatResponse,
    member: ConsumerGroupMember,
    target: Target,
    *,
    has_news: bool,
) -> ClientAssignorsHeartbeatResponse:
    """Return the response with what the KIP has beside Kafka's.

    The assignment comes with its metadata whenever the member moves to another epoch, which may change only those.
    """
    fields = asdict(response)
    details = None
    if has_news:
        fields["assignment"] = heartbeat_assignment(member.assigned)
        details = HeartbeatAssignmentDetails(
            error=member.details.error,
            pending_topic_partitions=heartbeat_topics(_pending(draft, member, target)),
            metadata_version=member.details.metadata_version,
            metadata_bytes=member.details.metadata,
        )
    return ClientAssignorsHeartbeatResponse(
        **fields,
        should_compute_assignment=computing.tell(draft.shard, draft.group_id, member),
        assignment_details=details,
    )


def _pending(draft: Draft, member: ConsumerGroupMember, target: Target) -> Partitions:
    """Return the partitions of the member's target that others have not given up yet."""
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return {}
    subscribed = draft.subscribed_topic_ids(member)
    missing = {
        topic_id: tuple(number for number in numbers if number not in member.assigned.get(topic_id, {}))
        for topic_id, numbers in target.partitions.items()
        if topic_id in subscribed
    }
    return {topic_id: numbers for topic_id, numbers in missing.items() if numbers}
