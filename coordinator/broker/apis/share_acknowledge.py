"""ShareAcknowledge (79), v1 and v2: a member says what became of records that it has acquired (KIP-932).

Session epoch -1 closes the share session after that. Acknowledgements may come with a ShareFetch too.
"""

from collections.abc import Iterable, Mapping, Sequence

from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH
from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    FINAL_EPOCH,
    AcknowledgementBatch,
    SessionPartition,
    check_acknowledgements,
)
from coordinator.share_state import SharePartition
from protocol_codecs.all_messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseLeader,
    ShareAcknowledgeResponseNodeEndpoint,
    ShareAcknowledgeResponsePartition,
    ShareAcknowledgeResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

FIRST_VERSION_WITH_RENEWAL = 2
MAX_MEMBER_ID = 36
"""The longest member id, in characters: that of a UUID with hyphens."""
Batches = Mapping[SessionPartition, Sequence[AcknowledgementBatch]]
Outcomes = dict[SessionPartition, RequestRefused | None]
"""What became of the acknowledgements for each partition."""


async def serve(context: RequestScope, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """Serve the request."""
    leader = context.share_leader
    try:
        group_id, member_id = member_of(request.group_id, request.member_id)
        leader.sessions.acknowledge(group_id, member_id, request.share_session_epoch)
    except RequestRefused as refused:
        return ShareAcknowledgeResponse(error_code=refused.code, error_message=refused.message)
    batches = {
        SessionPartition(topic.topic_id, partition.partition_index): tuple(
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    outcomes = acknowledged(context, group_id, member_id, batches, is_renew_ack=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        leader.close_session(group_id, member_id)
    return _response(context, leader.lock_duration_ms(group_id), outcomes)


def member_of(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Return the group id and the member id. Raises RequestRefused with INVALID_REQUEST if there are none."""
    if group_id is None:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "no group id")
    if member_id is None or not 0 < len(member_id) <= MAX_MEMBER_ID:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"a member id has 1 to {MAX_MEMBER_ID} characters")
    return group_id, member_id


def acknowledged(
    context: RequestScope, group_id: str, member_id: str, batches: Batches, *, is_renew_ack: bool
) -> Outcomes:
    """Apply the acknowledgements for each partition; an error of one partition leaves the others alone.

    As in Kafka, partitions without any are answered for only beside those with some.
    """
    outcomes: Outcomes = {}
    applied: set[SessionPartition] = set()
    for partition, its in batches.items():
        try:
            check_partition(context, partition)
            can_renew = context.version >= FIRST_VERSION_WITH_RENEWAL
            check_acknowledgements(its, can_renew=can_renew, is_renew_ack=is_renew_ack)
            if its:
                applied.add(partition)
                key = SharePartition(group_id, partition.topic_id, partition.partition)
                context.share_leader.acknowledge(key, member_id, its)
        except RequestRefused as refused:
            outcomes[partition] = refused
        else:
            outcomes[partition] = None
    if not applied:
        return {partition: refused for partition, refused in outcomes.items() if refused is not None}
    return outcomes


def check_partition(context: RequestScope, partition: SessionPartition) -> None:
    """Raise RequestRefused unless the partition exists."""
    topic = context.cluster.topic_by_id(partition.topic_id)
    if topic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of this id")
    if not 0 <= partition.partition < len(topic.logs):
        raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")


def led_elsewhere(context: RequestScope, partition: int, refused: RequestRefused | None) -> int | None:
    """Return the leader to name beside an error; None if the error is no matter of leaders."""
    if refused is None or refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return None
    return context.cluster.leader_of(partition)


def by_topic(partitions: Iterable[SessionPartition]) -> dict[Uuid, list[SessionPartition]]:
    """Return the partitions by their topics' ids."""
    topics: dict[Uuid, list[SessionPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic_id, []).append(partition)
    return topics


def _response(context: RequestScope, lock_duration_ms: int, outcomes: Outcomes) -> ShareAcknowledgeResponse:
    leaders = {
        leader
        for partition, refused in outcomes.items()
        if (leader := led_elsewhere(context, partition.partition, refused)) is not None
    }
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_duration_ms if context.version >= FIRST_VERSION_WITH_RENEWAL else 0,
        responses=tuple(
            ShareAcknowledgeResponseTopic(
                topic_id=topic_id,
                partitions=tuple(_partition(context, one.partition, outcomes[one]) for one in partitions),
            )
            for topic_id, partitions in by_topic(outcomes).items()
        ),
        node_endpoints=tuple(
            ShareAcknowledgeResponseNodeEndpoint(node_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
            for a in context.cluster.addresses.values()
            if a.node_id in leaders
        ),
    )


def _partition(
    context: RequestScope, number: int, refused: RequestRefused | None
) -> ShareAcknowledgeResponsePartition:
    leader_id = led_elsewhere(context, number, refused)
    return ShareAcknowledgeResponsePartition(
        partition_index=number,
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.message,
        current_leader=ShareAcknowledgeResponseLeader()
        if leader_id is None
        else ShareAcknowledgeResponseLeader(leader_id=leader_id, leader_epoch=LEADER_EPOCH),
    )
