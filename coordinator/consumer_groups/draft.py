"""A change of a consumer group in the making: what a handler looks at, and the records it has come to so far."""

from collections.abc import Sequence

from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.shard import Shard
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import Uuid


class Draft:
    """The group stays as it is until the records are applied; an error on the way leaves nothing behind.

    ``group`` need not be in the shard yet: it may be new, or made from a classic group.
    """

    def __init__(self, shard: Shard, group: ConsumerGroup, records: Sequence[CoordinatorRecord] = ()) -> None:
        self.shard = shard
        self.group = group
        self.records = list(records)

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self.group.group_id

    def add(self, record: CoordinatorRecord) -> None:
        """Add a record to the change."""
        self.records.append(record)

    def subscribed_topic_names(self, member: ConsumerGroupMember) -> tuple[str, ...]:
        """The topics that the member subscribes to, by name or by its expression as far as it is resolved."""
        resolved = self.group.resolved_regexes.get(member.regex) if member.regex else None
        if resolved is None:
            return member.subscribed_topic_names
        if len(member.subscribed_topic_names) > len(resolved.topics):
            return tuple(dict.fromkeys((*member.subscribed_topic_names, *resolved.topics)))
        return tuple(dict.fromkeys((*resolved.topics, *member.subscribed_topic_names)))

    def subscribed_topic_ids(self, member: ConsumerGroupMember) -> frozenset[Uuid]:
        """Those of its topics that exist."""
        topics = (self.shard.image.by_name(name) for name in self.subscribed_topic_names(member))
        return frozenset(topic.topic_id for topic in topics if topic is not None)
