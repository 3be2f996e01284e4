"""What the gates of moves found last, at this process (``epochgate_group_gates``), and which moves are due to be
judged.

:mod:`translation.moving.judging` judges them, every ten seconds.
"""

from collections.abc import Callable, Mapping

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import Move, Phase
from translation.member_log.signals import WINDOW_S, GateState, GateVerdict
from translation.members.environment import Environment
from translation.policy.policy import Rule
from translation.policy.rule_cache import RuleCache

SETTLES_S = 3 * WINDOW_S
"""With gates no step begins sooner after the one before has settled, whatever ``hold_s`` says: so long they judge."""
_VERDICT_LASTS_S = 25.0
NO_GATES = GateVerdict(GateState.CLEAR)
"""What the gates of a move without any say."""
_NOT_JUDGED = GateVerdict(GateState.MISSING, "this process has not judged the gates yet")


class GateVerdicts:
    """The gates of the moves of all groups. ``move_of`` returns a group's move by a rule (:class:`Moves.move`)."""

    def __init__(
        self,
        environment: Environment,
        records: GroupLog,
        rules: RuleCache,
        move_of: Callable[[str, Rule], Move | None],
    ) -> None:
        self._environment = environment
        self._records = records
        self._rules = rules
        self._move_of = move_of
        self._verdicts: dict[str, tuple[GateVerdict, int, float]] = {}
        """What the gates said of a move last, of which number, and when."""
        self.aborting: dict[str, Move] = {}
        """The moves that were aborted here, and of which that is not read back yet."""

    def gated(self) -> list[tuple[str, Rule, Move]]:
        """The moves that have gates and go on, or are to begin."""
        found: list[tuple[str, Rule, Move]] = []
        for group_id, _ in self._records.moves():
            rule = self._rules.written_rule_for(group_id)
            move = self._move_of(group_id, rule) if rule.abort_if is not None else None
            goes_on = move is not None and move.phase in (Phase.AWAITING, Phase.MOVING)
            if move is not None and goes_on and not move.judged:
                found.append((group_id, rule, move))
        return found

    def in_moves(self) -> frozenset[str]:
        """The groups that are moved, or are held or aborted in the middle of it: they are no control for others."""
        found = set[str]()
        for group_id, _ in self._records.moves():
            rule = self._rules.written_rule_for(group_id)
            move = self._move_of(group_id, rule)
            if move is not None and not move.judged:
                found.add(group_id)
        return frozenset(found)

    def verdict(self, group_id: str, rule: Rule) -> GateVerdict:
        """What the gates of a group's move say; without gates they let everything go on."""
        if rule.abort_if is None:
            return NO_GATES
        move = self._move_of(group_id, rule)
        if move is not None and move.judged:
            return NO_GATES
        verdict, number, at = self._verdicts.get(group_id, (_NOT_JUDGED, -1, self._environment.now))
        if move is None or move.number != number or self._environment.now - at > _VERDICT_LASTS_S:
            return _NOT_JUDGED
        return verdict

    def verdicts(self) -> dict[str, GateVerdict]:
        """What the gates of all moves said last."""
        return {group_id: verdict for group_id, (verdict, _, _) in self._verdicts.items()}

    def why_waits(self, group_id: str, rule: Rule) -> str:
        """Why the gates let no next step begin, in words; empty if they do."""
        move = None if rule.abort_if is None else self._move_of(group_id, rule)
        if move is None:
            return ""
        now_ms = self._records.now_ms(group_id, self._environment.now)
        if now_ms - max(move.settled_ms, move.since_ms) < SETTLES_S * 1000:
            return "it has not been watched for long enough"
        verdict = self.verdict(group_id, rule)
        return "" if verdict.may_advance else verdict.why or str(verdict.state)

    def judged(self, verdicts: Mapping[str, tuple[GateVerdict, int]]) -> None:
        """What the gates say now of each move that goes on, and of which number it is."""
        now = self._environment.now
        self._verdicts = {
            group_id: (verdict, number, now) for group_id, (verdict, number) in verdicts.items()
        }
