"""FindCoordinator (10): which broker coordinates a group or a transactional id.

- v1: key types; the response has a throttle time and an error message.
- v2: the broker answers before it throttles.
- v3: flexible.
- v4: several keys in one request (KIP-699).
- v5: may answer TRANSACTION_ABORTABLE (KIP-890).
- v6: share groups (KIP-932).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int8, int16, int32, string
from protocol_codecs.message import Message


class FindCoordinatorRequest(Message, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """Asks who coordinates groups (key type 0), transactions (1) or share groups (2)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: tuple[str, ...] = array(string, "4+")


class Coordinator(Message):
    """The coordinator of one key."""

    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """One coordinator in place (v0 to v3), or one for each key."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: tuple[Coordinator, ...] = array(Coordinator, "4+")
