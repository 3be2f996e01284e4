"""What the next step of a move waits for: the policy's ``pause``, ``approval``, ``windows``, ``proof_s``, the hook.
Pure.

The hook, which is asked last, is in :mod:`translation.rollout.hook`.

One replica verifies the journal (docs/how-to/live-proof.md) and writes what it finds for groups whose rule asks for it.
No record, one that has grown old, or one that says less than the rule asks for: not proven. A rule can be told to go on
all the same, by a text that says who wants it and why; it is recorded in the move.
"""

from translation.member_log.group_records import Move, Phase, Proof, StoredGroup
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


STALE_MS = 180_000
"""A record that is older, by the log's clock, says nothing any more: it is written anew at least every minute."""

WRITE_EVERY_MS = 60_000
"""A record that says the same is written so often, and one that says something else at once, but for its length."""


def why_not_proven(rule: Rule, stored: StoredGroup | None, since_ms: int, now_ms: int) -> str:
    """Why what happened since ``since_ms`` is not proven for as long as the rule asks; empty if it is.

    Times are milliseconds by the log's clock.
    """
    if not rule.proof_s:
        return ""
    proof = None if stored is None else stored.record.proof
    if stored is None or proof is None:
        return "no replica verifies it"
    if now_ms - stored.appended_ms > STALE_MS:
        return f"verified {(now_ms - stored.appended_ms) // 1000} s ago for the last time"
    if proof.violated:
        return "a partition had two owners"
    until_ms = stored.appended_ms - proof.ago_ms
    proven_ms = max(0, until_ms - max(since_ms, until_ms - proof.clean_ms))
    if proven_ms >= rule.proof_s * 1000:
        return ""
    because = f" ({proof.why})" if proof.why else ""
    return f"proven for {proven_ms // 1000} of {rule.proof_s} s{because}"


def is_to_be_written(stored: StoredGroup | None, proof: Proof, now_ms: int) -> bool:
    """Whether a proof is worth a record: it is the first, says something new, or the one before is a minute old."""
    before = None if stored is None else stored.record.proof
    if stored is None or before is None or now_ms - stored.appended_ms >= WRITE_EVERY_MS:
        return True
    was_cut = proof.clean_ms < before.clean_ms
    return proof.violated != before.violated or was_cut
