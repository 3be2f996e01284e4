"""What a command (approve, pause, resume, rollback) makes of the move of a group, and when it is refused. Pure.

A command counts once the record that it leads to is read back, so every replica holds to it. It is refused if it is
about something else than what is: an approval has to name the policy that is in force and the step that is next.
"""

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from translation.member_log.group_records import LONGEST_WORDS, LastCommand, Move, Phase
from translation.policy.policy import Approval, Rule
from translation.rollout.next_step import begin, describe, roll_back
from translation.rollout.step_start import is_approved, next_step


class CommandKind(StrEnum):
    """What a command may be."""

    APPROVE = "approve"
    """Let one step begin."""
    PAUSE = "pause"
    """Translate nobody more, and begin no step."""
    RESUME = "resume"
    """Go on after a pause; after anything else that holds the move, begin it anew or go on with its step."""
    ROLLBACK = "rollback"
    """Move the translated members back, and keep the group classic."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command. ``policy`` and ``step`` (counted from 1) say what an approval is about; others may name a policy.

    ``id`` names the command: given twice, it counts once. ``by`` says who gives it and ``why`` what for, for people.
    """

    id: str
    act: CommandKind
    group: str
    by: str
    why: str = ""
    policy: str = ""
    step: int = 0


class Refused(Exception):
    """The command is not about what is now; the message says what that is."""


class CommandContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is now: the group's move, its rule and its policy, and the log's clock and position."""

    move: Move | None
    rule: Rule
    policy: str
    now_ms: int
    position: int
    hook_owner: str = ""


def apply_command(command: Command, present: CommandContext) -> Move:
    """The move after a command; as it was, if it is so already.

    :raises Refused: it is not about what is now.
    """
    move, rule = present.move, present.rule
    if not rule.staged:
        raise Refused("the policy has no steps for this group: it moves as the rule's `mode` says")
    if command.policy and command.policy != present.policy:
        raise Refused(f"the policy in force is {present.policy}, not {command.policy}{_now(move, rule)}")
    if move is None and command.act is not CommandKind.ROLLBACK:
        raise Refused(
            "its move has not begun: none of its clients has called since the policy has these steps"
        )
    move = move or begin(rule, present.position + 1, present.now_ms, hook_owner=present.hook_owner)
    after = _BY_KIND[command.act](command, move, present)
    if after == move:
        return move
    said = LastCommand(
        act=command.act,
        by=command.by[:LONGEST_WORDS],
        at_ms=present.now_ms,
        id=command.id,
        step=command.step if command.act is CommandKind.APPROVE else 0,
    )
    return replace(after, said=said)


def _approve(command: Command, move: Move, present: CommandContext) -> Move:
    rule, step = present.rule, next_step(move, present.rule)
    if not command.policy or not command.step:
        raise Refused(
            f"an approval names the policy, which is {present.policy}, and a step{_now(move, rule)}"
        )
    if rule.approval is not Approval.REQUIRED:
        raise Refused(f"its steps need no approval{_now(move, rule)}")
    if move.phase not in (Phase.AWAITING, Phase.MOVING):
        raise Refused(f"nothing is to be approved now{_now(move, rule)}")
    if step is None:
        raise Refused(f"it is at its last step{_now(move, rule)}")
    if command.step != step + 1:
        raise Refused(f"the next step is {step + 1}, not {command.step}{_now(move, rule)}")
    if is_approved(move, rule, step):
        return move
    if move.phase == Phase.MOVING and not move.settled_ms:
        raise Refused(f"the step before it has not settled{_now(move, rule)}")
    return replace(move, approved=command.step)


def _pause(command: Command, move: Move, present: CommandContext) -> Move:
    if move.phase == Phase.PAUSED:
        return move
    if move.phase not in (Phase.AWAITING, Phase.MOVING):
        raise Refused(f"it does not move{_now(move, present.rule)}")
    if present.rule.staged[0].is_all:
        raise Refused("its only step is 100%, so its members move together: it can be rolled back")
    return replace(move, phase=Phase.PAUSED, since_ms=present.now_ms, why=_words(command), hook=None)


def _resume(_command: Command, move: Move, present: CommandContext) -> Move:
    rule = present.rule
    if move.phase in (Phase.AWAITING, Phase.MOVING):
        return move
    if rule.pause:
        raise Refused(f"the policy says `pause: true` for it{_now(move, rule)}")
    has_begun = move.converted or move.settled_ms or move.step
    if move.phase == Phase.PAUSED and has_begun:
        return replace(move, phase=Phase.MOVING, since_ms=present.now_ms, why="")
    # Nobody is translated by it, or soon nobody will be.
    anew = begin(rule, present.position + 1, present.now_ms, hook_owner=present.hook_owner)
    return replace(anew, approved=move.approved if move.phase == Phase.PAUSED else 0)


def _rollback(command: Command, move: Move, present: CommandContext) -> Move:
    if move.is_rolled_back:
        return move
    return roll_back(replace(move, hook=None), _words(command), present.now_ms)


_BY_KIND = {
    CommandKind.APPROVE: _approve,
    CommandKind.PAUSE: _pause,
    CommandKind.RESUME: _resume,
    CommandKind.ROLLBACK: _rollback,
}


def _words(command: Command) -> str:
    words = f"by {command.by}: {command.why}" if command.why else f"by {command.by}"
    return words[:LONGEST_WORDS]


def _now(move: Move | None, rule: Rule) -> str:
    return "" if move is None else f"; now: {describe(move, rule)}"
