"""Writes what a command makes of a group's move, and decides whether it counts: one that is sent twice counts once.

The caller gives a command again and again until it is no longer pending: each time it is judged by what the log says
then. It is known by its id, so that one that counts already is not judged by what it has made.
"""

from enum import StrEnum

import msgspec

from translation.engine.events import Events
from translation.member_log.group_records import MOVE, Move, group_key
from translation.moving.move_view import MoveView, show
from translation.rollout.commands import Command, CommandContext, Refused, apply_command
from translation.rollout.moves import Moves
from translation.rollout.next_step import describe


class CommandState(StrEnum):
    """What has become of a command."""

    DONE = "done"
    """It counts, or it was so already."""
    REFUSED = "refused"
    """It is about something else than what is now."""
    PENDING = "pending"
    """It is written, and not read back."""
    UNAVAILABLE = "unavailable"
    """The member log is away, so nothing can be said."""


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a command, in ``text`` for people, and how the move is now."""

    state: CommandState
    text: str
    changed: bool = False
    """Whether it was this command that made it so."""
    move: MoveView | None = None


def carry_out_command(moves: Moves, events: Events, command: Command) -> CommandOutcome:
    """Write what a command makes of the move, unless it counts already or can't."""
    group_id = command.group
    rule = moves.rules.written_rule_for(group_id)
    move = moves.move(group_id, rule) if rule.staged else None
    if moves.records.is_unresolved(group_key(group_id, MOVE)):
        return _outcome(moves, command, CommandState.PENDING, "written to the member log", move)
    if move is not None and move.said is not None and move.said.id == command.id:
        _announce(moves, events, command, move)
        return _outcome(moves, command, CommandState.DONE, describe(move, rule), move, changed=True)
    if not moves.records.is_ready(group_id):
        return _outcome(moves, command, CommandState.UNAVAILABLE, "the member log is away", move)
    why = moves.why_refused(rule)
    if why is not None and rule.staged:
        return _outcome(moves, command, CommandState.REFUSED, why, move)
    present = CommandContext(
        move=move,
        rule=rule,
        policy=moves.rules.digest,
        now_ms=moves.now_ms(group_id),
        position=moves.records.position(group_id),
        hook_owner=moves.hook.owner,
    )
    try:
        after = apply_command(command, present)
    except Refused as refused:
        return _outcome(moves, command, CommandState.REFUSED, str(refused), move)
    if after == move:
        return _outcome(moves, command, CommandState.DONE, f"already so: {describe(move, rule)}", move)
    if moves.write_move(group_id, after) is None:
        return _outcome(moves, command, CommandState.UNAVAILABLE, "the member log is away", move)
    moves.hook.commanded(command.id, move)
    if moves.move(group_id, rule) != after:
        return _outcome(moves, command, CommandState.PENDING, "written to the member log", move)
    _announce(moves, events, command, after)
    return _outcome(moves, command, CommandState.DONE, describe(after, rule), after, changed=True)


def _announce(moves: Moves, events: Events, command: Command, after: Move) -> None:
    """Say once in log and journal, and to the hook, that a command which was written here counts."""
    before = moves.hook.take_commanded(command.id)
    if before is not None:
        rule = moves.rules.written_rule_for(command.group)
        moves.hook.rollout_changed(command.group, before, after)
        events.emit_step(command.group, f"{command.act} by {command.by}: {describe(after, rule)}")


def _outcome(
    moves: Moves,
    command: Command,
    state: CommandState,
    text: str,
    move: Move | None,
    *,
    changed: bool = False,
) -> CommandOutcome:
    group_id = command.group
    rule = moves.rules.written_rule_for(group_id)
    view = None if move is None else show(moves, group_id, rule, move)
    return CommandOutcome(state=state, text=text, changed=changed, move=view)
