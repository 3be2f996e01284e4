"""Whether the next step of a move may begin now: the policy's pause, approval and windows of time. Pure.

The hook, which is asked last, is in :mod:`translation.migration.hook_calls`.
"""

from translation.fleet.group_records import Move, Phase
from translation.policy.policy import Approval, Rule
from translation.policy.windows import is_open, text_of

WAITS_FOR_APPROVAL = "waits for an approval"
"""How it begins what a move waits for that needs one."""


def next_step(move: Move, rule: Rule) -> int | None:
    """The index of the step that begins next; None after the last."""
    if move.phase == Phase.AWAITING:
        return move.step
    return move.step + 1 if move.step + 1 < len(rule.staged) else None


def is_approved(move: Move, rule: Rule, step: int) -> bool:
    """Whether the step with this index needs no approval any more."""
    return rule.approval is Approval.NONE or step < max(move.approved, rule.approve)


def lacks_consent(move: Move, rule: Rule, step: int) -> str:
    """What somebody has to say before the step with this index begins, in words; empty: nothing."""
    if rule.pause:
        return "paused by the policy"
    return "" if is_approved(move, rule, step) else f"{WAITS_FOR_APPROVAL} of step {step + 1}"


def what_it_waits_for(move: Move, rule: Rule, step: int, now_ms: int) -> str:
    """Why the step with this index must not begin now, in words; empty if it may. ``now_ms``: since 1970."""
    return lacks_consent(move, rule, step) or _outside(rule, now_ms)


def why_nobody_is_told(rule: Rule, now_ms: int) -> str:
    """Why no classic member may be told now to join the new protocol, as far as the policy says; empty if one may."""
    return "paused by the policy" if rule.pause else _outside(rule, now_ms)


def _outside(rule: Rule, now_ms: int) -> str:
    if is_open(rule.windows, now_ms):
        return ""
    return f"waits for a window of time ({text_of(rule.windows)})"


def may_come_in(move: Move, rule: Rule, now_ms: int) -> bool:
    """Whether a newcomer may be translated now, if a slot is free.

    Outside the windows too if the step has settled: then it takes the place of a member that was translated. Else a
    group whose clients are started anew would drift back.
    """
    return not rule.pause and (bool(move.settled_ms) or is_open(rule.windows, now_ms))
