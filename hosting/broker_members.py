"""Asks the broker whether it has members of a group, of whatever type; for groups that are to be hosted."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest
from protocol_codecs.messages.list_groups import ListGroupsRequest
from protocol_codecs.messages.share_group_describe import ShareGroupDescribeRequest
from translation.actions import Call, Connection
from translation.members.procedure import Procedure

_DESCRIBE_CLASSIC, _DESCRIBE_CONSUMER, _DESCRIBE_SHARE, _LIST_WITH_TYPES = 5, 1, 1, 5
_WITHOUT_MEMBERS = frozenset({"Dead", "Empty"})
_NO_SUCH_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""What a broker says of a group that is none of the new protocol. Kafka 3.9 names the API, and answers
UNSUPPORTED_VERSION while ``group.coordinator.rebalance.protocols`` has no ``consumer``: it has no such group then
(``KafkaApis.handleConsumerGroupDescribe``)."""


def why_broker_has_it(connection: Connection, group_id: str) -> Procedure[str | None]:
    """Return why a group can't be hosted as far as the broker knows it; None if the broker has no members of it.

    What the broker does not say counts as members: nothing may be assigned twice. A broker without an API has no groups
    of that type.
    """
    return (
        (yield from _as_classic(connection, group_id))
        or (yield from _as_consumer(connection, group_id))
        or (yield from _as_share(connection, group_id))
        or (yield from _as_streams(connection, group_id))
    )


def _as_classic(connection: Connection, group_id: str) -> Procedure[str | None]:
    version = connection.version(ApiKey.DESCRIBE_GROUPS, _DESCRIBE_CLASSIC)
    if version is None:
        return "the broker can't describe it"
    response = yield Call(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest(groups=(group_id,)))
    for group in response.groups:
        if group.error_code != ErrorCode.NONE:
            return _not_described(group.error_code)
        if group.group_state not in _WITHOUT_MEMBERS or group.members:
            return "the broker has members of it"
    return None if response.groups else "the broker does not describe it"


def _as_consumer(connection: Connection, group_id: str) -> Procedure[str | None]:
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, _DESCRIBE_CONSUMER)
    if version is None:
        return None
    response = yield Call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(group_ids=(group_id,))
    )
    for group in response.groups:
        if group.error_code == ErrorCode.NONE and group.members:
            return "the broker has members of it, of the new protocol"
        if group.error_code != ErrorCode.NONE and group.error_code not in _NO_SUCH_GROUP:
            return _not_described(group.error_code)
    return None if response.groups else "the broker does not describe it"


def _as_share(connection: Connection, group_id: str) -> Procedure[str | None]:
    version = connection.version(ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_SHARE, _DESCRIBE_SHARE)
    if version is None:
        return None
    response = yield Call(
        ApiKey.SHARE_GROUP_DESCRIBE, version, ShareGroupDescribeRequest(group_ids=(group_id,))
    )
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            return "it is a share group"
        if group.error_code not in _NO_SUCH_GROUP:
            return _not_described(group.error_code)
    return None if response.groups else "the broker does not describe it"


def _as_streams(connection: Connection, group_id: str) -> Procedure[str | None]:
    """Look for it among the streams groups: to DescribeGroups it is a dead group, whatever members it has."""
    if connection.version(ApiKey.STREAMS_GROUP_HEARTBEAT, newest=1) is None:
        return None
    version = connection.version(ApiKey.LIST_GROUPS, _LIST_WITH_TYPES, _LIST_WITH_TYPES)
    if version is None:
        return "the broker does not list its streams groups"
    response = yield Call(ApiKey.LIST_GROUPS, version, ListGroupsRequest(types_filter=("streams",)))
    if response.error_code != ErrorCode.NONE:
        return _not_described(response.error_code)
    is_one = any(group.group_id == group_id for group in response.groups)
    return "it is a streams group" if is_one else None


def _not_described(code: int) -> str:
    return f"the broker does not describe it: error {code}"
