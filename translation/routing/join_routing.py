"""Decides whether a JoinGroup is translated, relayed to the classic coordinator, or refused with
INVALID_SESSION_TIMEOUT (``limits.session_timeout_min_ms``, ``session_timeout_max_ms``).

What counts is the policy's rule for the group, whether this client can be translated at all, and what is known of the
group's migration (:mod:`translation.members.group_migration`). A client whose group is not translated may still have a
membership of the new protocol here, which ends before its JoinGroup is relayed
(:mod:`translation.moving.downgrade`). A JoinGroup that is translated may still be relayed in the end, by what the
broker says of its member (:mod:`translation.joining.join_preflight`).
"""

import math
from functools import partial
from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import Authorized, EventKind, Request
from translation.admission import authorization, guarded_joins
from translation.admission.serving import MemberServing
from translation.apis.join_group import JoinGroups
from translation.conversion.classic_join import ClassicJoins
from translation.conversion.pending_switches import keeps_membership, match_pending_switch, request_rejoin
from translation.engine.context import Context
from translation.engine.join_outcomes import refused
from translation.joining.replaced_static_member import (
    ReplacedStaticMember,
    may_replace_translated,
)
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_ids import is_issued_form
from translation.members.procedure import Procedure, ProcedureQueue, UpstreamLost
from translation.membership import member_id_required, static_members
from translation.moving.downgrade import Downgrade
from translation.moving.slot_admission import SlotAdmission
from translation.policy.client_offer import lacks_owned_list, owns_partitions, why_not_translated
from translation.policy.policy import Mode, Rule
from translation.upstream.consumer_group_heartbeat import heartbeat_version


