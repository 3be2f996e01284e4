"""Entry point of the translation: takes requests of clients and responses of brokers, returns actions.

This module routes each group request: to a procedure of its member (the modules in ``apis/`` are named like the
requests), to the broker as it is, or to an error.
"""

import math
from collections.abc import Callable
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest
from protocol_codecs.messages.leave_group import LeaveGroupRequest
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation import authorization, deadlines, member_id_required, relayed_responses, static_members
from translation.actions import Action, Admitted, CallId, Connection, ConnectionId, EventKind, Request
from translation.apis import join_group, leave_group, offset_commit, offset_fetch
from translation.apis.describe_groups import describe_groups
from translation.apis.heartbeat import heartbeat
from translation.apis.predicted_heartbeat import PredictedHeartbeat, is_predictable
from translation.apis.sync_group import sync
from translation.engine.context import Context
from translation.engine.join_outcomes import refused
from translation.engine.member import Member
from translation.engine.member_ids import may_be_translated
from translation.engine.procedure import Procedure, ProcedureQueue
from translation.member_state import MemberState
from translation.migration.adoption import adopt_then
from translation.migration.downgrade import back_to_classic
from translation.migration.upgrade import (
    keeps_membership,
    match_pending_move,
    relay_classic_join,
    request_rejoin,
)
from translation.partitions import owns_partitions
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings
from translation.upstream.consumer_group_heartbeat import heartbeat_version, update_assignors
from translation.uuids import kafka_uuid

_TRANSLATE = Mode.TRANSLATE
"""Bound once, for heartbeats: Python 3.11 looks for a member of an enum as long as a message takes to be decoded."""


