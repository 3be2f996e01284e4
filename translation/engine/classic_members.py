"""What is known of classic members whose JoinGroup and SyncGroup passed through, which decides whether they can be
converted in place: what they subscribe to, and what they own.

A live member can be converted to the new protocol without its client noticing only if its first heartbeat repeats
exactly what the broker has of it (:mod:`translation.moving.in_place`). That is known here from the calls that the
broker accepted. A JoinGroup makes a record unsettled until the SyncGroup of its generation is answered; a process that
was started later has no record, and its clients have to rejoin once.

Everything is bounded: a client chooses how much it writes into a subscription.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Set as AbstractSet

import msgspec

from translation.actions import ConnectionId, Request
from translation.members.member_ids import LONGEST_MEMBER_ID

MOST_BYTES = 1 << 16
"""A subscription or an assignment that is larger is not kept: about 2,000 topics, or 10,000 partitions."""

_COMMIT_CONNECTIONS = 4
_OVERHEAD = 1_000
"""Bytes that a record takes beside what its client wrote, roughly."""


class ClassicMember(msgspec.Struct, kw_only=True):
    """A classic member, as the broker accepted it.

    ``metadata`` is the subscription of the assignor that the group chose (``protocol_name``), ``assignment`` what
    SyncGroup gave it in this ``generation``: both in the bytes of the embedded consumer protocol. ``assignment`` is
    None while the member rejoins.
    """

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str
    joined_on: ConnectionId
    protocol_type: str
    protocol_name: str
    offered: tuple[str, ...]
    metadata: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    generation: int
    assignment: bytes | None = None
    differs_since: float = math.inf
    """Since when the broker has something else of it, or it has partitions to give up (seconds of the caller's clock),
    as far as that stood in the way of its conversion."""
    timers_until: float = -math.inf
    """Until when a timer of the broker may run that removes the member, because it was answered REBALANCE_IN_PROGRESS
    (seconds of the caller's clock)."""
    commits_on: tuple[ConnectionId, ...] = ()
    """The connections, newest last, on which its commits were relayed in this generation."""

    @property
    def size(self) -> int:
        """How many bytes the record takes, roughly."""
        return len(self.metadata) + len(self.assignment or b"") + _OVERHEAD

    def is_same_client(self, request: Request) -> bool:
        """Whether a call comes from the client that joined: anybody who may read the group can name its member id."""
        return (self.client_id, self.client_host) == (request.client_id, request.connection.client_host)


class ClassicMembers:
    """The classic members of one process, at most ``limit`` of them in at most ``bytes_limit`` bytes.

    Beyond that the one that joined longest ago is forgotten.
    """

    def __init__(self, limit: int, bytes_limit: int) -> None:
        self._limit = limit
        self._bytes_limit = bytes_limit
        self._members: OrderedDict[tuple[str, str], ClassicMember] = OrderedDict()
        self._sizes = Counter[str]()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._members)

    def has_of(self, group_id: str) -> bool:
        """Whether any member of a group is known."""
        return self._sizes[group_id] > 0

    def groups(self) -> list[str]:
        """The groups of which a member is known."""
        return list(self._sizes)

    def of(self, groups: AbstractSet[str]) -> list[tuple[str, str]]:
        """The group ids and member ids of those in these groups."""
        return [key for key in self._members if key[0] in groups]

    def find(self, group_id: str, member_id: str) -> ClassicMember | None:
        """The record of a member; None if its JoinGroup did not pass through here."""
        return self._members.get((group_id, member_id))

    def joined(self, group_id: str, member: ClassicMember) -> None:
        """The broker accepted the JoinGroup of a member."""
        before = self.find(group_id, member.member_id)
        if before is not None:
            member.timers_until = before.timers_until
        self.forget(group_id, member.member_id)
        if len(member.metadata) > MOST_BYTES or len(member.member_id) > LONGEST_MEMBER_ID:
            return
        self._members[group_id, member.member_id] = member
        self._sizes[group_id] += 1
        self._bytes += member.size
        self._forget_oldest()

    def rejoins(self, group_id: str, member_id: str) -> None:
        """A JoinGroup of a member is on its way to the broker: what it owns is not known until its SyncGroup."""
        member = self.find(group_id, member_id)
        if member is not None:
            member.generation = -1  # the answer to a SyncGroup from before may still come
            self._set_assignment(member, None)

    def rebalance_announced(self, group_id: str, member_id: str, now: float) -> None:
        """The broker answered a member REBALANCE_IN_PROGRESS at ``now`` (seconds).

        A consumer group starts the member's rebalance timeout then, and nothing but a JoinGroup to a consumer group
        stops it (``GroupMetadataManager.cancelConsumerGroupJoinTimeout``).
        """
        member = self.find(group_id, member_id)
        if member is not None:
            member.timers_until = now + member.rebalance_timeout_ms / 1000

    def synced(self, group_id: str, member_id: str, generation: int, assignment: bytes) -> None:
        """The broker answered the SyncGroup of a member with this assignment."""
        member = self.find(group_id, member_id)
        if member is not None and member.generation == generation and len(assignment) <= MOST_BYTES:
            self._set_assignment(member, assignment)

    def commits(self, group_id: str, request: Request) -> None:
        """A commit of a member comes on this connection; its client may use another one for its Heartbeats."""
        member = self.find(group_id, request.message.member_id)
        if (
            member is not None
            and member.is_same_client(request)
            and (not member.commits_on or member.commits_on[-1] != request.connection.id)
        ):
            others = tuple(one for one in member.commits_on if one != request.connection.id)
            member.commits_on = (*others[1 - _COMMIT_CONNECTIONS :], request.connection.id)

    def outdated(self, group_id: str, member_id: str, now: float) -> None:
        """Another replica serves or relays the member by now: what it owns is not known here any more.

        A timer of the broker that may still run (see :attr:`ClassicMember.timers_until`) is remembered.
        """
        member = self.find(group_id, member_id)
        if member is not None and member.timers_until > now:
            self.rejoins(group_id, member_id)
        else:
            self.forget(group_id, member_id)

    def forget(self, group_id: str, member_id: str) -> None:
        """The member has left, or is none of the classic protocol any more."""
        member = self._members.pop((group_id, member_id), None)
        if member is not None:
            self._is_gone(group_id, member)

    def _is_gone(self, group_id: str, member: ClassicMember) -> None:
        self._bytes -= member.size
        self._sizes[group_id] -= 1
        if not self._sizes[group_id]:
            del self._sizes[group_id]

    def _set_assignment(self, member: ClassicMember, assignment: bytes | None) -> None:
        self._bytes -= member.size
        member.assignment = assignment
        self._bytes += member.size
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._members) > self._limit or self._bytes > self._bytes_limit:
            (group_id, _), oldest = self._members.popitem(last=False)
            self._is_gone(group_id, oldest)
