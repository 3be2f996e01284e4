"""Relays a JoinGroup to the classic coordinator while its group is being converted, or its client moves back."""

from collections.abc import Callable, Container

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation.actions import Call, Relayed, Request
from translation.admission.serving import MemberServing
from translation.conversion.helper import Helpers
from translation.conversion.old_membership import leave_classic
from translation.engine.connections import ClientConnections
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed, refused, without_member_id
from translation.members.environment import Environment
from translation.members.member_parts import PendingSwitch
from translation.members.procedure import Procedure, Wait
from translation.policy.client_offer import lacks_owned_list
from translation.upstream.relayed_responses import RelayedResponses

_JOIN_RETRIES = 50
_JOIN_RETRY_S = 0.2

_UNREADABLE = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.UNKNOWN_SERVER_ERROR})
"""What a consumer group answers to a subscription that it can't read: 4.4.0 the first, 4.0.1 the other."""
_NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""The broker does not have the member id; the second: another member has its instance id."""
_NO_PARTITIONS = b"\0\0\0\0"
"""An empty array, as the owned partitions of a subscription."""


def _nothing() -> None:
    pass


class ClassicJoins:
    """Relays JoinGroups of classic members."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._connections = context.connections
        self._member_serving = MemberServing(context)
        self._relayed_responses = RelayedResponses(context)
        self._helpers = Helpers(context)

    def relay_classic_join(
        self,
        request: Request,
        cancelled_switch: PendingSwitch | None = None,
        *,
        on_accepted: Callable[[], None] = _nothing,
        hold: Callable[[JoinGroupResponse], Procedure[JoinGroupResponse]] | None = None,
        unanswered: Container[int] = (),
    ) -> Procedure[int]:
        """Relay a JoinGroup, and repeat it while the broker answers REBALANCE_IN_PROGRESS; return the code of the
        answer.

        The conversion of a group fails the pending JoinGroups of its classic members with that code, which is fatal for
        Java clients up to 2.7.

        ``cancelled_switch`` is that of a client that was to switch to the new protocol and does not any more. The
        classic membership that it has left behind is ended, or the group's rebalance would wait for it until its
        timeout. ``on_accepted`` is called when the broker has the client as a classic member; ``hold`` may wait for
        another answer then. A code of ``unanswered``, of the broker or of the member log, is returned and not answered.
        """
        if cancelled_switch is not None:
            group = self._registry.group(request.message.group_id)
            try:
                yield from leave_classic(group, cancelled_switch)
            except Failed as failed:
                self._connections.answer(request, refused(request, failed.error_code))
                return failed.error_code
            self._registry.drop_group_if_empty(group)
        code = yield from self._member_serving.settle_relayed(request)
        if code != ErrorCode.NONE:
            if code not in unanswered:
                self._connections.answer(request, refused(request, code))
            return code
        if _client_is_gone(self._connections, request):
            self._connections.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = yield from send_join(self._environment, self._connections, request)
        if response.error_code in unanswered:
            return response.error_code
        if response.error_code == ErrorCode.NONE:
            on_accepted()
            if hold is not None:
                response = yield from hold(response)
        if self._connections.is_waiting(request):
            if response.error_code == ErrorCode.NONE:
                self._relayed_responses.learn_join(request, response)
                self._helpers.has_joined_classic(request, response)
            if response.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                self._environment.actions.append(Relayed(request, response))
        self._connections.answer(request, response)
        return response.error_code

    def relay_as_member_or_new(self, request: Request) -> Procedure[int]:
        """Relay the JoinGroup of a client with a member id that Epochgate issued, which the broker may not have.

        A member that went back in place is a classic member under that id, so its JoinGroup keeps it. If the broker or
        the member log answers that there is no such member, the JoinGroup is relayed without an id, as that of a new
        client: UNKNOWN_MEMBER_ID ends some old clients.
        """
        code = yield from self.relay_classic_join(request, unanswered=_NO_MEMBER)
        if code in _NO_MEMBER:
            code = yield from self.relay_classic_join(without_member_id(request))
        return code


def send_join(
    environment: Environment, connections: ClientConnections, request: Request
) -> Procedure[JoinGroupResponse]:
    """Send a JoinGroup, and again as long as the broker answers REBALANCE_IN_PROGRESS; return its answer.

    One that a consumer group can't read is sent once more in a form that it can. Not before that: kafka-go can't read
    that form of another member when it leads a classic group.
    """
    response = yield from _send_join(request)
    for _ in range(_JOIN_RETRIES):
        if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS or not connections.is_waiting(request):
            break
        yield Wait(environment.now + _JOIN_RETRY_S)
        response = yield from _send_join(request)
    return response


def _send_join(request: Request) -> Procedure[JoinGroupResponse]:
    response: JoinGroupResponse = yield Call(ApiKey.JOIN_GROUP, request.version, request.message)
    if response.error_code in _UNREADABLE and lacks_owned_list(request.message):
        response = yield Call(ApiKey.JOIN_GROUP, request.version, readable(request).message)
    return response


def _client_is_gone(connections: ClientConnections, request: Request) -> bool:
    """Whether the client of a JoinGroup has hung up, and may have joined elsewhere, while it waited here."""
    return not connections.is_still_connected(request)


def readable(request: Request) -> Request:
    """The JoinGroup with subscriptions that brokers can read: kafka-go leaves out the owned partitions."""
    message: JoinGroupRequest = request.message
    if not lacks_owned_list(message):
        return request
    protocols = tuple(
        msgspec.structs.replace(protocol, metadata=bytes(protocol.metadata) + _NO_PARTITIONS)
        for protocol in message.protocols
    )
    return msgspec.structs.replace(request, message=msgspec.structs.replace(message, protocols=protocols))
