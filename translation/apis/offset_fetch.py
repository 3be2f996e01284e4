"""OffsetFetch: relayed, but rewritten where a classic client of a new-protocol group would be hurt by a difference.

From v9 on the request has a member id and an epoch. A classic client may put its generation there (franz-go does). The
broker ignores it for a classic group, but checks it for a consumer group, so these fields are removed.

From v2 to v7 an error of the whole response has a field of its own, and the partitions are missing. aiokafka asks with
v3 and never reads that field: while a coordinator loads or has moved, it finds no offsets and starts again at
``auto.offset.reset``. So the error is put into every partition too, as in v1, and stays in its field.
"""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from translation import error_mapping
from translation.actions import Call, Request
from translation.engine.connections import ClientConnections
from translation.engine.context import replaced
from translation.members.procedure import Procedure

OF_ONE_GROUP_WITH_AN_ERROR = range(2, 8)
"""The versions whose answer has one error field, for the one group that was asked for."""


def names_a_member(message: OffsetFetchRequest, translated: frozenset[str]) -> bool:
    """Whether member fields are set for one of these groups."""
    return any(group.member_id and group.group_id in translated for group in message.groups)


def without_members(
    connections: ClientConnections, request: Request, translated: frozenset[str]
) -> Procedure[None]:
    """Send the request without the member fields of the translated groups; answer with the broker's response."""
    message: OffsetFetchRequest = request.message
    groups = tuple(
        replaced(group, member_id=None, member_epoch=-1) if group.group_id in translated else group
        for group in message.groups
    )
    response = yield Call(ApiKey.OFFSET_FETCH, request.version, replaced(message, groups=groups))
    connections.answer(request, response)


def with_errors_of_partitions(connections: ClientConnections, request: Request) -> Procedure[None]:
    """Send the request as it is, and put an error of the whole response into each partition too."""
    message: OffsetFetchRequest = request.message
    response: OffsetFetchResponse = yield Call(ApiKey.OFFSET_FETCH, request.version, message)
    if response.error_code != ErrorCode.NONE and not response.topics and message.topics is not None:
        code = error_mapping.for_offset_fetch(response.error_code)
        response = replaced(response, topics=tuple(_refused(topic, code) for topic in message.topics))
    connections.answer(request, response)


def _refused(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    partitions = tuple(
        OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
