"""A pending change of a consumer group: the state that a handler works with, and the records it has produced so far."""

from collections.abc import Sequence

from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.shard import Shard
from protocol_codecs.records import CoordinatorRecord
from protocol_codecs.uuids import Uuid


class Draft:
    """Collects the records of a change. The group is not modified until they are applied, so errors leave it intact.

    ``group`` need not be in the shard yet: it may be new, or converted from a classic group.
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
        """Return the topics that the member subscribes to, by name or by its regular expression as resolved so far."""
        resolved = self.group.resolved_regexes.get(member.regex) if member.regex else None
        if resolved is None:
            return member.subscribed_topic_names
        if len(member.subscribed_topic_names) > len(resolved.topics):
            return tuple(dict.fromkeys((*member.subscribed_topic_names, *resolved.topics)))
        return tuple(dict.fromkeys((*resolved.topics, *member.subscribed_topic_names)))

    def subscribed_topic_ids(self, member: ConsumerGroupMember) -> frozenset[Uuid]:
        """Return the ids of those of its topics that exist."""
        topics = (self.shard.image.by_name(name) for name in self.subscribed_topic_names(member))
        return frozenset(topic.topic_id for topic in topics if topic is not None)
