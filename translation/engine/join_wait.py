"""For how long the answer to a JoinGroup is delayed at most, and what ends the wait early.

The proxy may delay it because there are no partitions for the client yet, or because its group can't be converted yet.
The wait ends early when the client joins again, another process takes its instance id, or nobody waits any more.
"""

from collections.abc import Generator
from typing import Any

from protocol_codecs import ErrorCode
from translation.actions import Request
from translation.engine.join_outcomes import AnsweredByNewer, Failed
from translation.engine.scheduler import Scheduler
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.procedure import Procedure, Wait, WakeReason


def join_wait_limit_s(
    environment: Environment, rebalance_timeout_ms: int, group: Group | None = None
) -> float:
    """How long (seconds) the proxy may hold a JoinGroup of a client with this rebalance timeout before it answers.

    A classic coordinator holds it for as long as the longest rebalance timeout of the group's members, in which they
    have to rejoin. Longer just after an outage: clients of ``group`` whose own session ended meanwhile join under new
    member ids, and their old ones have all partitions until their sessions end too.
    """
    settings = environment.settings
    was_away = group is not None and _was_away(environment, group)
    longest_s = settings.join_wait_after_outage_s if was_away else settings.join_wait_s
    return min(longest_s, settings.join_wait_share * rebalance_timeout_ms / 1000)


def awaits_others(environment: Environment, member: Member) -> bool:
    """Whether a client that joins just after an outage waits although it has partitions, until its group has settled.

    Clients that have left their member ids behind have all others, until their sessions end. What is assigned before
    that is not the whole, and one rejoin after another would follow. A static client has its own back at once.
    """
    return member.client.instance_id is None and _was_away(environment, member.group)


def _was_away(environment: Environment, group: Group) -> bool:
    """Whether the coordinator of a group is back since a short while only, or is still loading the group."""
    return (
        group.out_of_reach
        or environment.now - group.in_reach_at < environment.settings.join_wait_after_outage_s
    )


def take_over_waiting_join(scheduler: Scheduler, member: Member) -> None:
    """The newer JoinGroup of a member answers for the older one that still waits, and ends its wait."""
    older, member.join.waiting = member.join.waiting, None
    if older is not None:
        if older.request is not None:
            member.join.superseded_requests.append(older.request)
        scheduler.wake(older, WakeReason.SUPERSEDED)


def suspend_join(
    member: Member, until: float, answered_by_newer: Request | None = None
) -> Generator[Wait, Any, WakeReason]:
    """Suspend a JoinGroup until ``until`` (seconds) and let other procedures of the member run.

    Its client may join again meanwhile; ``answered_by_newer`` is this request if the newer one answers both.
    """
    procedure = member.queue.running
    if procedure is None:
        raise LookupError("only the procedure that runs can wait")
    procedure.request = answered_by_newer
    member.join.waiting = procedure
    wake_reason: WakeReason = yield Wait(until)
    if member.join.waiting is procedure:
        member.join.waiting = None
    return wake_reason


def wait_in_join(member: Member, request: Request, until: float) -> Procedure[None]:
    """Suspend a JoinGroup that waits for partitions; raises the outcome if its member or client is gone."""
    wake_reason = yield from suspend_join(member, until, request)
    if wake_reason is WakeReason.SUPERSEDED:
        raise AnsweredByNewer("a newer JoinGroup came")
    if wake_reason is WakeReason.REPLACED:
        # As classic brokers do with the JoinGroup that waits of the older process.
        raise Failed(ErrorCode.FENCED_INSTANCE_ID, str(wake_reason.value))
    if wake_reason is WakeReason.TAKEN:
        # It is a member still, of which the client hears where it is served: here it is to try again.
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(wake_reason.value))
    if wake_reason is WakeReason.ABANDONED:
        raise Failed(ErrorCode.UNKNOWN_MEMBER_ID, "nobody waits for it any more")
