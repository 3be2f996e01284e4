"""When the operator's hook is asked whether a step may begin: by one process, and again after a veto.

The process that is to ask is the one whose record says so in the log: a compare-and-set comes before the call. A
process that ends before it has written the answer is replaced after :data:`ANSWER_MS`, so a hook may be asked twice.
"""

from msgspec.structs import replace

from translation.engine.context import Context
from translation.fleet.group_records import LONGEST_WORDS, MOST_HOOK_CALLS, HookCall, Move

ANSWER_MS = 60_000
"""By then the process that asks has written the answer, or has gone: longer than a call may take."""

_FIRST_MS = 10_000
_LONGEST_MS = 600_000


def asked_again_ms(call: HookCall) -> int:
    """When the hook may be asked again, by the log's clock: longer after each veto."""
    if not call.why:
        return call.asked_ms + ANSWER_MS
    return call.asked_ms + min(_FIRST_MS << min(call.tries - 1, 10), _LONGEST_MS)


def ask(move: Move, step: int, by: str, now_ms: int) -> Move:
    """The move with the next call in it; the same if it is not time for one."""
    call = move.hook if move.hook is not None and move.hook.step == step else None
    if call is not None and now_ms < asked_again_ms(call):
        return move
    tries = 1 if call is None else min(call.tries + 1, MOST_HOOK_CALLS)
    return replace(move, hook=HookCall(step=step, by=by, asked_ms=now_ms, tries=tries))


def vetoed(move: Move, call: HookCall, why: str) -> Move:
    """The move after a veto; the same if another call has been made since."""
    if move.hook != call:
        return move
    return replace(move, hook=replace(call, why=why[:LONGEST_WORDS] or "without a reason"))


def note_answer(context: Context, group_id: str, number: int, step: int, veto: str | None) -> None:
    """Note what the hook that was asked here has said of a step of a move: why it must not begin, or None if it may.

    A veto is written for all processes; while it can't be, they take the hook for one that has not answered.
    """
    moves, rule = context.moves, context.rules.written_rule_for(group_id)
    move = moves.move(group_id, rule)
    if move is None or move.hook is None or (move.number, move.hook.step) != (number, step):
        return
    if move.hook.by != moves.hook.asks:
        return
    if veto is None:
        moves.hook.agrees(group_id, number, step)
        return
    after = vetoed(move, move.hook, veto)
    if after != move and moves.write_move(group_id, after) is not None and after.hook is not None:
        reason = f"the hook does not let step {step + 1} begin: {after.hook.why}"
        context.events.emit_step(group_id, reason)
