"""The moves of groups by steps at one process: what is known of them, and what follows from commands and from the
hook's answers.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from translation.actions import Action
from translation.engine.context import Context
from translation.member_log.group_records import HookCall, Move, Phase, Proof
from translation.member_log.signals import Report
from translation.members.environment import Environment
from translation.moving.command_writes import CommandOutcome, carry_out_command
from translation.moving.judging import MoveJudge
from translation.moving.move_view import MoveView, show, view_of_waiting
from translation.moving.slot_admission import wave_blocked_by
from translation.policy.gates import AbortIf
from translation.rollout.commands import Command
from translation.rollout.hook import vetoed
from translation.rollout.wave_counts import WaveCount


class Rollout:
    """A part of :class:`~translation.translator.Translator`, with the same rules of time and of actions."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._moves = context.moves
        self._events = context.events
        self._judge = MoveJudge(context)

    def set_migration_policy(self, policy: str | None) -> None:
        """Note the brokers' ``group.consumer.migration.policy``; None if it is not known."""
        self._moves.migration_policy = policy

    def move_of(self, group_id: str) -> MoveView | None:
        """How far the move of a group by steps is; None if it does not move by steps, or has not begun to.

        Of a group whose wave has not begun it says what that waits for.
        """
        rule = self._moves.rules.written_rule_for(group_id)
        move = self._moves.move(group_id, rule) if rule.staged else None
        if move is None:
            why = wave_blocked_by(self._moves, group_id, rule)
            return None if why is None else view_of_waiting(why, rule)
        return show(self._moves, group_id, rule, move)

    def note_proofs(self, now: float, proof_of: Callable[[str], Proof | None]) -> list[Action]:
        """Note what the live verification has found; ``proof_of`` returns it for a group, None if it has nothing."""
        self._environment.now = now
        self._moves.note_proofs(proof_of)
        return self._environment.take_actions()

    def set_wall_clock(self, offset_ms: int) -> None:
        """Set the offset of the wall clock (since 1970) to ``now``, in milliseconds.

        Without a member log the policy's windows of time go by it; with one, by the log's clock.
        """
        self._moves.records.wall_offset_ms = offset_ms

    def command(self, now: float, command: Command) -> CommandOutcome:
        """Do what somebody says about the move of a group; the same command is to be given again while it is pending.

        Its actions are those of the next call (:meth:`translation.translator.Translator.take_actions`).
        """
        self._environment.now = now
        return carry_out_command(self._moves, self._events, command)

    def hook_answered(
        self, now: float, group_id: str, number: int, step: int, veto: str | None
    ) -> list[Action]:
        """Note what the hook has answered to a :class:`~translation.actions.CallHook` that asks.

        ``veto`` says why the step must not begin; None: it may. A veto is written for all processes; while it can't be,
        they take the hook for one that has not answered.
        """
        moves = self._moves
        self._environment.now = now
        move = moves.move(group_id, self._moves.rules.written_rule_for(group_id))
        if move is None or move.hook is None or (move.number, move.hook.step) != (number, step):
            return self._environment.take_actions()
        if move.hook.by == moves.hook.owner:
            if veto is None:
                moves.hook.agrees(group_id, number, step)
            else:
                self._write_veto(group_id, move, move.hook, veto)
        return self._environment.take_actions()

    def _write_veto(self, group_id: str, move: Move, call: HookCall, veto: str) -> None:
        after = vetoed(move, call, veto)
        if after != move and self._moves.write_move(group_id, after) is not None and after.hook is not None:
            reason = f"the hook does not let step {call.step + 1} begin: {after.hook.why}"
            self._events.emit_step(group_id, reason)

    def moves_by_phase(self) -> Counter[str]:
        """How many groups are moved by steps, by phase (:attr:`MoveView.counted_as`), as far as this process knows."""
        phases = Counter[str]()
        for group_id, move in self._moves.records.moves():
            view = self.move_of(group_id)
            phases[move.phase if view is None else view.counted_as] += 1
        del phases[Phase.OVER]
        return phases

    def gated_groups(self) -> dict[str, AbortIf]:
        """The groups whose move has gates and goes on, each with the thresholds of its rule."""
        return {
            group_id: rule.abort_if
            for group_id, rule, _ in self._moves.gates.gated()
            if rule.abort_if is not None
        }

    def groups_in_moves(self) -> frozenset[str]:
        """The groups that are moved by steps, or are held or aborted in the middle of that."""
        return self._moves.gates.in_moves()

    def handle_reports(self, now: float, reports: Mapping[str, Report]) -> list[Action]:
        """Report what was seen of these groups, and judge all moves with gates; to be called every ten seconds
        (:data:`~translation.member_log.signals.WINDOW_S`)."""
        self._environment.now = now
        self._judge.judge_moves(reports)
        return self._environment.take_actions()

    def gates_by_state(self) -> Counter[str]:
        """How many moves with gates there are, by what the gates say, as this process knows them."""
        moves = self._moves
        return Counter(
            str(moves.gates.verdict(group_id, rule).state) for group_id, rule, _ in moves.gates.gated()
        )

    def waves(self) -> list[WaveCount]:
        """The waves of the policy in order, with their groups by state, as this process knows them."""
        return self._moves.waves.all()
