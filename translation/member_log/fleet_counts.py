"""Says how many members and replicas a fleet has, by state, without going through the members: for people.

Pages and metrics use the same states, so they agree.
"""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from translation.member_log.member_log import MemberLog
from translation.member_log.records import Kind, Writer
from translation.member_log.replicas import SILENT_AFTER_MS, Heard, Replica, Replicas


class MemberState(StrEnum):
    """What the log says of a member that is not known to have ended."""

    SERVED = "served"
    SILENT = "silent"
    """Served, but its replica is silent."""
    EXPIRING = "expiring"
    """The member id is dead, the broker may still have the member."""


class FleetCounts(NamedTuple):
    """The fleet, as one process reads it. ``silent`` counts replicas that are named for members, and are silent."""

    here: int
    """Members that this process serves; ``members`` has them too."""
    members: Counter[MemberState]
    heard: int
    silent: int


def count_fleet(log: MemberLog, replicas: Replicas, own: Replica) -> FleetCounts:
    """Count what the log of the replica ``own`` says."""
    here = 0
    members: Counter[MemberState] = Counter()
    silent: set[Writer] = set()
    is_old = (
        replicas.newest_ms > SILENT_AFTER_MS
    )  # of a writer without a probe; a flood of made-up ones has to cost little
    for (kind, writer), number in log.numbers().items():
        if kind is Kind.SERVED and not (replicas.knows(writer) or log.is_own(writer)):
            members[MemberState.SILENT if is_old else MemberState.SERVED] += number
            if is_old:
                silent.add(writer)
            continue
        heard = writer_of(log, replicas, own, writer, "")
        state = state_of(kind, replicas, heard)
        if state is None:
            continue
        members[state] += number
        if kind is Kind.SERVED and log.is_own(writer):
            here += number
        if state is MemberState.SILENT:
            silent.add(heard.replica.first)
    return FleetCounts(here, members, replicas.count_heard(), len(silent))


def writer_of(log: MemberLog, replicas: Replicas, own: Replica, writer: Writer, server: str) -> Heard:
    """Whose writer it is; ``own`` knows its own also before a probe of theirs is read."""
    if log.is_own(writer):
        return replicas.of(own.first, own.server)
    return replicas.of(writer, server)


def state_of(kind: Kind, replicas: Replicas, heard: Heard) -> MemberState | None:
    """The state of a member for which a record of this kind, by ``heard``, counts; None if it is none of the fleet.

    Such are members that have ended, those that the broker itself serves (the log does not learn of their end), and
    those whose replica is gone: the broker's session has ended them, unless another replica has served them since.
    """
    if kind is Kind.SERVED:
        if replicas.is_gone(heard):
            return None
        return MemberState.SILENT if replicas.is_silent(heard) else MemberState.SERVED
    return MemberState.EXPIRING if kind is Kind.EXPIRING else None
