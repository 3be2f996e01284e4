"""Shows how far the move of a group is, by all that this process knows of it."""

from translation.engine.context import Context
from translation.fleet.group_records import Move
from translation.migration.next_step import MoveView, view_of
from translation.policy.policy import Rule


def show(context: Context, group_id: str, rule: Rule, move: Move) -> MoveView:
    """What is shown of a group's move by its rule."""
    moves = context.moves
    return view_of(
        move,
        rule,
        moves.now_ms(group_id),
        context.rules.digest,
        moves.verdict(group_id, rule),
        moves.why_not_proven(group_id, rule, move),
    )
