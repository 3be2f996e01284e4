"""Dispatches what the member log says of members: which calls may go on, and which memberships are over here.

The member log is asked by :mod:`translation.serving` (who serves a member) and :mod:`translation.expiry` (whether a
silent client's membership may be ended). What it says comes later, when its records are read back.
"""

from collections.abc import Sequence

from translation.engine.context import Context
from translation.engine.member import Member
from translation.expiry import drop_taken, forget_expired, remove_dead
from translation.fleet.outputs import Expired, Output, Serving, Settled, Taken

_AFTER_TURN_S = 1.0
"""After this much more than a turn's limit, a membership whose end waits for its turn is looked at again."""


def handle_outputs(context: Context, outputs: Sequence[Output]) -> None:
    """Handle what the log says, in order."""
    for output in outputs:
        match output:
            case Settled(key):
                context.fleet.settled(key)
                context.scheduler.settled(key)
            case Taken(key):
                member = context.registry.find_key(key)
                if member is not None:
                    drop_taken(context, member)
            case Expired(key):
                _expired(context, context.registry.find_key(key))
    for output in outputs:
        if isinstance(output, Serving) and context.registry.find_key(output.key) is None:
            context.fleet.release_key(output.key)  # the call that claimed it is over


def _expired(context: Context, member: Member | None) -> None:
    """The id of a member whose timeout has passed is dead: have epoch -1 sent in the member's turn."""
    if member is None or not member.joined or member.member_id in member.group.leaving:
        return  # who ends it waits for this (translation.migration.old_membership)
    if member.connection_id is None:
        # Somebody who meets the id sends it, or the broker's session timeout decides.
        forget_expired(context, member)
        return
    context.scheduler.start(
        remove_dead(context, member),
        member.queue,
        member.connection_id,
        member.client.client_id,
        ends_session=True,
    )
    if member.queue.waiting:  # for its turn, and what waits is dropped if its connection is lost before
        context.timers.book(member, context.now + context.settings.turn_limit_s + _AFTER_TURN_S)
