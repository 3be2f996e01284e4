"""Scenarios made of random steps, the same ones for the same seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from protocol_codecs import all_messages as m
from tests.coordinator.script import Classic, Member, Script
from tests.coordinator.script.backend import Pending

TOPICS = {"foo": 5, "bar": 3, "baz": 4}
STEPS = 70
REGEXES = ("foo.*", "ba[rz]", "ba.*", ".*", "nothing", "", "((")
RESOLUTION_MS = 80
"""How long Kafka takes at most to resolve expressions after the answer; here it is at once."""
REFRESH_MS = 10_100
"""After so long a group's expressions may be resolved again."""
TIMEOUT_MS = 60_000
"""Of sessions and rebalances: none ends, since Kafka's would end at other steps when the machine is slow."""


@dataclass(frozen=True)
class Kind:
    """Which members come to a group."""

    classic: float = 0.0
    """The part of them that speaks the classic protocol."""
    instance_ids: tuple[str | None, ...] = (None,)
    regex: float = 0.0
    """The part of the others that subscribes by regular expression."""


KINDS = {
    "consumer": Kind(),
    "classic": Kind(classic=1, instance_ids=(None, None, "i1")),
    "mixed": Kind(classic=0.3, instance_ids=(None, None, "i1", "i2")),
    "static": Kind(classic=0.2, instance_ids=("i1", "i2", "i3")),
    "regex": Kind(classic=0.1, instance_ids=(None, None, None, "i1"), regex=0.7),
}


