"""The messages of OffsetCommit and TxnOffsetCommit: as the broker gets them, and as clients are answered."""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from translation import error_mapping
from translation.actions import Call, Request
from translation.engine.context import replaced
from translation.members.procedure import CallBeside, Procedure
from translation.passthrough.commits import codes_of

_OFFSET_COMMIT_FOR_MEMBERS = 9
"""The first OffsetCommit version that takes the commits of new-protocol members (KIP-848)."""

TIMESTAMPS_IN = 1
"""The only OffsetCommit version in which a client may date each commit."""

STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})
"""The broker's codes for an old epoch; TxnOffsetCommit below v6 has only the second."""


def for_a_member(request: Request) -> tuple[int, Any]:
    """The version and the message of the commit that the broker gets, with the client's generation still in it."""
    if request.api_key == ApiKey.TXN_OFFSET_COMMIT:
        return request.version, request.message  # v5 and v6 change the meaning: never raised
    message = replaced(request.message, retention_time_ms=-1)  # gone since v5
    if request.version == TIMESTAMPS_IN:
        message = without_timestamps(message)
    return max(request.version, _OFFSET_COMMIT_FOR_MEMBERS), message


def without_timestamps(message: OffsetCommitRequest) -> OffsetCommitRequest:
    """A commit of v1 without its timestamps by partition: no other version has such a field."""
    commit: OffsetCommitRequest = replaced(
        message,
        topics=tuple(
            replaced(
                topic,
                partitions=tuple(replaced(partition, commit_timestamp=-1) for partition in topic.partitions),
            )
            for topic in message.topics
        ),
    )
    return commit


def send_commit(
    member_epoch: int, api_key: int, version: int, message: Any, *, beside: bool = False
) -> Procedure[Any]:
    """Send a commit at a member epoch; return the broker's response. ``beside``: see :class:`CallBeside`."""
    send = CallBeside if beside else Call
    return (yield send(api_key, version, replaced(message, generation_id_or_member_epoch=member_epoch)))


def translated(response: Any) -> Any:
    """The broker's response with the codes that a classic client understands."""
    if codes_of(response) == {ErrorCode.NONE}:
        return response
    return replaced(
        response,
        topics=tuple(
            replaced(
                topic,
                partitions=tuple(
                    replaced(partition, error_code=error_mapping.for_commit(partition.error_code))
                    for partition in topic.partitions
                ),
            )
            for topic in response.topics
        ),
    )


def refused(request: Request, error_code: int) -> OffsetCommitResponse | TxnOffsetCommitResponse:
    """The response that refuses every partition of a commit with this code."""
    if request.api_key == ApiKey.TXN_OFFSET_COMMIT:
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(
                            partition_index=partition.partition_index, error_code=error_code
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.message.topics
            )
        )
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.message.topics
        )
    )
