"""A classic group in ``__consumer_offsets`` (record type 2): one record holds the whole group."""

from protocol_codecs.fields import array, binary, int32, int64, string
from protocol_codecs.message import Message


class GroupMetadataKey(Message, versions="0"):
    """Identifies the group."""

    group: str = string()


class GroupMetadataMember(Message):
    """One member: its subscription for the chosen protocol, and its assignment."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """The group after its last completed rebalance. Kafka writes v3."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: tuple[GroupMetadataMember, ...] = array(GroupMetadataMember)
