"""Mends groups that leave partitions to nobody, as brokers do in four rare cases (docs/how-to/operations.md).

In a consumer group a member without topics joins, and leaves with epoch -1. Its join changes nothing; its leave moves
the group epoch, so the broker runs its assignor anew, and nothing can be assigned to a member without topics. If this
process ends in between, the broker ends that member after its session timeout, which moves the group epoch too.

In a classic group that Epochgate has moved back, the leader's next Heartbeat is answered REBALANCE_IN_PROGRESS: its
JoinGroup begins a rebalance (``classicGroupJoinExistingMember``). If the leader is not known, any member is asked: its
JoinGroup is answered without a rebalance, and names the leader. A member to which the broker has assigned more than its
client got is asked itself: its SyncGroup brings it.

Three descriptions show that nobody has a partition, in the same group epoch (:mod:`translation.mending`): two of those
that are made anyway, some time apart, and one just before anything is done. Of several replicas one does it, whose
record in the member log counts; the next try is later each time, and after the last one a person has to act.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from translation.actions import ClientCall, Connection, EventKind, Request
from translation.conversion import helper
from translation.conversion.last_consumer_member import CLASSIC
from translation.engine.context import Context
from translation.member_log.group_records import MEND, MOST_MENDS, Mend
from translation.members.procedure import Procedure, ProcedureQueue, Send, Wait
from translation.mending.findings import (
    TOPICS_LIMIT,
    Findings,
    digest_of,
    findings_of_classic_group,
    findings_of_consumer_group,
    topics_of,
    topics_of_classic_group,
)
from translation.mending.suspicion import Suspicion, backoff_ms, is_confirmed
from translation.mending.unowned import AskedToRejoin
from translation.policy.policy import Mode
from translation.upstream.consumer_group_heartbeat import HEARTBEAT_VERSION, heartbeat_version
from translation.upstream.metadata_lookup import lookup_sizes

Description = ConsumerGroupDescribeResponseDescribedGroup | DescribedGroup
"""A group as a broker describes it, without an error: a consumer group, or a classic one."""

CLIENT_ID = "epochgate-mending"
"""In the headers of what is asked and done here, and of the member without topics, for logs and tools of the broker."""

MEMBER_PREFIX = "mending-"
"""What the id of the member without topics begins with. It has no form that a translated member's id has."""

_REBALANCE_TIMEOUT_MS = 60_000
_READ_BACK_S = 2.0
_TELL_S = 60.0
"""For so long the leader's Heartbeat is waited for."""
_JOINS_ANEW_S = 60.0
"""A client that was made to rejoin, as its group is moved, does so by then."""
_ELSEWHERE_S = 120.0
"""A replica that does not serve the leader leaves it for so long to one that may."""
_DESCRIBE_GROUPS_VERSION = 5


def described(context: Context, connection: Connection | None, group_id: str, group: Description) -> None:
    """A broker has described a group, to a member's principal on this connection."""
    unowned = context.unowned
    if connection is not None and _has_only_classic_members(group):
        helper.bring_back(context, connection, group_id)
    if connection is None or group_id in unowned.under_way or not _concerns_us(context, group_id, group):
        return
    topics = _topics(group)
    if not topics or len(topics) > TOPICS_LIMIT:
        return
    sizes = unowned.sizes(topics)
    if unknown := topics - sizes.keys():
        _start(context, group_id, connection, _learn_sizes(context, frozenset(unknown)))
    else:
        _note(context, connection, group_id, group, _findings(context, group, sizes))


def _has_only_classic_members(group: Description) -> bool:
    """Whether it is a consumer group that no member of the new protocol keeps one."""
    return (
        not isinstance(group, DescribedGroup)
        and bool(group.members)
        and all(member.member_type == CLASSIC for member in group.members)
    )


def _concerns_us(context: Context, group_id: str, group: Description) -> bool:
    """Whether Epochgate has moved it: a consumer group with a translated member here, or a classic one moved back."""
    rule = context.rules.rule_for(group_id)
    if isinstance(group, DescribedGroup):
        return rule.mode is Mode.OBSERVE and (
            rule.mend is True or context.unowned.mend(group_id)[0].moved_back
        )
    known = context.registry.groups.get(group_id)
    return (
        rule.mode is Mode.TRANSLATE
        and known is not None
        and any(member.joined for member in known.members.values())
    )


def _topics(group: Description) -> frozenset[str]:
    return topics_of_classic_group(group) if isinstance(group, DescribedGroup) else topics_of(group)


def _findings(context: Context, group: Description, sizes: dict[str, int]) -> Findings | None:
    if isinstance(group, DescribedGroup):
        told = context.unowned.assigned(group.group_id, (member.member_id for member in group.members))
        return findings_of_classic_group(group, sizes, told)
    return findings_of_consumer_group(group, sizes)


