"""Ends the membership that a client leaves behind when it has moved to the other protocol.

In the new protocol that is a heartbeat with epoch -1, in the classic one a LeaveGroup. Both raise
:class:`~translation.engine.join_outcomes.Failed` if the coordinator was not there to do it: the membership would go on
until its session ends, so the client has to try again.
"""

from protocol_codecs import ApiKey
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from translation.actions import Call, EventKind
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed
from translation.error_mapping import IS_OUT, NO_COORDINATOR
from translation.members.member import Group, Member
from translation.members.member_parts import PendingSwitch
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure
from translation.membership.expiry import Expiry
from translation.upstream.leave_epoch import leave

_LEAVE_VERSION = 3
"""The first version of LeaveGroup that names a member by its instance id too."""


def leave_consumer_membership(context: Context, member: Member, reason: str) -> Procedure[None]:
    """End the membership of the new protocol of a client that has given up its partitions and joins anew.

    It may have ended by itself. With a member log its id is dead first, so that an epoch -1 that is late hits nobody.

    :raises Failed: the coordinator was not there to do it, or the log did not say that the id is dead.
    """
    group = member.group
    if member.joined:
        with group.departing(member.member_id):
            yield from Expiry(context).ensure_dead(member)
            response = yield from leave(member)
        # Else it would stay in the group until its session ends there.
        if response.error_code in NO_COORDINATOR:
            raise Failed(response.error_code, "its membership could not be ended")
        if response.error_code in IS_OUT:
            context.member_log.end(group.group_id, member.member_id)
    group.pending_switches.pop(member.member_id, None)
    if member.joined:
        context.memberships.end(member, MemberEvent.LEFT, EventKind.POLICY_CHANGED, reason)


def leave_classic(group: Group, switch: PendingSwitch) -> Procedure[None]:
    """End the classic membership that a client was told to leave; that it has ended by itself is no error."""
    yield from leave_classic_membership(group.group_id, switch.member_id, switch.instance_id)
    group.pending_switches.pop(switch.member_id, None)


def leave_classic_membership(group_id: str, member_id: str, instance_id: str | None) -> Procedure[None]:
    """Send LeaveGroup for one classic member; that there is no such member is no error.

    :raises Failed: the coordinator was not there to do it. The client is to join again, which tries this again.
    """
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    message = LeaveGroupRequest(group_id=group_id, members=(identity,))
    response: LeaveGroupResponse = yield Call(ApiKey.LEAVE_GROUP, _LEAVE_VERSION, message)
    if response.error_code in NO_COORDINATOR:
        raise Failed(response.error_code, "its classic membership could not be ended")
