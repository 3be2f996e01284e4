"""OffsetFetch: relayed, but for two things that a classic client of a new-protocol group would suffer from.

From v9 on it has member fields. A classic client puts its generation there (franz-go does); the broker checks it
strictly for new-protocol groups, while for a classic client it never meant anything. They are left out.

From v2 to v7 an error has a field of its own, and the partitions are missing from the answer. aiokafka asks with v3
and never looks at that field, so a coordinator that loads or has moved is one without offsets to it, and it starts
again at ``auto.offset.reset``. The error is said in every partition too, as it was up to v1; who looks at the field
finds it as before.
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
from translation.actions import Request
from translation.engine.context import Context, replaced
from translation.engine.procedure import Procedure, Send

OF_ONE_GROUP_WITH_AN_ERROR = range(2, 8)
"""The versions whose answer has one error field, for the one group that was asked for."""


def names_a_member(message: OffsetFetchRequest, translated: frozenset[str]) -> bool:
    """Whether member fields are set for one of these groups."""
    return any(group.member_id and group.group_id in translated for group in message.groups)


def without_members(context: Context, request: Request, translated: frozenset[str]) -> Procedure[None]:
    """Ask without the member fields of the groups that are translated, and answer as it comes."""
    message: OffsetFetchRequest = request.message
    groups = tuple(
        replaced(group, member_id=None, member_epoch=-1) if group.group_id in translated else group
        for group in message.groups
    )
    response = yield Send(ApiKey.OFFSET_FETCH, request.version, replaced(message, groups=groups))
    context.answer(request, response)


def with_errors_of_partitions(context: Context, request: Request) -> Procedure[None]:
    """Ask as the client did, and say an error of the whole answer in each partition too."""
    message: OffsetFetchRequest = request.message
    response: OffsetFetchResponse = yield Send(ApiKey.OFFSET_FETCH, request.version, message)
    if response.error_code != ErrorCode.NONE and not response.topics and message.topics is not None:
        code = error_mapping.for_offset_fetch(response.error_code)
        response = replaced(response, topics=tuple(_refused(topic, code) for topic in message.topics))
    context.answer(request, response)


def _refused(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    partitions = tuple(
        OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
