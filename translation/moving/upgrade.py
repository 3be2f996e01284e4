"""Decides at a Heartbeat when a classic member of a live group is moved to the new protocol, in place or by a
rejoin, and which error (REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID) makes it rejoin.

It is converted in place (:mod:`translation.moving.in_place`), unless a broker converts its group only when that is
empty: then all members are made to rejoin, and their JoinGroups are translated
(:mod:`translation.apis.join_group`) after :mod:`translation.joining.join_preflight` has made sure that the group can
be converted. :mod:`translation.moving.downgrade` is the way back.
"""

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from translation.actions import Call, EventKind, Request
from translation.conversion.convertibility import Obstacle, find_obstacle, passthrough_backoff_s
from translation.conversion.pending_switches import request_rejoin
from translation.engine.context import Context
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure
from translation.moving.in_place import InPlaceConversion
from translation.moving.slot_admission import (
    LOOK_AGAIN_S,
    WAVE_LOOK_AGAIN_S,
    SlotAdmission,
    is_blocked,
    may_be_told,
    wave_blocked_by,
    why_only_as_a_whole,
)
from translation.policy.assignors import is_cooperative
from translation.policy.policy import Rule

_BLOCKED_S = 10.0
"""After so long it is looked again whether a member of a group may be told whose move somebody, or a time, holds up."""


class Upgrade:
    """Moves classic members to the new protocol at their Heartbeats."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._moves = context.moves
        self._rules = context.rules
        self._events = context.events
        self._classic_members = context.classic_members
        self._slot_admission = SlotAdmission(context)
        self._in_place_conversion = InPlaceConversion(context)

    def switch_classic_member(
        self, member: Member, request: Request, rule: Rule, *, mixed: bool
    ) -> Procedure[ErrorCode | None]:
        """Convert the member of a Heartbeat if its turn has come; return the code for its client, or None to relay it.

        ``mixed`` says that the group is a consumer group already, so the broker need not be asked whether it can be
        converted. A member whose turn has not come is relayed until then.
        """
        group = member.group
        # Else a try to move all at once that failed before the group was relayed would count against this one.
        group.migration.expire(self._environment.now)
        if rule.staged and (relays_for := self._why_not_now(request, rule)):
            self._registry.relay(group, member.member_id, self._environment.now + relays_for)
            return None
        obstacle, why = Obstacle.NONE, ""
        if not mixed and not group.migration.moves_all(self._environment.now):
            obstacle, why = yield from find_obstacle(self._environment, self._registry, self._rules, group)
            why_relayed = self._why_relayed(member, obstacle, why)
            if why_relayed is not None:
                self._events.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, why_relayed)
                return None
        if not (yield from self._slot_admission.admit_classic_member(request, rule)):
            blocked = is_blocked(self._moves, group.group_id, rule)
            relayed_s = _BLOCKED_S if blocked else LOOK_AGAIN_S
            self._registry.relay(group, member.member_id, self._environment.now + relayed_s)
            return None
        if obstacle is Obstacle.MEMBERS or group.migration.moves_all(self._environment.now):
            if (yield from self._tell(member, request, rule, why)):
                return self._how_to_rejoin(member)
            self._moves.free(group.group_id, member.member_id)
            return None
        code = yield from self._in_place_conversion.convert_in_place(member, request, rule, mixed=mixed)
        if not member.joined:
            self._moves.free(group.group_id, member.member_id)
        return code

    def _why_relayed(self, member: Member, obstacle: Obstacle, why: str) -> str | None:
        """Why this member, or its group, is relayed for a time because of what its conversion would come up against.

        Returns None if it can be converted, or all of its group may move at once.
        """
        group = member.group
        match obstacle:
            case Obstacle.NONE:
                return None
            case Obstacle.TRANSIENT:
                retry_at = self._environment.now + self._environment.settings.assignment_interval_s
                self._registry.relay(group, member.member_id, retry_at)
            case Obstacle.PERMANENT:
                group.migration.relay_for(self._environment.settings.relayed_s, self._environment.now)
            case Obstacle.MEMBERS:
                stays = why_only_as_a_whole(self._moves, group.group_id, why)
                if stays is not None:
                    group.migration.relay_for(self._environment.settings.relayed_s, self._environment.now)
                    return stays
                group.migration.move_all(self._environment.now)
                if group.migration.moves_all(self._environment.now):
                    return None
                group.migration.relay_for(
                    passthrough_backoff_s(self._environment, group), self._environment.now
                )
        return f"not converted: {why}"

    def _why_not_now(self, request: Request, rule: Rule) -> float:
        """For how long (seconds) no member of the group is told by its steps, as far as is known; 0 if one may be."""
        group_id: str = request.message.group_id
        if (
            self._moves.move(group_id, rule) is not None
            and not self._moves.gates.verdict(group_id, rule).may_move_members
        ):
            return LOOK_AGAIN_S
        if not self._moves.counts_members(group_id, rule):
            return 0.0 if may_be_told(self._moves, group_id, rule) else _BLOCKED_S
        why = self._moves.why_refused(rule)
        if why is not None:
            self._events.emit_group(EventKind.PASSED_THROUGH, group_id, request, why)
            return self._environment.settings.relayed_s
        if wave_blocked_by(self._moves, group_id, rule) is not None:
            return (
                WAVE_LOOK_AGAIN_S  # the view of the move says what it waits for, not an event for each member
            )
        return LOOK_AGAIN_S if self._moves.is_full(group_id) else 0.0

    def _how_to_rejoin(self, member: Member) -> ErrorCode:
        """The code that has the client of a member whose group has to be empty rejoin.

        REBALANCE_IN_PROGRESS if it is known to be eager: it gives up all its partitions by its own rules, its commits
        count, and its JoinGroup under the same id shows that it owns nothing, so its membership can end. A cooperative
        one keeps its partitions then, and gives them up at UNKNOWN_MEMBER_ID only. Of a client whose JoinGroup was not
        seen here the group's assignor says so: a client is eager as soon as one of its assignors is.
        """
        group = member.group
        moves = group.pending_switches
        known = self._classic_members.find(group.group_id, member.member_id)
        offered = (group.migration.classic_assignor,) if known is None else known.offered
        if is_cooperative(offered) or not any(offered) or member.member_id not in moves:
            return ErrorCode.UNKNOWN_MEMBER_ID
        moves[member.member_id] = msgspec.structs.replace(moves[member.member_id], is_eager=True)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def _tell(self, member: Member, request: Request, rule: Rule, why: str) -> Procedure[bool]:
        """Have the Heartbeat of a member whose group has to be empty tell its client to join anew, if that is still
        right."""
        group = member.group
        # The Heartbeat is a sign of life at the broker too: what the client holds stays its own until it joins anew.
        response: HeartbeatResponse = yield Call(ApiKey.HEARTBEAT, request.version, request.message)
        # Each that leaves makes those that are still classic rejoin; this one joins anew either way.
        if response.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            return False  # a rebalance has begun, or it is no member any more: the broker tells it so itself
        if self._rules.rule_for(group.group_id) is not rule:
            return False  # another policy, or its move was rolled back, while the broker was asked
        # Or a gate of its move has closed, or the policy is another one.
        is_stopped = (
            rule.abort_if is not None and not self._moves.gates.verdict(group.group_id, rule).may_move_members
        )
        if is_stopped or self._rules.rule_for(group.group_id) is not rule:
            return False
        reason = f"told to join the new protocol, all at once: {why}"
        request_rejoin(self._environment, self._events, group, request, reason)
        return True
