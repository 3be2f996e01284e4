"""Refuses share groups (KIP-932), which are not carried, in words that the users of their consumers read.

Without ShareGroupHeartbeat, Java's share consumer says that "the cluster" does not support share groups, which sends
people to look for the mistake at the brokers. So it is offered where the broker has it, and answered here.
INVALID_REQUEST ends a share consumer with the message that comes with it; ShareFetch is not offered either way.
"""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from protocol_codecs.registry import APIS
from proxy.wire.framing import response_frame

ANSWERED_HERE: frozenset[int] = frozenset({ApiKey.SHARE_GROUP_HEARTBEAT})
"""The APIs that are answered by :func:`refusal` instead of the broker."""

MESSAGE = "Epochgate does not carry share groups: connect share consumers to the brokers directly."
"""What the user of a share consumer reads."""

_VERSION = APIS[ApiKey.SHARE_GROUP_HEARTBEAT].versions.high


def offered(low: int, high: int) -> tuple[int, int] | None:
    """What a client is offered of ShareGroupHeartbeat, if the broker has it in these versions."""
    return (_VERSION, _VERSION) if low <= _VERSION <= high else None


def refusal(correlation_id: int) -> bytes:
    """The answer to every ShareGroupHeartbeat, as a frame."""
    answer = ShareGroupHeartbeatResponse(error_code=int(ErrorCode.INVALID_REQUEST), error_message=MESSAGE)
    return response_frame(ApiKey.SHARE_GROUP_HEARTBEAT, _VERSION, correlation_id, answer)
