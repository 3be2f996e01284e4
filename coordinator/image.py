"""The cluster's topics as seen by a coordinator: an immutable image, replaced as a whole."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from protocol_codecs.uuids import Uuid


class TopicImage(msgspec.Struct, frozen=True):
    """One topic. ``racks`` are those of each partition's replicas; empty if the brokers have none."""

    topic_id: Uuid
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()

    def digest(self) -> bytes:
        """Return an eight-byte hash of everything whose change requires a new assignment."""
        hasher = blake2b(self.topic_id, digest_size=8)
        for text in (
            self.name,
            str(self.partitions),
            *(rack for racks in self.racks for rack in (*racks, "")),
        ):
            content = text.encode()
            hasher.update(len(content).to_bytes(4, "big") + content)
        return hasher.digest()


class MetadataImage:
    """All topics, by name and by id. ``version`` rises with every change."""

    __slots__ = ("_by_id", "_by_name", "version")

    def __init__(self, topics: Iterable[TopicImage] = (), version: int = 0) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
        self.version = version

    def __deepcopy__(self, memo: dict[int, object]) -> "MetadataImage":
        return self  # immutable, and shared by all coordinators

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        """Return the topics by name, in the order in which they were created."""
        return self._by_name

    def by_name(self, name: str) -> TopicImage | None:
        """Return the topic of this name."""
        return self._by_name.get(name)

    def by_id(self, topic_id: Uuid) -> TopicImage | None:
        """Return the topic of this id."""
        return self._by_id.get(topic_id)

    def has_partition(self, name: str, partition: int) -> bool:
        """Whether this topic exists and has this partition."""
        topic = self._by_name.get(name)
        return topic is not None and 0 <= partition < topic.partitions

    def with_topic(self, topic: TopicImage) -> "MetadataImage":
        """Return the image after this topic was created or changed."""
        return MetadataImage({**self._by_name, topic.name: topic}.values(), self.version + 1)

    def without(self, name: str) -> "MetadataImage":
        """Return the image after this topic was deleted."""
        return MetadataImage((t for t in self._by_name.values() if t.name != name), self.version + 1)


class ImageDelta(msgspec.Struct, frozen=True):
    """The changes from one image to the next. A recreated topic counts as deleted and created."""

    created: tuple[TopicImage, ...]
    changed: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]


def delta_between(old: MetadataImage, new: MetadataImage) -> ImageDelta:
    """Return the changes from ``old`` to ``new``."""
    created = [topic for topic in new.topics.values() if old.by_id(topic.topic_id) is None]
    changed = [t for t in new.topics.values() if old.by_id(t.topic_id) not in {None, t}]
    deleted = [topic for topic in old.topics.values() if new.by_id(topic.topic_id) is None]
    return ImageDelta(tuple(created), tuple(changed), tuple(deleted))


def metadata_hash(topic_names: Iterable[str], image: MetadataImage) -> int:
    """Return a hash that changes when one of these topics does; 0 if none of them exists.

    Kafka's own hash (KIP-1101) is xxh3 and has other values. Only the coordinator that wrote it reads it.
    """
    topics = [topic for name in sorted(topic_names) if (topic := image.by_name(name)) is not None]
    if not topics:
        return 0
    hasher = blake2b(digest_size=8)
    for topic in topics:
        hasher.update(topic.digest())
    return int.from_bytes(hasher.digest(), "big", signed=True)
