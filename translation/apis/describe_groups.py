"""DescribeGroups: describes a consumer group in the classic form, so that old tools see its members.

A broker answers DescribeGroups that a consumer group is Dead (up to v5) or unknown (v6), and exporters then report a
group without members. Such a group is described with ConsumerGroupDescribe, and that response is converted.
"""

from collections.abc import Mapping

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from translation.actions import Call, Request
from translation.engine.connections import ClientConnections
from translation.engine.context import replaced
from translation.engine.registry import Registry
from translation.members.conversion import is_helper
from translation.members.procedure import Procedure

_EMBEDDED_VERSION = 0
"""The version of the embedded consumer protocol that every tool decodes."""

_CLASSIC_STATES: Mapping[str, str] = {
    "Assigning": "PreparingRebalance",
    "Reconciling": "CompletingRebalance",
}
"""The classic name of each group state that only KIP-848 has; the others have the same names."""


def describe_groups(connections: ClientConnections, registry: Registry, request: Request) -> Procedure[None]:
    """Relay the request, then ask again with ConsumerGroupDescribe for the groups that are Dead or unknown."""
    message: DescribeGroupsRequest = request.message
    response: DescribeGroupsResponse = yield Call(ApiKey.DESCRIBE_GROUPS, request.version, message)
    version = request.connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1)
    missing = tuple(group.group_id for group in response.groups if _is_missing(group))
    if missing and version is not None:
        again: ConsumerGroupDescribeResponse = yield Call(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            version,
            ConsumerGroupDescribeRequest(
                group_ids=missing, include_authorized_operations=message.include_authorized_operations
            ),
        )
        found = {group.group_id: group for group in again.groups if group.error_code == ErrorCode.NONE}
        response = replaced(
            response,
            groups=tuple(
                _classic(registry, found[group.group_id]) if group.group_id in found else group
                for group in response.groups
            ),
        )
    connections.answer(request, response)


def _is_missing(group: DescribedGroup) -> bool:
    dead = group.error_code == ErrorCode.NONE and group.group_state == "Dead"
    return dead or group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _classic(registry: Registry, group: ConsumerGroupDescribeResponseDescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=_CLASSIC_STATES.get(group.group_state, group.group_state),
        protocol_type="consumer",
        protocol_data=group.assignor_name,
        members=tuple(
            _classic_member(registry, group.group_id, member)
            for member in group.members
            if not is_helper(member.member_id)
        ),
        authorized_operations=group.authorized_operations,
    )


def _classic_member(
    registry: Registry, group_id: str, member: ConsumerGroupDescribeResponseMember
) -> DescribedGroupMember:
    # The broker knows the proxy's address only; the client's own is known where the client is connected.
    known = registry.find(group_id, member.member_id)
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=f"/{known.client.client_host.removeprefix('/')}"
        if known is not None
        else member.client_host,
        member_metadata=encode_subscription(
            ConsumerProtocolSubscription(topics=member.subscribed_topic_names), _EMBEDDED_VERSION
        ),
        member_assignment=encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=tuple(
                    ConsumerProtocolTopicPartition(topic=topic.topic_name, partitions=topic.partitions)
                    for topic in member.assignment.topic_partitions
                )
            ),
            _EMBEDDED_VERSION,
        ),
    )
