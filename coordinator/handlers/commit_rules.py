"""Decides who may commit offsets: by group, member and epoch, and for older epochs by partition (KIP-1251)."""

import msgspec

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.rebalance import expect_heartbeat
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import RequestRefused
from coordinator.shard import Group, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

FIRST_OFFSET_COMMIT_WITH_MEMBER_EPOCH = 9
NO_EPOCH = -1

_S = ClassicGroupState


class Committer(msgspec.Struct, frozen=True):
    """The sender of a commit, as the request names it. ``epoch`` is the generation of classic members."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    is_transactional: bool

    @property
    def is_anonymous(self) -> bool:
        """Whether it names no member, as older transactional commits do."""
        return self.epoch == NO_EPOCH and not self.member_id and self.instance_id is None


class OlderEpoch(msgspec.Struct, frozen=True):
    """A commit with an older member epoch: valid for partitions that the member had at that epoch and still has."""

    member: ConsumerGroupMember
    epoch: int

    def check(self, topic_id: Uuid, partition: int) -> None:
        """Raise RequestRefused unless the member had the partition at that epoch."""
        got_at = self.member.assignment_epoch(topic_id, partition)
        if got_at is None or self.epoch < got_at:
            raise stale(self.member, self.epoch)


def check_committer(group: Group, committer: Committer) -> OlderEpoch | None:
    """Raise RequestRefused unless the sender may commit; return the check that remains for each partition."""
    if isinstance(group, ConsumerGroup):
        return _check_consumer_group(group, committer)
    if isinstance(group, ShareGroup):
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id!r} has no offsets")
    _check_classic_group(group, committer)
    return None


def keep_session(shard: Shard, group: Group, member_id: str) -> None:
    """Let a commit renew the session, as it does in classic groups."""
    if not isinstance(group, ClassicGroup) or group.state not in {_S.STABLE, _S.PREPARING_REBALANCE}:
        return
    member = group.members.get(member_id)
    if member is not None:
        expect_heartbeat(shard, group, member)


def stale(member: ConsumerGroupMember, epoch: int) -> RequestRefused:
    """Return the error for a wrong epoch, in the member's protocol."""
    code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    return RequestRefused(code, f"epoch {epoch} of a member at epoch {member.member_epoch}")


def _check_consumer_group(group: ConsumerGroup, committer: Committer) -> OlderEpoch | None:
    if committer.epoch < 0 and group.is_empty:
        return None  # an administrator, or a consumer that manages its partitions itself
    if committer.is_transactional and committer.is_anonymous:
        return None
    member = group.member(committer.member_id)
    is_old_request = committer.version < FIRST_OFFSET_COMMIT_WITH_MEMBER_EPOCH
    if is_old_request and not committer.is_transactional and not member.uses_classic_protocol:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_VERSION, "members of the new protocol commit with v9 or later"
        )
    if committer.epoch == member.member_epoch:
        return None
    if committer.epoch > member.member_epoch:
        raise stale(member, committer.epoch)
    return OlderEpoch(member, committer.epoch)


def _check_classic_group(group: ClassicGroup, committer: Committer) -> None:
    if group.state is _S.DEAD:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has gone to another coordinator")
    if committer.epoch < 0 and group.is_empty:
        return
    if committer.epoch >= 0 or committer.member_id or committer.instance_id is not None:
        group.check_member(committer.member_id, committer.instance_id)
        if committer.epoch != group.generation:
            raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    elif not committer.is_transactional and not group.is_empty:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and this is none of them")
    if not committer.is_transactional and group.state is _S.COMPLETING_REBALANCE:
        raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS, "the assignment is not there yet")
