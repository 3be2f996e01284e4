"""Builds error answers in the form of each API, with the same error everywhere.

For requests that went to the wrong node, or came while the coordinator was loading.
"""

from collections.abc import Callable
from typing import Any

from coordinator.handlers import join_group, offset_fetch
from protocol_codecs import all_messages as m
from protocol_codecs import experimental as x
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.message import Message

Refusal = Callable[[Any, int, ErrorCode], Message]


def refusal(request: Message, version: int, error: ErrorCode) -> Message:
    """Return an answer that contains only this error."""
    if isinstance(request, m.HeartbeatRequest) and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return m.HeartbeatResponse()  # as Kafka does: the member need not hear of it
    simple = _SIMPLE.get(type(request))
    if simple is not None:
        return simple(error_code=error)
    return _SHAPED[type(request)](request, version, error)


def _join_group(_request: m.JoinGroupRequest, version: int, error: ErrorCode) -> Message:
    return join_group.in_version(m.JoinGroupResponse(error_code=error), version)


def _describe_groups(request: m.DescribeGroupsRequest, _version: int, error: ErrorCode) -> Message:
    groups = (m.DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups)
    return m.DescribeGroupsResponse(groups=tuple(groups))


def _consumer_group_describe(
    request: m.ConsumerGroupDescribeRequest, _version: int, error: ErrorCode
) -> Message:
    groups = (
        m.ConsumerGroupDescribeResponseDescribedGroup(group_id=group_id, error_code=error)
        for group_id in request.group_ids
    )
    return m.ConsumerGroupDescribeResponse(groups=tuple(groups))


def _share_group_describe(request: m.ShareGroupDescribeRequest, _version: int, error: ErrorCode) -> Message:
    groups = (
        m.ShareGroupDescribeResponseDescribedGroup(group_id=group_id, error_code=error)
        for group_id in request.group_ids
    )
    return m.ShareGroupDescribeResponse(groups=tuple(groups))


def _describe_share_group_offsets(
    request: m.DescribeShareGroupOffsetsRequest, _version: int, error: ErrorCode
) -> Message:
    groups = (
        m.DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=error)
        for group in request.groups
    )
    return m.DescribeShareGroupOffsetsResponse(groups=tuple(groups))


def _delete_groups(request: m.DeleteGroupsRequest, _version: int, error: ErrorCode) -> Message:
    results = (
        m.DeleteGroupsResponseGroup(group_id=group_id, error_code=error) for group_id in request.groups_names
    )
    return m.DeleteGroupsResponse(results=tuple(results))


def _offset_commit(request: m.OffsetCommitRequest, _version: int, error: ErrorCode) -> Message:
    return m.OffsetCommitResponse(
        topics=tuple(
            m.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    m.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _txn_offset_commit(request: m.TxnOffsetCommitRequest, _version: int, error: ErrorCode) -> Message:
    return m.TxnOffsetCommitResponse(
        topics=tuple(
            m.TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    m.TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset_fetch(request: m.OffsetFetchRequest, version: int, error: ErrorCode) -> Message:
    if version >= offset_fetch.FIRST_VERSION_WITH_SEVERAL_GROUPS:
        groups = (m.OffsetFetchResponseGroup(group_id=g.group_id, error_code=error) for g in request.groups)
        return m.OffsetFetchResponse(groups=tuple(groups))
    return offset_fetch.failed_single(request, error, version)


_SIMPLE: dict[type[Message], Callable[..., Message]] = {
    m.AlterShareGroupOffsetsRequest: m.AlterShareGroupOffsetsResponse,
    m.ConsumerGroupHeartbeatRequest: m.ConsumerGroupHeartbeatResponse,
    m.DeleteShareGroupOffsetsRequest: m.DeleteShareGroupOffsetsResponse,
    m.HeartbeatRequest: m.HeartbeatResponse,
    m.LeaveGroupRequest: m.LeaveGroupResponse,
    m.ListGroupsRequest: m.ListGroupsResponse,
    m.OffsetDeleteRequest: m.OffsetDeleteResponse,
    m.ShareGroupHeartbeatRequest: m.ShareGroupHeartbeatResponse,
    m.SyncGroupRequest: m.SyncGroupResponse,
    x.ClientAssignorsHeartbeatRequest: m.ConsumerGroupHeartbeatResponse,
    x.ConsumerGroupInstallAssignmentRequest: x.ConsumerGroupInstallAssignmentResponse,
    x.ConsumerGroupPrepareAssignmentRequest: x.ConsumerGroupPrepareAssignmentResponse,
}
_SHAPED: dict[type[Message], Refusal] = {
    m.ConsumerGroupDescribeRequest: _consumer_group_describe,
    m.DeleteGroupsRequest: _delete_groups,
    m.DescribeGroupsRequest: _describe_groups,
    m.DescribeShareGroupOffsetsRequest: _describe_share_group_offsets,
    m.JoinGroupRequest: _join_group,
    m.OffsetCommitRequest: _offset_commit,
    m.OffsetFetchRequest: _offset_fetch,
    m.ShareGroupDescribeRequest: _share_group_describe,
    m.TxnOffsetCommitRequest: _txn_offset_commit,
}
