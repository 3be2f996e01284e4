"""Decides whether a live classic group can be converted to the new protocol now, and the obstacle if not, by what the
broker shows of it.

The first heartbeat of a member of the new protocol converts its group. The broker takes each classic member's
assignment for what that member owns, and can't keep what it does not understand, so the group has to be one that loses
nothing: DescribeGroups says in which state it is, what its members subscribe to, own and are assigned
(:class:`Obstacle`).
"""

from collections.abc import Container, Iterable
from enum import Enum, auto

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage
from protocol_codecs.classic_clients import Offer, refusal
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    has_user_data,
    lacks_owned_partitions,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from translation.actions import Call, Connection
from translation.engine.registry import Registry
from translation.members.environment import Environment
from translation.members.member import Group
from translation.members.procedure import Procedure
from translation.policy.group_type import GroupType
from translation.policy.rule_cache import RuleCache

_DESCRIBE_VERSION = 5
_WITHOUT_MEMBERS = frozenset({"Dead", "Empty"})


class Obstacle(Enum):
    """The reason why a live classic group can't be converted now."""

    NONE = auto()
    TRANSIENT = auto()
    """A rebalance is under way, or the coordinator is not there: try again soon."""
    MEMBERS = auto()
    """The broker can't keep the user data that an assignor wrote into the assignments, or can't read a subscription. A
    group without members has neither, so all members are moved together."""
    REVOCATION_PENDING = auto()
    """A cooperative member has still to give up what it was not assigned again: try again soon, and convert the group
    after ``revocation_grace_s`` (kafka-python may never report that it gave them up)."""
    PERMANENT = auto()
    """This is not a group of consumers, or not one that can be translated."""


def has_classic_members(group_id: str) -> Procedure[bool]:
    """Ask the broker whether it has a classic group of this id with members in it; True if it does not say."""
    response: DescribeGroupsResponse = yield Call(
        ApiKey.DESCRIBE_GROUPS, _DESCRIBE_VERSION, DescribeGroupsRequest(groups=(group_id,))
    )
    return not any(
        group.error_code == ErrorCode.NONE and _has_no_classic_members(group) for group in response.groups
    )


def _has_no_classic_members(group: DescribedGroup) -> bool:
    """Whether a group that the broker describes without an error is no classic group, or has no members.

    A classic group with members has a protocol type. Of a consumer group Kafka says that it is Dead; franz-go's kfake
    says the state that it has, without a protocol type.
    """
    return group.group_state in _WITHOUT_MEMBERS or not group.protocol_type


def find_obstacle(
    environment: Environment, registry: Registry, rules: RuleCache, group: Group
) -> Procedure[tuple[Obstacle, str]]:
    """Ask the broker whether a classic group can be converted; return what stands in the way, and why.

    A group whose members have partitions to give up counts as convertible once it has had time for that.
    """
    obstacle, why = yield from _described_obstacle(registry, rules, group)
    if obstacle is not Obstacle.REVOCATION_PENDING:
        group.migration.nothing_to_revoke()
        return obstacle, why
    waits = group.migration.awaits_revocation(environment.now, environment.settings.revocation_grace_s)
    return (Obstacle.TRANSIENT, why) if waits else (Obstacle.NONE, "")


def _described_obstacle(
    registry: Registry, rules: RuleCache, group: Group
) -> Procedure[tuple[Obstacle, str]]:
    response: DescribeGroupsResponse = yield Call(
        ApiKey.DESCRIBE_GROUPS, _DESCRIBE_VERSION, DescribeGroupsRequest(groups=(group.group_id,))
    )
    if not response.groups:
        return Obstacle.TRANSIENT, "the broker did not describe it"
    described = response.groups[0]
    if described.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        # It may not be described; the broker itself says what it thinks of the conversion.
        return Obstacle.NONE, ""
    if described.error_code != ErrorCode.NONE:
        return Obstacle.TRANSIENT, f"the broker answered {ErrorCode(described.error_code).name}"
    registry.described(group.group_id, is_new=described.group_state in _WITHOUT_MEMBERS)
    group.migration.classic_assignor = described.protocol_data
    return obstacle_of(
        described,
        rules.policy.assignors_allowed,
        assignor_is_set=rules.rule_for(group.group_id).assignor is not None,
    )


