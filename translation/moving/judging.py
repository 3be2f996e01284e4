"""Judges the moves with gates every ten seconds, and writes what follows: a baseline, or that a move is aborted (the
latch), which lasts until the policy has other steps.

Each replica does so by itself, by the reports of all of them in the log (:mod:`translation.rollout.gates`). What is
written is a compare-and-set, so it does not matter which one is first. An aborted move counts once its record is read
back: then each replica moves the members that it serves back to the classic protocol, one after another
(:mod:`translation.moving.downgrade`), as if the policy said ``observe``, and translates nobody. That lasts until
the policy has other steps for the group, or none.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from translation.engine.context import Context
from translation.member_log.group_records import MOVE, Move, Phase, group_key
from translation.member_log.records import MemberKey
from translation.member_log.signals import GateState, GateVerdict, Report
from translation.members.environment import Environment
from translation.policy.policy import Rule
from translation.rollout.gate_verdicts import SETTLES_S
from translation.rollout.gates import FRESH_MS, ReceivedReport, aligned, baseline_of, history_of, judge
from translation.rollout.next_step import RolloutInputs, decide, describe

_LAST_STEP_S = 60.0
"""The last step is judged for at least so long once it has settled, and for ``hold_s``."""


class MoveJudge:
    """Judges the moves with gates at this process."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._moves = context.moves
        self._events = context.events
        self._registry = context.registry

    def judge_moves(self, reports: Mapping[str, Report]) -> None:
        """Write what this process reports of each group, and judge all moves with gates."""
        moves = self._moves
        for group_id, report in reports.items():
            moves.records.report(group_id, report, self._environment.now)
        before = moves.gates.verdicts()
        said: dict[str, tuple[GateVerdict, int]] = {}
        for group_id, rule, move in moves.gates.gated():
            verdict = self._judge(group_id, rule, move, reports.get(group_id))
            said[group_id] = verdict, move.number
            self._emit_gate_changes(group_id, rule, move, before.get(group_id), verdict)
        moves.gates.judged(said)

    def settled(self, key: MemberKey) -> None:
        """A record of a group is read back: if it is the move that was aborted here, that is to be known."""
        awaited = self._moves.gates.aborting.pop(key.group_id, None) if key.member_id == MOVE else None
        if awaited is None:
            return
        records, rule = self._moves.records, self._moves.rules.written_rule_for(key.group_id)
        stored = records.of_group(key.group_id).get(MOVE)
        # Another replica may have written the very same.
        if stored is not None and stored.record.move == awaited and stored.writer == records.writer:
            self._moves.hook.rollout_changed(key.group_id, replace(awaited, phase=Phase.MOVING), awaited)
            self._events.emit_step(key.group_id, describe(awaited, rule))

    def _judge(self, group_id: str, rule: Rule, move: Move, own: Report | None) -> GateVerdict:
        """What the gates say of a move. ``own`` is what this process reports, of which the log has only the one
        before."""
        records = self._moves.records
        if rule.abort_if is None or not records.is_ready(group_id):
            return GateVerdict(GateState.MISSING, "the member log is away")
        now_ms = records.now_ms(group_id, self._environment.now)
        alive = records.alive(group_id, self._environment.now)
        heard = [
            ReceivedReport(stored.record.report, stored.appended_ms, stored.record.server)
            for stored in records.reports(group_id)
            if stored.record.report is not None and now_ms - stored.appended_ms <= FRESH_MS
        ]
        if own is not None:
            heard = [one for one in heard if records.writer not in one.is_of]
            heard.append(ReceivedReport(replace(own, writers=(records.writer,)), now_ms))
        has_moved = move.converted or self._has_translated(group_id)
        verdict = judge(move, rule.abort_if, heard, alive, now_ms, has_moved=has_moved)
        if verdict.state is GateState.BASELINE:
            baseline = baseline_of(history_of(aligned(heard, now_ms)[1]), now_ms)
            if baseline is not None:
                self._write(group_id, replace(move, baseline=baseline))
        elif verdict.state is GateState.HARM:
            self._write(group_id, decide(move, rule, RolloutInputs(now_ms=now_ms, harm=verdict.why)))
        elif verdict.state is GateState.CLEAR:
            self._write(group_id, _when_clear(rule, move, now_ms))
        return verdict

    def _has_translated(self, group_id: str) -> bool:
        """Whether a member of the group is translated here, perhaps since before the move, or has a slot that is
        filled."""
        group = self._registry.groups.get(group_id)
        if group is not None and any(member.joined for member in group.members.values()):
            return True
        slots = (stored.record.slot for stored in self._moves.slots(group_id).values())
        return any(slot is not None and slot.begun for slot in slots)

    def _write(self, group_id: str, after: Move) -> None:
        """Write how a move goes on; if somebody else has, it is judged anew in ten seconds."""
        stored = self._moves.records.of_group(group_id).get(MOVE)
        if stored is not None and stored.record.move == after:
            return
        key = self._moves.write_move(group_id, after)
        if key is None or after.phase != Phase.ABORTED:
            return
        self._moves.gates.aborting[key.group_id] = after
        if not self._moves.records.is_unresolved(key):
            self.settled(group_key(group_id, MOVE).member)

    def _emit_gate_changes(
        self, group_id: str, rule: Rule, move: Move, before: GateVerdict | None, verdict: GateVerdict
    ) -> None:
        """Emit that the gates stop a move, or do not any more; one replica does, that with the lowest name."""
        records = self._moves.records
        if (
            verdict.state is GateState.HARM
            or min(records.alive(group_id, self._environment.now)) != records.writer
        ):
            return
        said = None if before is None else before.state
        if said is verdict.state or not (verdict.text or (before is not None and before.text)):
            return
        text = describe(move, rule)
        self._events.emit_step(group_id, f"{text}, {verdict.text}" if verdict.text else f"{text}, it goes on")


def _when_clear(rule: Rule, move: Move, now_ms: int) -> Move:
    """How a move goes on whose gates are clear, if it is at its last step.

    Nobody counts the members at the step of 100 %: it has settled when nobody was told for a while. The last step is
    judged until it was held.
    """
    if move.step + 1 < len(rule.staged):
        return move
    if not move.settled_ms:
        is_all = rule.staged[move.step].is_all and now_ms - move.since_ms >= SETTLES_S * 1000
        return replace(move, settled_ms=max(1, now_ms)) if is_all else move
    held_ms = now_ms - move.settled_ms
    return replace(move, judged=True) if held_ms >= max(float(rule.hold_s), _LAST_STEP_S) * 1000 else move