def _learn_sizes(context: Context, topics: frozenset[str]) -> Procedure[None]:
    context.unowned.learn_sizes((yield from lookup_sizes(topics)).items())


def _note(
    context: Context, connection: Connection, group_id: str, group: Description, findings: Findings | None
) -> None:
    """Note what a description shows that is requested anyway; mend the group if it has shown it for long enough."""
    unowned, now = context.unowned, context.now
    if findings is None:
        return
    known = unowned.suspicions.get(group_id)
    if not findings.unowned:
        if known is not None:
            del unowned.suspicions[group_id]
            if known.tries:
                context.events.emit_mending(
                    EventKind.MENDING, group_id, "all partitions have an owner again", known.findings.unowned
                )
        return
    if known is None or (known.findings.mark, known.findings.unowned) != (findings.mark, findings.unowned):
        told = "" if known is None else known.told
        known = Suspicion(findings, now, told=told)
        unowned.suspect(group_id, known)
    mend, appended_ms = unowned.mend(group_id)
    known.seen_at = now
    known.tries = mend.tries if mend.unowned == digest_of(findings.unowned) else 0
    known.why_not = _why_not(context, group_id, known)
    is_classic = isinstance(group, DescribedGroup)
    if not is_confirmed(known, now, is_classic=is_classic) or _is_being_moved(context, group_id):
        return
    waits_ms = (
        appended_ms + backoff_ms(mend.tries) - unowned.records.now_ms(group_id, now) if mend.tries else 0
    )
    if (
        is_classic
        and not known.why_not
        and waits_ms <= 0
        and not _is_to_be_asked_here(context, group_id, known)
    ):
        if _may_be_asked_elsewhere(context, known):
            return
        if unowned.leader(group_id) is not None:
            known.why_not = "its leader does not come through this process"
    if known.why_not:
        _alert(context, group_id, known)
    elif waits_ms <= 0:
        _start(
            context, group_id, connection, _mend(context, group_id, connection, known, is_classic=is_classic)
        )


def _why_not(context: Context, group_id: str, suspicion: Suspicion) -> str:
    """Why nothing may be done about a group, for people; empty if something may."""
    rule, moves, unowned = context.rules.rule_for(group_id), context.moves, context.unowned
    if rule.mend is False:
        return "the policy says `mend: false`"
    if suspicion.findings.has_classic:
        return "classic members in it would all have to join again"
    if not unowned.is_alone():
        return "several processes serve it without a member log (`fleet`)"
    if not unowned.records.is_ready(group_id):
        return "the member log is away"
    if rule.staged and moves.counts_members(group_id, rule):
        return "its move by steps is not over"
    if suspicion.tries >= MOST_MENDS:
        return f"{suspicion.tries} tries have not helped"
    return suspicion.refused


def _is_being_moved(context: Context, group_id: str) -> bool:
    """Whether a member was made to rejoin a moment ago: it comes back by itself, and the group changes then."""
    known = context.registry.groups.get(group_id)
    return known is not None and any(
        context.now - switch.asked_at < _JOINS_ANEW_S for switch in known.pending_switches.values()
    )


def _is_to_be_asked_here(context: Context, group_id: str, suspicion: Suspicion) -> bool:
    """Whether somebody who comes through this process has to be asked to rejoin, as far as is known here."""
    leader = context.unowned.leader(group_id)
    return bool(suspicion.findings.lacking) or (leader is not None and leader.is_here)


def _may_be_asked_elsewhere(context: Context, suspicion: Suspicion) -> bool:
    """Whether another replica may know better whom to tell, and have time for it."""
    return context.member_log.log is not None and context.now - suspicion.since < _ELSEWHERE_S


def _alert(context: Context, group_id: str, suspicion: Suspicion) -> None:
    """Say once for each reason that a group is left as it is."""
    if suspicion.told != suspicion.why_not:
        suspicion.told = suspicion.why_not
        context.events.emit_mending(
            EventKind.LEFT_UNOWNED, group_id, suspicion.why_not, suspicion.findings.unowned
        )


def _start(context: Context, group_id: str, connection: Connection, steps: Procedure[None]) -> None:
    context.unowned.under_way.add(group_id)
    context.scheduler.start(
        _until_it_ends(steps, lambda: context.unowned.under_way.discard(group_id)),
        ProcedureQueue(),
        connection.id,
        CLIENT_ID,
    )


def _until_it_ends(steps: Procedure[None], on_end: Callable[[], None]) -> Procedure[None]:
    try:
        yield from steps
    finally:
        on_end()


# -- what is done ------------------------------------------------------------------------------------------------------


