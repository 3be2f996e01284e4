"""Dispatches what the member log says of members: which calls may go on, and which memberships are over here.

The member log is asked by :mod:`translation.serving` (who serves a member) and :mod:`translation.expiry` (whether a
silent client's membership may be ended). What it says comes later, when its records are read back.
"""

from collections.abc import Sequence

from translation.engine.context import Context
from translation.engine.member import Member
from translation.expiry import drop_taken, forget_expired, remove_dead
from translation.fleet.group_records import HOST
from translation.fleet.outputs import Ended, Expired, Health, HealthChanged, Output, Serving, Settled, Taken
from translation.fleet.records import MemberKey
from translation.migration import judging


def handle_outputs(context: Context, outputs: Sequence[Output]) -> None:
    """Handle what the log says, in order."""
    for output in outputs:
        match output:
            case Settled(key):
                context.fleet.settled(key)
                context.scheduler.settled(key)
                context.moves.settled(key)
                if key.member_id == HOST and context.hosting.hosts is not None:
                    context.hosting.hosts.note(key.group_id, context.now)
                judging.settled(context, key)
            case Taken(key):
                member = context.registry.find_key(key)
                if member is not None:
                    drop_taken(context, member)
            case Expired(key):
                _expired(context, context.registry.find_key(key))
            case Ended(key):
                _heartbeat_the_others(context, key)
            case HealthChanged(_, Health.READY):
                context.moves.look_through()
    for output in outputs:
        if isinstance(output, Serving) and context.registry.find_key(output.key) is None:
            context.fleet.release_key(output.key)  # the call that claimed it is over


def _heartbeat_the_others(context: Context, key: MemberKey) -> None:
    """A member has left through another replica: heartbeat those of its group here, as that one does for its own.

    Else each of them would learn of its new partitions only at its client's second Heartbeat from now: the first makes
    the broker compute the assignment. A group with an id so long that the log has a hash of it is not found.
    """
    group = context.registry.groups.get(key.group_id)
    if group is not None:
        context.memberships.heartbeat_group(group)


def _expired(context: Context, member: Member | None) -> None:
    """The id of a member whose timeout has passed is dead: end its membership, and have epoch -1 sent in its turn.

    Without a connection somebody who meets the id sends that, or the broker's session timeout decides.
    """
    if member is None or not member.joined or member.member_id in member.group.leaving:
        return  # who ends it waits for this (translation.migration.old_membership)
    if member.connection_id is not None:
        context.scheduler.start(
            remove_dead(context, member),
            member.queue,
            member.connection_id,
            member.client.client_id,
            ends_session=True,
        )
    # At once: no call that is under way is answered as if it were still a member.
    forget_expired(context, member)
