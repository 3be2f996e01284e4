"""Asks the broker which type a group has that it does not let a consumer join, for the reason that people read."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from translation.actions import Connection
from translation.engine.procedure import Procedure, Send
from translation.migration.convertibility import has_classic_members
from translation.policy.group_type import GroupType

_DESCRIBE_VERSION = 1


def type_of_other_group(connection: Connection, group_id: str) -> Procedure[GroupType | None]:
    """Return whether it is a share or a streams group; None if it is neither, or if the broker does not say.

    It says GROUP_ID_NOT_FOUND to a heartbeat that joins a classic group which it can't convert, too. A streams group is
    what remains: no classic members, no share group, and a broker that has streams groups.
    """
    if connection.version(ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_VERSION, _DESCRIBE_VERSION) is None:
        return None
    response: ShareGroupDescribeResponse = yield Send(
        ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_VERSION, ShareGroupDescribeRequest(group_ids=(group_id,))
    )
    codes = {group.error_code for group in response.groups}
    if codes == {ErrorCode.NONE}:
        return GroupType.SHARE
    if (
        codes != {ErrorCode.GROUP_ID_NOT_FOUND}
        or connection.version(ApiKey.STREAMS_GROUP_HEARTBEAT, 0) is None
    ):
        return None
    return None if (yield from has_classic_members(group_id)) else GroupType.STREAMS
