"""DeleteGroups (42): delete groups without members, and their offsets.

- v1: the broker answers before it throttles.
- v2: flexible.
- v3: error messages (Kafka 4.4).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string
from protocol_codecs.message import Message


class DeleteGroupsRequest(Message, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """Asks to delete groups."""

    groups_names: tuple[str, ...] = array(string)


class DeleteGroupsResponseGroup(Message):
    """The result of one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Message, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """The result of each group."""

    throttle_time_ms: int = int32()
    results: tuple[DeleteGroupsResponseGroup, ...] = array(DeleteGroupsResponseGroup)
