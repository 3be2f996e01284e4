"""ListGroups (16): the groups that a broker coordinates.

- v1: the response has a throttle time; v2: the broker answers before it throttles.
- v3: flexible.
- v4: states, and a filter by them (KIP-518).
- v5: types (classic, consumer, ...), and a filter by them (KIP-848).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string
from protocol_codecs.message import Message


class ListGroupsRequest(Message, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """Asks for all groups of a broker, optionally by state and type."""

    states_filter: tuple[str, ...] = array(string, "4+")
    types_filter: tuple[str, ...] = array(string, "5+")


class ListedGroup(Message):
    """One group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """The groups of a broker."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: tuple[ListedGroup, ...] = array(ListedGroup)
