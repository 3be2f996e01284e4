"""Decides which way a group call takes: also a commit or LeaveGroup without a member of this process, a call while a
commit is with the broker, and a commit of a client on its way back.

JoinGroup has more ways than the others (:mod:`translation.routing.join_routing`), and members that speak to the broker
themselves are only kept from joining (:mod:`translation.admission.guarded_joins`). Any other call of a client goes one
of these ways, decided by what the policy says and by what is known of its group and member:

* **Relayed**: the broker itself answers it (:mod:`translation.routing.relayed_calls`), because the group is not
  translated, or the member is a classic or a native one.
* **Refused**: another member has its instance id, or a Heartbeat tells its client to rejoin
  (:mod:`translation.moving.downgrade`).
* **Translated**: a procedure of its member in :mod:`translation.apis` answers it.
* **Adopted first**: the member is unknown here, so the broker is asked for it (:mod:`translation.joining.adoption`).
  Of a group that is not translated the call itself asks: it is relayed, and adopts its member if the broker's answer
  says that this may be one of the new protocol, from before this process started.

A call that is not relayed goes on only if its sender may act in the group (:mod:`translation.admission.authorization`).
If the broker has to be asked for that, the call is routed again afterwards, with ``authorized``. A Heartbeat, SyncGroup
or JoinGroup then goes on only if its member is served by this replica (:mod:`translation.admission.serving`).
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.leave_group import LeaveGroupRequest
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest
from protocol_codecs.messages.sync_group import SyncGroupResponse
from translation.actions import Call, Request
from translation.admission import authorization
from translation.admission.guarded_joins import route_member_heartbeat
from translation.admission.serving import MemberServing
from translation.apis import commit_messages, leave_group, offset_fetch
from translation.apis.describe_groups import describe_groups
from translation.apis.heartbeat import Heartbeats
from translation.apis.leave_group import LeaveGroups
from translation.apis.offset_commit import OffsetCommits
from translation.apis.predicted_heartbeat import PredictedHeartbeat, is_predictable
from translation.apis.sync_group import SyncGroups
from translation.engine.context import Context
from translation.engine.member_lookup import Found
from translation.joining.adoption import Adoption
from translation.members import session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure, ProcedureQueue
from translation.membership import static_members
from translation.moving import held_return
from translation.moving.downgrade import Downgrade
from translation.moving.mend import Mending
from translation.passthrough.commits import codes_of
from translation.policy.policy import Mode
from translation.routing.join_routing import JoinRouting
from translation.routing.relayed_calls import RelayedCalls
from translation.upstream.consumer_group_heartbeat import heartbeat_version
from translation.upstream.relayed_responses import RelayedResponses

_COMMITS = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
_FOR_CLASSIC_MEMBERS = range(2, 9)
"""The versions of OffsetCommit that brokers take from classic members only (KIP-848)."""


class CallRouting:
    """Decides which way a group call takes."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._connections = context.connections
        self._registry = context.registry
        self._scheduler = context.scheduler
        self._rules = context.rules
        self._classic_members = context.classic_members
        self._member_log = context.member_log
        self._unowned = context.unowned
        self._router = context.router
        self._uses = context.uses
        self._relayed_calls = RelayedCalls(context)
        self._downgrade = Downgrade(context)
        self._adoption = Adoption(context)
        self._leave_groups = LeaveGroups(context)
        self._mending = Mending(context)
        self._heartbeats = Heartbeats(context)
        self._sync_groups = SyncGroups(context)
        self._offset_commits = OffsetCommits(context)
        self._relayed_responses = RelayedResponses(context)
        self._serving = MemberServing(context)
        self._context = context
        member_heartbeat = partial(route_member_heartbeat, context)
        self._routes: Mapping[int, Callable[[Request], None]] = {
            ApiKey.JOIN_GROUP: JoinRouting(context).route_join_group,
            ApiKey.HEARTBEAT: self._route_heartbeat,
            ApiKey.SYNC_GROUP: self._route_sync_group,
            ApiKey.LEAVE_GROUP: self._route_leave_group,
            ApiKey.OFFSET_COMMIT: self._route_commit,
            ApiKey.TXN_OFFSET_COMMIT: self._route_commit,
            ApiKey.OFFSET_FETCH: self._route_offset_fetch,
            ApiKey.DESCRIBE_GROUPS: self._route_describe_groups,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: member_heartbeat,
            ApiKey.SHARE_GROUP_HEARTBEAT: member_heartbeat,
            ApiKey.STREAMS_GROUP_HEARTBEAT: member_heartbeat,
        }

    def route(self, request: Request) -> None:
        """Send a group request its way; requests of other APIs are relayed."""
        router = self._router
        if router is not None and router.route(request, self.route):
            return
        route_request = self._routes.get(request.api_key)
        if route_request is None:
            self._connections.forward(request)
        else:
            route_request(request)

    def predict_heartbeat(self, request: Request) -> PredictedHeartbeat | None:
        """The short way of a Heartbeat that brings nothing new, as nearly all do; None for any other."""
        message: HeartbeatRequest = request.message
        member = self._registry.find(message.group_id, message.member_id)
        if member is None or not is_predictable(self._context, member, request.connection, message):
            return None
        return PredictedHeartbeat(self._context, self._heartbeats, member, request)

    # -- Heartbeat, SyncGroup, OffsetCommit, TxnOffsetCommit -------------------------------------------------

    def _route_heartbeat(self, request: Request, *, authorized: bool = False) -> None:
        predicted = self.predict_heartbeat(request)
        if predicted is not None:
            predicted.begin()
            return
        if self._is_relayed_held(request):
            return
        self._route_member_call(
            request,
            translate=self._heartbeats.heartbeat,
            refusal=lambda code: HeartbeatResponse(error_code=code),
            route_again=self._route_heartbeat,
            authorized=authorized,
            claims=True,
        )

    def _route_sync_group(self, request: Request, *, authorized: bool = False) -> None:
        self._route_member_call(
            request,
            translate=self._sync_groups.sync,
            refusal=lambda code: SyncGroupResponse(error_code=code),
            route_again=self._route_sync_group,
            authorized=authorized,
            claims=True,
        )

    def _route_commit(self, request: Request, *, authorized: bool = False) -> None:
        """Route a commit. One without a member id belongs to no member: an admin's, or a client's that assigns by
        hand."""
        message = request.message
        if self._is_relayed_held(request):
            return
        self._classic_members.commits(message.group_id, request)
        if not message.member_id or self._relayed_calls.is_of_native(message.group_id, message.member_id):
            self._connections.forward(request)
            return
        self._route_member_call(
            request,
            translate=self._offset_commits.commit,
            refusal=lambda code: commit_messages.refused(request, code),
            route_again=self._route_commit,
            authorized=authorized,
            claims=False,
        )

    def _is_relayed_held(self, request: Request) -> bool:
        """Relay a Heartbeat or a commit if its client's JoinGroup is held on the way back; the broker answers it."""
        message = held_return.with_generation_of_broker(self._registry, request)
        if message is None:
            return False
        steps = held_return.relay_held(self._connections, request, message)
        self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
        return True

    def _route_member_call(
        self,
        request: Request,
        *,
        translate: Callable[[Member, Request], Procedure[None]],
        refusal: Callable[[ErrorCode], Any],
        route_again: Callable[..., None],
        authorized: bool,
        claims: bool,
    ) -> None:
        """Route a call of one member: relay or refuse it, or start the procedure that translates it.

        ``refusal`` makes the response that refuses it with a code. ``route_again`` is called, with ``authorized``, when
        the broker has said that the sender may act in the group. ``claims``: the call shows that its client is here, so
        its member is to be served here (:mod:`translation.admission.serving`).
        """
        message = request.message
        group_id, member_id = message.group_id, message.member_id

        def refuse(code: ErrorCode) -> None:
            self._connections.answer(request, refusal(code))

        if self._relayed_calls.is_relayed(group_id, member_id):
            self._uses(request.connection.id, group_id)
            if (
                self._unowned.leaders_to_ask
                and request.api_key == ApiKey.HEARTBEAT
                and self._unowned.is_to_rejoin(group_id, member_id)
            ):
                self._mending.ask_leader_to_rejoin(request)
            elif self._is_of_unknown(request):
                self._relay_or_adopt(request, translate, refuse, claims=claims)
            else:
                self._connections.forward(request)
            return
        known = self._registry.find(group_id, member_id)
        proceed = partial(route_again, request, authorized=True)
        if not authorized and not authorization.is_authorized(self._context, request, known, proceed):
            return
        go_on = partial(self._translate_or_refuse, request, translate, refuse)
        if claims and not self._serving.is_served_here(request, member_id, go_on, refuse):
            return
        go_on(None)

    def _is_of_unknown(self, request: Request) -> bool:
        """Whether this is a call that brokers take from classic members only, and its member may be of the new
        protocol."""
        message = request.message
        is_commit = request.api_key == ApiKey.OFFSET_COMMIT and request.version in _FOR_CLASSIC_MEMBERS
        return (
            (is_commit or request.api_key == ApiKey.HEARTBEAT)
            and heartbeat_version(request.connection) is not None
            and self._relayed_calls.may_be_translated_still(message.group_id, message.member_id)
        )

    def _relay_or_adopt(
        self,
        request: Request,
        translate: Callable[[Member, Request], Procedure[None]],
        refuse: Callable[[ErrorCode], None],
        *,
        claims: bool,
    ) -> None:
        """Relay a call; if the broker refuses it as one of a member of the new protocol, adopt that and translate the
        call.

        Before the broker has answered nothing is known of the member: it looks at the sender's right to the group
        first.
        """
        group_id, member_id = request.message.group_id, request.message.member_id
        is_heartbeat = request.api_key == ApiKey.HEARTBEAT

        def adopt(found: Found | None) -> None:
            member = self._registry.member(group_id, member_id)
            go_on = partial(translate, member, request)
            self._translate_or_adopt(member, request, go_on, refuse, found)

        def steps() -> Procedure[None]:
            response = yield Call(request.api_key, request.version, request.message)
            codes = {response.error_code} if is_heartbeat else codes_of(response)
            if (ErrorCode.UNKNOWN_MEMBER_ID if is_heartbeat else ErrorCode.UNSUPPORTED_VERSION) in codes:
                if not claims or self._serving.is_served_here(request, member_id, adopt, refuse):
                    adopt(None)
                return
            if codes == {ErrorCode.NONE}:
                self._registry.relay(self._registry.group(group_id), member_id)
            if is_heartbeat:
                self._relayed_responses.observe_response(request, response)
            self._connections.answer(request, response)

        self._scheduler.start(steps(), ProcedureQueue(), request.connection.id, request.client_id)

    def _translate_or_refuse(
        self,
        request: Request,
        translate: Callable[[Member, Request], Procedure[None]],
        refuse: Callable[[ErrorCode], None],
        found: Found | None,
    ) -> None:
        """Go on with a call that may be served here; ``found`` is what the broker has said of a member that it has
        not."""
        message = request.message
        group_id, member_id = message.group_id, message.member_id
        if self._relayed_calls.is_relayed(group_id, member_id):  # since a moment ago
            self._connections.forward(request)
        elif static_members.is_fenced(
            self._environment, self._registry, group_id, member_id, message.group_instance_id
        ):
            refuse(ErrorCode.FENCED_INSTANCE_ID)
        elif (
            request.api_key == ApiKey.HEARTBEAT
            and (code := self._downgrade.why_to_rejoin(request)) is not None
        ):
            refuse(code)
        else:
            member = self._registry.member(group_id, member_id)
            steps = partial(translate, member, request)
            self._translate_or_adopt(member, request, steps, refuse, found)

    def _translate_or_adopt(
        self,
        member: Member,
        request: Request,
        translate: Callable[[], Procedure[None]],
        refuse: Callable[[ErrorCode], None],
        found: Found | None,
    ) -> None:
        """Start the procedure of a call; if the member is unknown here, ask the broker about it first."""
        if member.joined or (self._member_log.log is not None and request.api_key in _COMMITS):
            if member.deadlines.session_deadline < math.inf:
                # Alive now, however long the call has to wait for its turn.
                session_timeout.renew(member, self._environment.now)
            beside = request.api_key in _COMMITS
            steps = self._commit_in_its_turn(request, translate) if beside else translate()
        else:
            beside = False
            rule = self._rules.rule_for(member.group.group_id)
            steps = self._adoption.adopt_then(member, request, rule, translate, refuse, found)
        self._scheduler.start(steps, member.queue, request.connection.id, request.client_id, beside=beside)

    def _commit_in_its_turn(
        self, request: Request, translate: Callable[[], Procedure[None]]
    ) -> Procedure[None]:
        """Translate a commit, unless its client's JoinGroup had the turn before it and took the member back to the
        classic protocol: then the broker answers it. A Heartbeat that comes after the JoinGroup never gets so far: it
        is answered REBALANCE_IN_PROGRESS at once."""
        message = held_return.with_generation_of_broker(self._registry, request)
        if message is not None:
            yield from held_return.relay_held(self._connections, request, message)
        elif self._member_log.log is None and self._relayed_calls.is_relayed(
            request.message.group_id, request.message.member_id
        ):
            self._connections.forward(request)
        else:
            yield from translate()

    # -- LeaveGroup, OffsetFetch, DescribeGroups -------------------------------------------------------------

    def _route_leave_group(self, request: Request, *, authorized: bool = False) -> None:
        """Route a LeaveGroup; one that names no member that is known here is relayed."""
        message: LeaveGroupRequest = request.message
        members = [
            member for member in leave_group.named_members(self._registry, message) if member is not None
        ]
        if not members:
            self._connections.forward(request)  # brokers deal with it for members of either protocol
            return
        proceed = partial(self._route_leave_group, request, authorized=True)
        if not authorized and not authorization.is_authorized(self._context, request, members[0], proceed):
            return
        queue = members[0].queue if len(members) == 1 else ProcedureQueue()
        steps = self._leave_groups.leave_group(request)
        self._scheduler.start(steps, queue, request.connection.id, request.client_id)

    def _route_offset_fetch(self, request: Request) -> None:
        """Route an OffsetFetch: relayed, unless a classic client of a translated group needs another answer."""
        message: OffsetFetchRequest = request.message
        if request.version in offset_fetch.OF_ONE_GROUP_WITH_AN_ERROR:
            if self._rules.rule_for(message.group_id).mode is Mode.TRANSLATE:
                steps = offset_fetch.with_errors_of_partitions(self._connections, request)
                self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
            else:
                self._connections.forward(request)
            return
        translated = frozenset(
            group.group_id
            for group in message.groups
            if group.member_id
            and not self._relayed_calls.is_relayed(group.group_id, group.member_id)
            and not self._relayed_calls.is_of_native(group.group_id, group.member_id)
        )
        if offset_fetch.names_a_member(message, translated):
            steps = offset_fetch.without_members(self._connections, request, translated)
            self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
        else:
            self._connections.forward(request)

    def _route_describe_groups(self, request: Request) -> None:
        steps = describe_groups(self._connections, self._registry, request)
        self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