class JoinRouting:
    """Decides which way a JoinGroup takes."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._connections = context.connections
        self._registry = context.registry
        self._scheduler = context.scheduler
        self._rules = context.rules
        self._moves = context.moves
        self._events = context.events
        self._ids = context.ids
        self._classic_members = context.classic_members
        self._serving = MemberServing(context)
        self._replaced_static_member = ReplacedStaticMember(context)
        self._classic_joins = ClassicJoins(context)
        self._slot_admission = SlotAdmission(context)
        self._downgrade = Downgrade(context)
        self._join_groups = JoinGroups(context)
        self._context = context

    def route_join_group(self, request: Request, *, authorized: bool = False) -> None:
        """Route a JoinGroup; if the broker has to be asked first whether its sender may act, route it again
        afterwards."""
        message: JoinGroupRequest = request.message
        if not message.group_id:
            self._connections.forward(request)  # the broker refuses it
            return
        proceed = self._serving.unless_served_since(
            request,
            partial(self.route_join_group, request, authorized=True),
            lambda code: self._connections.answer(request, refused(request, code)),
        )
        named = self._named_member(message)
        if not authorized and not authorization.is_authorized(self._context, request, named, proceed):
            return
        self._environment.actions.append(Authorized(request.id))
        self._classic_members.rejoins(message.group_id, message.member_id)
        rule = self._rules.rule_for(message.group_id)
        why_not = why_not_translated(message, self._rules.policy, rule)
        if rule.refusal(request.api_key) is not None:
            guarded_joins.refuse(self._events, self._connections, request, rule)
        elif rule.mode is not Mode.TRANSLATE:
            self._observe(request, rule, why_not)
        elif why_not is not None and not self._was_allowed(message):
            self._events.emit_group(EventKind.PASSED_THROUGH, message.group_id, request, why_not)
            # What becomes of the group depends on the broker's response (relayed_responses).
            self._serving.relay_join(request)
        elif self._registry.is_native(message.group_id, message.member_id):
            self._connections.forward(request)
        elif heartbeat_version(request.connection) is None:
            self._relay_until_policy_change(request, "the broker has no ConsumerGroupHeartbeat v1")
        elif self._registry.group(message.group_id).migration.relays_joins(
            self._environment.now
        ) and not self._has_joined(message):
            self._relay_unconverted(request)
        elif not _is_session_timeout(self._environment, message.session_timeout_ms):
            self._connections.answer(request, refused(request, ErrorCode.INVALID_SESSION_TIMEOUT))
            self._registry.drop_group_if_empty(self._registry.group(message.group_id))
        elif self._needs_slot(message, rule):
            self._translate_by_steps(request, rule)
        else:
            self._translate(request)

    def _needs_slot(self, message: JoinGroupRequest, rule: Rule) -> bool:
        """Whether this client may only be translated as far as the group's steps allow."""
        return self._moves.counts_members(message.group_id, rule) and not self._has_joined(message)

    def _named_member(self, message: JoinGroupRequest) -> Member | None:
        """The member that a JoinGroup names by member id, or whose instance id it takes over."""
        group = self._registry.groups.get(message.group_id)
        if group is None:
            return None
        member = group.members.get(message.member_id)
        if member is None and message.group_instance_id is not None:
            return group.static_member(message.group_instance_id)
        return member

    def _has_joined(self, message: JoinGroupRequest) -> bool:
        """Whether this client has a membership of the new protocol here."""
        member = self._registry.find(message.group_id, message.member_id)
        return member is not None and member.joined

    def _was_allowed(self, message: JoinGroupRequest) -> bool:
        """Whether this client has a membership of the new protocol here, with an assignor that the policy does not
        allow any more. It keeps it: a policy that is to move it back says ``observe``.
        """
        member = self._registry.find(message.group_id, message.member_id)
        return (
            member is not None
            and member.joined
            and member.client.offer is not None
            and member.client.offer.assignors == tuple(protocol.name for protocol in message.protocols)
            and member.client.protocol_type == message.protocol_type
        )

    # -- relayed ---------------------------------------------------------------------------------------------

    def _observe(self, request: Request, rule: Rule, why_not: str | None) -> None:
        """Relay a JoinGroup because the policy says ``observe``, and emit whether its client could be translated."""
        message: JoinGroupRequest = request.message
        if self._is_joining_upstream(message):
            # In its turn; its client is told to move back when it has joined.
            self._translate(request)
            return
        given_here = self._ids.is_issued(message.member_id)
        if rule.mode is not Mode.TRANSLATE:
            self._ids.joins_classic(message.member_id, request.connection.id)
        reason = f"observed: {why_not or 'translatable'}"
        self._events.emit_group(EventKind.PASSED_THROUGH, message.group_id, request, reason)
        self._relay_or_move(request, given_here=given_here)

    def _is_joining_upstream(self, message: JoinGroupRequest) -> bool:
        """Whether an earlier JoinGroup of this client, from before the policy changed, has yet to send its heartbeat.

        If this JoinGroup made the client a classic member under the same id, that heartbeat would release the
        partitions that it owns as such.
        """
        member = self._registry.find(message.group_id, message.member_id)
        return (
            member is not None
            and not member.joined
            and not (member.queue.idle and member.join.waiting is None)
            and self._ids.is_issued(member.member_id)
        )

    def _relay_until_policy_change(self, request: Request, reason: str) -> None:
        """Relay a JoinGroup, and all calls of its group until the policy changes."""
        message: JoinGroupRequest = request.message
        group = self._registry.group(message.group_id)
        group.migration.relay_for(math.inf, self._environment.now)
        if message.member_id:
            self._registry.relay(group, message.member_id, math.inf)
        self._events.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, reason)
        self._serving.relay_join(request)

    def _relay_unconverted(self, request: Request, *, is_known_new: bool = False) -> None:
        """Relay a JoinGroup of a group that is not converted for now; its client may have been told to move before.

        ``is_known_new`` says that the broker was asked already whether a translated member has its instance id.
        """
        message: JoinGroupRequest = request.message
        given_here = self._ids.is_issued(message.member_id)
        self._free_slot(request, given_here=given_here)
        self._ids.joins_classic(message.member_id, request.connection.id)
        self._relay_or_move(request, given_here=given_here, is_known_new=is_known_new)

    def _free_slot(self, request: Request, *, given_here: bool) -> None:
        """Free the slot of a client that stays classic: what it was made to rejoin with, or was given an id for."""
        message: JoinGroupRequest = request.message
        group = self._registry.groups.get(message.group_id)
        switch = None
        if group is not None and group.pending_switches:
            switch = match_pending_switch(group, request, given_here=given_here)
        names = (message.member_id if given_here else "", "" if switch is None else switch.member_id)
        self._moves.free_unused(message.group_id, *names)

    def _relay_or_move(self, request: Request, *, given_here: bool, is_known_new: bool = False) -> None:
        """Relay a JoinGroup after its client's memberships here have ended; translate it if it is not to move yet.

        ``given_here`` says that this process gave out its member id, ``is_known_new`` that no process of Epochgate
        translates a member with its instance id.
        """
        connection = request.connection
        message: JoinGroupRequest = request.message
        may_replace = not is_known_new and may_replace_translated(connection, message)
        group = self._registry.groups.get(message.group_id)
        if group is None or not (group.pending_switches or group.members or group.conversion):
            if not (may_replace or lacks_owned_list(message)):
                self._serving.relay_join(request)
                return
            in_turn: Procedure[Any] = (
                self._replaced_static_member.relay_in_its_place(request)
                if may_replace
                else self._classic_joins.relay_classic_join(request)
            )
            self._scheduler.start(in_turn, ProcedureQueue(), connection.id, request.client_id)
            return
        member = group.members.get(message.member_id)
        if (
            member is not None
            and member.joined
            and member.member_id in group.pending_switches
            and owns_partitions(message)
        ):
            self._translate(request)  # it was not let back in place, and has not given up anything yet
            return
        if member is not None and member.joined:
            steps = self._downgrade.back_in_place(member, request)
            self._scheduler.start(steps, member.queue, connection.id, request.client_id)
            return
        switch = match_pending_switch(group, request, given_here=given_here)
        member = group.members.get(message.member_id if switch is None else switch.member_id)
        if member is None and message.group_instance_id is not None and (given_here or not message.member_id):
            # A new process with this instance id. The broker would put it in the old one's place without a rebalance.
            # One that has had a member id before is an older process, which the broker fences.
            member = group.static_member(message.group_instance_id)
        if member is None:
            cancelled_switch = None if switch is None or keeps_membership(message, switch) else switch
            if cancelled_switch is None and may_replace:
                relayed: Procedure[Any] = self._replaced_static_member.relay_in_its_place(request)
            else:
                relayed = self._classic_joins.relay_classic_join(request, cancelled_switch)
            self._scheduler.start(relayed, ProcedureQueue(), connection.id, request.client_id)
        else:
            steps = self._downgrade.back_to_classic(member, request)
            self._scheduler.start(steps, member.queue, connection.id, request.client_id)

    # -- translated ------------------------------------------------------------------------------------------

    def _translate_by_steps(self, request: Request, rule: Rule) -> None:
        """Translate a JoinGroup if its client has a slot of its group's step, or can have one; else relay it."""
        steps = self._join_by_steps(request, rule)
        self._scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)

    def _join_by_steps(self, request: Request, rule: Rule) -> Procedure[None]:
        message: JoinGroupRequest = request.message
        try:
            member_id = yield from self._slot_admission.id_to_join_under(request, rule)
        except UpstreamLost:
            self._connections.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            raise
        if not self._connections.is_waiting(request):
            return
        if self._rules.rule_for(message.group_id) is not rule:
            self.route_join_group(request, authorized=True)
        elif isinstance(member_id, ErrorCode):
            self._connections.answer(request, refused(request, member_id))
        elif member_id is not None:
            self._translate(request, member_id)
        elif is_issued_form(message.member_id):
            yield from self._classic_joins.relay_as_member_or_new(request)
        else:
            self._relay_unconverted(request, is_known_new=True)

    def _translate(self, request: Request, new_id: str = "") -> None:
        """Start the procedure of a JoinGroup under its member id, or answer that it needs another id.

        ``new_id`` is the id that a client without one is given, if it was made already.
        """
        message: JoinGroupRequest = request.message
        group = self._registry.group(message.group_id)
        member_id = message.member_id
        if member_id_required.older_join_may_arrive(self._ids, self._registry, request):
            reason = "given another member id, because an older JoinGroup may make the first one's member a classic one"
            request_rejoin(self._environment, self._events, group, request, reason)
            fresh_id = self._ids.issue()
            self._moves.rename(group.group_id, member_id, fresh_id)
            member_id_required.answer_with_new_id(self._connections, self._ids, request, fresh_id)
            return
        if member_id_required.comes_without_member_id(request):
            member_id_required.answer_with_new_id(self._connections, self._ids, request, new_id)
            self._registry.drop_group_if_empty(group)
            return
        if not member_id:
            member_id = new_id or self._ids.issue()
        elif static_members.is_fenced(
            self._environment, self._registry, message.group_id, member_id, message.group_instance_id
        ):
            self._connections.answer(request, refused(request, ErrorCode.FENCED_INSTANCE_ID))
            return
        go_on = partial(self._join, request, member_id)
        if self._serving.is_served_here(
            request,
            member_id,
            lambda _found: go_on(),
            lambda code: self._connections.answer(request, refused(request, code)),
        ):
            go_on()

    def _join(self, request: Request, member_id: str) -> None:
        """Start the procedure of a JoinGroup whose member may be served here."""
        group = self._registry.group(request.message.group_id)
        group.migration.translate_join(self._environment.now)
        group.relayed_until.pop(member_id, None)
        member = self._registry.member(group.group_id, member_id)
        switch = None
        if group.pending_switches:
            given_here = self._ids.is_issued(member_id)
            switch = match_pending_switch(group, request, given_here=given_here)
        steps = self._join_groups.join(member, request, switch)
        self._scheduler.start(steps, member.queue, request.connection.id, request.client_id)


def _is_session_timeout(environment: Environment, timeout_ms: int) -> bool:
    """Whether a broker with these settings would let a client have this session timeout."""
    settings = environment.settings
    return settings.session_timeout_min_ms <= timeout_ms <= settings.session_timeout_max_ms
