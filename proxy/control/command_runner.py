"""Has the translation of this process carry out a command, and for how long it waits until the member log shows
that it counts.
"""

from collections.abc import Callable

import trio

from translation.moving.command_writes import CommandOutcome, CommandState
from translation.rollout.commands import Command

COUNTS_WITHIN_S = 5.0
"""A record is read back long before, or the member log is away."""

_LOOK_EVERY_S = 0.05


async def run_command(give: Callable[[Command], CommandOutcome], command: Command) -> CommandOutcome:
    """Give a command until it is no longer pending; its last outcome after :data:`COUNTS_WITHIN_S` at the latest."""
    outcome = give(command)
    with trio.move_on_after(COUNTS_WITHIN_S):
        while outcome.state is CommandState.PENDING:
            await trio.sleep(_LOOK_EVERY_S)
            outcome = give(command)
    return outcome
