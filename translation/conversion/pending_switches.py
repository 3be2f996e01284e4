"""Keeps which clients have to join again under another id, because their members can't be moved in place.

The Heartbeat of such a client is answered UNKNOWN_MEMBER_ID: the client gives up its partitions and joins again, which
every client does by itself. Its old membership ends when that JoinGroup arrives owning nothing, not before
(:mod:`translation.conversion.old_membership`): until then the broker must not give its partitions away. So no two
clients own a partition at any moment.

These are the members of a group that has to be empty to be converted (:mod:`translation.moving.upgrade`), and
translated members that the broker does not let back in place (:mod:`translation.moving.downgrade`).
"""

from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import EventKind, Request
from translation.engine.events import Events
from translation.members.environment import Environment
from translation.members.member import Group
from translation.members.member_parts import PendingSwitch
from translation.policy.client_offer import owns_partitions

_FORGET_S = 900.0
"""A client that was made to rejoin and has not done so after this time is gone, and its timeouts have ended its
membership."""


def request_rejoin(
    environment: Environment, events: Events, group: Group, request: Request, reason: str
) -> None:
    """Remember a client that is made to rejoin, mostly by its Heartbeat."""
    connection = request.connection
    message: HeartbeatRequest | JoinGroupRequest = request.message
    for forgotten in [
        switch for switch in group.pending_switches.values() if switch.asked_at < environment.now - _FORGET_S
    ]:
        del group.pending_switches[forgotten.member_id]
    connection_id, client_id, client_host = connection.id, request.client_id, connection.client_host
    member = group.members.get(message.member_id)
    if member is not None and member.joined and member.last_join_on is not None:
        client = member.client.client_id, member.last_join_host
        if client != (client_id, client_host):
            # Somebody else who may read the group called in its name. The switch is its client's all the same.
            connection_id, (client_id, client_host) = member.last_join_on, client
    group.pending_switches[message.member_id] = PendingSwitch(
        message.member_id, message.group_instance_id, connection_id, client_id, client_host, environment.now
    )
    events.emit_group(EventKind.POLICY_CHANGED, group.group_id, request, reason)


def match_pending_switch(group: Group, request: Request, *, given_here: bool) -> PendingSwitch | None:
    """Find the switch that this JoinGroup completes: by member id, else by connection, else by client.

    Most clients forget their member id with UNKNOWN_MEMBER_ID, and some open a new connection. ``given_here`` says
    that this process gave out the member id, with MEMBER_ID_REQUIRED. If a coordinator gave it, its client completed
    its switch before; another client with the same client id and host may not have done so, and still work.
    """
    connection = request.connection
    message: JoinGroupRequest = request.message
    if message.member_id in group.pending_switches:
        return group.pending_switches[message.member_id]
    # It may have moved before, and left something behind there.
    for switch in reversed(group.pending_switches.values()):
        if switch.connection_id == connection.id:
            return switch
    is_new = given_here or not message.member_id
    for switch in group.pending_switches.values():
        same_instance = (
            message.group_instance_id is not None and message.group_instance_id == switch.instance_id
        )
        same_client = (switch.client_id, switch.client_host) == (request.client_id, connection.client_host)
        if same_instance or (same_client and is_new and switch.instance_id is None):
            return switch
    return None


def keeps_membership(message: JoinGroupRequest, switch: PendingSwitch) -> bool:
    """Whether a client that was made to rejoin goes on with the classic membership that it had.

    It does so if it comes with its old member id, still reports owned partitions, or has an instance id, by which the
    broker itself puts the new member in the old one's place.
    """
    return (
        message.member_id == switch.member_id
        or message.group_instance_id is not None
        or owns_partitions(message)
    )
