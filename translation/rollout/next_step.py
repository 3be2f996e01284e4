"""Decides when the next step of a group's move begins, is held (``hold_s``) or is taken back: a pure function of its
state and of what was found out.

* A step has **settled** once as many members are translated as it allows. From then on it is held for ``hold_s``, and
  then the next begins; the last is held for good.
* A group that the broker has made a classic one again, because its last translated member left, is **held**: to convert
  it again is not decided by whoever happens to join next.
* **Gates** (:mod:`translation.rollout.gates`) keep the next step waiting. **Harm** that they report aborts the move.
* A step begins only if nothing that somebody has set stands against it (:mod:`translation.rollout.step_start`), and
  the hook agrees, if there is one (:mod:`translation.rollout.hook`). The first is **awaited** until then.
* A rule may ask for **proof** (``proof_s``): the next step begins only when what the settled step has done is proven
  for so long (:mod:`translation.rollout.step_start`), or if somebody has said that it may all the same. That is
  recorded. The last step has to be proven too, before the next wave of groups begins
  (:mod:`translation.rollout.wave_counts`).

Whatever is not moving stays as it is until somebody changes the policy's steps, or says how it goes on
(:mod:`translation.rollout.commands`).
"""

import msgspec
from msgspec.structs import replace

from translation.member_log.group_records import Move, Phase
from translation.policy.policy import Approval, Rule
from translation.policy.steps import text_of
from translation.rollout.hook import ask
from translation.rollout.step_start import next_step, what_it_waits_for


class RolloutInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a group. ``now_ms`` is the log's clock, by which a move's times are, since 1970."""

    now_ms: int
    filled: bool = False
    """As many of its members are translated as the step allows."""
    converted: bool = False
    """It is a consumer group with translated members."""
    downgraded: bool = False
    """It was a consumer group in this move, and is a classic one with members."""
    gate_reason: str = ""
    """Why the gates let no step begin, in words; empty: they do."""
    harm: str = ""
    """What the step has done, in words; empty: nothing is known."""
    hook_owner: str = ""
    """Names this process, if it has a hook to ask before a step begins; empty: it has none."""
    hook_approved_step: int | None = None
    """The index of the step to which the hook has agreed a moment ago."""
    missing_proof: str = ""
    """Why the step is not proven as the rule asks, in words; empty: it is, or the rule does not ask."""


def begin(rule: Rule, number: int, now_ms: int, *, hook_owner: str = "") -> Move:
    """The first step of a move by a rule's steps; ``number`` has to be greater than that of any move before.

    ``hook_owner`` as in :class:`RolloutInputs`.
    """
    waits = hook_owner or rule.windows or rule.pause or rule.approval is Approval.REQUIRED
    # Of a group that moves as a whole nothing is counted, so nobody would look whether it may begin.
    phase = Phase.AWAITING if waits and not rule.staged[0].is_all else Phase.MOVING
    return Move(steps=text_of(rule.staged), number=number, since_ms=now_ms, phase=phase)


def decide(move: Move, rule: Rule, inputs: RolloutInputs) -> Move:
    """How the move goes on: the same if nothing is to be changed."""
    now_ms = inputs.now_ms
    if move.phase == Phase.AWAITING:
        return _begin_next(move, rule, inputs)
    if not move.is_moving:
        return move
    if inputs.harm:
        return replace(move, phase=Phase.ABORTED, since_ms=now_ms, why=inputs.harm)
    if inputs.downgraded:
        why = "its last translated member has left, so the broker made it a classic group"
        return replace(move, phase=Phase.HELD, since_ms=now_ms, why=why)
    if inputs.converted and not move.converted:
        move = replace(move, converted=True)
    if not move.settled_ms:
        return replace(move, settled_ms=max(1, now_ms)) if inputs.filled else move
    if now_ms - move.settled_ms < rule.hold_s * 1000:
        return move
    return _begin_next(move, rule, inputs)


def _begin_next(move: Move, rule: Rule, inputs: RolloutInputs) -> Move:
    """The move at its next step, if there is one that may begin now."""
    step, now_ms = next_step(move, rule), inputs.now_ms
    if inputs.missing_proof and not rule.unproven_override:
        return move
    override = rule.unproven_override or "" if inputs.missing_proof else ""
    if step is None:
        is_news = bool(rule.proof_s) and not move.proven
        return replace(move, proven=True, unproven=override or move.unproven) if is_news else move
    if inputs.gate_reason or what_it_waits_for(move, rule, step, now_ms):
        return move
    if inputs.hook_owner and inputs.hook_approved_step != step:
        return ask(move, step, inputs.hook_owner, now_ms)
    return replace(
        move, phase=Phase.MOVING, step=step, since_ms=now_ms, settled_ms=0, hook=None, unproven=override
    )


def roll_back(move: Move, why: str, now_ms: int) -> Move:
    """Bring all translated members back to the classic protocol, and keep the group there; ``why`` is for people.

    Once this is what the log says of the group, every replica stops telling its classic members to join the new
    protocol, lets no newcomer in, and tells the translated ones to go back (:mod:`translation.moving.downgrade`).
    """
    return replace(move, phase=Phase.ROLLED_BACK, since_ms=now_ms, why=why)


def describe(move: Move, rule: Rule) -> str:
    """What a move does, for people."""
    where = f"step {move.step + 1} of {len(rule.staged)} ({rule.staged[move.step]})"
    if move.phase == Phase.AWAITING:
        return f"before {where}"
    if move.unproven:
        where += f", begun unproven ({move.unproven})"
    if move.phase == Phase.MOVING:
        return f"{where}, settled" if move.settled_ms else where
    phase = move.phase.replace("_", " ")
    return f"{where}, {phase}: {move.why}" if move.why else f"{where}, {phase}"
