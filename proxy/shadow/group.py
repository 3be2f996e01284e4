"""The classic group of a shadow: what brokers tell of its members and topics, and why that may not be enough."""

from collections.abc import Iterable

import msgspec

from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.image import MetadataImage, TopicImage
from coordinator.partitions import Partitions
from protocol_codecs import ErrorCode, MalformedMessage
from protocol_codecs.errors import TooManyElements
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_assignment,
    decode_subscription,
    lacks_owned_partitions,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol_codecs.messages.metadata import MetadataResponse

_CONSUMER = "consumer"
_STABLE = "Stable"
_MOST_TOPICS = 1_000
"""Topics of one group that a broker is asked for at once."""


class Size(msgspec.Struct, frozen=True):
    """What a shadow may cost: the largest group that is computed."""

    members: int
    partitions: int
    """Of all topics of the group together."""


class NotComputable(Exception):
    """The forecast of this group can't be computed; the message says why."""


class Client(msgspec.Struct, frozen=True, gc=False):
    """A member of the classic group, and what it has today."""

    member_id: str
    client_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    """Sorted, without doubles."""
    rack: str | None
    assigned: Partitions

    def as_classic(self) -> ConsumerGroupMember:
        """The member as the broker takes it over when it converts the group."""
        return ConsumerGroupMember(
            member_id=self.member_id, instance_id=self.instance_id, subscribed_topic_names=self.topics
        )

    def as_new(self, member_id: str, assignor: str) -> ConsumerGroupMember:
        """The member as it joins the new protocol."""
        return ConsumerGroupMember(
            member_id=member_id,
            instance_id=self.instance_id,
            subscribed_topic_names=self.topics,
            server_assignor=assignor,
        )


class ClassicGroup(msgspec.Struct, frozen=True, gc=False):
    """A group to be moved. ``moves_at_once`` says why it has to be empty before the broker converts it; None if not."""

    clients: tuple[Client, ...]
    image: MetadataImage
    assignor: str
    """The server-side assignor that its members will vote for."""
    moves_at_once: str | None = None
    assignor_is_set: bool = True
    """Whether the policy names the assignor, so that the members vote for it whatever they have."""

    @property
    def partitions(self) -> int:
        """The partitions of all its topics."""
        return sum(topic.partitions for topic in self.image.topics.values())


def topics_of(described: DescribedGroup, size: Size) -> frozenset[str]:
    """Return the topics that the members of a described group subscribe to. Raises NotComputable.

    Also if they have too many partitions already, so that no broker is asked for huge topics.
    """
    _check(described, size)
    topics: set[str] = set()
    assigned = 0
    for member in described.members:
        topics.update(_subscription(member, size)[0])
        if len(topics) > _MOST_TOPICS:
            raise NotComputable(f"too large: more than {_MOST_TOPICS} topics")
        assigned += sum(len(one.partitions) for one in _decoded(member, size).assigned_partitions)
        if assigned > size.partitions:
            raise NotComputable(f"too large: its members have more than {size.partitions} partitions")
    if not topics:
        raise NotComputable("its members subscribe to nothing")
    return frozenset(topics)


def image_of(metadata: MetadataResponse, topics: Iterable[str], size: Size) -> MetadataImage:
    """Return the topics as a broker's Metadata shows them, with racks.

    Raises NotComputable for a topic that it does not show. A topic that does not exist is left out, as assignors do.
    """
    racks = {broker.node_id: broker.rack or "" for broker in metadata.brokers}
    shown = {topic.name: topic for topic in metadata.topics}
    images, partitions = [], 0
    for name in sorted(topics):
        topic = shown.get(name)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if topic is None else topic.error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if topic is None or code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise NotComputable(
                "its clients may not describe all of its topics, so their partitions are not known"
            )
        partitions += len(topic.partitions)
        if partitions > size.partitions:
            raise NotComputable(f"too large: its topics have more than {size.partitions} partitions")
        by_number = {one.partition_index: one for one in topic.partitions}
        images.append(
            TopicImage(
                topic.topic_id,
                name,
                len(topic.partitions),
                tuple(
                    tuple(sorted({racks.get(node, "") for node in by_number[n].replica_nodes} - {""}))
                    for n in sorted(by_number)
                ),
            )
        )
    return MetadataImage(images)


def group_of(
    described: DescribedGroup, image: MetadataImage, assignor: str, size: Size, *, assignor_is_set: bool
) -> ClassicGroup:
    """Return the group as a broker describes it. Raises NotComputable."""
    _check(described, size)
    clients, at_once = [], None
    for member in described.members:
        topics, rack = _subscription(member, size)
        assigned, has_user_data = _assignment(member, image, size)
        if has_user_data:
            at_once = at_once or "the assignments carry user data of their assignor"
        if lacks_owned_partitions(member.member_metadata):
            at_once = at_once or "brokers can't read the subscriptions"
        clients.append(
            Client(
                member.member_id,
                member.client_id,
                member.group_instance_id or None,
                topics,
                rack,
                assigned,
            )
        )
    return ClassicGroup(tuple(clients), image, assignor, at_once, assignor_is_set)


def _check(described: DescribedGroup, size: Size) -> None:
    if described.error_code != ErrorCode.NONE:
        raise NotComputable("the broker does not describe it")
    if described.protocol_type != _CONSUMER:
        raise NotComputable("it is no group of consumers")
    if described.group_state != _STABLE:
        raise NotComputable("it is rebalancing")
    if not described.members:
        raise NotComputable("it has no members")
    if len(described.members) > size.members:
        raise NotComputable(
            f"too large: it has {len(described.members)} members, and at most {size.members} are computed"
        )


def _subscription(member: DescribedGroupMember, size: Size) -> tuple[tuple[str, ...], str | None]:
    try:
        _, subscription = decode_subscription(member.member_metadata, size.partitions)
    except MalformedMessage as error:
        raise NotComputable(f"the subscription of a member can't be read: {error}") from error
    except TooManyElements:
        raise NotComputable(
            f"too large: a member names more than {size.partitions} topics and partitions"
        ) from None
    return tuple(sorted(set(subscription.topics))), subscription.rack_id or None


def _decoded(member: DescribedGroupMember, size: Size) -> ConsumerProtocolAssignment:
    """The assignment of a member; an empty one if it has joined and never synced. Raises NotComputable."""
    if not member.member_assignment:
        return ConsumerProtocolAssignment(assigned_partitions=())
    try:
        return decode_assignment(member.member_assignment, size.partitions + _MOST_TOPICS)[1]
    except MalformedMessage as error:
        raise NotComputable(f"the assignment of a member can't be read: {error}") from error
    except TooManyElements:
        raise NotComputable(f"too large: its members have more than {size.partitions} partitions") from None


def _assignment(member: DescribedGroupMember, image: MetadataImage, size: Size) -> tuple[Partitions, bool]:
    """What a member has, as the broker takes it over, and whether user data comes with it. Raises NotComputable."""
    assignment = _decoded(member, size)
    assigned = {}
    for one in assignment.assigned_partitions:
        topic = image.by_name(one.topic)
        numbers = () if topic is None else tuple(n for n in one.partitions if 0 <= n < topic.partitions)
        if topic is not None and numbers:
            assigned[topic.topic_id] = numbers
    return assigned, bool(assignment.user_data)
