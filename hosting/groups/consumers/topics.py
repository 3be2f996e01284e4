"""The topics of one group. How many partitions each has is what the leader says by assigning them."""

from collections.abc import Iterable, Iterator, Mapping

from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.image import MetadataImage, TopicImage
from coordinator.partitions import Partitions
from hosting.groups.consumers.formats import topic_id_of
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolAssignment
from protocol_codecs.uuids import Uuid


class GroupTopics:
    """The names of topics that somebody has, or is to have."""

    def __init__(self) -> None:
        self.names: dict[Uuid, str] = {}

    def learn(self, assignments: Iterable[ConsumerProtocolAssignment]) -> None:
        """Learn the names that a leader has assigned partitions of."""
        for assigned in assignments:
            for topic in assigned.assigned_partitions:
                self.names[topic_id_of(topic.topic)] = topic.topic

    def forget_unused(self, image: MetadataImage, group: ConsumerGroup | None) -> None:
        """Forget the names of topics that nobody has, or is to have."""
        used = set(image.topics)
        if group is not None:
            used.update(
                self.names[topic_id]
                for one in group.members.values()
                for topic_id in (*one.assigned, *one.pending_revocation)
            )
            used.update(
                self.names[topic_id]
                for partitions in group.target_assignment.values()
                for topic_id in partitions
            )
        for name in set(self.names.values()) - used:
            del self.names[topic_id_of(name)]

    def image_of(self, taken: Iterable[tuple[Uuid, int]], now: MetadataImage) -> MetadataImage | None:
        """Return the topics as a leader has assigned them; None if that is how they are known already."""
        counts: dict[Uuid, int] = {}
        for topic_id, number in taken:
            counts[topic_id] = max(counts.get(topic_id, 0), number + 1)
        topics = {
            name: TopicImage(topic_id, name, count)
            for topic_id, count in counts.items()
            if (name := self.names.get(topic_id)) is not None
        }
        if topics == dict(now.topics):
            return None
        return MetadataImage(topics.values(), now.version + 1)


def all_of(parts: Mapping[str, Partitions]) -> Iterator[tuple[Uuid, int]]:
    """Yield the partitions of all members."""
    for part in parts.values():
        for topic_id, numbers in part.items():
            for number in numbers:
                yield topic_id, number
