"""LeaveGroup (13): members leave a group.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: any number of members in one request, by member id or group instance id (KIP-345).
- v4: flexible.
- v5: each may give a reason (KIP-800).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string
from protocol_codecs.message import Message


class MemberIdentity(Message):
    """One member that leaves, by its id, its instance id, or both."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """Members leave: one (v0 to v2) or any number."""

    group_id: str = string()
    member_id: str = string("0-2")
    members: tuple[MemberIdentity, ...] = array(MemberIdentity, "3+")


class MemberResponse(Message):
    """The result of one member."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """The result of each member."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: tuple[MemberResponse, ...] = array(MemberResponse, "3+")
