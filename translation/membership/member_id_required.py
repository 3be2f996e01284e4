"""Decides when a JoinGroup is answered MEMBER_ID_REQUIRED: its client has to join under a new member id (KIP-394).

There are four reasons. The client comes without a member id, as with a classic coordinator. Or it comes with an id
under which it must not begin a membership of the new protocol:

* an older JoinGroup with that id may still reach the classic coordinator;
* another process may be ending the classic membership that has that id;
* the id is of the form that native members have.

Clients understand the answer since JoinGroup v4. Static members never get it: their instance id tells who they are.
"""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation.actions import EventKind, Request
from translation.engine.connections import ClientConnections
from translation.engine.context import Context
from translation.engine.join_outcomes import Outcome, refused
from translation.engine.registry import Registry
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_ids import MemberIds
from translation.policy.client_offer import owns_partitions

_UNDERSTOOD_FROM = 4
"""The version of JoinGroup since which clients understand MEMBER_ID_REQUIRED."""


def _may_be_given_one(request: Request) -> bool:
    """Whether this client can be given another member id by MEMBER_ID_REQUIRED."""
    message: JoinGroupRequest = request.message
    return request.version >= _UNDERSTOOD_FROM and message.group_instance_id is None


def comes_without_member_id(request: Request) -> bool:
    """Whether this is a client's first JoinGroup, to be answered with the id for its second."""
    return not request.message.member_id and _may_be_given_one(request)


def older_join_may_arrive(ids: MemberIds, registry: Registry, request: Request) -> bool:
    """Whether an earlier JoinGroup under this member id may still reach the classic coordinator.

    It was relayed on another connection, and its client gave it up before it was answered. If it arrived, it would make
    the member of the new protocol with this id a classic one.
    """
    message: JoinGroupRequest = request.message
    return (
        ids.may_become_classic(message.member_id, request.connection.id)
        and _may_be_given_one(request)
        and registry.find(message.group_id, message.member_id) is None
        and not owns_partitions(message)
    )


def may_be_left_again(environment: Environment, request: Request) -> bool:
    """Whether a LeaveGroup for this client's classic membership may be under way from another process.

    The client was connected there before, hung up, and came here. A LeaveGroup that is still on its way to the broker
    would end the membership that begins here under the same id, and free the partitions that the client works on.
    """
    return not environment.settings.sole_process and _may_be_given_one(request)


def answer_with_new_id(
    connections: ClientConnections, ids: MemberIds, request: Request, member_id: str = ""
) -> None:
    """Answer MEMBER_ID_REQUIRED with a member id that nobody has: this one, if it was made already."""
    connections.answer(request, _required(request, member_id or ids.issue()))


class NeedsNewMemberId(Outcome):
    """A JoinGroup that is under way ends with MEMBER_ID_REQUIRED."""

    def apply(self, context: Context, member: Member, request: Request) -> None:
        """Answer with a fresh member id, whichever of its JoinGroups the client waits for."""
        member_id = context.ids.issue()
        context.moves.rename(member.group.group_id, member.member_id, member_id)
        context.events.emit(EventKind.CALL_REFUSED, member, reason=f"given another member id: {self}")
        for waiting in (*member.join.superseded_requests, request):
            context.connections.answer(waiting, _required(waiting, member_id))
        member.join.superseded_requests.clear()


def ensure_id_of_ours(registry: Registry, member: Member, request: Request, *, owns_partitions: bool) -> None:
    """Raise if a client that begins a membership here would do so under an id of the form that native members have.

    A classic member that joined a group with native members in it has such an id (seen on 4.4.0), and another process
    of Epochgate would take it for a native one. ``owns_partitions`` says that its JoinGroup reports owned partitions.

    :raises NeedsNewMemberId: the client has to join under another id.
    """
    if (
        not member.joined
        and not owns_partitions
        and not registry.is_ours(member.group.group_id, member.member_id)
        and _may_be_given_one(request)
    ):
        raise NeedsNewMemberId("its own is of the form that native members have")


def _required(request: Request, member_id: str) -> JoinGroupResponse:
    return refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
