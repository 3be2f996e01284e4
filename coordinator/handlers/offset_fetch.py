"""OffsetFetch (9), v1 to v10: reads stored offsets, of one group (up to v7) or of several."""

import msgspec

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.errors import RequestRefused
from coordinator.handlers.commit_rules import stale
from coordinator.offsets import NO_LEADER_EPOCH, NO_OFFSET, CommittedOffset
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import ZERO_UUID, Uuid

FIRST_VERSION_WITH_GROUP_ERRORS = 2
FIRST_VERSION_WITH_SEVERAL_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def serve(shard: Shard, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Serve the request."""
    if call.version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        groups = tuple(
            fetch_group(shard, group, call.version, require_stable=request.require_stable)
            for group in request.groups
        )
        return OffsetFetchResponse(groups=groups)
    return _single(fetch_group(shard, _grouped(request), call.version, require_stable=request.require_stable))


def failed_single(request: OffsetFetchRequest, error: ErrorCode, version: int) -> OffsetFetchResponse:
    """Return the answer to a request for one group (v1 to v7) that fails as a whole."""
    return _single(_failed(_grouped(request), error, version))


def fetch_group(
    shard: Shard, request: OffsetFetchRequestGroup, version: int, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group: those asked for, or all."""
    try:
        exists = _check_reader(shard, request)
        if request.topics is None:
            topics = _all(shard, request, version, require_stable=require_stable) if exists else ()
        else:
            topics = tuple(
                _topic(shard, request.group_id, topic, version, exists=exists, require_stable=require_stable)
                for topic in request.topics
            )
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
    except RequestRefused as refused:
        return _failed(request, refused.code, version)


def _check_reader(shard: Shard, request: OffsetFetchRequestGroup) -> bool:
    """Whether there is such a group with offsets. Raises RequestRefused for a member of it with a wrong epoch."""
    group = shard.groups.get(request.group_id)
    if group is None or isinstance(group, ShareGroup):
        return False
    if isinstance(group, ClassicGroup):
        return group.state is not ClassicGroupState.DEAD
    if request.member_id is None and request.member_epoch < 0:
        return True
    member = group.member(request.member_id or "")
    if request.member_epoch != member.member_epoch:
        raise stale(member, request.member_epoch)
    return True


def _topic(
    shard: Shard,
    group_id: str,
    topic: OffsetFetchRequestTopics,
    version: int,
    *,
    exists: bool,
    require_stable: bool,
) -> OffsetFetchResponseTopics:
    name = topic.name
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        image = shard.image.by_id(topic.topic_id)
        if image is None:
            return OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _partition(number, None, ErrorCode.UNKNOWN_TOPIC_ID) for number in topic.partition_indexes
                ),
            )
        name = image.name
    stored = shard.offsets.group(group_id).get(name, {}) if exists else {}
    partitions = []
    for number in topic.partition_indexes:
        offset = stored.get(number)
        if offset is not None and _is_of_other_topic(offset, topic.topic_id):
            offset = None
        unstable = require_stable and _is_pending(shard, group_id, name, number)
        partitions.append(
            _partition(number, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if unstable
            else _partition(number, offset)
        )
    return OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=tuple(partitions))


def _all(
    shard: Shard, request: OffsetFetchRequestGroup, version: int, *, require_stable: bool
) -> tuple[OffsetFetchResponseTopics, ...]:
    topics = []
    for name, stored in shard.offsets.group(request.group_id).items():
        image = shard.image.by_name(name)
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and image is None:
            continue  # it has no id any more
        partitions = tuple(
            _partition(number, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if require_stable and _is_pending(shard, request.group_id, name, number)
            else _partition(number, offset)
            for number, offset in stored.items()
        )
        topic_id = ZERO_UUID if image is None else image.topic_id
        topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    return tuple(topics)


def _partition(
    number: int, offset: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=NO_OFFSET if offset is None else offset.offset,
        committed_leader_epoch=NO_LEADER_EPOCH if offset is None else offset.leader_epoch,
        metadata="" if offset is None else offset.metadata,
        error_code=error,
    )


def _is_of_other_topic(offset: CommittedOffset, topic_id: Uuid) -> bool:
    """Whether the offset was committed for an older topic of the same name."""
    return ZERO_UUID not in {offset.topic_id, topic_id} and offset.topic_id != topic_id


def _is_pending(shard: Shard, group_id: str, topic: str, partition: int) -> bool:
    return any(store.get(group_id, topic, partition) is not None for store in shard.pending_offsets.values())


def _failed(request: OffsetFetchRequestGroup, error: ErrorCode, version: int) -> OffsetFetchResponseGroup:
    if version >= FIRST_VERSION_WITH_GROUP_ERRORS:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(_partition(number, None, error) for number in topic.partition_indexes),
            )
            for topic in request.topics or ()
        ),
    )


def _grouped(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Convert a request for one group to the form of later versions."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ),
    )


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Convert an answer for one group to the form of earlier versions."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(**msgspec.structs.asdict(partition))
                    for partition in topic.partitions
                ),
            )
            for topic in group.topics
        ),
    )