class Translator:
    """The translation of one process. Sans-IO: time and everything from outside is an argument.

    Each method returns the actions to carry out, in order. ``now`` is in seconds of any clock that does not run
    backwards; it must be the same clock everywhere.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        settings: TranslatorSettings | None = None,
        allowed_assignors: frozenset[str] = frozenset(),
        new_uuid: Callable[[], str] = kafka_uuid,
    ) -> None:
        self._context = Context(
            policy,
            settings or TranslatorSettings(),
            new_uuid,
            on_member_time=lambda member, now: deadlines.member_time(self._context, member, now),
            on_group_time=lambda group, now: deadlines.group_time(self._context, group, now),
            allowed_assignors=allowed_assignors,
        )
        self._dealt_by: dict[int, Callable[[Connection, Request], None]] = {
            ApiKey.JOIN_GROUP: self._join_group,
            ApiKey.HEARTBEAT: self._heartbeat,
            ApiKey.SYNC_GROUP: self._sync_group,
            ApiKey.LEAVE_GROUP: self._leave_group,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.TXN_OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._offset_fetch,
            ApiKey.DESCRIBE_GROUPS: self._describe_groups,
        }

        self._predicted: PredictedHeartbeat | None = None
        self._let_in: Request | None = None
        """The request that is handled now because the broker has just accepted its sender."""

    def predict(self, connection: Connection, request: Request) -> PredictedHeartbeat | None:
        """What :meth:`handle_request` is certain to do with a Heartbeat, if anything is.

        :meth:`handle_request` is to be called next. Who sends the request before has the broker work meanwhile.
        """
        self._predicted = self._short_way(connection, request)
        return self._predicted

    # -- what comes in ---------------------------------------------------------------------------------------

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """A client sent a request of one of the group APIs."""
        context = self._context
        context.now = now
        context.connections.track(connection, request)
        deal = self._dealt_by.get(request.api_key)
        if deal is None:
            context.forward(request)
        else:
            deal(connection, request)
        return self._actions()

    def passes_through(self, now: float, group_id: str, member_id: str) -> bool:
        """Whether :meth:`handle_request` would do nothing with this member's Heartbeat but forward it.

        Only what is certain counts: False for a member that has a record here, whatever becomes of its Heartbeat.
        """
        context = self._context
        context.now = now
        return context.find(group_id, member_id) is None and self._is_relayed(group_id, member_id)

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """The broker answered a :class:`~translation.actions.Call`; ``message`` is the decoded response."""
        self._context.now = now
        self._context.scheduler.handle_reply(call_id, message)
        return self._actions()

    def passed(self, now: float, connection: Connection, request: Request, response: Any) -> list[Action]:
        """The broker answered a group request that was relayed; learn from what it accepted."""
        context = self._context
        context.now = now
        relayed_responses.observe_response(context, connection, request, response)
        return self._actions()

    def admits(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group
        (:mod:`translation.authorization`)."""
        return self._context.authorized_groups.includes(connection_id, group_id)

    def client_gone(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The client disconnected. Its members stay until their sessions end."""
        context = self._context
        context.now = now
        members = context.connections.members_on(connection_id)
        context.connections.client_gone(connection_id)
        context.abandon_joins(members, connection_id)
        return self._actions()

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The upstream connection closed, and the client's with it: calls on it get no response."""
        context = self._context
        context.now = now
        context.connection_lost(connection_id)
        return self._actions()

    def settled(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable and has no procedure under way."""
        return all(
            member.state is MemberState.STABLE and member.queue.idle
            for member in self._context.connections.members_on(connection_id)
        )

    def next_deadline(self) -> float:
        """When :meth:`handle_time` has to be called (seconds, ``math.inf`` for never); ask again after every call."""
        return self._context.timers.next_deadline()

    def handle_time(self, now: float) -> list[Action]:
        """Handle every deadline that is due at ``now``."""
        self._context.now = now
        self._context.timers.run(now)
        return self._actions()

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Use another policy from now on.

        Conversions that the broker refused are tried again. The members of live groups are moved one after another, at
        their own Heartbeats (:mod:`translation.migration.upgrade`). A changed assignor goes upstream at once and
        disturbs nobody (:func:`translation.upstream.consumer_group_heartbeat.update_assignors`).
        """
        context = self._context
        context.now = now
        context.rules.set_policy(policy)
        for group in list(context.groups.values()):
            group.migration.policy_changed()
            update_assignors(context, group)
            context.drop_group_if_empty(group)
        return self._actions()

    # -- who deals with a call ---------------------------------------------------------------------------------

    def _actions(self) -> list[Action]:
        context = self._context
        actions, context.actions = context.actions, []
        return actions

    def _is_relayed(self, group_id: str, member_id: str) -> bool:
        """Whether the broker itself answers the requests of this member."""
        if not group_id:
            return True
        group = self._context.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None and member.joined:
            return False  # whatever the policy says now: it is moved when its turn comes
        if self._context.rules.rule_for(group_id).mode is not Mode.TRANSLATE:
            return True
        if (group_id, member_id) in self._context.natives:
            return True
        if group is None:
            return False
        now = self._context.now
        return group.migration.relays(now) or group.relayed_until.get(member_id, now) > now

    # -- who may act -------------------------------------------------------------------------------------------

    def _is_admitted(
        self,
        connection: Connection,
        request: Request,
        deal: Callable[[Connection, Request], None],
        member: Member | None,
    ) -> bool:
        """Whether the sender may act in the group; if unknown, ask the broker and call ``deal`` if it agrees.

        ``member`` is the one that the request names, None if it is unknown. What the broker accepted before counts if
        that member is served on this connection; otherwise the broker is asked again.
        """
        if request is self._let_in:
            return True

        def proceed() -> None:
            self._let_in = request
            try:
                deal(connection, request)
            finally:
                self._let_in = None

        return authorization.is_authorized(self._context, connection, request, member, proceed)

    def _member_of_join(self, message: JoinGroupRequest) -> Member | None:
        """The member that a JoinGroup names by member id, or whose instance id it takes over."""
        group = self._context.groups.get(message.group_id)
        if group is None:
            return None
        member = group.members.get(message.member_id)
        if member is None and message.group_instance_id is not None:
            return group.static_member(message.group_instance_id)
        return member

    # -- the calls ---------------------------------------------------------------------------------------------

    def _join_group(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: JoinGroupRequest = request.message
        if not message.group_id:
            context.forward(request)  # the broker says what it thinks of that
            return
        if not self._is_admitted(connection, request, self._join_group, self._member_of_join(message)):
            return
        context.actions.append(Admitted(request))
        rule = self._context.rules.rule_for(message.group_id)
        why_not = relayed_responses.why_not_translated(context, message)
        if rule.mode is Mode.REJECT:
            reason = "the policy rejects this group"
            context.emit_group(EventKind.CALL_REFUSED, message.group_id, request, reason)
            context.answer(request, refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif rule.mode is Mode.OBSERVE:
            self._observe_join(connection, request, rule, why_not)
        elif why_not is not None:
            context.emit_group(EventKind.PASSED_THROUGH, message.group_id, request, why_not)
            context.forward(request)  # the broker's answer tells what becomes of the group (_joined_classic)
        elif context.is_native(message.group_id, message.member_id):
            context.forward(request)
        elif heartbeat_version(context, connection) is None:
            self._pass_through(request, message, "the broker has no ConsumerGroupHeartbeat v1")
        elif context.group(message.group_id).migration.relays_joins(context.now) and not self._has_joined(
            message
        ):
            self._join_passthrough(connection, request)
        elif not self._is_session_timeout(message.session_timeout_ms):
            context.answer(request, refused(request, ErrorCode.INVALID_SESSION_TIMEOUT))
            context.drop_group_if_empty(context.group(message.group_id))
        else:
            self._translate_join(connection, request)

    def _is_session_timeout(self, timeout_ms: int) -> bool:
        """Whether a broker with these settings would let a client have this session timeout."""
        settings = self._context.settings
        return settings.session_timeout_min_ms <= timeout_ms <= settings.session_timeout_max_ms

    def _known(self, message: Any) -> Member | None:
        return self._context.find(message.group_id, message.member_id)

    def _has_joined(self, message: JoinGroupRequest) -> bool:
        """Whether this client has a membership in the new protocol here."""
        member = self._known(message)
        return member is not None and member.joined

    def _join_passthrough(self, connection: Connection, request: Request) -> None:
        """Relay a JoinGroup of a group that is not converted for now; its client may have been told to move before."""
        message: JoinGroupRequest = request.message
        given_here = self._context.ids.is_issued(message.member_id)
        self._context.ids.joins_classic(message.member_id, connection.id)
        self._join_classic_group(connection, request, given_here=given_here)

    def _observe_join(
        self, connection: Connection, request: Request, rule: Rule, why_not: str | None
    ) -> None:
        context = self._context
        message: JoinGroupRequest = request.message
        if self._is_joining_upstream(message):
            self._translate_join(connection, request)  # in its turn; it is called back when it has joined
            return
        given_here = context.ids.is_issued(message.member_id)
        if rule.mode is Mode.OBSERVE:
            context.ids.joins_classic(message.member_id, connection.id)
        reason = f"observed: {why_not or 'translatable'}"
        context.emit_group(EventKind.PASSED_THROUGH, message.group_id, request, reason)
        self._join_classic_group(connection, request, given_here=given_here)

    def _join_classic_group(self, connection: Connection, request: Request, *, given_here: bool) -> None:
        """Relay a JoinGroup after its client's memberships here have ended; translate it if it is not to move yet."""
        context = self._context
        message: JoinGroupRequest = request.message
        group = context.groups.get(message.group_id)
        if group is None or not (group.pending_moves or group.members):
            context.forward(request)
            return
        member = group.members.get(message.member_id)
        if member is not None and member.joined:  # whatever else its client has left behind before
            move = group.pending_moves.get(member.member_id)
        else:
            move = match_pending_move(group, connection, request, given_here=given_here)
            member = group.members.get(message.member_id if move is None else move.member_id)
        if member is None and message.group_instance_id is not None:
            # A new process with this instance id. The broker would put it in the old one's place without a rebalance.
            member = group.static_member(message.group_instance_id)
        if member is None:
            cancelled_move = None if move is None or keeps_membership(message, move) else move
            steps = relay_classic_join(context, request, cancelled_move)
            context.scheduler.start(steps, ProcedureQueue(), connection.id, request.client_id)
        elif member.joined and message.member_id == member.member_id and owns_partitions(message):
            self._translate_join(connection, request)  # it has not heard yet that it is to join anew
        elif move is not None or not member.joined or message.member_id != member.member_id:
            self._start(member, connection, request, back_to_classic(context, member, connection, request))
        else:
            self._translate_join(connection, request)  # its turn to be moved has not come

    def _is_joining_upstream(self, message: JoinGroupRequest) -> bool:
        """Whether an earlier JoinGroup of this client, from before the policy changed, has yet to send its heartbeat.

        If this JoinGroup made the client a classic member under the same id, that heartbeat would release the
        partitions that it owns as such.
        """
        group = self._context.groups.get(message.group_id)
        member = None if group is None else group.members.get(message.member_id)
        return (
            member is not None
            and not member.joined
            and not (member.queue.idle and member.waiting_join is None)
            and self._context.ids.is_issued(member.member_id)
        )

    def _pass_through(self, request: Request, message: JoinGroupRequest, reason: str) -> None:
        """Relay a group until the policy changes."""
        context = self._context
        group = context.group(message.group_id)
        group.migration.relay_for(math.inf, context.now)
        if message.member_id:
            context.relay(group, message.member_id, math.inf)
        context.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, reason)
        context.forward(request)

    def _translate_join(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: JoinGroupRequest = request.message
        group = context.group(message.group_id)
        member_id = message.member_id
        if member_id_required.older_join_may_arrive(context, connection, request):
            reason = "given another member id, because an older JoinGroup may make the first one's member a classic one"
            request_rejoin(
                context, group, connection, request, context.rules.rule_for(group.group_id), reason
            )
            member_id_required.answer_with_new_id(context, request)
            return
        if member_id_required.comes_without_member_id(request):
            member_id_required.answer_with_new_id(context, request)
            context.drop_group_if_empty(group)
            return
        if not member_id:
            member_id = context.ids.issue()
        elif static_members.is_fenced(context, message.group_id, member_id, message.group_instance_id):
            context.answer(request, refused(request, ErrorCode.FENCED_INSTANCE_ID))
            return
        group.migration.translate_join(context.now)
        group.relayed_until.pop(member_id, None)
        member = context.member(message.group_id, member_id)
        given_here = context.ids.is_issued(member_id)
        move = (
            match_pending_move(group, connection, request, given_here=given_here)
            if group.pending_moves
            else None
        )
        steps = join_group.join(context, member, connection, request, move)
        self._start(member, connection, request, steps)

    def _heartbeat(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: HeartbeatRequest = request.message
        predicted, self._predicted = self._predicted, None
        if predicted is None or predicted.request is not request:
            predicted = self._short_way(connection, request)
        if predicted is not None:
            predicted.begin()
            return

        def refuse(code: ErrorCode) -> None:
            context.answer(request, HeartbeatResponse(error_code=code))

        if self._is_relayed(message.group_id, message.member_id):
            context.forward(request)
        elif not self._is_admitted(connection, request, self._heartbeat, self._known(message)):
            return
        elif static_members.is_fenced(
            context, message.group_id, message.member_id, message.group_instance_id
        ):
            refuse(ErrorCode.FENCED_INSTANCE_ID)
        elif self._moves_back(connection, request):
            refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            member = context.member(message.group_id, message.member_id)
            self._start_or_adopt(
                member, connection, request, lambda: heartbeat(context, member, connection, request), refuse
            )

    def _short_way(self, connection: Connection, request: Request) -> PredictedHeartbeat | None:
        """The short way for a Heartbeat that brings nothing new, as nearly all do; None for any other."""
        context = self._context
        message: HeartbeatRequest = request.message
        member = context.find(message.group_id, message.member_id)
        if member is None or not is_predictable(context, member, connection, message):
            return None
        return PredictedHeartbeat(context, member, connection, request)

    def _moves_back(self, connection: Connection, request: Request) -> bool:
        """Whether this member has to rejoin as a classic one, because the policy no longer translates its group."""
        message: HeartbeatRequest = request.message
        context = self._context
        group = context.groups.get(message.group_id)
        if group is None:
            return False
        member = group.members.get(message.member_id)
        if member is not None and member.session_deadline < math.inf:
            member.renew_session(context.now)  # what it holds stays its own until it joins anew
        rule = self._context.rules.rule_for(message.group_id)
        translated = rule.mode is _TRANSLATE
        if translated and group.pending_moves and member is not None and member.joined:
            group.pending_moves.pop(message.member_id, None)  # it was to go back, and is not any more
        if message.member_id in group.pending_moves:
            return True
        if translated or member is None or not member.joined or not group.migration.may_move(context.now):
            return False
        request_rejoin(context, group, connection, request, rule, "told to go back to the classic protocol")
        return True

    def _sync_group(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: SyncGroupRequest = request.message

        def refuse(code: ErrorCode) -> None:
            context.answer(request, SyncGroupResponse(error_code=code))

        if self._is_relayed(message.group_id, message.member_id):
            context.forward(request)
        elif not self._is_admitted(connection, request, self._sync_group, self._known(message)):
            return
        elif static_members.is_fenced(
            context, message.group_id, message.member_id, message.group_instance_id
        ):
            refuse(ErrorCode.FENCED_INSTANCE_ID)
        else:
            member = context.member(message.group_id, message.member_id)
            self._start_or_adopt(
                member, connection, request, lambda: sync(context, member, connection, request), refuse
            )

    def _commit(self, connection: Connection, request: Request) -> None:
        context = self._context
        message = request.message

        def refuse(code: ErrorCode) -> None:
            context.answer(request, offset_commit.refused(request, code))

        # A commit without a member id belongs to no member: an admin's, or a client's that assigns by hand.
        if (
            not message.member_id
            or self._is_relayed(message.group_id, message.member_id)
            or self._is_of_native(message.group_id, message.member_id)
        ):
            context.forward(request)
        elif not self._is_admitted(connection, request, self._commit, self._known(message)):
            return
        elif static_members.is_fenced(
            context, message.group_id, message.member_id, message.group_instance_id
        ):
            refuse(ErrorCode.FENCED_INSTANCE_ID)
        else:
            member = context.member(message.group_id, message.member_id)
            self._start_or_adopt(
                member,
                connection,
                request,
                lambda: offset_commit.commit(context, member, connection, request),
                refuse,
            )

    def _is_of_native(self, group_id: str, member_id: str) -> bool:
        """Whether a request with a member epoch comes from a native member, whose epoch is the broker's own.

        The broker describes native and translated members alike; only the form of the member id tells them apart.
        """
        member = self._context.find(group_id, member_id)
        if member is not None and (member.joined or not member.queue.idle):
            return False
        return not self._context.ids.is_issued(member_id) and not may_be_translated(member_id)

    def _leave_group(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: LeaveGroupRequest = request.message
        members = [member for member in leave_group.named_members(context, message) if member is not None]
        if not members:
            context.forward(request)  # brokers deal with it for members of either protocol
            return
        if not self._is_admitted(connection, request, self._leave_group, members[0]):
            return
        turns = members[0].queue if len(members) == 1 else ProcedureQueue()
        steps = leave_group.leave_group(context, connection, request)
        context.scheduler.start(steps, turns, connection.id, request.client_id)

    def _offset_fetch(self, connection: Connection, request: Request) -> None:
        context = self._context
        message: OffsetFetchRequest = request.message
        if request.version in offset_fetch.OF_ONE_GROUP_WITH_AN_ERROR:
            if context.rules.rule_for(message.group_id).mode is Mode.TRANSLATE:
                steps = offset_fetch.with_errors_of_partitions(context, request)
                context.scheduler.start(steps, ProcedureQueue(), connection.id, request.client_id)
            else:
                context.forward(request)
            return
        translated = frozenset(
            group.group_id
            for group in message.groups
            if group.member_id
            and not self._is_relayed(group.group_id, group.member_id)
            and not self._is_of_native(group.group_id, group.member_id)
        )
        if offset_fetch.names_a_member(message, translated):
            steps = offset_fetch.without_members(context, request, translated)
            context.scheduler.start(steps, ProcedureQueue(), connection.id, request.client_id)
        else:
            context.forward(request)

    def _describe_groups(self, connection: Connection, request: Request) -> None:
        steps = describe_groups(self._context, connection, request)
        self._context.scheduler.start(steps, ProcedureQueue(), connection.id, request.client_id)

    def _start_or_adopt(
        self,
        member: Member,
        connection: Connection,
        request: Request,
        proceed: Callable[[], Procedure[None]],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        if member.joined:
            if member.session_deadline < math.inf:
                member.renew_session(
                    self._context.now
                )  # alive now, however long the call has to wait for its turn
            self._context.scheduler.start(proceed(), member.queue, connection.id, request.client_id)
        else:
            rule = self._context.rules.rule_for(member.group.group_id)
            steps = adopt_then(self._context, member, connection, request, rule, proceed, refuse)
            self._start(member, connection, request, steps)

    def _start(
        self, member: Member, connection: Connection, request: Request, steps: Procedure[None]
    ) -> None:
        self._context.scheduler.start(steps, member.queue, connection.id, request.client_id)
