"""Share groups made of random steps, the same ones for the same seed."""

import random
from collections.abc import Callable

from tests.coordinator.script import Script, ShareMember
from tests.coordinator.script.share_member import INITIALIZATION_MS

TOPICS = {"foo": 5, "bar": 3, "baz": 4}
STEPS = 50
TIMEOUT_MS = 60_000
"""Of sessions: none ends, since Kafka's would end at other steps when the machine is slow."""


class RandomShareGroup:
    """Members that subscribe to and claim what they like, topics that change, and requests of other types."""

    def __init__(self, script: Script, seed: int) -> None:
        self.s = script
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.members: list[ShareMember] = []
        self.made = 0
        self.has_new_partitions = False

    @staticmethod
    def player(seed: int) -> Callable[[Script], None]:
        """Plays this seed's scenario."""
        return lambda script: RandomShareGroup(script, seed).play()

    def play(self) -> None:
        self.s.configure(interval=0, share_interval=0, share_session=TIMEOUT_MS)
        for name, partitions in TOPICS.items():
            self.s.topic(name, partitions)
        for _ in range(STEPS):
            self.random.choices(
                [
                    self.member_step,
                    self.someone_comes,
                    self.outsider,
                    self.topic_grows,
                    self.topic_is_replaced,
                ],
                weights=[65, 16, 8, 3, 2],
            )[0]()
            if self.random.random() < 0.15:
                self.s.describe_share()
        self.s.describe_share()
        self.s.list()

    def someone_comes(self) -> None:
        self.made += 1
        rack_id = self.random.choice([None, "rack-a", "rack-b"])
        self.members.append(self.s.sharing(f"m{self.made}", topics=self.some_topics(), rack_id=rack_id))
        self.members[-1].join()

    def member_step(self) -> None:
        if not self.members:
            self.someone_comes()
            return
        member = self.random.choice(self.members)
        steps: list[tuple[int, Callable[[], object]]] = [
            (50, member.beat),
            (6, member.full),
            (6, lambda: member.heartbeat("beats at another epoch", self.near(member.epoch))),
            (10, lambda: member.subscribe(*self.some_topics())),
            (5, member.join),
            (4, lambda: member.heartbeat("moves", member.epoch, rack_id="rack-c")),
            (12, lambda: self.leaves(member)),
        ]  # fmt: skip
        self.random.choices([step for _, step in steps], weights=[weight for weight, _ in steps])[0]()
        if self.has_new_partitions:
            self.s.pass_time(INITIALIZATION_MS)
            self.has_new_partitions = self.random.random() < 0.7

    def outsider(self) -> None:
        self.random.choice(
            [
                lambda: self.s.commit("nobody", {"foo": {0: 1}}) if self.members else None,
                self.s.list,
                self.delete_group,
                self.s.offsets,
                self.s.describe_classic,
                lambda: self.s.member("new").join() if self.members else None,
            ]
        )()

    def delete_group(self) -> None:
        self.s.delete_group()
        self.s.pass_time(INITIALIZATION_MS)

    def topic_grows(self) -> None:
        name = self.random.choice(list(TOPICS))
        self.made += 1
        self.s.add_partitions(name, TOPICS[name] + self.made)
        self.has_new_partitions = True

    def topic_is_replaced(self) -> None:
        name = self.random.choice(list(TOPICS))
        self.s.delete_topic(name)
        self.s.pass_time(INITIALIZATION_MS)
        if self.random.random() < 0.5:
            self.member_step()
        self.s.topic(name, TOPICS[name])
        self.has_new_partitions = True

    def leaves(self, member: ShareMember) -> None:
        member.leave()
        if self.random.random() < 0.7:
            self.members.remove(member)

    def near(self, epoch: int) -> int:
        return max(0, epoch + self.random.choice([0, 0, 0, -1, 1, -2]))

    def some_topics(self) -> tuple[str, ...]:
        return tuple(topic for topic in TOPICS if self.random.random() < 0.7) or ("foo",)
