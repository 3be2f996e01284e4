"""What the status page, ``/api/groups`` and ``epochgate_group_moves`` show of a move by steps: its step, and what
it waits for.
"""

import msgspec

from translation.member_log.group_records import Move, Phase
from translation.member_log.signals import GateVerdict
from translation.policy.policy import Rule
from translation.rollout.gate_verdicts import NO_GATES
from translation.rollout.moves import Moves
from translation.rollout.next_step import describe
from translation.rollout.step_start import (
    WAITS_FOR_APPROVAL,
    lacks_consent,
    next_step,
    what_it_waits_for,
    why_nobody_is_told,
)

TO_APPROVE, SETTLED = "to_approve", "settled"
"""Further phases by which moves are counted: somebody has to approve the next step; its last step has settled."""
_GOES_ON = frozenset({Phase.AWAITING, Phase.MOVING})


class MoveView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far the move of a group by steps is, for people: at ``step`` of ``steps``, from 1; 0 while its wave waits.

    ``allows`` is what the step allows as the policy says it: a number of members, or a share. ``settled`` says that as
    many are translated. ``waits`` says what the next step waits for, and ``next_step`` which one that is, counted from
    1; both are empty if there is nothing to wait for. ``policy`` names the policy that is in force
    (:mod:`translation.policy.policy`). ``said`` is the last command that somebody gave, with who gave it; ``said_ms``
    when (milliseconds since 1970). ``gates`` is what its gates say: ``baseline``, ``clear``, ``watching``, ``suspect``,
    ``paused`` or ``missing``; empty without gates, and when it does not move. ``unproven`` says why a settled step is
    not proven as the policy asks, empty if it is or need not be; ``override`` who let this step begin although the one
    before was not proven. ``plan`` are all steps as the policy says them. ``held_until_ms`` is until when a settled
    step is held before the next one may begin, by the log's clock (milliseconds since 1970); None if it has not
    settled, does not move, or is the last. ``text`` says all but the command, the plan and that time.
    """

    step: int
    steps: int
    allows: str
    phase: str
    settled: bool
    why: str
    text: str
    gates: str = ""
    waits: str = ""
    next_step: int | None = None
    policy: str = ""
    said: str = ""
    said_ms: int | None = None
    unproven: str = ""
    override: str = ""
    plan: tuple[str, ...] = ()
    held_until_ms: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether no step follows."""
        return self.step == self.steps

    @property
    def goes_on(self) -> bool:
        """Whether members are translated, as soon as nothing is to be waited for."""
        return self.phase in _GOES_ON

    @property
    def counted_as(self) -> str:
        """Return the phase by which it is counted."""
        if self.needs_approval:
            return TO_APPROVE
        return SETTLED if self.is_last and self.settled and self.goes_on else self.phase

    @property
    def needs_approval(self) -> bool:
        """Whether it waits for somebody to approve the next step."""
        return self.next_step is not None and self.waits.startswith(WAITS_FOR_APPROVAL)


def view_of(
    move: Move, rule: Rule, now_ms: int, policy: str, verdict: GateVerdict = NO_GATES, unproven: str = ""
) -> MoveView:
    """What is shown of a move. ``now_ms`` and ``unproven``: :class:`RolloutInputs` (``missing_proof``)."""
    has_gates = rule.abort_if is not None and _goes_on(move)
    unproven = unproven if move.is_moving and move.settled_ms and not move.proven else ""
    gates = verdict.text if has_gates else ""
    waits, step = waits_for(move, rule, now_ms), next_step(move, rule)
    is_held = move.is_moving and move.settled_ms and step is not None
    said = move.said
    of_step = f" of step {said.step}" if said is not None and said.step else ""
    not_proven = f"not proven: {unproven}" if unproven else ""
    return MoveView(
        waits=waits,
        next_step=None if step is None or not _goes_on(move) else step + 1,
        policy=policy,
        said="" if said is None else f"{said.act}{of_step} by {said.by}",
        said_ms=None if said is None else said.at_ms,
        step=move.step + 1,
        steps=len(rule.staged),
        allows=str(rule.staged[move.step]),
        phase=move.phase,
        settled=bool(move.settled_ms),
        why=move.why or (verdict.why if gates else ""),
        gates=str(verdict.state) if has_gates else "",
        text="; ".join(filter(None, (describe(move, rule), gates, not_proven, waits))),
        unproven=unproven,
        override=move.unproven,
        plan=tuple(map(str, rule.staged)),
        held_until_ms=move.settled_ms + int(rule.hold_s * 1000) if is_held else None,
    )


def _goes_on(move: Move) -> bool:
    return move.phase in _GOES_ON


def waits_for(move: Move, rule: Rule, now_ms: int) -> str:
    """What the move waits for that is no number of members and no hold; empty: nothing."""
    step = next_step(move, rule)
    if not _goes_on(move):
        return ""
    if move.phase == Phase.MOVING and not move.settled_ms:
        return why_nobody_is_told(rule, now_ms)
    if step is None:
        return ""
    if move.phase == Phase.MOVING and now_ms - move.settled_ms < rule.hold_s * 1000:
        return lacks_consent(move, rule, step)
    waits = what_it_waits_for(move, rule, step, now_ms)
    if waits or move.hook is None or move.hook.step != step:
        return waits
    if not move.hook.why:
        return f"waiting for the hook's answer for step {step + 1}"
    return f"the hook does not let step {step + 1} begin: {move.hook.why}"


def view_of_waiting(why: str, rule: Rule) -> MoveView:
    """What is shown of a group whose wave has not begun: it is at no step yet."""
    return MoveView(
        step=0,
        steps=len(rule.staged),
        allows="",
        phase="waiting",
        settled=False,
        why=why,
        text=why,
        plan=tuple(map(str, rule.staged)),
    )


def show(moves: Moves, group_id: str, rule: Rule, move: Move) -> MoveView:
    """What is shown of a group's move by its rule."""
    return view_of(
        move,
        rule,
        moves.now_ms(group_id),
        moves.rules.digest,
        moves.gates.verdict(group_id, rule),
        moves.why_not_proven(group_id, rule, move),
    )
