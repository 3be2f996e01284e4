"""OffsetCommit and TxnOffsetCommit: the client's generation becomes the member epoch.

A client keeps the generation of its last JoinGroup while the broker's epoch moves on. Its commit is accepted
if it has the current generation (or the one before, until SyncGroup), and goes out with the current epoch.
"""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from translation import errors
from translation.actions import Connection, EventKind, Request
from translation.adopt import Verdict, adopt_again, look_for
from translation.context import Context, replaced
from translation.exchange import Ask, Steps
from translation.member import Member
from translation.member_state import MemberState
from translation.upstream import plain_heartbeat

_OFFSET_COMMIT_FOR_MEMBERS = 9
"""The first OffsetCommit version that takes the commits of new-protocol members (KIP-848)."""

_STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})
"""How the broker says that the epoch is an old one; TxnOffsetCommit below v6 has only the second."""


def commit(context: Context, member: Member, connection: Connection, request: Request) -> Steps:
    """A commit with a member id, of either kind."""
    transactional = request.api_key == ApiKey.TXN_OFFSET_COMMIT
    if not transactional:  # a transactional one comes from the producer's connection
        context.reach(member, connection)
    message = request.message
    if member.generation >= 0:
        member.touch(context.now)
    generation = message.generation_id_or_member_epoch
    member.learn_generation(generation)
    if context.was_elsewhere(member, generation) and not (
        yield from adopt_again(context, member, connection, request)
    ):
        context.answer(request, refused(request, context.no_member(member, message)))
        return
    if member.generation < 0:
        context.answer(request, refused(request, context.no_member(member, message)))
        return
    if not _generation_counts(member, generation):
        reason = f"commit with generation {generation}"
        context.emit(EventKind.CALL_REFUSED, member, reason=reason)
        context.answer(request, refused(request, ErrorCode.ILLEGAL_GENERATION))
        return
    if transactional:
        version = request.version  # v5 and v6 change the meaning: never raised
    else:
        version = max(request.version, _OFFSET_COMMIT_FOR_MEMBERS)
        message = replaced(message, retention_time_ms=-1)  # gone since v5
    response = yield from _send(member, request.api_key, version, message)
    if any(code in _STALE for code in _codes(response)):
        # The epoch moved in an answer that never arrived; the generation is current, so try the newest epoch once.
        heartbeat = yield from plain_heartbeat(context, member)
        known = heartbeat.error_code == ErrorCode.NONE
        if heartbeat.error_code == ErrorCode.FENCED_MEMBER_EPOCH and context.is_waiting(request):
            # Only a client that is still here may commit at an epoch that another process has moved.
            known = yield from adopt_again(context, member, connection, request)
        if known:
            response = yield from _send(member, request.api_key, version, message)
    instance_id = message.group_instance_id
    if ErrorCode.UNKNOWN_MEMBER_ID in _codes(response) and instance_id and not context.settings.sole_process:
        verdict, _ = yield from look_for(context, member, connection, instance_id=instance_id)
        if (
            verdict is Verdict.REPLACED
        ):  # brokers never say so to a commit; the old process must not come back
            response = refused(request, ErrorCode.FENCED_INSTANCE_ID)
    context.answer(request, _translated(response))


def _generation_counts(member: Member, generation: int) -> bool:
    if generation == member.generation:
        return True
    before_sync = member.state is MemberState.COMPLETING_REBALANCE
    return before_sync and generation == member.previous_generation >= 0


def _send(member: Member, api_key: int, version: int, message: Any) -> Any:
    return (yield Ask(api_key, version, replaced(message, generation_id_or_member_epoch=member.epoch)))


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
                    replaced(partition, error_code=errors.for_commit(partition.error_code))
                    for partition in topic.partitions
                ),
            )
            for topic in response.topics
        ),
    )


def refused(request: Request, error_code: int) -> OffsetCommitResponse | TxnOffsetCommitResponse:
    """The answer to a commit of which no partition was taken."""
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