class RandomGroup:
    """Members, static and dynamic, that do and claim what they like."""

    def __init__(self, script: Script, seed: int, kind: Kind = KINDS["mixed"]) -> None:
        self.s = script
        self.kind = kind
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.members: list[Member] = []
        self.classics: list[Classic] = []
        self.joining: dict[str, tuple[Classic, Pending]] = {}
        self.syncing: dict[str, tuple[Classic, Pending]] = {}
        self.made = 0

    @staticmethod
    def player(seed: int, kind: str = "mixed") -> Callable[[Script], None]:
        """Plays this seed's scenario."""
        return lambda script: RandomGroup(script, seed, KINDS[kind]).play()

    def play(self) -> None:
        self.s.configure(interval=0, session=TIMEOUT_MS)
        refresh = self.random.randrange(STEPS * 3) if self.kind.regex else None
        for name, partitions in TOPICS.items():
            self.s.topic(name, partitions)
        for number in range(STEPS):
            if number == refresh:
                self.s.pass_time(REFRESH_MS)
            self.random.choices(
                [
                    self.new_step,
                    self.classic_step,
                    self.someone_comes,
                    self.outsider,
                    self.topic_grows,
                    self.topic_is_replaced,
                ],
                weights=[0 if self.kind.classic == 1 else 60, self.classic_weight(), 14, 5, 1, 1],
            )[0]()
            if self.kind.regex:
                self.s.pass_time(RESOLUTION_MS)
            self.collect()
            if self.random.random() < 0.1:
                self.s.describe()
        self.s.describe()
        self.s.describe_classic()
        self.s.offsets()

    def someone_comes(self) -> None:
        self.made += 1
        name = f"m{self.made}"
        instance_id = self.random.choice(self.kind.instance_ids)
        topics = self.some_topics()
        if self.random.random() < self.kind.classic:
            protocols = self.random.choice([("range",), ("cooperative-sticky",), ("range", "roundrobin")])
            timeouts = {"session_timeout_ms": TIMEOUT_MS, "rebalance_timeout_ms": TIMEOUT_MS}
            self.classics.append(Classic(self.s, name, topics, instance_id, protocols, **timeouts))
            return
        by_regex = self.random.random() < self.kind.regex
        member = Member(
            self.s,
            name,
            f"{self.s.prefix}-{name}",
            None if by_regex and self.random.random() < 0.5 else topics,
            self.random.choice(REGEXES[:-1]) if by_regex else None,
            instance_id,
            rack_id=self.random.choice([None, "rack-a", "rack-b"]),
            assignor=self.random.choice([None, "uniform", "range"]),
            rebalance_timeout_ms=TIMEOUT_MS,
        )
        self.members.append(member)
        member.join()

    def new_step(self) -> None:
        if not self.members:
            self.someone_comes()
            return
        member = self.random.choice(self.members)
        steps: list[tuple[int, Callable[[], object]]] = [
            (25, member.beat),
            (30, member.ack),
            (8, lambda: member.ack(self.part_of(member))),
            (6, member.full),
            (4, lambda: member.full(self.part_of(member), epoch=self.near(member.epoch))),
            (4, lambda: member.heartbeat("beats at another epoch", self.near(member.epoch))),
            (5, lambda: member.subscribe(*self.some_topics())),
            (15 if self.kind.regex else 0, lambda: self.matches(member, self.random.choice(REGEXES))),
            (5, member.join),
            (4, lambda: self.wants(member, self.random.choice(["uniform", "range"]))),
            (5, lambda: self.leaves(member, -1)),
            (5, lambda: self.leaves(member, -2)),
            (8, lambda: member.commit(self.some_offsets(), epoch=self.near(member.epoch))),
            (3, lambda: self.s.offsets({"foo": [0, 1]}, member=(member.member_id, self.near(member.epoch)))),
        ]  # fmt: skip
        self.random.choices([step for _, step in steps], weights=[weight for weight, _ in steps])[0]()

    def classic_weight(self) -> int:
        return 0 if not self.classics else 60 if self.kind.classic == 1 else 25

    def classic_step(self) -> None:
        classic = self.random.choice(self.classics)
        if classic.name in self.joining or classic.name in self.syncing:
            return
        step = self.random.choices(
            [self.joins, self.syncs, self.beats, self.goes, self.commits], weights=[35, 30, 20, 6, 9]
        )[0]
        step(classic)

    def matches(self, member: Member, regex: str) -> None:
        expression = self.s.full(regex) if regex else ""
        answer = member.heartbeat("matches", member.epoch, subscribed_topic_regex=expression)
        if answer["error"] == "NONE":
            member.regex = regex

    def wants(self, member: Member, assignor: str) -> None:
        member.heartbeat("wants", member.epoch, server_assignor=assignor)

    def joins(self, classic: Classic) -> None:
        if classic.member_id and self.group_is_empty():
            # Else Kafka would half forget the group: docs/reference/embedded-coordinator.md, "Differences".
            classic.member_id = ""
        owned = self.random.choice([None, {}])
        self.joining[classic.name] = classic, classic.send_join(owned)

    def syncs(self, classic: Classic) -> None:
        assignments = {member_id: {"foo": [n]} for n, member_id in enumerate(classic.others)}
        self.syncing[classic.name] = classic, classic.send_sync(assignments if classic.is_leader else None)

    def beats(self, classic: Classic) -> None:
        classic.beat()

    def goes(self, classic: Classic) -> None:
        classic.leave(by_instance=classic.instance_id is not None and self.random.random() < 0.3)
        self.classics.remove(classic)

    def commits(self, classic: Classic) -> None:
        classic.commit(self.some_offsets(), epoch=self.near(classic.generation))

    def outsider(self) -> None:
        self.random.choice(
            [
                lambda: self.s.commit("nobody", self.some_offsets()),
                self.s.list,
                self.s.delete_group,
                lambda: self.s.delete_offsets({"foo": [0], "bar": [0]}),
                self.s.offsets,
                self.s.describe_classic,
            ]
        )()

    def topic_grows(self) -> None:
        name = self.random.choice(list(TOPICS))
        self.made += 1
        self.s.add_partitions(name, TOPICS[name] + self.made)

    def topic_is_replaced(self) -> None:
        name = self.random.choice(list(TOPICS))
        self.s.delete_topic(name)
        if self.random.random() < 0.5 and self.members:
            self.random.choice(self.members).beat()
        self.s.topic(name, TOPICS[name])

    def leaves(self, member: Member, epoch: int) -> None:
        member.leave(epoch)
        if self.random.random() < 0.5 and member in self.members:
            self.members.remove(member)

    def group_is_empty(self) -> bool:
        request = m.ConsumerGroupDescribeRequest(group_ids=(self.s.group_id,))
        return self.s.call(request).groups[0].group_state == "Empty"

    def collect(self) -> None:
        """Take the answers that have come."""
        for waiting, take in ((self.joining, "joined"), (self.syncing, "synced")):
            for name, (classic, pending) in list(waiting.items()):
                if pending.is_answered():
                    del waiting[name]
                    getattr(classic, take)(pending)

    def near(self, epoch: int) -> int:
        return max(0, epoch + self.random.choice([0, 0, 0, -1, 1, -2]))

    def part_of(self, member: Member) -> dict[str, list[int]]:
        return {
            topic: kept
            for topic, numbers in member.assigned.items()
            if (kept := [number for number in numbers if self.random.random() < 0.7])
        }

    def some_topics(self) -> tuple[str, ...]:
        return tuple(topic for topic in TOPICS if self.random.random() < 0.7) or ("foo",)

    def some_offsets(self) -> dict[str, dict[int, int]]:
        topic = self.random.choice(list(TOPICS))
        return {topic: {self.random.randrange(TOPICS[topic]): self.random.randrange(100)}}
