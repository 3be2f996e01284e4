"""Decides whether a member of a group that is moved by steps may move now, or join the new protocol: each needs a
slot within the step's quota.

A slot is taken in the log before a classic member is made to rejoin (:meth:`~SlotAdmission.admit_classic_member`), and
before the JoinGroup of a newcomer is translated (:func:`join_by_steps`). Without one a client stays classic, or becomes
so. What a member has joined by once it keeps: nobody who is translated is moved back, whatever the quota has become.

Every decision is read from the log anew, with the broker's description of the group, so it does not matter which
replica makes it. While the log is away nobody is let in and no step begins.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import Connection, EventKind, Request
from translation.conversion.pending_switches import match_pending_switch
from translation.engine.context import Context
from translation.member_log.group_records import MOVE, GroupKey, Move, Slot, StoredGroup, slot_name
from translation.member_log.records import LONGEST_NAME, member_key
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_ids import is_issued_form
from translation.members.member_parts import PendingSwitch
from translation.members.procedure import Procedure, Wait
from translation.moving.group_members import describe_members
from translation.policy.client_offer import lacks_owned_list
from translation.policy.policy import Rule
from translation.rollout.moves import Moves
from translation.rollout.next_step import RolloutInputs, begin, decide, describe
from translation.rollout.slots import HIDDEN_MEMBERS, GroupMembers, is_filled, next_slot, taken
from translation.rollout.step_start import may_come_in, why_nobody_is_told
from translation.rollout.wave_counts import why_not_yet

_TRIES = 4
"""Records that are written for one client, if others win each time."""
_READ_BACK_S = 2.0
"""A record that is not read back by then: the log is away (:class:`~translation.member_log.outputs.FleetSettings`)."""

LOOK_AGAIN_S = 2.0
"""After so long the broker is asked again for a group whose slots were all taken."""

WAVE_LOOK_AGAIN_S = 30.0
"""After so long a classic member whose group's wave has not begun is looked at again. That costs a question to the
broker each time, since another replica may translate it; so a wave begins within this time."""


class _Look(NamedTuple):
    """What the broker says of a group, and what the log had said when it was asked."""

    group_members: GroupMembers
    before: Mapping[int, StoredGroup]
    """The slots."""
    was_converted: bool
    """Whether the group had been a consumer group in this move: a member may join while the broker is asked, and an
    answer from before that is no sign that it has left."""


class _Client:
    """Who wants to be let in: under which id, and by which others it may have a slot already."""

    def __init__(
        self,
        member_id: str,
        *,
        others: tuple[str, ...] = (),
        leaves: str = "",
        instance_id: str | None = None,
        is_to_be_told: bool = False,
    ) -> None:
        self.member_id = member_id
        self.is_to_be_told = is_to_be_told
        """It is a classic member, and has no slot before it may be made to rejoin."""
        self.others = others
        self.leaves = leaves
        self.instance_id = instance_id
        self.is_classic = False
        """Whether the broker has described it as a classic member."""
        self.looked: _Look | None = None
        """What the broker has said already, to be used once."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.member_id, *self.others)

    @property
    def fits_in_record(self) -> bool:
        """Whether a slot's record can have its names: a client may say anything, a broker checks it afterwards."""
        return all(
            len(name) <= LONGEST_NAME for name in (self.member_id, self.leaves, self.instance_id or "")
        )


