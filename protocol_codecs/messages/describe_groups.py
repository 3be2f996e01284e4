"""DescribeGroups (15): state and members of classic groups.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: the operations that the client may perform, as a bit field, on request.
- v4: group instance ids (KIP-345).
- v5: flexible.
- v6: an unknown group is GROUP_ID_NOT_FOUND with a message, no longer a group in state Dead (KIP-1043).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, boolean, int16, int32, string
from protocol_codecs.message import Message


class DescribeGroupsRequest(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """Asks for the state and members of classic groups."""

    groups: tuple[str, ...] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Message):
    """One member of a group."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Message):
    """One group; protocol data and member metadata are filled in only while it is stable."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: tuple[DescribedGroupMember, ...] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """The groups that were asked for."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup)
