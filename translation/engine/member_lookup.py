"""Asks the broker with ConsumerGroupDescribe what it knows of a member, when this process does not know it well enough.

What a description says of ownership is not used, because it can be incomplete.
"""

from enum import Enum, auto

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from translation.actions import Call, Connection
from translation.engine.member_log_view import MemberLogView
from translation.engine.registry import Registry
from translation.members.procedure import Procedure

_STABLE = "Stable"
_CLASSIC_MEMBER = 0  # member_type in ConsumerGroupDescribe v1


class Described(Enum):
    """What the broker knows of a member."""

    MEMBER = auto()
    """A member of the new protocol that some process of Epochgate serves: this one may take it over."""

    NATIVE_MEMBER = auto()
    """A member whose client speaks the new protocol itself: the proxy must send nothing for it."""

    CLASSIC_MEMBER = auto()
    """A classic member in a consumer group: the broker itself answers its calls."""

    CLASSIC_GROUP = auto()
    """No consumer group."""

    LOADING = auto()
    """The coordinator still loads the group."""

    UNAVAILABLE = auto()
    """The broker gives no description; if the call is relayed, its answer tells the client why."""

    REPLACED = auto()
    """Another member has its instance id."""

    HIDDEN = auto()
    """A consumer group whose members this principal may not see, because it may not describe all of their topics."""

    UNKNOWN = auto()
    """A consumer group without this member."""


Found = tuple[Described, ConsumerGroupDescribeResponseMember | None]


class MemberLookup:
    """Has the broker describe members."""

    def __init__(self, registry: Registry, member_log: MemberLogView) -> None:
        self._registry = registry
        self._member_log = member_log

    def member(
        self, group_id: str, member_id: str, connection: Connection, *, instance_id: str | None = None
    ) -> Procedure[Found]:
        """Ask the broker what it knows of a member; with an instance id, also whether another member has that.

        The description is returned for :attr:`Described.MEMBER` only.
        """
        described, member, _ = yield from self.with_group(
            group_id, member_id, connection, instance_id=instance_id
        )
        return described, member

    def with_group(
        self, group_id: str, member_id: str, connection: Connection, *, instance_id: str | None = None
    ) -> Procedure[
        tuple[
            Described,
            ConsumerGroupDescribeResponseMember | None,
            ConsumerGroupDescribeResponseDescribedGroup | None,
        ]
    ]:
        """As :meth:`member`; with the member's description comes that of its group."""
        version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1)
        if version is None:
            return Described.CLASSIC_GROUP, None, None
        group = yield from _describe(group_id, version)
        if group is None:
            return Described.UNAVAILABLE, None, None
        match group.error_code:
            case ErrorCode.NONE:
                pass
            case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return Described.HIDDEN, None, None
            case ErrorCode.GROUP_ID_NOT_FOUND:
                return Described.CLASSIC_GROUP, None, None
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return Described.LOADING, None, None
            case _:
                return Described.UNAVAILABLE, None, None
        self._registry.described(
            group_id,
            is_new=all(
                self._member_log.has_got_nothing(group_id, found.member_id) for found in group.members
            ),
        )
        for found in group.members:
            if found.member_id == member_id:
                if found.member_type == _CLASSIC_MEMBER:
                    return Described.CLASSIC_MEMBER, None, None
                if found.member_epoch < 0:
                    # A static member that is away: its client has to join again.
                    return Described.UNKNOWN, None, None
                is_ours = self._registry.is_ours(group_id, member_id)
                return (Described.MEMBER, found, group) if is_ours else (Described.NATIVE_MEMBER, None, None)
        if instance_id is not None and any(found.instance_id == instance_id for found in group.members):
            return Described.REPLACED, None, None
        return Described.UNKNOWN, None, None


def has_settled(group_id: str, connection: Connection) -> Procedure[bool | None]:
    """Whether each member of a group has exactly what it is to have; None if the broker does not describe the group.

    Kafka calls a group Stable when its target assignment is of its newest epoch, and each member has reached that epoch
    and waits for no partition (``ConsumerGroup.maybeUpdateGroupState``). A member that is silent has not reached it.
    """
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1)
    group = None if version is None else (yield from _describe(group_id, version))
    if group is None or group.error_code != ErrorCode.NONE:
        return None
    return group.group_state == _STABLE


def _describe(group_id: str, version: int) -> Procedure[ConsumerGroupDescribeResponseDescribedGroup | None]:
    response: ConsumerGroupDescribeResponse = yield Call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        ConsumerGroupDescribeRequest(group_ids=(group_id,)),
    )
    return response.groups[0] if response.groups else None