class SlotAdmission:
    """Decides by the log, and by what the broker says of a group, who may be a member of the new protocol."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._moves = context.moves
        self._events = context.events
        self._registry = context.registry
        self._ids = context.ids
        self._member_log = context.member_log

    def admit_classic_member(self, request: Request, rule: Rule) -> Procedure[bool]:
        """Take a slot for a classic member that is to be made to rejoin; return whether it may be told."""
        group_id, member_id = request.message.group_id, request.message.member_id
        if not self._moves.counts_members(group_id, rule):
            return True
        client = _Client(
            member_id,
            leaves=member_id,
            instance_id=request.message.group_instance_id,
            is_to_be_told=True,
        )
        client.looked = yield from self._look(group_id, request.connection)
        if client.looked is None:
            return False
        group_members = client.looked.group_members
        if not group_members.is_hidden and member_id not in group_members.classic:
            return False  # nothing is written for an id that somebody has made up
        client.is_classic = not group_members.is_hidden
        return (yield from self._admit(request, rule, client))

    def advance_rollout(self, connection: Connection, group_id: str, rule: Rule) -> Procedure[None]:
        """Have the move of a group go on by what the broker says now, though no client wants to be let in."""
        move = yield from self._present_move(group_id, rule)
        if move is None or not move.is_moving:
            return
        looked = yield from self._look(group_id, connection)
        if (
            looked is None
            or looked.group_members.is_hidden
            or self._moves.rules.rule_for(group_id) is not rule
        ):
            return
        group_members = looked.group_members
        held, inputs = self._found_out(group_id, rule, move, looked)
        members = group_members.members(held.values())
        # A step of two may be that of a group of one.
        quota = min(rule.staged[move.step].quota(members), members)
        is_done = bool(group_members.translated) and is_filled(held, group_members, quota)
        yield from self._go_on(group_id, rule, move, decide(move, rule, replace(inputs, filled=is_done)))

    def id_to_join_under(self, request: Request, rule: Rule) -> Procedure[str | ErrorCode | None]:
        """The id under which a client may join the new protocol, or an error code; None if it stays classic."""
        message: JoinGroupRequest = request.message
        group_id, member_id = message.group_id, message.member_id
        if member_id:
            known = yield from self._is_translated(request.connection, group_id, member_id)
            if known is None:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            if known:
                return member_id
        move = self._pending_switch(request)
        if member_id and move is None and not is_issued_form(member_id):
            return None  # a classic member that rejoins: it is told when its turn comes
        replaced = yield from self._translated_instance(request)
        if isinstance(replaced, ErrorCode):
            return replaced
        why = self._why_not(message, rule)
        if why is not None and not replaced:
            self._events.emit_group(EventKind.PASSED_THROUGH, group_id, request, why)
            return None
        client = _Client(
            member_id or self._ids.issue(),
            others=tuple(one for one in (replaced, "" if move is None else move.member_id) if one),
            leaves="" if move is None else move.member_id,
            instance_id=message.group_instance_id,
        )
        is_admitted = why is None and (yield from self._admit(request, rule, client))
        if replaced and not is_admitted:
            # As a classic one it would take the translated member's place at once, and the group with it.
            self._moves.replaces(group_id, client.member_id)
            is_admitted = True
        return client.member_id if is_admitted else None

    def _why_not(self, message: JoinGroupRequest, rule: Rule) -> str | None:
        """Why steps let this client in at no step; None if they may."""
        why = self._moves.why_refused(rule) or wave_blocked_by(self._moves, message.group_id, rule)
        if why is None and lacks_owned_list(message):
            return why_only_as_a_whole(
                self._moves, message.group_id, "the broker can't read the subscriptions of its clients"
            )
        return why

    def _translated_instance(self, request: Request) -> Procedure[str | ErrorCode]:
        """The translated member that has the instance id of a new process, or an error code; empty if there is none."""
        message: JoinGroupRequest = request.message
        if message.group_instance_id is None:
            return ""
        group_members = yield from describe_members(
            self._moves, self._registry, message.group_id, request.connection
        )
        if group_members is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group_members.is_hidden:
            return group_members.instances.get(message.group_instance_id, "")
        slots = (stored.record.slot for stored in self._moves.slots(message.group_id).values())
        known = (slot.member_id for slot in slots if slot and slot.instance_id == message.group_instance_id)
        return next(known, "")

    def _is_translated(self, connection: Connection, group_id: str, member_id: str) -> Procedure[bool | None]:
        """Whether this is a member of the new protocol that another replica serves, or served; None: it is not known.

        It has a slot, or joined when none was needed.
        """
        log, key = self._member_log.log, member_key(group_id, member_id)
        has_slot = self._moves.slot_of(group_id, member_id) is not None
        if has_slot and self._ids.is_issued(member_id):
            return True
        record = None if log is None else log.record(key)
        if record is not None and record.kind.is_dead:
            return True  # the log decides what becomes of it (translation.admission.serving)
        is_classic_id = record is None and not has_slot and not is_issued_form(member_id)
        if log is not None and log.is_ready(key) and is_classic_id:
            return False
        # That a replica serves it does not say that the broker has it: it may have no slot any more.
        group_members = yield from describe_members(self._moves, self._registry, group_id, connection)
        if group_members is None:
            return None
        return has_slot if group_members.is_hidden else member_id in group_members.translated

    def _pending_switch(self, request: Request) -> PendingSwitch | None:
        group = self._registry.groups.get(request.message.group_id)
        if group is None or not group.pending_switches:
            return None
        given_here = self._ids.is_issued(request.message.member_id)
        return match_pending_switch(group, request, given_here=given_here)

    def _admit(self, request: Request, rule: Rule, client: _Client) -> Procedure[bool]:
        """Whether a client may be a member of the new protocol: it has a slot, or has taken one, or needs none."""
        group_id: str = request.message.group_id
        if not client.fits_in_record:
            reason = "its step moves only a part of the group, and a client id or instance id is too long"
            self._events.emit_group(EventKind.PASSED_THROUGH, group_id, request, reason)
            return False
        for _ in range(_TRIES):
            move = yield from self._present_move(group_id, rule)
            if move is None:
                return False
            if not self._moves.counts_members(group_id, rule):
                return True
            own = self._moves.slot_of(group_id, *client.names)
            if own is not None and client.is_classic and own[1].begun:
                # Of its membership before it went back: another may have been given this slot by now.
                self._moves.free(group_id, client.member_id)
                own = None
            if own is not None and (own[1].begun or (move.is_moving and not rule.pause)):
                number, slot = own
                is_admitted: bool | None = slot.member_id == client.member_id or (
                    (yield from self._take(group_id, number, _slot_for(client, slot))) or None
                )
            else:
                is_admitted = yield from self._admit_newcomer(request, rule, move, client)
            if is_admitted is not None:
                return is_admitted
        return False

    def _admit_newcomer(
        self, request: Request, rule: Rule, move: Move, client: _Client
    ) -> Procedure[bool | None]:
        """Take a slot for a client that has none; None if another was faster, or if it has to be looked at again."""
        moves, group_id = self._moves, request.message.group_id
        if not move.is_moving or moves.is_full(group_id):
            return False
        if not moves.gates.verdict(group_id, rule).may_move_members:
            yield from self._note_converted(request.connection, group_id, rule, client)
            return False
        looked, client.looked = client.looked, None
        looked = looked or (yield from self._look(group_id, request.connection))
        if looked is None:
            return False
        if looked.group_members.is_hidden:
            reason = f"its step moves only a part of the group, and {HIDDEN_MEMBERS}"
            self._events.emit_group(EventKind.PASSED_THROUGH, group_id, request, reason)
            return False
        if looked.group_members.is_empty:
            yield from self.note_empty(group_id)
            move = moves.move(group_id, rule) or move
        slots = moves.slots(group_id)
        number = yield from self._free_slot(group_id, rule, move, looked, client)
        if number is None:
            return False
        if not self._is_time(group_id, rule, client):
            moves.set_full(group_id, self._environment.now + LOOK_AGAIN_S)
            return False
        if moves.slots(group_id).get(number) != slots.get(number):
            return (
                None  # somebody took it while the move went on: the record would take the place of that one
            )
        return (yield from self._take(group_id, number, _slot_for(client, None))) or None

    def _note_converted(
        self, connection: Connection, group_id: str, rule: Rule, client: _Client
    ) -> Procedure[None]:
        """Write that the group of a move whose gates let nobody in is converted already.

        A process without a member log does not know that after a restart, and measures the group anew. If the last
        translated member left meanwhile, the group would be converted again instead of held.
        """
        move = self._moves.move(group_id, rule)
        if move is None or move.converted:
            return
        looked = client.looked or (yield from self._look(group_id, connection))
        # Its baseline may have been written while the broker answered.
        move = self._moves.move(group_id, rule)
        if looked is not None and looked.group_members.translated and move is not None and move.is_moving:
            yield from self._go_on(group_id, rule, move, replace(move, converted=True))

    def note_empty(self, group_id: str) -> Procedure[None]:
        """Write that nobody is in a group that was converted in this move.

        Whoever comes now starts it anew. Its step goes on, and classic members are no sign any more that the last
        translated one has left.
        """
        rule = self._moves.rules.rule_for(group_id)
        move = self._moves.move(group_id, rule)
        if move is not None and move.is_moving and self._moves.was_converted(group_id, move):
            number = self._moves.records.position(group_id) + 1
            yield from self._go_on(group_id, rule, move, replace(move, converted=False, number=number))

    def _is_time(self, group_id: str, rule: Rule, client: _Client) -> bool:
        """Whether the policy's pause and windows of time let this client have a slot now."""
        if client.is_to_be_told:
            return may_be_told(self._moves, group_id, rule)
        move = self._moves.move(group_id, rule)
        return move is not None and may_come_in(move, rule, self._moves.now_ms(group_id))

    def hold_if_downgraded(self, connection: Connection, member: Member) -> Procedure[bool]:
        """Return whether a client must not convert its group: that was converted before in this move, and is classic
        again.

        Its slot was taken before that, so nobody has looked since.
        """
        group_id, rule = member.group.group_id, self._moves.rules.rule_for(member.group.group_id)
        move = self._moves.move(group_id, rule)
        if move is None or not self._moves.counts_members(group_id, rule):
            return False
        if move.is_moving:
            if not self._moves.was_converted(group_id, move):
                return False
            group_members = yield from describe_members(self._moves, self._registry, group_id, connection)
            if (
                group_members is None
                or group_members.is_consumer_group
                or not group_members.classic - {member.member_id}
            ):
                return False
            now_ms = self._moves.records.now_ms(group_id, self._environment.now)
            yield from self._go_on(
                group_id, rule, move, decide(move, rule, RolloutInputs(now_ms=now_ms, downgraded=True))
            )
        self._moves.free(group_id, member.member_id)
        return True

    def _look(self, group_id: str, connection: Connection) -> Procedure[_Look | None]:
        before = dict(self._moves.slots(group_id))
        move = self._moves.move(group_id, self._moves.rules.rule_for(group_id))
        was_converted = move is not None and self._moves.was_converted(group_id, move)
        group_members = yield from describe_members(self._moves, self._registry, group_id, connection)
        return None if group_members is None else _Look(group_members, before, was_converted)

    def _free_slot(
        self,
        group_id: str,
        rule: Rule,
        move: Move,
        looked: _Look,
        client: _Client,
    ) -> Procedure[int | None]:
        """The slot that a client may take; None if there is none, or if the move does not go on."""
        moves, group_members = self._moves, looked.group_members
        held, inputs = self._found_out(group_id, rule, move, looked)
        known = group_members.classic | group_members.translated
        is_new = known.isdisjoint(client.names) and client.instance_id not in group_members.static
        members = group_members.members(held.values())
        moves.hook.looked(group_id, members, len(group_members.translated))
        quota = rule.staged[move.step].quota(members + is_new)
        number = None if inputs.downgraded else next_slot(held, group_members, quota)
        if number is None:
            moves.set_full(group_id, self._environment.now + LOOK_AGAIN_S)
        inputs = replace(inputs, filled=number is None and is_filled(held, group_members, quota))
        yield from self._go_on(group_id, rule, move, decide(move, rule, inputs))
        return number

    def _found_out(
        self, group_id: str, rule: Rule, move: Move, looked: _Look
    ) -> tuple[dict[int, Slot], RolloutInputs]:
        """The slots that are taken, and what is known beside whether the step is filled."""
        moves, group_members = self._moves, looked.group_members
        inputs = self._inputs(group_id, rule, move)
        held = taken(
            moves.slots(group_id), looked.before, group_members, moves.ended(group_id), inputs.now_ms
        )
        downgraded = (
            not group_members.is_consumer_group and bool(group_members.classic) and looked.was_converted
        )
        return held, replace(inputs, converted=bool(group_members.translated), downgraded=downgraded)

    def _inputs(self, group_id: str, rule: Rule, move: Move) -> RolloutInputs:
        """What is known of a move without a look at its group."""
        moves = self._moves
        return RolloutInputs(
            now_ms=moves.now_ms(group_id),
            hook_owner=moves.hook.owner,
            hook_approved_step=moves.hook.agreed(group_id, move),
            gate_reason=moves.gates.why_waits(group_id, rule),
            missing_proof=moves.why_not_proven(group_id, rule, move),
        )

    def _present_move(self, group_id: str, rule: Rule) -> Procedure[Move | None]:
        """The move of a group as it goes on now; None if nothing can be said or written."""
        records = self._moves.records
        for _ in range(_TRIES):
            if not records.is_ready(group_id):
                # At the step of 100 % nothing is to be written.
                is_whole = not self._moves.counts_members(group_id, rule)
                return self._moves.move(group_id, rule) if is_whole else None
            move, now_ms = self._moves.move(group_id, rule), records.now_ms(group_id, self._environment.now)
            if move is None and wave_blocked_by(self._moves, group_id, rule) is not None:
                return None
            if move is None:
                after = begin(rule, records.position(group_id) + 1, now_ms, hook_owner=self._moves.hook.owner)
            else:
                after = decide(move, rule, self._inputs(group_id, rule, move))
            if after == move:
                return move
            if not (yield from self._go_on(group_id, rule, move, after)):
                return None
        return None

    def _go_on(self, group_id: str, rule: Rule, before: Move | None, after: Move) -> Procedure[bool]:
        """Write how a move goes on; return whether the write was resolved. Another replica's may count."""
        if after == before:
            return True
        key = self._moves.write_move(group_id, after)
        if not (yield from self._resolved(group_id, MOVE, key)):
            return False
        is_news = before is None or describe(before, rule) != describe(after, rule)
        if key is not None and self._moves.move(group_id, rule) == after:
            self._moves.hook.rollout_changed(group_id, before, after)
            if is_news:
                self._events.emit_step(group_id, describe(after, rule))
        return True

    def _take(self, group_id: str, number: int, slot: Slot) -> Procedure[bool]:
        """Write who has a slot; return whether that counts."""
        name = slot_name(number)
        key = self._moves.records.write(group_id, name, self._environment.now, slot=slot)
        if not (yield from self._resolved(group_id, name, key)):
            return False
        found = self._moves.slot_of(group_id, slot.member_id)
        return found is not None and found[0] == number

    def _resolved(self, group_id: str, name: str, key: GroupKey | None) -> Procedure[bool]:
        """Wait until what was written is read back; without ``key`` for what somebody else here has written."""
        records, until = self._moves.records, self._environment.now + _READ_BACK_S
        key = key or GroupKey(group_id, name)
        while records.is_unresolved(key) and self._environment.now < until:
            yield Wait(until, settles=key.member)
        return not records.is_unresolved(key)


