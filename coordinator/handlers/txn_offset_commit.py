"""TxnOffsetCommit (28), v0 to v5: stores offsets when the producer's transaction commits.

The coordinator keeps them pending until :func:`coordinator.replay.end_transaction`. A stale member epoch is answered
ILLEGAL_GENERATION, because producers do not know STALE_MEMBER_EPOCH.
"""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup
from coordinator.errors import RequestRefused
from coordinator.handlers.commit_rules import Committer, OlderEpoch, check_committer
from coordinator.offsets import CommittedOffset
from coordinator.shard import Call, Group, Shard
from protocol_codecs.all_messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import ZERO_UUID


def serve(shard: Shard, request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """Serve the request."""
    try:
        topics = _commit(shard, request, call)
    except RequestRefused as refused:
        is_stale = refused.code is ErrorCode.STALE_MEMBER_EPOCH
        code = ErrorCode.ILLEGAL_GENERATION if is_stale else refused.code
        topics = [_answered(topic, code) for topic in request.topics]
    return TxnOffsetCommitResponse(topics=tuple(topics))


def _commit(shard: Shard, request: TxnOffsetCommitRequest, call: Call) -> list[TxnOffsetCommitResponseTopic]:
    if not request.group_id:
        raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = _group(shard, request)
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
        is_transactional=True,
    )
    older = check_committer(group, committer)
    change: list[CoordinatorRecord] = []
    results = []
    for topic in request.topics:
        change += _topic_records(shard, request, topic, older)
        results.append(_answered(topic, ErrorCode.NONE, shard.config.offset_metadata_max_size))
    shard.apply(change, request.producer_id)
    shard.activity.offset_commits += len(change)
    return results


def _group(shard: Shard, request: TxnOffsetCommitRequest) -> Group:
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group
    if request.generation_id_or_member_epoch >= 0:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id!r}")
    made = shard.groups[request.group_id] = ClassicGroup(request.group_id, now_ms=shard.now_ms)
    return made


def _topic_records(
    shard: Shard,
    request: TxnOffsetCommitRequest,
    topic: TxnOffsetCommitRequestTopic,
    older: OlderEpoch | None,
) -> list[CoordinatorRecord]:
    image = shard.image.by_name(topic.name)
    if older is not None and image is None:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, f"there is no topic {topic.name!r}")
    change = []
    for partition in topic.partitions:
        if len(partition.committed_metadata or "") > shard.config.offset_metadata_max_size:
            continue
        if older is not None:
            older.check(image.topic_id if image is not None else ZERO_UUID, partition.partition_index)
        committed = CommittedOffset(
            offset=partition.committed_offset,
            commit_timestamp_ms=shard.now_ms,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
        )
        change.append(
            records.offset_commit(request.group_id, topic.name, partition.partition_index, committed)
        )
    return change


def _answered(
    topic: TxnOffsetCommitRequestTopic, error: ErrorCode, metadata_limit: int | None = None
) -> TxnOffsetCommitResponseTopic:
    """Return the answer for a topic: this error, or one for a partition whose metadata is too large."""
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE
                if metadata_limit is not None and len(partition.committed_metadata or "") > metadata_limit
                else error,
            )
            for partition in topic.partitions
        ),
    )
