"""JoinGroup (11): become a member of a classic group, or rejoin in a rebalance.

- v1: the rebalance timeout, separate from the session timeout.
- v2: the response has a throttle time; v3: the broker answers before it throttles.
- v4: a client without member id is given one with MEMBER_ID_REQUIRED, and asks again with it.
- v5: static membership: group instance ids (KIP-345).
- v6: flexible.
- v7: the response names the protocol type, and the protocol name may be null (KIP-559).
- v8: the request may give a reason (KIP-800).
- v9: the leader may be told to skip the assignment (KIP-814).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, boolean, int16, int32, string
from protocol_codecs.message import Message


class JoinGroupRequestProtocol(Message):
    """An assignor that the client offers, with its subscription for it (for consumers an embedded one)."""

    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Message, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """A client joins or rejoins a group."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: tuple[JoinGroupRequestProtocol, ...] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Message):
    """One member, as the leader sees it."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary()


class JoinGroupResponse(Message, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """The member's generation; the leader also gets the list of members."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: tuple[JoinGroupResponseMember, ...] = array(JoinGroupResponseMember)
