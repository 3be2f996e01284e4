"""DeleteGroups (42), v0 to v3: deletes groups without members, with their offsets.

No error has a message: Kafka has one for what a plugin of streams groups refuses.
"""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.consumer_groups.conversion import deletion
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Group, Shard
from coordinator.share_groups import initialization
from coordinator.share_groups import records as share_records
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import DeleteGroupsRequest, DeleteGroupsResponse, DeleteGroupsResponseGroup
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


def serve(shard: Shard, request: DeleteGroupsRequest, _call: Call) -> DeleteGroupsResponse:
    """Serve the request."""
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        error = ErrorCode.NONE
        try:
            _delete(shard, group_id)
        except RequestRefused as refused:
            error = refused.code
        results.append(DeleteGroupsResponseGroup(group_id=group_id, error_code=error))
    return DeleteGroupsResponse(results=tuple(results))


def group_tombstones(group: Group) -> list[CoordinatorRecord]:
    """Return the tombstones of a group, without those of its offsets."""
    if isinstance(group, ClassicGroup):
        return [records.classic_group_tombstone(group.group_id)]
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    return deletion(group)


def offset_tombstones(shard: Shard, group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all offsets of a group, including those of open transactions."""
    stores = (shard.offsets, *shard.pending_offsets.values())
    partitions = {
        (topic, partition): None
        for store in stores
        for topic, offsets in store.group(group_id).items()
        for partition in offsets
    }
    return [records.offset_commit_tombstone(group_id, topic, partition) for topic, partition in partitions]


def _delete(shard: Shard, group_id: str) -> None:
    group = shard.group(group_id)
    if isinstance(group, ClassicGroup) and group.state is ClassicGroupState.DEAD:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is gone")
    if not group.is_empty:
        raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members")
    if isinstance(group, ShareGroup):
        initialization.delete(shard, group)
    shard.apply([*offset_tombstones(shard, group_id), *group_tombstones(group)])
