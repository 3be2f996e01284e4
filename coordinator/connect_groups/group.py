"""A Connect group: workers, what is configured, and the target assignment."""

from collections.abc import Mapping

import msgspec

from coordinator.connect_groups.computation import Computation
from coordinator.connect_groups.member import NO_DETAILS, ConnectMember, Details, MemberState
from coordinator.connect_groups.work import Work, WorkSet
from coordinator.errors import RequestRefused
from protocol_codecs.error_code import ErrorCode

FIRST_EPOCH = 1
"""Of group and target before anything happens, so that no member has epoch 0, which says hello."""


class Part(msgspec.Struct, frozen=True):
    """One worker's part of the target."""

    works: WorkSet = frozenset()
    details: Details = NO_DETAILS


NO_PART = Part()


class Leader(msgspec.Struct, frozen=True):
    """The worker that computed a target, as classic workers are given it, and how far it had read."""

    member_id: str = ""
    url: str = ""
    config_offset: int = -1


NO_LEADER = Leader()


class ConnectGroup:
    """One group. It changes only by replaying records, but for the computation, which is not in the log."""

    def __init__(self, group_id: str, epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.group_epoch = epoch
        self.assignment_epoch = epoch
        self.target: Mapping[str, Part] = {}
        """Parts of workers that have gone stay until the next target."""
        self.leader: Leader = NO_LEADER
        """Who computed the target."""
        self.config_offset = -1
        self.configured: WorkSet = frozenset()
        self.members: dict[str, ConnectMember] = {}
        """In the order in which they joined."""
        self.owners: dict[Work, frozenset[str]] = {}
        """Who holds what: assigned, or not given up yet. Two only if a classic worker has come with another's tasks."""
        self.computation: Computation | None = None
        """Whose turn it is to compute; this and the next are forgotten when the coordinator restarts."""
        self.expired_computing: list[str] = []
        """The workers whose time to compute has passed since the last installed target."""

    def member(self, member_id: str) -> ConnectMember:
        """Return the worker. Raises RequestRefused with UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestRefused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has no member {member_id!r}"
            )
        return member

    def part_of(self, member_id: str) -> Part:
        """Return the worker's part of the target; nothing for one that the target does not know."""
        return self.target.get(member_id, NO_PART)

    def claimed(self, member: ConnectMember, runs: WorkSet) -> ConnectMember:
        """Return a worker that holds all that it runs: it may keep what no other holds, and has to stop the rest."""
        new = runs - member.holds
        free = frozenset(work for work in new if work not in self.owners)
        pending = member.pending_revocation | (new - free)
        return member.replace(
            assigned=member.assigned | free,
            pending_revocation=pending,
            state=MemberState.UNREVOKED if pending else member.state,
        )

    # Changes, by replay only

    def put_member(self, new: ConnectMember) -> None:
        """Add a worker, or replace the one with its id."""
        old = self.members.get(new.member_id)
        self.members[new.member_id] = new
        self._release(old)
        for work in new.holds:
            self.owners[work] = self.owners.get(work, frozenset()) | {new.member_id}

    def remove_member(self, member_id: str) -> None:
        """Remove a worker."""
        self._release(self.members.pop(member_id, None))

    def _release(self, member: ConnectMember | None) -> None:
        if member is None:
            return
        for work in member.holds:
            left = self.owners.pop(work) - {member.member_id}
            if left:
                self.owners[work] = left