def obstacle_of(
    group: DescribedGroup, allowed: Container[str], *, assignor_is_set: bool
) -> tuple[Obstacle, str]:
    """What stands in the way of converting a group that was described without an error, and why.

    ``allowed`` and ``assignor_is_set`` are what the policy says (:func:`~protocol_codecs.classic_clients.refusal`).
    """
    if _has_no_classic_members(group):
        return Obstacle.NONE, ""
    if group.group_state != "Stable":
        return Obstacle.TRANSIENT, f"it is in state {group.group_state}"
    refused = refusal(group.protocol_type, (_offer_of(group),), allowed, assignor_is_set=assignor_is_set)
    if refused is not None:
        return Obstacle.PERMANENT, refused.text
    obstacles = [_obstacle_of(member) for member in group.members]
    for worst in (Obstacle.PERMANENT, Obstacle.MEMBERS, Obstacle.REVOCATION_PENDING):
        for obstacle, why in obstacles:
            if obstacle is worst:
                return obstacle, why
    return Obstacle.NONE, ""


def _offer_of(group: DescribedGroup) -> Offer:
    """The assignor in use, and where its clients and their leader put user data, as far as that can be read."""
    in_subscriptions = in_assignments = False
    for member in group.members:
        try:
            in_subscriptions |= has_user_data(member.member_metadata)
            in_assignments |= bool(decode_assignment(member.member_assignment)[1].user_data)
        except MalformedMessage:
            continue  # _obstacle_of says that it is not readable
    return Offer(group.protocol_data, in_subscriptions, in_assignments)


def _obstacle_of(member: DescribedGroupMember) -> tuple[Obstacle, str]:
    try:
        _, assignment = decode_assignment(member.member_assignment)
        _, subscription = decode_subscription(member.member_metadata)
        cut_short = lacks_owned_partitions(member.member_metadata)
    except MalformedMessage as error:
        return Obstacle.PERMANENT, f"what {member.member_id} said or was assigned is not readable: {error}"
    if cut_short:
        return Obstacle.MEMBERS, f"the broker can't read the subscription of {member.member_id}"
    if assignment.user_data:
        return Obstacle.MEMBERS, f"the assignment of {member.member_id} carries user data of its assignor"
    if not _named(subscription.owned_partitions) <= _named(assignment.assigned_partitions):
        # A cooperative member gives up what it was not assigned again, and joins once more to report that. Until then
        # the broker knows its assignment only, and in a converted group would give away what the client works on.
        return Obstacle.REVOCATION_PENDING, f"{member.member_id} has partitions to give up"
    return Obstacle.NONE, ""


def _named(topics: Iterable[ConsumerProtocolTopicPartition]) -> set[tuple[str, int]]:
    return {(topic.topic, index) for topic in topics for index in topic.partitions}


def passthrough_backoff_s(environment: Environment, group: Group) -> float:
    """For how long (seconds) a group is relayed that the broker did not convert
    (:meth:`~translation.members.group_migration.GroupMigration.back_off`)."""
    return group.migration.back_off(environment.now, environment.settings.relayed_s)


_DESCRIBE_VERSION = 1


def type_of_other_group(connection: Connection, group_id: str) -> Procedure[GroupType | None]:
    """Return whether it is a share or a streams group; None if it is neither, or if the broker does not say.

    It says GROUP_ID_NOT_FOUND to a heartbeat that joins a classic group which it can't convert, too. A streams group is
    what remains: no classic members, no share group, and a broker that has streams groups.
    """
    if connection.version(ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_VERSION, _DESCRIBE_VERSION) is None:
        return None
    response: ShareGroupDescribeResponse = yield Call(
        ApiKey.SHARE_GROUP_DESCRIBE, _DESCRIBE_VERSION, ShareGroupDescribeRequest(group_ids=(group_id,))
    )
    codes = {group.error_code for group in response.groups}
    if codes == {ErrorCode.NONE}:
        return GroupType.SHARE
    if (
        codes != {ErrorCode.GROUP_ID_NOT_FOUND}
        or connection.version(ApiKey.STREAMS_GROUP_HEARTBEAT, 0) is None
    ):
        return None
    return None if (yield from has_classic_members(group_id)) else GroupType.STREAMS
