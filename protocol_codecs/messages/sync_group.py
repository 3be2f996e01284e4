"""SyncGroup (14): the leader sends the assignments of all members, and each member gets its own.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: group instance id (KIP-345).
- v4: flexible.
- v5: protocol type and name in both directions, which the broker compares (KIP-559).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, int16, int32, string
from protocol_codecs.message import Message


class SyncGroupRequestAssignment(Message):
    """The leader's assignment for one member."""

    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Message, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """A member asks for its assignment; the leader sends those of all members."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """The member's assignment (for consumers an embedded one)."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary()
