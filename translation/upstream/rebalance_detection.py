"""Decides whether and when a client has to rejoin, for a new generation: its Heartbeats are answered
REBALANCE_IN_PROGRESS, at once after a revocation, debounced after additions for an eager client.

A classic coordinator answers so to all members of a group that rebalances. In the new protocol each member has changes
of its own, so here a member's client is told exactly if its own partitions changed: the member then goes from Stable to
PrepareRebalance, and :mod:`translation.apis.heartbeat` answers by that state. Three other ways lead there: the member
is found at the broker (:mod:`translation.joining.adoption`), its SyncGroup withholds what the client owns
(:mod:`translation.apis.sync_group`), or its SyncGroup does not come (:mod:`translation.membership.expiry`).

Most heartbeat responses change nothing. :func:`translation.upstream.consumer_group_heartbeat.is_unchanged` recognises
those, and nothing is compared here then (:mod:`translation.apis.predicted_heartbeat`).
"""

import math

from protocol_codecs import Uuid
from translation.actions import EventKind
from translation.engine.events import Events
from translation.engine.memberships import Memberships
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent, MemberState
from translation.partitions import Partitions, visible_to_client

_STABLE = MemberState.STABLE
"""Bound once, for heartbeats: Python 3.11 looks for a member of an enum as long as a message takes to be decoded."""


def detect_rebalance(
    environment: Environment,
    topic_names: dict[Uuid, str],
    memberships: Memberships,
    events: Events,
    member: Member,
) -> None:
    """Compare what the client got by SyncGroup with what the broker assigns, and have it join again if they differ.

    Only a member in Stable is told: before that, its SyncGroup answer carries the change; after it, the client has been
    told already. If partitions were only added, an eager client is told a little later, for all of them together,
    because each rejoin stops all its partitions.
    """
    if member.state is not _STABLE:
        return
    visible = visible_to_client(member.partitions.broker_assignment, topic_names, member.client.subscription)
    if (
        member.partitions.pending_revocation & member.partitions.possibly_owned
        or not member.partitions.synced_assignment <= visible
    ):
        memberships.change_state(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions are to be revoked")
        events.emit(
            EventKind.REVOKE_REQUESTED,
            member,
            partitions=(member.partitions.synced_assignment - visible)
            | (member.partitions.pending_revocation & member.partitions.possibly_owned),
        )
    elif visible == member.partitions.synced_assignment:
        member.deadlines.addition_debounce_until = member.deadlines.addition_debounce_limit = math.inf
    elif member.client.cooperative or not member.partitions.synced_assignment:
        memberships.change_state(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions were added")
    elif (
        member.deadlines.addition_debounce_until == math.inf
        or visible != member.partitions.debounced_assignment
    ):
        _delay_additions(environment, member, visible)


def client_has_all(topic_names: dict[Uuid, str], member: Member) -> bool:
    """Whether the client got by SyncGroup just what the broker assigns, and has nothing to give up."""
    partitions = member.partitions
    return not partitions.pending_revocation & partitions.possibly_owned and (
        partitions.synced_assignment
        == visible_to_client(partitions.broker_assignment, topic_names, member.client.subscription)
    )


def _delay_additions(environment: Environment, member: Member, visible: Partitions) -> None:
    """Delay the rejoin for added partitions; each further addition prolongs the delay, up to a limit."""
    settings = environment.settings
    member.partitions.debounced_assignment = visible
    member.deadlines.addition_debounce_limit = min(
        member.deadlines.addition_debounce_limit, environment.now + settings.addition_debounce_limit_s
    )
    member.deadlines.addition_debounce_until = min(
        environment.now + settings.addition_debounce_s, member.deadlines.addition_debounce_limit
    )
    environment.book(member)


def announce_additions(environment: Environment, memberships: Memberships, member: Member) -> None:
    """Have an eager client join again for the partitions that were added, if the delay is over."""
    if member.deadlines.addition_debounce_until <= environment.now:
        member.deadlines.addition_debounce_until = member.deadlines.addition_debounce_limit = math.inf
        if member.state is _STABLE:
            memberships.change_state(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions were added")
