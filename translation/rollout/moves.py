"""What this process knows of moves by steps: which members have slots, and whether a membership may begin without
one.

The records are those of the member log, or this process's own (:mod:`translation.member_log.group_log`).
:mod:`translation.moving.slot_admission` decides by them.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from translation.member_log.group_log import GroupLog, local_group_log, slots_of
from translation.member_log.group_records import (
    MOVE,
    PROOF,
    GroupKey,
    Move,
    Phase,
    Proof,
    Slot,
    StoredGroup,
    group_key,
    slot_name,
)
from translation.member_log.records import MemberKey, member_key
from translation.members.environment import Environment
from translation.policy.policy import Rule
from translation.policy.rule_cache import RuleCache
from translation.policy.steps import text_of
from translation.rollout.gate_verdicts import GateVerdicts
from translation.rollout.hook import HookCalls
from translation.rollout.step_start import is_to_be_written, why_not_proven
from translation.rollout.wave_counts import WaveCounts, is_over

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


_BIDIRECTIONAL = "bidirectional"
_LIMIT = 10_000


class Moves:
    """The moves by steps of all groups, as far as this process knows them.

    ``on_other_rule`` is called with the id of a group that has come to be rolled back, or is not any more.
    """

    def __init__(
        self,
        environment: Environment,
        rules: RuleCache,
        log: "MemberLog | None",
        on_other_rule: Callable[[str], None],
    ) -> None:
        self._environment = environment
        self.rules = rules
        self._log = log
        self._on_other_rule = on_other_rule
        self.records: GroupLog = local_group_log() if log is None else log.groups
        self.waves = WaveCounts(self.records, rules.policy)
        self.gates = GateVerdicts(environment, self.records, rules, self.move)
        self.hook = HookCalls(environment, self.records, rules)
        self.migration_policy: str | None = None
        """``group.consumer.migration.policy`` of the brokers; None if it is not known."""
        self._full_until: OrderedDict[str, float] = OrderedDict()
        self._wave_check_at: OrderedDict[str, float] = OrderedDict()
        self._unended: set[MemberKey] = set()
        """Moves that are over, and whose record could not be written yet."""
        self._without_slot: OrderedDict[tuple[str, str], None] = OrderedDict()

    # -- what the policy says ----------------------------------------------------------------------------------

    def counts_members(self, group_id: str, rule: Rule) -> bool:
        """Whether only members with a slot may be translated: not without steps, and not at the step of 100 %.

        A group of a wave has a record of its move all the same, and nobody is translated before that is there.
        """
        if not rule.staged or (rule.staged[0].is_all and rule.wave is None):
            return False
        self.records.use(group_id, self._environment.now)
        move = self.move(group_id, rule)
        return move is None or rule.pause or not (move.is_moving and rule.staged[move.step].is_all)

    def now_ms(self, group_id: str) -> int:
        """The log's clock, in milliseconds since 1970."""
        return self.records.now_ms(group_id, self._environment.now)

    def why_refused(self, rule: Rule) -> str | None:
        """Why no member is moved by these steps, whatever its group; None if they may be."""
        if self._log is None and rule.abort_if is not None and rule.abort_if.lag is not None:
            return "its steps need the account of `fleet.kafka`, which asks for the lag (`abort_if`)"
        if self._log is None and not self._environment.settings.sole_process:
            return "its steps need a member log, because several processes serve it (`fleet`)"
        if self.migration_policy not in {None, _BIDIRECTIONAL}:
            return (
                "its steps need brokers that let classic members back: group.consumer.migration.policy is "
                f"{self.migration_policy}"
            )
        return None

    # -- what the log says -------------------------------------------------------------------------------------

    def move(self, group_id: str, rule: Rule) -> Move | None:
        """The group's move by the rule's steps, as far as is read; None if there is none, or one by other steps."""
        stored = self.records.of_group(group_id).get(MOVE)
        move = None if stored is None else stored.record.move
        if move is None or move.phase == Phase.OVER or move.steps != text_of(rule.staged):
            return None
        return move if move.step < len(rule.staged) else None

    def why_not_proven(self, group_id: str, rule: Rule, move: Move) -> str:
        """Why a settled step is not proven as the rule asks; empty if it is, or the rule does not ask."""
        if not rule.proof_s or not move.settled_ms:
            return ""
        stored = self.records.of_group(group_id).get(PROOF)
        now_ms = self.records.now_ms(group_id, self._environment.now)
        return why_not_proven(rule, stored, move.settled_ms, now_ms)

    def note_proofs(self, proof_of: Callable[[str], Proof | None]) -> None:
        """The live verification has looked at all groups: write what it found, of those whose rule asks for it."""
        now = self._environment.now
        for group_id, _ in self.records.moves():
            rule = self.rules.rule_for(group_id)
            move = self.move(group_id, rule) if rule.proof_s else None
            proof = None if move is None or not move.is_moving else proof_of(group_id)
            if proof is None:
                continue
            stored = self.records.of_group(group_id).get(PROOF)
            if is_to_be_written(stored, proof, self.records.now_ms(group_id, now)):
                self.records.write(group_id, PROOF, now, proof=proof)

    def slots(self, group_id: str) -> Mapping[int, StoredGroup]:
        """The slots of a group, by number."""
        return slots_of(self.records.of_group(group_id))

    def slot_of(self, group_id: str, *member_ids: str) -> tuple[int, Slot] | None:
        """The slot of the first of these members that has one."""
        slots = self.slots(group_id)
        for member_id in member_ids:
            for number, stored in slots.items():
                slot = stored.record.slot
                if member_id and slot is not None and slot.member_id == member_id:
                    return number, slot
        return None

    def ended(self, group_id: str) -> frozenset[str]:
        """The members with slots that are no members of the new protocol any more, as far as the member log says."""
        if self._log is None:
            return frozenset()
        found = set[str]()
        for stored in self.slots(group_id).values():
            slot = stored.record.slot
            record = slot and slot.member_id and self._log.record(member_key(group_id, slot.member_id))
            if slot and record and record.kind in {"ended", "relayed"}:
                found.add(slot.member_id)
        return frozenset(found)

    def was_converted(self, group_id: str, move: Move) -> bool:
        """Whether the group has been a consumer group with translated members in this move."""
        slots = (stored.record.slot for stored in self.slots(group_id).values())
        return move.converted or any(slot and slot.number == move.number for slot in slots)

    # -- what is found out -------------------------------------------------------------------------------------

    def is_full(self, group_id: str) -> bool:
        """Whether the broker was asked a moment ago, and no slot was free."""
        return self._full_until.get(group_id, self._environment.now) > self._environment.now

    def set_full(self, group_id: str, until: float) -> None:
        """No slot is free: the broker is not asked again for the group before ``until`` (seconds)."""
        self._full_until[group_id] = until
        self._full_until.move_to_end(group_id)
        if len(self._full_until) > _LIMIT:
            self._full_until.popitem(last=False)

    def is_wave_check_due(self, group_id: str, rule: Rule) -> bool:
        """Whether the broker is to be asked who is in a group, because its move is not over and nobody else may ask."""
        if self._wave_check_at.get(group_id, self._environment.now) > self._environment.now:
            return False
        move = self.move(group_id, rule)
        return move is None or (move.is_moving and not is_over(move, rule))

    def set_wave_check_at(self, group_id: str, until: float) -> None:
        """The broker is asked now who is in a group; not again before ``until`` (seconds)."""
        self._wave_check_at[group_id] = until
        self._wave_check_at.move_to_end(group_id)
        if len(self._wave_check_at) > _LIMIT:
            self._wave_check_at.popitem(last=False)

    def policy_changed(self) -> None:
        """Another policy is in force."""
        self._full_until.clear()
        self._wave_check_at.clear()
        self.waves.set_policy(self.rules.policy)
        self.look_through()

    def look_through(self) -> None:
        """Moves of groups for which the policy has no steps are over, and groups may be rolled back.

        Also to be called when a part of the log has become ready: the policy may have changed while it was away, or
        before this process started.
        """
        self._unended.clear()
        for group_id, move in self.records.moves():
            self._end_without_steps(group_id, move)
            self._note_rolled_back(group_id)
        for group_id in list(self.rules.rolled_back):
            self._note_rolled_back(group_id)

    def write_move(self, group_id: str, move: Move) -> GroupKey | None:
        """Write how a move goes on (:meth:`translation.member_log.group_log.GroupLog.write`)."""
        key = self.records.write(group_id, MOVE, self._environment.now, move=move)
        if key is not None and self._log is None:
            self._note_rolled_back(group_id)
        return key

    def _note_rolled_back(self, group_id: str) -> None:
        """A group is observed while its move by the policy's steps is rolled back.

        While the log is away that stays as it was: nobody is moved in either direction by what is not known.
        """
        if self.records.is_ready(group_id):
            move = self.move(group_id, self.rules.written_rule_for(group_id))
            if self.rules.set_rolled_back(group_id, move is not None and move.is_rolled_back):
                self._full_until.pop(group_id, None)
                self._on_other_rule(group_id)

    def use(self, group_id: str) -> None:
        """A client of a group called that is not translated now: what is known of a rolled-back one is kept."""
        if group_id in self.rules.rolled_back:
            self.records.use(group_id, self._environment.now)

    def settled(self, key: MemberKey) -> None:
        """A record was read back: one that stood in the way of a move's end may have been that, or it is a move."""
        if key.member_id == MOVE:
            self._note_rolled_back(key.group_id)
        if key in self._unended:
            self._unended.discard(key)
            stored = self.records.of_group(key.group_id).get(MOVE)
            if stored is not None and stored.record.move is not None:
                self._end_without_steps(key.group_id, stored.record.move)

    def _end_without_steps(self, group_id: str, move: Move) -> None:
        if move.phase != Phase.OVER and not self.rules.written_rule_for(group_id).staged:
            over = replace(move, phase=Phase.OVER, why="the policy has no steps for it any more")
            if self.write_move(group_id, over) is None:
                self._unended.add(group_key(group_id, MOVE).member)

    def replaces(self, group_id: str, member_id: str) -> None:
        """A member takes the place of one that is translated already and has no slot: none is needed."""
        self._without_slot[group_id, member_id] = None
        if len(self._without_slot) > _LIMIT:
            self._without_slot.popitem(last=False)

    def may_begin(self, group_id: str, member_id: str) -> bool:
        """Whether a membership of the new protocol may begin under this id, as far as is read."""
        rule = self.rules.rule_for(group_id)
        return group_id not in self.rules.rolled_back and (
            not self.counts_members(group_id, rule)
            or self.slot_of(group_id, member_id) is not None
            or (group_id, member_id) in self._without_slot
        )

    # -- what is written, and nobody waits for -----------------------------------------------------------------

    def has_begun(self, group_id: str, member_id: str) -> None:
        """The broker has a member of the new protocol in its slot."""
        rule = self.rules.written_rule_for(group_id)
        if not rule.staged:
            return
        found, move = self.slot_of(group_id, member_id), self.move(group_id, rule)
        if found is not None and move is not None:
            number, slot = found
            if not slot.begun or slot.number != move.number:
                self._write(group_id, number, replace(slot, begun=True, number=move.number))

    def rename(self, group_id: str, before: str, after: str) -> None:
        """A client is to join under another id: its slot goes with it."""
        found = self.slot_of(group_id, before)
        if found is not None:
            number, slot = found
            self._write(group_id, number, replace(slot, member_id=after, begun=False))

    def free(self, group_id: str, member_id: str) -> None:
        """A classic member that was to be made to rejoin was not: its slot is free."""
        found = self.slot_of(group_id, member_id)
        if found is not None:
            number, slot = found
            self._write(group_id, number, Slot(number=slot.number))

    def free_unused(self, group_id: str, *member_ids: str) -> None:
        """A client stays classic that had a slot under one of these ids: the slot is free, unless somebody has begun.

        Only the process that gave a client its id begins under it, so nobody joins with the slot meanwhile.
        """
        found = self.slot_of(group_id, *member_ids)
        if found is not None and not found[1].begun:
            number, slot = found
            self._write(group_id, number, Slot(number=slot.number))

    def _write(self, group_id: str, number: int, slot: Slot) -> GroupKey | None:
        return self.records.write(group_id, slot_name(number), self._environment.now, slot=slot)
