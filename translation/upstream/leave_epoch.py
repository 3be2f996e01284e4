"""Which epoch ends a membership at the broker: -1 for good, or -2 for a static member whose instance id is used again.

A ConsumerGroupHeartbeat with such an epoch makes the member leave, whatever epoch it has (KIP-848). After -1 its
partitions go to others at once; after -2 the broker keeps them for the next member with the instance id, until the
session of the one that left ends.

* -1 (:func:`leave`) goes out when the broker does not find the member that a LeaveGroup names, when the client went
  silent or did not rejoin in time (:mod:`translation.membership.expiry`; only by a process that serves the group alone,
  or when the member log says that the id is dead), when it goes back to the classic protocol
  (:mod:`translation.conversion.old_membership`), and when it joins anew under another member id. Whoever meets a dead
  id for which it may not have gone out sends it (:func:`leave_dead`).
* -2 (:func:`leave_for_newer`) goes out when a newer process takes the instance id over
  (:func:`translation.membership.static_members.release_instance`).
* When the broker refuses the epoch of a client that joins again under its member id, what the broker still has of it
  is ended with -1, or with -2 if the client is static (:func:`leave_to_rejoin`).

Nothing is sent when a connection closes: the client may come back on another one.
"""

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from translation.actions import Call
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.procedure import Procedure, Wait
from translation.upstream.consumer_group_heartbeat import HEARTBEAT_VERSION, HeartbeatProcedure

LEAVE_EPOCH = -1
"""The member epoch that leaves the group."""

LEAVE_STATIC_EPOCH = -2
"""The member epoch with which a static member says that its instance id will be back."""


def let_others_begin(environment: Environment, group: Group) -> Procedure[None]:
    """Wait until first heartbeats that are on their way are answered, if otherwise nobody may be left to keep the group
    a consumer group; to be called inside :meth:`~translation.members.member.Group.departing`.

    They were sent because the group was looked at before. On their own connections they might arrive after the last
    member has left, and convert a group that the broker has just made a classic one. One that is held up is waited for
    no longer than a turn may last.
    """
    until = environment.now + environment.settings.turn_limit_s
    while group.first_heartbeats and environment.now < until and not group.is_consumer_group(environment.now):
        yield Wait(min(until, environment.now + environment.settings.join_poll_s))


def leave(member: Member) -> HeartbeatProcedure:
    """Leave the group for good on the member's behalf."""
    return (yield from _send(member, member.member_id, LEAVE_EPOCH))


def leave_to_rejoin(member: Member) -> HeartbeatProcedure:
    """Leave the group on behalf of a member whose client joins again at once, a static one with its instance id."""
    epoch = LEAVE_EPOCH if member.client.instance_id is None else LEAVE_STATIC_EPOCH
    return (yield from _send(member, member.member_id, epoch))


def leave_for_newer(newer: Member, member_id: str) -> HeartbeatProcedure:
    """Leave the group on behalf of the member id that has the instance id, which the newer member takes over."""
    return (yield from _send(newer, member_id, LEAVE_STATIC_EPOCH))


def leave_dead(group_id: str, member_id: str) -> HeartbeatProcedure:
    """Leave the group for good on behalf of a dead member id, whoever served it; without the instance id, which it may
    have lost to another."""
    request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
    response: ConsumerGroupHeartbeatResponse = yield Call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request
    )
    return response


def _send(member: Member, member_id: str, epoch: int) -> HeartbeatProcedure:
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=member.client.instance_id,
    )
    response: ConsumerGroupHeartbeatResponse = yield Call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request
    )
    return response