def _mend(
    context: Context, group_id: str, connection: Connection, suspicion: Suspicion, *, is_classic: bool
) -> Procedure[None]:
    """Mend a group, if this process is the one whose record counts, and nothing has changed in the group since."""
    unowned, findings = context.unowned, suspicion.findings
    before, _ = unowned.mend(group_id)
    mend = Mend(before.moved_back, suspicion.tries + 1, digest_of(findings.unowned))
    if not (yield from _claim(context, group_id, mend)):
        return
    again = yield from _look_again(context, group_id, connection, is_classic=is_classic)
    if again is None or (again.mark, again.unowned, again.has_classic) != (
        findings.mark,
        findings.unowned,
        False,
    ):
        return
    if _why_not(context, group_id, suspicion) or _is_being_moved(context, group_id):
        return  # the policy may have changed while the broker was asked
    suspicion.tries = mend.tries
    if is_classic:
        leader = unowned.leader(group_id)
        whom = findings.lacking or frozenset(() if leader is None else {leader.member_id})
        unowned.leaders_to_ask[group_id] = AskedToRejoin(whom, context.now + _TELL_S)
        return
    yield from _join_and_leave(context, group_id, suspicion)


def _claim(context: Context, group_id: str, mend: Mend) -> Procedure[bool]:
    """Write that this process unowned a group now; return whether that record counts."""
    unowned, until = context.unowned, context.now + _READ_BACK_S
    key = unowned.write(group_id, mend)
    if key is None:
        return False
    while unowned.records.is_unresolved(key) and context.now < until:
        yield Wait(until, settles=key.member)
    return unowned.records.is_own(group_id, MEND) and unowned.mend(group_id)[0] == mend


def _look_again(
    context: Context, group_id: str, connection: Connection, *, is_classic: bool
) -> Procedure[Findings | None]:
    """Request all that findings need from the broker; None if it does not say."""
    group: Description
    if is_classic:
        classic: DescribeGroupsResponse = yield Send(
            ApiKey.DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, DescribeGroupsRequest(groups=(group_id,))
        )
        groups: tuple[Description, ...] = classic.groups
    else:
        version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1, oldest=1)
        if version is None or heartbeat_version(connection) is None:
            return None
        response: ConsumerGroupDescribeResponse = yield Send(
            ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(group_ids=(group_id,))
        )
        groups = response.groups
    if len(groups) != 1 or groups[0].error_code != ErrorCode.NONE:
        return None
    group = groups[0]
    topics = _topics(group)
    return (
        _findings(context, group, (yield from lookup_sizes(topics))) if len(topics) <= TOPICS_LIMIT else None
    )


def _join_and_leave(context: Context, group_id: str, suspicion: Suspicion) -> Procedure[None]:
    """Have a member without topics join a consumer group, and leave it."""
    member_id = context.ids.unlike_ours(MEMBER_PREFIX)
    joins = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=(),
        topic_partitions=(),
    )
    joined: ConsumerGroupHeartbeatResponse = yield Send(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, joins
    )
    if joined.error_code != ErrorCode.NONE:
        suspicion.refused = (
            f"the broker answered {ErrorCode(joined.error_code).name} to a member without topics"
        )
        suspicion.why_not = suspicion.refused
        _alert(context, group_id, suspicion)
        return
    reason = f"a member without topics joined and leaves, try {suspicion.tries}"
    context.events.emit_mending(EventKind.MENDING, group_id, reason, suspicion.findings.unowned, member_id)
    leaves = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)
    yield Send(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, leaves)
    group = context.registry.groups.get(group_id)
    if group is not None:
        context.memberships.heartbeat_group(
            group
        )  # else the broker waits for a client's Heartbeat to assign anew


def ask_leader_to_rejoin(context: Context, call: ClientCall) -> None:
    """Answer the Heartbeat of a classic member that is to join again, if the broker takes it for a member at rest."""
    steps = _ask_to_rejoin(context, call.request)
    context.scheduler.start(steps, ProcedureQueue(), call.connection.id, call.request.client_id)


def _ask_to_rejoin(context: Context, request: Request) -> Procedure[None]:
    group_id, member_id = request.message.group_id, request.message.member_id
    # The Heartbeat is a sign of life at the broker too, and only a member's is answered without an error.
    response: HeartbeatResponse = yield Send(ApiKey.HEARTBEAT, request.version, request.message)
    unowned = context.unowned
    if response.error_code == ErrorCode.NONE and unowned.is_to_rejoin(group_id, member_id):
        unowned.was_asked(group_id, member_id)
        suspicion = unowned.suspicions.get(group_id)
        context.events.emit_mending(
            EventKind.MENDING,
            group_id,
            f"told to join again, try {0 if suspicion is None else suspicion.tries}",
            frozenset() if suspicion is None else suspicion.findings.unowned,
            member_id,
        )
        response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    context.connections.answer(request, response)
