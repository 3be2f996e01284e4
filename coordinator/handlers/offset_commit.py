"""OffsetCommit (8), v1 to v10: stores offsets.

Topics are checked first, as a broker does before it calls the coordinator; then the member; then each partition. A
refused member, or one partition with a stale epoch, fails the whole request.
"""

import msgspec

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup
from coordinator.errors import RequestRefused
from coordinator.handlers.commit_rules import Committer, check_committer, keep_session
from coordinator.offsets import NO_EXPIRY, CommittedOffset
from coordinator.shard import Call, Group, Shard
from protocol_codecs.all_messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import ZERO_UUID

FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
_NOT_SET = -1


def serve(shard: Shard, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Serve the request."""
    good: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        existing, missing = _sorted_out(shard, topic, call.version)
        if existing.partitions:
            good.append(existing)
        if missing.partitions:
            refused.append(missing)
    if not good:
        return OffsetCommitResponse(topics=tuple(refused))
    try:
        stored = _commit(shard, request, good, call)
    except RequestRefused as error:
        stored = [_failed(topic, error.code) for topic in good]
    return OffsetCommitResponse(topics=(*refused, *stored))


def _sorted_out(
    shard: Shard, topic: OffsetCommitRequestTopic, version: int
) -> tuple[OffsetCommitRequestTopic, OffsetCommitResponseTopic]:
    """Return the existing partitions of a topic with its name and id, and errors for the others."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    image = shard.image.by_id(topic.topic_id) if by_id else shard.image.by_name(topic.name)
    if image is None:
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return msgspec.structs.replace(topic, partitions=()), _failed(topic, error)
    exists = [0 <= partition.partition_index < image.partitions for partition in topic.partitions]
    pairs = list(zip(topic.partitions, exists, strict=True))
    named = msgspec.structs.replace(topic, name=image.name, topic_id=image.topic_id)
    missing = msgspec.structs.replace(named, partitions=tuple(p for p, there in pairs if not there))
    return (
        msgspec.structs.replace(named, partitions=tuple(p for p, there in pairs if there)),
        _failed(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    )


def _commit(
    shard: Shard, request: OffsetCommitRequest, topics: list[OffsetCommitRequestTopic], call: Call
) -> list[OffsetCommitResponseTopic]:
    group = _group(shard, request, call)
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
        is_transactional=False,
    )
    older = check_committer(group, committer)
    keep_session(shard, group, request.member_id)
    change: list[CoordinatorRecord] = []
    results = []
    for topic in topics:
        partitions = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if len(partition.committed_metadata or "") > shard.config.offset_metadata_max_size:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if older is not None:
                    older.check(topic.topic_id, partition.partition_index)
                change.append(_record(shard, request, topic, partition))
            partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        results.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))
        )
    shard.apply(change)
    shard.activity.offset_commits += len(change)
    return results


def _group(shard: Shard, request: OffsetCommitRequest, call: Call) -> Group:
    """Return the group; a commit without epoch creates one that only stores offsets. Raises RequestRefused."""
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group
    if request.generation_id_or_member_epoch < 0:
        made = shard.groups[request.group_id] = ClassicGroup(request.group_id, now_ms=shard.now_ms)
        return made
    is_new_client = call.version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND
    code = ErrorCode.GROUP_ID_NOT_FOUND if is_new_client else ErrorCode.ILLEGAL_GENERATION
    raise RequestRefused(code, f"there is no group {request.group_id!r}")


def _record(
    shard: Shard,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
) -> CoordinatorRecord:
    retention_ms = request.retention_time_ms
    committed = CommittedOffset(
        offset=partition.committed_offset,
        commit_timestamp_ms=shard.now_ms,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        expire_timestamp_ms=NO_EXPIRY if retention_ms == _NOT_SET else shard.now_ms + retention_ms,
        topic_id=topic.topic_id,
    )
    return records.offset_commit(request.group_id, topic.name, partition.partition_index, committed)


def _failed(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id or ZERO_UUID,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ),
    )
