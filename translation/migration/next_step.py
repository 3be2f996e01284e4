"""Decides how the move of a group by steps goes on: a pure function of its state and of what was found out.

* A step has **settled** once as many members are translated as it allows. From then on it is held for ``hold_s``, and
  then the next begins; the last is held for good.
* A group that the broker has made a classic one again, because its last translated member left, is **held**: to convert
  it again is not decided by whoever happens to join next.
* **Gates** (:mod:`translation.migration.gates`) keep the next step waiting; harm aborts the move.

Whatever is not moving stays as it is until somebody changes the policy's steps.
"""

import msgspec
from msgspec.structs import replace

from translation.fleet.group_records import Move, Phase
from translation.fleet.signals import Verdict
from translation.policy.policy import Rule
from translation.policy.steps import text_of


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a group. ``now_ms`` is the log's clock, by which a move's times are."""

    now_ms: int
    filled: bool = False
    """As many of its members are translated as the step allows."""
    converted: bool = False
    """It is a consumer group with translated members."""
    downgraded: bool = False
    """It was a consumer group in this move, and is a classic one with members."""
    waits: str = ""
    """Why the next step must not begin, in words; empty: it may."""
    harm: str = ""
    """What the step has done, in words; empty: nothing is known."""


def begin(rule: Rule, number: int, now_ms: int) -> Move:
    """The first step of a move by a rule's steps; ``number`` has to be greater than that of any move before."""
    return Move(steps=text_of(rule.staged), number=number, since_ms=now_ms)


def decide(move: Move, rule: Rule, signals: Signals) -> Move:
    """How the move goes on: the same if nothing is to be changed."""
    now_ms = signals.now_ms
    if not move.is_moving:
        return move
    if signals.harm:
        return replace(move, phase=Phase.ABORTED, since_ms=now_ms, why=signals.harm)
    if signals.downgraded:
        why = "its last translated member has left, so the broker made it a classic group"
        return replace(move, phase=Phase.HELD, since_ms=now_ms, why=why)
    if signals.converted and not move.converted:
        move = replace(move, converted=True)
    if not move.settled_ms:
        return replace(move, settled_ms=max(1, now_ms)) if signals.filled else move
    is_last = move.step + 1 >= len(rule.staged)
    if is_last or now_ms - move.settled_ms < rule.hold_s * 1000 or signals.waits:
        return move
    return replace(move, step=move.step + 1, since_ms=now_ms, settled_ms=0)


class MoveView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How far the move of a group by steps is, for people: at ``step`` of ``steps``, counted from 1.

    ``allows`` is what the step allows as the policy says it: a number of members, or a share. ``settled`` says that as
    many are translated. ``text`` says all of it.
    """

    step: int
    steps: int
    allows: str
    phase: str
    settled: bool
    why: str
    gates: str = ""
    """What its gates say: ``baseline``, ``clear``, ``watching``, ``suspect``, ``paused``, ``missing``; empty without
    gates, and when it does not move."""
    text: str


def view_of(move: Move, rule: Rule, verdict: Verdict) -> MoveView:
    """What is shown of a move."""
    has_gates = rule.abort_if is not None and move.is_moving
    text = describe(move, rule)
    said = verdict.text if has_gates else ""
    return MoveView(
        step=move.step + 1,
        steps=len(rule.staged),
        allows=str(rule.staged[move.step]),
        phase=move.phase,
        settled=bool(move.settled_ms),
        why=move.why or (verdict.why if said else ""),
        gates=str(verdict.say) if has_gates else "",
        text=f"{text}, {said}" if said else text,
    )


def describe(move: Move, rule: Rule) -> str:
    """What a move does, for people."""
    where = f"step {move.step + 1} of {len(rule.staged)} ({rule.staged[move.step]})"
    if move.phase == Phase.MOVING:
        return f"{where}, settled" if move.settled_ms else where
    return f"{where}, {move.phase}: {move.why}" if move.why else f"{where}, {move.phase}"
