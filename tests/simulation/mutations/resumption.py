"""Mutations of what lets a client go on at another replica without a rejoin."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from translation.engine import member_log_view
from translation.joining import resumption
from translation.member_log.snapshots import Snapshot
from translation.members import generation
from translation.members.member import Member
from translation.partitions import from_topics


def go_on_with_another_generation() -> AbstractContextManager[Any]:
    """A client goes on at another replica with the snapshot of another generation than its own."""
    return patch.object(resumption, "generation", _AnyGeneration)


class _AnyGeneration:
    """Every call has the generation of the snapshot with which it is compared."""

    resume = staticmethod(generation.resume)

    @staticmethod
    def in_request(_request: Any) -> Any:
        return _EqualToAll()


class _EqualToAll:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def go_on_while_something_is_pending() -> AbstractContextManager[Any]:
    """A client goes on at another replica while the broker has a newer assignment for its group."""

    def broken(snapshot: Snapshot, assignment: Any, found: Any, _group: Any) -> bool:
        return (
            snapshot.member_epoch == found.member_epoch
            and from_topics(found.assignment.topic_partitions) == assignment
        )

    return patch.object(resumption, "_agrees", broken)


def go_on_with_another_assignment() -> AbstractContextManager[Any]:
    """A client goes on at another replica with partitions that the broker does not describe as its own."""

    def broken(snapshot: Snapshot, _assignment: Any, found: Any, group: Any) -> bool:
        return snapshot.member_epoch == found.member_epoch == group.assignment_epoch == group.group_epoch

    return patch.object(resumption, "_agrees", broken)


def go_on_without_a_heartbeat_first() -> AbstractContextManager[Any]:
    """A client goes on at another replica by a description alone, which may show what was before."""

    return patch.object(resumption, "_changes_nothing", lambda *_: True)


def write_down_who_has_to_give_something_up() -> AbstractContextManager[Any]:
    """A member has a snapshot although its client is to give partitions up."""
    snapshot_of = member_log_view.snapshot_of

    def broken(member: Member) -> Snapshot | None:
        partitions = member.partitions
        pending, partitions.pending_revocation = partitions.pending_revocation, frozenset()
        synced, owned = partitions.synced_assignment, partitions.possibly_owned
        partitions.synced_assignment = partitions.possibly_owned = partitions.broker_assignment
        state = member.machine.state
        member.machine.state = type(state).STABLE
        try:
            return snapshot_of(member)
        finally:
            member.machine.state = state
            partitions.pending_revocation = pending
            partitions.synced_assignment, partitions.possibly_owned = synced, owned

    return patch.object(member_log_view, "snapshot_of", broken)
