"""Decides whether a call's member is served by this replica: when another replica's members are taken over, and what
a call gets while the member log is away.

A member is served by one replica at a time, the one whose ``served`` counts in the member log
(:mod:`translation.member_log`). So the first call of a member on each connection *claims* it, and waits until a record
of this replica that was written after the call is read back. Then the connection is confirmed, and later calls on it
ask nobody. Without a member log every call goes on at once.

* Only calls whose sender may act in the group claim anything (:mod:`translation.admission.authorization` comes first).
* An id that no record names is claimed only if the broker has described such a member: else whoever may read the group
  could fill the log with ids that they made up. Whatever else the broker says of it decides as without a log.
* A call that waits for the log is in no queue of its member, so a log that is away holds up nobody's turn.
* A commit claims nothing: it often comes from a producer's connection (:mod:`translation.apis.offset_commit`).
* A JoinGroup that is relayed makes its id that of a classic member; if the log knows the id, it says so first
  (:meth:`~MemberServing.settle_relayed`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import Connection, Request
from translation.admission import authorization
from translation.engine.context import Context
from translation.engine.join_outcomes import refused
from translation.engine.member_lookup import Described, Found
from translation.engine.reach import END_AGAIN_S
from translation.error_mapping import IS_OUT
from translation.member_log.outputs import JoinTerms, ServeDecision
from translation.member_log.ownership import Ownership
from translation.member_log.records import Kind, MemberKey, member_key
from translation.members import rebalance_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_ids import is_issued_form
from translation.members.procedure import Procedure, ProcedureQueue, Wait
from translation.upstream.leave_epoch import leave_dead

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


_REFUSALS: Mapping[ServeDecision, ErrorCode] = {
    ServeDecision.PENDING: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ServeDecision.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # In JoinGroup too, in every version: a client that is told MEMBER_ID_REQUIRED works on what it has until SyncGroup.
    ServeDecision.GONE: ErrorCode.UNKNOWN_MEMBER_ID,
}

_CLASSIC = frozenset({Described.CLASSIC_MEMBER, Described.CLASSIC_GROUP})

_SERVED_BY_OTHERS = frozenset({Ownership.ELSEWHERE, Ownership.RELAYED})

Refuse = Callable[[ErrorCode], None]


class MemberServing:
    """Asks the member log who serves a member, and goes on with a call by what it says."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._member_log = context.member_log
        self._registry = context.registry
        self._ids = context.ids
        self._connections = context.connections
        self._scheduler = context.scheduler
        self._reach = context.reach
        self._lookup = context.lookup

    def is_served_here(
        self,
        request: Request,
        member_id: str,
        proceed: Callable[[Found | None], None],
        refuse: Refuse,
    ) -> bool:
        """Whether a Heartbeat, SyncGroup or JoinGroup may go on at once; else ask the log, and ``proceed`` or
        ``refuse``.

        ``proceed`` gets what the broker has said of the member, if that was asked and it is none that can be claimed.
        """
        connection = request.connection
        log = self._member_log.log
        if log is None:
            return True
        key = member_key(request.message.group_id, member_id)
        terms = _terms(request)
        if self._is_new_here(log, key, request, member_id):
            self._ids.used(member_id)
            log.claim(key, connection.id, self._environment.now, terms, issued=True)
            return True
        if log.verdict(key, connection.id, self._environment.now) is ServeDecision.SERVE:
            log.claim(key, connection.id, self._environment.now, terms)
            return True
        member = self._registry.find(request.message.group_id, member_id)
        if member is not None and member.joined:
            authorization.renew_while_asked(self._environment, member, request)
            self._environment.book(member)
        steps = self._settle(log, request, member_id, proceed, refuse)
        self._scheduler.start(steps, ProcedureQueue(), connection.id, request.client_id)
        return False

    def unless_served_since(
        self, request: Request, proceed: Callable[[], None], refuse: Refuse
    ) -> Callable[[], None]:
        """What to do with a JoinGroup when the broker has said that its sender may act in the group.

        That is ``proceed``, unless a record has come meanwhile of another replica that serves the member. Its client
        may have gone there, and have more by now than this JoinGroup claims; that it hung up here may not have been
        heard. If it is still here, it sends another one, which is newer than that record.
        """
        log = self._member_log.log
        member_id: str = request.message.member_id
        if log is None or not member_id:
            return proceed
        key = member_key(request.message.group_id, member_id)
        before = log.record(key)

        def decide() -> None:
            if log.record(key) is not before and log.ownership(key) is Ownership.ELSEWHERE:
                refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                proceed()

        return decide

    def _is_new_here(self, log: "MemberLog", key: MemberKey, request: Request, member_id: str) -> bool:
        """Whether nobody contests an id that this process has given out: a client joins under it for the first time.

        Or it was given up before the log had it; but while the log is away, it may have it without our knowledge.
        """
        return (
            request.api_key == ApiKey.JOIN_GROUP
            and log.record(key) is None
            and not log.may_speak_for(key)
            and (self._ids.is_unused(member_id) or (self._ids.is_issued(member_id) and log.is_ready(key)))
        )

    def _settle(
        self,
        log: "MemberLog",
        request: Request,
        member_id: str,
        proceed: Callable[[Found | None], None],
        refuse: Refuse,
    ) -> Procedure[None]:
        """Ask the log who serves the member of a call, then go on with the call by what it says."""
        connection = request.connection
        group_id: str = request.message.group_id
        key = member_key(group_id, member_id)
        member = self._registry.find(group_id, member_id)
        known = (
            log.record(key) is not None or log.may_speak_for(key) or (member is not None and member.joined)
        )
        if not known:
            found = yield from self._lookup.member(
                group_id, member_id, connection, instance_id=request.message.group_instance_id
            )
            if found[0] is not Described.MEMBER:
                proceed(found)
                return
        if request.api_key != ApiKey.JOIN_GROUP and _is_relayed(log, key):
            log.decided(key, ServeDecision.RELAYED)
            yield from self._relay(request, member_id, proceed)
            return
        if log.ownership(key) in _SERVED_BY_OTHERS:
            self._ids.forget(member_id)
        verdict = log.claim(key, connection.id, self._environment.now, _terms(request))
        verdict = yield from self._await_verdict(log, key, connection, verdict)
        log.decided(key, verdict)
        if verdict is ServeDecision.SERVE:
            proceed(None)
        elif verdict is ServeDecision.RELAYED:
            self._connections.forward(request)
        elif verdict is ServeDecision.GONE:
            yield from self._finish_expiry(log, group_id, member_id)
            refuse((yield from self.code_for_dead(request, member_id)))
        elif self._member_log.gives_up_on(key) and (
            log.is_ready(key) or (yield from self._is_unknown(connection, group_id, member_id))
        ):
            refuse(_REFUSALS[ServeDecision.GONE])
        else:
            refuse(_REFUSALS[verdict])

    def _is_unknown(self, connection: Connection, group_id: str, member_id: str) -> Procedure[bool]:
        """Whether the broker has ended a membership while the log was away.

        A coordinator that was away as well has given each member a whole session when it loaded the group.
        """
        found = yield from self._lookup.member(group_id, member_id, connection)
        return found[0] not in (Described.MEMBER, Described.LOADING, Described.UNAVAILABLE)

    def _relay(
        self, request: Request, member_id: str, proceed: Callable[[Found | None], None]
    ) -> Procedure[None]:
        """Relay a call of a member that the broker serves; at a Heartbeat its turn to move may have come.

        Its JoinGroup was relayed while the policy said so, or by a replica that had read another policy.
        """
        if request.api_key == ApiKey.HEARTBEAT:
            found = yield from self._lookup.member(request.message.group_id, member_id, request.connection)
            member = self._registry.find(request.message.group_id, member_id)
            if found[0] in _CLASSIC and (member is None or not member.joined):
                proceed(found)
                return
        self._connections.forward(request)

    def _await_verdict(
        self, log: "MemberLog", key: MemberKey, connection: Connection, verdict: ServeDecision
    ) -> Procedure[ServeDecision]:
        """Wait until the log has a verdict, but not for longer than a record may take to be read back."""
        until = self._environment.now + log.settings.wait_s
        while verdict is ServeDecision.PENDING and self._environment.now < until:
            yield Wait(until, settles=key)
            verdict = log.verdict(key, connection.id, self._environment.now)
        return verdict

    def _finish_expiry(self, log: "MemberLog", group_id: str, member_id: str) -> Procedure[None]:
        """Send epoch -1 for a dead id for which it may not have been done: who wanted it may have ended before."""
        record = log.record(member_key(group_id, member_id))
        if record is not None and record.kind is Kind.EXPIRING:
            response = yield from leave_dead(group_id, member_id)
            if response.error_code in IS_OUT:
                self._member_log.end(group_id, member_id)
            else:  # the coordinator has moved away, or loads its groups
                self._reach.remember_dead(
                    self._registry.group(group_id), member_id, self._environment.now + END_AGAIN_S
                )

    def code_for_dead(self, request: Request, member_id: str) -> Procedure[ErrorCode]:
        """The code for a client whose id is dead: it comes back without one, unless a newer process has its instance
        id.

        An older process that came back without an id would replace the newer one, and that one the older, for ever.
        """
        instance_id = request.message.group_instance_id
        if instance_id:
            described, _ = yield from self._lookup.member(
                request.message.group_id, member_id, request.connection, instance_id=instance_id
            )
            if described is Described.REPLACED:
                return ErrorCode.FENCED_INSTANCE_ID
        return _REFUSALS[ServeDecision.GONE]

    def claim_classic_member(
        self, member: Member, connection: Connection, terms: JoinTerms
    ) -> Procedure[bool]:
        """Have the log say that this replica serves a classic member that is about to be converted; True without a
        log."""
        log = self._member_log.log
        if log is None:
            return True
        key = member.key
        verdict = log.claim(key, connection.id, self._environment.now, terms)
        with member.converting():
            verdict = yield from self._await_verdict(log, key, connection, verdict)
        log.decided(key, verdict)
        return verdict is ServeDecision.SERVE

    # -- JoinGroups that are relayed -------------------------------------------------------------------------

    def relay_join(self, request: Request) -> None:
        """Relay a JoinGroup as it came; if the log knows its member id, after the log has it as a classic member's."""
        if self._relays_at_once(request):
            self._connections.forward(request)
            return
        steps = self._settle_and_relay(request)
        self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)

    def _settle_and_relay(self, request: Request) -> Procedure[None]:
        code = yield from self.settle_relayed(request)
        if code == ErrorCode.NONE:
            self._connections.forward(request)
        else:
            self._connections.answer(request, refused(request, code))

    def _relays_at_once(self, request: Request) -> bool:
        """Whether the log has nothing against relaying a JoinGroup: it can't know the id, or has it as a classic
        one."""
        log = self._member_log.log
        message: JoinGroupRequest = request.message
        if log is None or not message.member_id:
            return True
        key = member_key(message.group_id, message.member_id)
        record = log.record(key)
        if record is not None:
            return record.kind is Kind.RELAYED
        # Of the ids that replicas give out the log may know more than is read here.
        return not log.may_speak_for(key) and not is_issued_form(message.member_id)

    def settle_relayed(self, request: Request) -> Procedure[ErrorCode]:
        """Have the log say that the broker itself serves the id of a JoinGroup; NONE, or the code that refuses the
        call.

        The broker makes a member of the new protocol with this id a classic one, and a late epoch -1 for the id would
        remove it. So no id is relayed that is dead, or that another replica may end. Where no record of an id is read
        the broker is asked for it: what it does not have as a member of the new protocol is relayed and not written, or
        whoever may read the group could fill the log.
        """
        log = self._member_log.log
        if log is None or self._relays_at_once(request):
            return ErrorCode.NONE
        key = member_key(request.message.group_id, request.message.member_id)
        if log.record(key) is None and not log.may_speak_for(key) and log.is_ready(key):
            connection = self._connections.connection_of(request)
            if connection is None:  # nobody waits for it any more
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            described, _ = yield from self._lookup.member(
                request.message.group_id, request.message.member_id, connection
            )
            is_unsettled = described in (Described.LOADING, Described.UNAVAILABLE)
            if is_unsettled or not self._connections.is_still_connected(request):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            if described is not Described.MEMBER:
                return ErrorCode.NONE
        verdict = log.relay(key, self._environment.now)
        until = self._environment.now + log.settings.wait_s
        while verdict is ServeDecision.PENDING and self._environment.now < until:
            yield Wait(until, settles=key)
            record = log.record(key)
            if record is not None and record.kind.is_dead:
                verdict = ServeDecision.GONE
            elif _is_relayed(log, key):
                verdict = ServeDecision.RELAYED
        log.decided(key, verdict)
        return ErrorCode.NONE if verdict is ServeDecision.RELAYED else _REFUSALS[verdict]


def _terms(request: Request) -> JoinTerms | None:
    """What a JoinGroup asks for, for the record; other calls do not say."""
    if request.api_key != ApiKey.JOIN_GROUP:
        return None
    message: JoinGroupRequest = request.message
    return JoinTerms(
        message.session_timeout_ms, rebalance_timeout.of_client_ms(message), message.group_instance_id or None
    )


def _is_relayed(log: "MemberLog", key: MemberKey) -> bool:
    record = log.record(key)
    return record is not None and record.kind is Kind.RELAYED
