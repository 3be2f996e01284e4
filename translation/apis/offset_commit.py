"""OffsetCommit and TxnOffsetCommit: go to the broker with the member epoch in the place of the client's generation.

A client keeps the generation of its last JoinGroup while the broker's epoch moves on. Its commit is accepted if its
generation counts (:func:`translation.generation.may_commit`), and goes out with the current epoch.
"""

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
from translation import error_mapping, generation, session_timeout, static_members
from translation.actions import Connection, EventKind, Request
from translation.engine.context import Context, replaced
from translation.engine.member import Member
from translation.engine.procedure import Procedure, Send
from translation.migration.adoption import readopt
from translation.upstream.consumer_group_heartbeat import keepalive_heartbeat
from translation.upstream.member_lookup import Described, lookup_member

_OFFSET_COMMIT_FOR_MEMBERS = 9
"""The first OffsetCommit version that takes the commits of new-protocol members (KIP-848)."""

TIMESTAMPS_IN = 1
"""The only OffsetCommit version in which a client may date each commit."""

_STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})
"""The broker's codes for an old epoch; TxnOffsetCommit below v6 has only the second."""


def commit(context: Context, member: Member, connection: Connection, request: Request) -> Procedure[None]:
    """Handle an OffsetCommit or a TxnOffsetCommit that names a member."""
    transactional = request.api_key == ApiKey.TXN_OFFSET_COMMIT
    message = request.message
    carried = generation.in_request(request)
    generation.learn(member, carried)
    if not transactional:  # a transactional one comes from the producer's connection
        context.connections.record_call(member, connection, carried)
    if member.generation >= 0:
        session_timeout.renew(member, context.now)
    code = ErrorCode.NONE
    sole_process = context.settings.sole_process
    if generation.served_elsewhere(member, carried, sole_process=sole_process):
        code = yield from readopt(context, member, connection, request)
    if code == ErrorCode.NONE:
        code = _why_not(context, member, request)
    if code != ErrorCode.NONE:
        context.answer(request, refused(request, code))
        return
    if member.adopted and not context.connections.is_waiting(request):
        return  # its client has gone, and may have given up through another process what it commits here
    version, message = _for_a_member(request)
    response = yield from _send(member, request.api_key, version, message)
    if any(code in _STALE for code in _codes(response)):
        # The epoch moved in an answer that never arrived; the generation is current, so try the newest epoch once.
        heartbeat = yield from keepalive_heartbeat(context, member)
        known = heartbeat.error_code == ErrorCode.NONE
        if heartbeat.error_code == ErrorCode.FENCED_MEMBER_EPOCH and context.connections.is_waiting(request):
            # Only a client that is still here may commit at an epoch that another process has moved.
            known = (yield from readopt(context, member, connection, request)) == ErrorCode.NONE
        if known:
            response = yield from _send(member, request.api_key, version, message)
    if ErrorCode.UNKNOWN_MEMBER_ID in _codes(response) and (
        yield from _replaced(context, member, connection, request)
    ):
        response = refused(request, ErrorCode.FENCED_INSTANCE_ID)
    context.answer(request, _translated(response))


def _for_a_member(request: Request) -> tuple[int, Any]:
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


def _replaced(context: Context, member: Member, connection: Connection, request: Request) -> Procedure[bool]:
    """Ask the broker whether another member has the instance id: it does not answer a commit so, and the old process
    must not join again."""
    instance_id = request.message.group_instance_id
    if not instance_id or context.settings.sole_process:
        return False
    described, _ = yield from lookup_member(
        context, member.group.group_id, member.member_id, connection, instance_id=instance_id
    )
    return described is Described.REPLACED


def _why_not(context: Context, member: Member, request: Request) -> ErrorCode:
    """The code that a commit is refused with before it reaches the broker; NONE if it goes there."""
    code = generation.why_refused(member, request)
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        return static_members.membership_error(context, member, request.message)
    if code != ErrorCode.NONE:
        reason = f"commit with generation {generation.in_request(request)}"
        context.events.emit(EventKind.CALL_REFUSED, member, reason=reason)
    return code


def _send(member: Member, api_key: int, version: int, message: Any) -> Any:
    return (
        yield Send(api_key, version, replaced(message, generation_id_or_member_epoch=member.member_epoch))
    )


def _codes(response: Any) -> set[int]:
    return {partition.error_code for topic in response.topics for partition in topic.partitions}


def _translated(response: Any) -> Any:
    if _codes(response) == {ErrorCode.NONE}:
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
