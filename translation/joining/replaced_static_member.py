"""Relays a JoinGroup with an instance id that a translated member may have of which this process does not know.

The process has been restarted without a member log, or another one served the member. The broker puts the classic
client in the place of the translated member. If that was the last one of the new protocol, the broker makes the group a
classic one in the same call, and gives the client the target assignment of the member (``convertToClassicGroup``); a
rebalance follows only if a newer target is due. What another member has still to give up would have two owners then. So
such a JoinGroup waits, as those of members that are known here do (:mod:`translation.conversion.last_consumer_member`).
"""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.actions import Call, Connection, Request
from translation.conversion.classic_join import ClassicJoins
from translation.conversion.last_consumer_member import CLASSIC, TELLS_TYPES, others_have_to_give_up
from translation.engine.context import Context
from translation.engine.join_outcomes import refused
from translation.engine.join_wait import join_wait_limit_s
from translation.members import rebalance_timeout
from translation.members.environment import Environment
from translation.members.member_ids import is_issued_form
from translation.members.procedure import Procedure, Wait


def may_replace_translated(connection: Connection, message: JoinGroupRequest) -> bool:
    """Whether this JoinGroup, relayed, may make a classic member of a translated one that is not known here.

    With an id that no process of Epochgate gives out its client is a classic member already, or the broker fences it.
    """
    return (
        message.group_instance_id is not None
        and (not message.member_id or is_issued_form(message.member_id))
        and connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=TELLS_TYPES) == TELLS_TYPES
    )


class ReplacedStaticMember:
    """Relays JoinGroups that may replace a translated member."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._connections = context.connections
        self._classic_joins = ClassicJoins(context)

    def relay_in_its_place(self, request: Request) -> Procedure[None]:
        """Relay such a JoinGroup when no other member has anything to give up, or its client's place is no such
        member's.

        Its client is told to try again if that takes longer than a JoinGroup may wait.
        """
        message: JoinGroupRequest = request.message
        group_id = message.group_id
        deadline = self._environment.now + join_wait_limit_s(
            self._environment, rebalance_timeout.of_client_ms(message)
        )
        describe = ConsumerGroupDescribeRequest(group_ids=(group_id,))
        while True:
            group = self._registry.group(group_id)
            departures = group.departures
            response: ConsumerGroupDescribeResponse = yield Call(
                ApiKey.CONSUMER_GROUP_DESCRIBE, TELLS_TYPES, describe
            )
            replaced_id = next((self._translated(one, message) for one in response.groups), None)
            if replaced_id is None:
                self._registry.drop_group_if_empty(group)
                yield from self._classic_joins.relay_classic_join(request)
                return
            is_up_to_date = self._registry.group(group_id) is group and group.departures == departures
            if is_up_to_date and not others_have_to_give_up(response.groups[0], replaced_id, group.leaving):
                break
            if self._environment.now >= deadline or not self._connections.is_still_connected(request):
                self._connections.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                self._registry.drop_group_if_empty(self._registry.group(group_id))
                return
            yield Wait(self._environment.now + self._environment.settings.join_poll_s)
        with group.departing(replaced_id):
            yield from self._classic_joins.relay_classic_join(request)
        self._registry.drop_group_if_empty(group)

    def _translated(
        self, group: ConsumerGroupDescribeResponseDescribedGroup, message: JoinGroupRequest
    ) -> str | None:
        """The translated member that has the instance id of a JoinGroup; None if there is none, or it is not
        described."""
        for member in group.members if group.error_code == ErrorCode.NONE else ():
            if member.instance_id == message.group_instance_id:
                is_translated = member.member_type != CLASSIC and self._registry.is_ours(
                    message.group_id, member.member_id
                )
                return member.member_id if is_translated else None
        return None
