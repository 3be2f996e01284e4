"""Counts the groups of each wave by how far their moves are, and decides whether the next wave may begin
(``waves.share``), or a wave is over.

A group's number moves when a record of its move is read, so nothing is ever searched, however many groups a wave has.
What cannot be read counts as waiting: a wave is never over for want of a record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import MOVE, Move, Phase
from translation.policy.policy import Policy, Rule
from translation.policy.steps import Step, text_of


class WaveState(StrEnum):
    """How far a group of a wave is."""

    WAITING = "waiting"
    """It has no record, or one of another move: it has not begun, or nothing is known of it."""
    MOVING = "moving"
    OVER = "over"
    """At its last step, which has settled, and is proven if its rule asks for that."""
    HELD = "held"
    ABORTED = "aborted"


class WaveCount(NamedTuple):
    """The groups of one wave, by state."""

    wave: int
    groups: Mapping[WaveState, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.groups.values())


def state_of(move: Move | None, rule: Rule) -> WaveState:
    """How far a group is that is moved by this rule, by the record of its move."""
    if move is None or move.phase == Phase.OVER or move.steps != text_of(rule.staged):
        return WaveState.WAITING
    if move.phase in (Phase.AWAITING, Phase.MOVING):
        return WaveState.OVER if is_over(move, rule) else WaveState.MOVING
    return WaveState.ABORTED if move.phase == Phase.ABORTED else WaveState.HELD


def is_over(move: Move, rule: Rule) -> bool:
    """Whether a move by this rule has nothing before it: its last step has settled, and is proven as the rule asks."""
    is_last = move.step + 1 >= len(rule.staged)
    return is_last and bool(move.settled_ms) and (move.proven or not rule.proof_s)


class WaveCounts:
    """The waves of the policy in force."""

    def __init__(self, records: GroupLog, policy: Policy) -> None:
        self._records = records
        self._policy = policy
        self._states: dict[str, WaveState] = {}
        """Of the groups that have had a record since the policy is in force; the others wait."""
        self._counts: dict[int, Counter[WaveState]] = {}
        records.on_move = self._changed
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Another policy is in force: count anew. Its groups are kept in the log as long as it is."""
        self._policy = policy
        self._records.keeps = policy.wave_of
        self._states = {}
        self._counts = {
            wave: Counter({WaveState.WAITING: groups}) for wave, groups in policy.wave_sizes.items()
        }
        for group_id, _ in self._records.moves():
            self._changed(group_id)

    def before(self, wave: int) -> list[WaveCount] | None:
        """The waves that have to be over before this one; None if a part of the log can't be relied on."""
        if not self._records.is_all_ready:
            return None
        return [one for one in self.all() if one.wave < wave]

    def all(self) -> list[WaveCount]:
        """Every wave in order."""
        return [WaveCount(wave, dict(self._counts[wave])) for wave in sorted(self._counts)]

    def _changed(self, group_id: str) -> None:
        """The record of a group's move was read, or is forgotten."""
        wave = self._policy.wave_of.get(group_id)
        if wave is None:
            return
        before = self._states.get(group_id, WaveState.WAITING)
        after = self._states[group_id] = self._state(group_id)
        counted = self._counts[wave]
        counted[before] -= 1
        counted[after] += 1

    def _state(self, group_id: str) -> WaveState:
        stored = self._records.of_group(group_id).get(MOVE)
        return state_of(None if stored is None else stored.record.move, self._policy.rule_for(group_id))


LOG_IS_AWAY = "a part of the member log can't be read, so it is not known whether those before it are over"


def why_not_yet(wave: int, before: Sequence[WaveCount] | None, needed: Step) -> str | None:
    """Why no group of this wave may begin to move; None if they may.

    ``before`` are all waves before it, None if that is not known; ``needed`` is the share of each that has to be over.
    """
    if before is None:
        return f"wave {wave} waits: {LOG_IS_AWAY}"
    for one in before:
        stopped = one.groups.get(WaveState.HELD, 0) + one.groups.get(WaveState.ABORTED, 0)
        over = one.groups.get(WaveState.OVER, 0)
        if stopped:
            return (
                f"wave {wave} waits: {stopped} of {one.total} groups of wave {one.wave} are held or aborted"
            )
        if over < needed.quota(one.total):
            return f"wave {wave} waits: {over} of {one.total} groups of wave {one.wave} are over"
    return None
