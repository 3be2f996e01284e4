"""Groups to assign, as plain data: the same ones for the same seed, each the follower of the one before.

A case is a dict: ``members`` (topics and present target by member id), ``counts`` and ``assignable`` (by topic id),
``homogeneous``. SimpleOracle.java reads it and answers with Kafka's assignment.
"""

import random
from typing import Any

from coordinator import java_order
from coordinator.assignors import GroupSpec, MemberSpec
from protocol_codecs import Uuid, uuid_from_text, uuid_to_text

Case = dict[str, Any]
Answer = dict[str, dict[str, list[int]]]


class Group:
    """A group whose members, topics and subscriptions change at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.topics = [
            uuid_to_text(Uuid(self.random.randbytes(16))) for _ in range(self.random.randint(1, 5))
        ]
        most = self.random.choice([2, 7, 40])
        self.counts = {topic: self.random.randint(1, most) for topic in self.topics}
        self.assignable = {topic: list(range(count)) for topic, count in self.counts.items()}
        self.homogeneous = self.random.random() < 0.5
        self.all_topics = self._some_topics()
        self.members: dict[str, Any] = {}
        self.made = 0
        for _ in range(self.random.choice([1, 3, 8, 25])):
            self._join()

    def change(self) -> None:
        """Do one thing that leads to a new assignment."""
        step = self.random.choice(
            [self._join, self._join, self._leave, self._grow, self._subscribe, self._know]
        )
        step()

    def case(self) -> Case:
        """Return the group as it is."""
        subscriptions = {tuple(sorted(member["topics"])) for member in self.members.values()}
        return {
            "members": {name: dict(member) for name, member in self.members.items()},
            "counts": dict(self.counts),
            "assignable": {topic: list(numbers) for topic, numbers in self.assignable.items()},
            "homogeneous": len(subscriptions) <= 1,
        }

    def assign(self, answer: Answer) -> None:
        """Take over an assignment."""
        for name, member in self.members.items():
            member["assigned"] = answer.get(name, {})

    def _some_topics(self) -> list[str]:
        return [topic for topic in self.topics if self.random.random() < 0.7] or self.topics[:1]

    def _join(self) -> None:
        self.made += 1
        topics = self.all_topics if self.homogeneous else self._some_topics()
        self.members[f"member-{self.made}-{self.random.randrange(10**6)}"] = {
            "topics": topics,
            "assigned": {},
        }

    def _leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.random.choice(list(self.members))]

    def _grow(self) -> None:
        topic = self.random.choice(self.topics)
        self.counts[topic] += self.random.randint(1, 4)

    def _know(self) -> None:
        """The state of some partitions is initialized, or of only some."""
        topic = self.random.choice(self.topics)
        self.assignable[topic] = [n for n in range(self.counts[topic]) if self.random.random() < 0.8]

    def _subscribe(self) -> None:
        if self.homogeneous:
            self.all_topics = self._some_topics()
            for member in self.members.values():
                member["topics"] = self.all_topics
        else:
            self.members[self.random.choice(list(self.members))]["topics"] = self._some_topics()


def spec_of(case: Case) -> GroupSpec:
    """Return a case as the input of an assignor."""
    members = {
        name: MemberSpec(
            None,
            tuple(map(uuid_from_text, member["topics"])),
            len(member["topics"]),
            {uuid_from_text(topic): tuple(numbers) for topic, numbers in member["assigned"].items()},
        )
        for name, member in case["members"].items()
    }
    return GroupSpec(
        members={name: members[name] for name in java_order.hash_order(members, java_order.text_hash)},
        is_homogeneous=case["homogeneous"],
        partition_counts={uuid_from_text(topic): count for topic, count in case["counts"].items()},
        assigned_to={},
        assignable={uuid_from_text(topic): numbers for topic, numbers in case["assignable"].items()},
    )
