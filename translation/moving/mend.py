"""Decides what is done about partitions that a group leaves without an owner (``mend``), and by which replica;
brokers do so in four rare cases (docs/how-to/operations.md).

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
from translation.actions import Call, Connection, EventKind, Request
from translation.conversion.helper import Helpers
from translation.conversion.last_consumer_member import CLASSIC
from translation.engine.context import Context
from translation.member_log.group_records import MEND, MOST_MENDS, Mend
from translation.members.environment import Environment
from translation.members.procedure import Procedure, ProcedureQueue, Wait
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


class Mending:
    """Finds partitions that no member has, and makes a group assign them."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._unowned = context.unowned
        self._moves = context.moves
        self._registry = context.registry
        self._events = context.events
        self._scheduler = context.scheduler
        self._ids = context.ids
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._connections = context.connections
        self._helpers = Helpers(context)

    def described(self, connection: Connection | None, group_id: str, group: Description) -> None:
        """A broker has described a group, to a member's principal on this connection."""
        unowned = self._unowned
        if connection is not None and _has_only_classic_members(group):
            self._helpers.bring_back(connection, group_id)
        if connection is None or group_id in unowned.under_way or not self._concerns_us(group_id, group):
            return
        topics = _topics(group)
        if not topics or len(topics) > TOPICS_LIMIT:
            return
        sizes = unowned.sizes(topics)
        if unknown := topics.difference(sizes):
            self._start(group_id, connection, self._learn_sizes(unknown))
        else:
            self._note(connection, group_id, group, self._findings(group, sizes))

    def _concerns_us(self, group_id: str, group: Description) -> bool:
        """Whether Epochgate has moved it: a consumer group with a translated member here, or a classic one moved
        back."""
        rule = self._moves.rules.rule_for(group_id)
        if isinstance(group, DescribedGroup):
            return rule.mode is Mode.OBSERVE and (
                rule.mend is True or self._unowned.mend(group_id)[0].moved_back
            )
        known = self._registry.groups.get(group_id)
        return (
            rule.mode is Mode.TRANSLATE
            and known is not None
            and any(member.joined for member in known.members.values())
        )

    def _findings(self, group: Description, sizes: dict[str, int]) -> Findings | None:
        if isinstance(group, DescribedGroup):
            told = self._unowned.assigned(group.group_id, (member.member_id for member in group.members))
            return findings_of_classic_group(group, sizes, told)
        return findings_of_consumer_group(group, sizes)

    def _learn_sizes(self, topics: frozenset[str]) -> Procedure[None]:
        self._unowned.learn_sizes((yield from lookup_sizes(topics)).items())

    def _note(
        self, connection: Connection, group_id: str, group: Description, findings: Findings | None
    ) -> None:
        """Note what a description shows that is requested anyway; mend the group if it has shown it for long enough."""
        unowned, now = self._unowned, self._environment.now
        if findings is None:
            return
        known = unowned.suspicions.get(group_id)
        if not findings.unowned:
            if known is not None:
                del unowned.suspicions[group_id]
                if known.tries:
                    self._events.emit_mending(
                        EventKind.MENDING,
                        group_id,
                        "all partitions have an owner again",
                        known.findings.unowned,
                    )
            return
        if known is None or (known.findings.mark, known.findings.unowned) != (
            findings.mark,
            findings.unowned,
        ):
            told = "" if known is None else known.told
            known = Suspicion(findings, now, told=told)
            unowned.suspect(group_id, known)
        mend, appended_ms = unowned.mend(group_id)
        known.seen_at = now
        known.tries = mend.tries if mend.unowned == digest_of(findings.unowned) else 0
        known.why_not = self._why_not(group_id, known)
        is_classic = isinstance(group, DescribedGroup)
        if not is_confirmed(known, now, is_classic=is_classic) or self._is_being_moved(group_id):
            return
        waits_ms = (
            appended_ms + backoff_ms(mend.tries) - unowned.records.now_ms(group_id, now) if mend.tries else 0
        )
        if (
            is_classic
            and not known.why_not
            and waits_ms <= 0
            and not self._is_to_be_asked_here(group_id, known)
        ):
            if self._may_be_asked_elsewhere(known):
                return
            if unowned.leader(group_id) is not None:
                known.why_not = "its leader does not come through this process"
        if known.why_not:
            self._alert(group_id, known)
        elif waits_ms <= 0:
            self._start(group_id, connection, self._mend(group_id, connection, known, is_classic=is_classic))

    def _why_not(self, group_id: str, suspicion: Suspicion) -> str:
        """Why nothing may be done about a group, for people; empty if something may."""
        rule, moves, unowned = self._moves.rules.rule_for(group_id), self._moves, self._unowned
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

    def _is_being_moved(self, group_id: str) -> bool:
        """Whether a member was made to rejoin a moment ago: it comes back by itself, and the group changes then."""
        known = self._registry.groups.get(group_id)
        return known is not None and any(
            self._environment.now - switch.asked_at < _JOINS_ANEW_S
            for switch in known.pending_switches.values()
        )

    def _is_to_be_asked_here(self, group_id: str, suspicion: Suspicion) -> bool:
        """Whether somebody who comes through this process has to be asked to rejoin, as far as is known here."""
        leader = self._unowned.leader(group_id)
        return bool(suspicion.findings.lacking) or (leader is not None and leader.is_here)

    def _may_be_asked_elsewhere(self, suspicion: Suspicion) -> bool:
        """Whether another replica may know better whom to tell, and have time for it."""
        return self._member_log.log is not None and self._environment.now - suspicion.since < _ELSEWHERE_S

    def _alert(self, group_id: str, suspicion: Suspicion) -> None:
        """Say once for each reason that a group is left as it is."""
        if suspicion.told != suspicion.why_not:
            suspicion.told = suspicion.why_not
            self._events.emit_mending(
                EventKind.LEFT_UNOWNED, group_id, suspicion.why_not, suspicion.findings.unowned
            )

    def _start(self, group_id: str, connection: Connection, steps: Procedure[None]) -> None:
        self._unowned.under_way.add(group_id)
        self._scheduler.start(
            _until_it_ends(steps, lambda: self._unowned.under_way.discard(group_id)),
            ProcedureQueue(),
            connection.id,
            CLIENT_ID,
        )

    # -- what is done ----------------------------------------------------------------------------------------

    def _mend(
        self, group_id: str, connection: Connection, suspicion: Suspicion, *, is_classic: bool
    ) -> Procedure[None]:
        """Mend a group, if this process is the one whose record counts, and nothing has changed in the group since."""
        unowned, findings = self._unowned, suspicion.findings
        before, _ = unowned.mend(group_id)
        mend = Mend(before.moved_back, suspicion.tries + 1, digest_of(findings.unowned))
        if not (yield from self._claim(group_id, mend)):
            return
        again = yield from self._look_again(group_id, connection, is_classic=is_classic)
        if again is None or (again.mark, again.unowned, again.has_classic) != (
            findings.mark,
            findings.unowned,
            False,
        ):
            return
        if self._why_not(group_id, suspicion) or self._is_being_moved(group_id):
            return  # the policy may have changed while the broker was asked
        suspicion.tries = mend.tries
        if is_classic:
            leader = unowned.leader(group_id)
            whom = findings.lacking or frozenset(() if leader is None else {leader.member_id})
            unowned.leaders_to_ask[group_id] = AskedToRejoin(whom, self._environment.now + _TELL_S)
            return
        yield from self._join_and_leave(group_id, suspicion)

    def _claim(self, group_id: str, mend: Mend) -> Procedure[bool]:
        """Write that this process unowned a group now; return whether that record counts."""
        unowned, until = self._unowned, self._environment.now + _READ_BACK_S
        key = unowned.write(group_id, mend)
        if key is None:
            return False
        while unowned.records.is_unresolved(key) and self._environment.now < until:
            yield Wait(until, settles=key.member)
        return unowned.records.is_own(group_id, MEND) and unowned.mend(group_id)[0] == mend

    def _look_again(
        self, group_id: str, connection: Connection, *, is_classic: bool
    ) -> Procedure[Findings | None]:
        """Request all that findings need from the broker; None if it does not say."""
        group: Description
        if is_classic:
            classic: DescribeGroupsResponse = yield Call(
                ApiKey.DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, DescribeGroupsRequest(groups=(group_id,))
            )
            groups: tuple[Description, ...] = classic.groups
        else:
            version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1, oldest=1)
            if version is None or heartbeat_version(connection) is None:
                return None
            response: ConsumerGroupDescribeResponse = yield Call(
                ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(group_ids=(group_id,))
            )
            groups = response.groups
        if len(groups) != 1 or groups[0].error_code != ErrorCode.NONE:
            return None
        group = groups[0]
        topics = _topics(group)
        return (
            self._findings(group, (yield from lookup_sizes(topics))) if len(topics) <= TOPICS_LIMIT else None
        )

    def _join_and_leave(self, group_id: str, suspicion: Suspicion) -> Procedure[None]:
        """Have a member without topics join a consumer group, and leave it."""
        member_id = self._ids.unlike_ours(MEMBER_PREFIX)
        joins = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(),
            topic_partitions=(),
        )
        joined: ConsumerGroupHeartbeatResponse = yield Call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, joins
        )
        if joined.error_code != ErrorCode.NONE:
            suspicion.refused = (
                f"the broker answered {ErrorCode(joined.error_code).name} to a member without topics"
            )
            suspicion.why_not = suspicion.refused
            self._alert(group_id, suspicion)
            return
        reason = f"a member without topics joined and leaves, try {suspicion.tries}"
        self._events.emit_mending(EventKind.MENDING, group_id, reason, suspicion.findings.unowned, member_id)
        leaves = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)
        yield Call(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, leaves)
        group = self._registry.groups.get(group_id)
        if group is not None:
            # Else the broker waits for a client's Heartbeat before it computes the assignment again.
            self._memberships.heartbeat_group(group)

    def ask_leader_to_rejoin(self, request: Request) -> None:
        """Answer the Heartbeat of a classic member that is to join again, if the broker takes it for a member at
        rest."""
        steps = self._ask_to_rejoin(request)
        self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)

    def _ask_to_rejoin(self, request: Request) -> Procedure[None]:
        group_id, member_id = request.message.group_id, request.message.member_id
        # The Heartbeat is a sign of life at the broker too, and only a member's is answered without an error.
        response: HeartbeatResponse = yield Call(ApiKey.HEARTBEAT, request.version, request.message)
        unowned = self._unowned
        if response.error_code == ErrorCode.NONE and unowned.is_to_rejoin(group_id, member_id):
            unowned.was_asked(group_id, member_id)
            suspicion = unowned.suspicions.get(group_id)
            self._events.emit_mending(
                EventKind.MENDING,
                group_id,
                f"told to join again, try {0 if suspicion is None else suspicion.tries}",
                frozenset() if suspicion is None else suspicion.findings.unowned,
                member_id,
            )
            response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        self._connections.answer(request, response)


def _has_only_classic_members(group: Description) -> bool:
    """Whether it is a consumer group that no member of the new protocol keeps one."""
    return (
        not isinstance(group, DescribedGroup)
        and bool(group.members)
        and all(member.member_type == CLASSIC for member in group.members)
    )


def _topics(group: Description) -> frozenset[str]:
    return topics_of_classic_group(group) if isinstance(group, DescribedGroup) else topics_of(group)


def _until_it_ends(steps: Procedure[None], on_end: Callable[[], None]) -> Procedure[None]:
    try:
        yield from steps
    finally:
        on_end()