def why_only_as_a_whole(moves: Moves, group_id: str, why: str) -> str | None:
    """The reason why a group that can't be moved member by member stays classic; None if it may be moved."""
    rule = moves.rules.rule_for(group_id)
    if moves.counts_members(group_id, rule) and not rule.staged[0].is_all:
        return f"its step moves only a part of the group, and {why}"
    return None


def wave_blocked_by(moves: Moves, group_id: str, rule: Rule) -> str | None:
    """Why a group does not begin its move in the wave that its rule names; None if it may, or has begun."""
    if rule.wave is None or moves.move(group_id, rule) is not None:
        return None
    before = moves.waves.before(rule.wave)
    return why_not_yet(rule.wave, before, moves.rules.policy.waves.needed)


def may_be_told(moves: Moves, group_id: str, rule: Rule) -> bool:
    """Whether a classic member may be told now to join the new protocol, as far as the policy's times say."""
    return not why_nobody_is_told(rule, moves.now_ms(group_id))


def is_blocked(moves: Moves, group_id: str, rule: Rule) -> bool:
    """Whether it will take a while until another member may be told, as far as is read."""
    move = moves.move(group_id, rule)
    return move is not None and not (move.is_moving and may_be_told(moves, group_id, rule))


def _slot_for(client: _Client, before: Slot | None) -> Slot:
    """The slot with its new holder; ``before`` is the slot that it had under another id."""
    return Slot(
        member_id=client.member_id,
        leaves=client.leaves,
        instance_id=client.instance_id,
        number=0 if before is None else before.number,
    )
