"""A Connect group: workers, what is configured, and the target assignment."""

from collections.abc import Mapping

import msgspec

from coordinator.connect_groups.computation import Computation
from coordinator.connect_groups.member import NO_DETAILS, ConnectMember, Details
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


class ConnectGroup:
    """One group. It changes only by replaying records, but for the computation, which is not in the log."""

    def __init__(self, group_id: str, epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.group_epoch = epoch
        self.assignment_epoch = epoch
        self.target: Mapping[str, Part] = {}
        """Parts of workers that have gone stay until the next target."""
        self.config_offset = -1
        self.configured: WorkSet = frozenset()
        self.members: dict[str, ConnectMember] = {}
        """In the order in which they joined."""
        self.owners: dict[Work, str] = {}
        """Who holds what: assigned, or not given up yet."""
        self.computation: Computation | None = None
        """Whose turn it is to compute; this and the next two are forgotten when the coordinator restarts."""
        self.last_computing_member: str | None = None
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

    # Changes, by replay only

    def put_member(self, new: ConnectMember) -> None:
        """Add a worker, or replace the one with its id."""
        old = self.members.get(new.member_id)
        self.members[new.member_id] = new
        self._release(old)
        for work in new.holds:
            self.owners[work] = new.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a worker."""
        self._release(self.members.pop(member_id, None))

    def _release(self, member: ConnectMember | None) -> None:
        if member is None:
            return
        for work in member.holds:
            if self.owners.get(work) == member.member_id:
                del self.owners[work]
