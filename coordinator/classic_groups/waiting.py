"""Answers waiting requests: JoinGroup at the end of the join phase, SyncGroup when the leader has sent the assignment.

A newer request of the same kind replaces one that waits. As in Kafka, the older one is never answered, since its client
must have given up on it.
"""

from coordinator.classic_groups.member import ClassicMember
from coordinator.shard import Shard
from protocol_codecs.all_messages import JoinGroupResponse, SyncGroupResponse
from protocol_codecs.error_code import ErrorCode


def answer_join(shard: Shard, member: ClassicMember, response: JoinGroupResponse) -> bool:
    """Answer the member's waiting JoinGroup; return whether there was one."""
    if member.awaiting_join is None:
        return False
    shard.reply(member.awaiting_join, response)
    member.awaiting_join = None
    return True


def answer_join_with_error(
    shard: Shard, member: ClassicMember, error: ErrorCode, *, member_id: str | None = None
) -> None:
    """Answer the member's waiting JoinGroup with an error; by default the answer names the member."""
    named = member.member_id if member_id is None else member_id
    answer_join(shard, member, JoinGroupResponse(member_id=named, error_code=error))


def answer_sync(shard: Shard, member: ClassicMember, response: SyncGroupResponse) -> bool:
    """Answer the member's waiting SyncGroup; return whether there was one."""
    if member.awaiting_sync is None:
        return False
    shard.reply(member.awaiting_sync, response)
    member.awaiting_sync = None
    return True


def answer_sync_with_error(shard: Shard, member: ClassicMember, error: ErrorCode) -> bool:
    """Answer the member's waiting SyncGroup with an error; return whether there was one."""
    return answer_sync(shard, member, SyncGroupResponse(error_code=error))
