"""What the operator's hook has answered (:mod:`translation.rollout.hook`); a veto is written for all processes."""

from translation.engine.context import Context
from translation.rollout.hook import vetoed


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
