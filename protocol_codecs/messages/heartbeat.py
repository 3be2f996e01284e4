"""Heartbeat (12): a member of a classic group renews its session, and hears of rebalances.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: group instance id (KIP-345).
- v4: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import int16, int32, string
from protocol_codecs.message import Message


class HeartbeatRequest(Message, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """A member renews its session."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """No error, or why the member must rejoin."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
