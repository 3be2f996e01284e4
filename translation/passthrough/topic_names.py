"""Remembers topic names by id, as Metadata responses show them: the new protocol tells its members ids only."""

from collections.abc import Iterable

from protocol_codecs import Uuid

_LIMIT = 20_000
_LONGEST_ID = 255
_LONGEST_TOPIC = 249
"""Kafka's own bound for names of topics."""


class TopicNames:
    """Topic names by id. The name of an id never changes, so nothing here gets stale."""

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self.names: dict[Uuid, str] = {}
        self._limit = limit
        self._only_topic: dict[tuple[str, str], str] = {}
        self.wanted = False
        """Whether an id came up whose name is not known; then the next Metadata response is read for names."""

    def learn(self, pairs: Iterable[tuple[Uuid, str]]) -> None:
        """Keep these names; beyond the limit the oldest are forgotten."""
        self.names.update(pairs)
        while len(self.names) > self._limit:
            del self.names[next(iter(self.names))]
        self.wanted = False

    def subscribed(self, group_id: str, member_id: str, topics: tuple[str, ...]) -> None:
        """Remember what a member subscribes to: if that is one topic, every id that it is assigned is that topic's."""
        known = (group_id, member_id) in self._only_topic or len(self._only_topic) < self._limit
        is_short = max(len(group_id), len(member_id)) <= _LONGEST_ID
        if len(topics) == 1 and known and is_short and len(topics[0]) <= _LONGEST_TOPIC:
            self._only_topic[group_id, member_id] = topics[0]
        else:
            self._only_topic.pop((group_id, member_id), None)

    def forget(self, group_id: str, member_id: str) -> None:
        """Forget the subscription of a member that has gone."""
        self._only_topic.pop((group_id, member_id), None)

    def name(self, group_id: str, member_id: str, topic_id: Uuid) -> str:
        """Return the name of a topic that this member was assigned; empty if it is not known."""
        name = self.names.get(topic_id) or self._only_topic.get((group_id, member_id), "")
        self.wanted = self.wanted or not name
        return name
