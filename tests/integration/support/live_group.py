"""A group at work behind proxies, whose policy a test changes while records flow."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.broker import Kafka
from support.clients import ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.load import EVERY_S, RECORDS, Load
from support.ownership import Accounting, Partition, account, overlaps
from support.waiting import eventually

REPEATED_AT_A_RESTART = round(RECORDS / EVERY_S)
"""Records of a second: clients commit every 0.5 s, and a client that is killed repeats what it has not committed."""

QUIET_NS = 1_000_000_000

MODE = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}}}
"""


class LiveGroup:
    """A group of three at work behind a proxy, under load, whose policy the test changes."""

    def __init__(
        self,
        kafka: Kafka,
        consumers: Consumers,
        proxies: Sequence[Proxy],
        group: str,
        topics: Mapping[str, int],
    ) -> None:
        self.kafka, self.consumers, self.proxies = kafka, consumers, proxies
        self.group, self.topics = group, topics
        self.everything = {
            Partition(topic, number) for topic, size in topics.items() for number in range(size)
        }
        self.members: list[ConsumerProcess] = []
        self.loads: list[Load] = []
        self.entries = [proxy.bootstrap for proxy in proxies] or [kafka.bootstrap]
        """Where members connect, in turn."""

    @property
    def proxy(self) -> Proxy:
        """The first of the proxies."""
        return self.proxies[0]

    def form(self, client: ClientKind, *assignors: str, **options: Any) -> None:
        """So many members share the partitions, by all proxies in turn."""
        self.start(client, *assignors, **options)
        self.until_shared()
        self.until_quiet()
        self.read_up_to_now()

    def start(
        self, client: ClientKind, *assignors: str, count: int = 3, is_static: bool = False, **spec: Any
    ) -> None:
        """Start so many members, by all proxies in turn; without a proxy straight at the broker."""
        for number in range(count):
            instance_id = f"instance-{number}" if is_static else None
            one = self.consumers.start(
                client,
                self.entries[number % len(self.entries)],
                self.group,
                list(self.topics),
                *assignors,
                instance_id=instance_id,
                **spec,
            )
            self.members.append(one)

    def until_shared(self) -> None:
        """All have partitions, and each partition has one owner."""
        self.consumers.wait_until(self._is_shared, "the group shares the partitions")

    def _is_shared(self) -> bool:
        owned = [one.owned() for one in self.members]
        return (
            all(owned)
            and set().union(*owned) == self.everything
            and sum(map(len, owned)) == len(self.everything)
        )

    def produced(self) -> dict[tuple[Partition, int], str]:
        """What is acknowledged until now."""
        return {
            (Partition(record.topic, record.partition), record.offset): record.value
            for load in self.loads
            for record in load.records
        }

    def read_up_to_now(self) -> None:
        """Everything is read that was produced until now."""
        until_now = self.produced().keys()
        self.consumers.wait_until(
            lambda: until_now <= set().union(*(one.consumed() for one in self.consumers.all)),
            "everything is read that was produced until now",
        )

    def policy(self, mode: str) -> list[int]:
        """Write the policy; returns the place of each member's events."""
        marks = [one.mark() for one in self.members]
        for proxy in self.proxies:
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))
        return marks

    def move(self, mode: str) -> list[int]:
        """Write the policy, wait until the group is moved and all is read; returns where each member's events were."""
        marks = self.policy(mode)
        self.until_moved(mode)
        self.read_up_to_now()
        return marks

    def until_moved(self, mode: str) -> None:
        """The broker, the clients and the pages show the group as moved, and no client calls a callback any more."""
        if mode == "translate":
            self.until_consumer_group()
        else:
            self.until_classic()
        self.until_shared()
        self.until_quiet()
        self.until_shown({"translate": "translated", "observe": "classic"}[mode])

    def until_shown(self, protocol: str) -> None:
        """The pages of all proxies together show all members, of this protocol, and what they own."""

        def shown() -> dict[str, tuple[str, int]]:
            pages = [proxy.group(self.group)["members"] for proxy in self.proxies]
            return {
                one["client_id"]: (
                    one["protocol"],
                    sum(len(at["partitions"]) for at in one["partitions"] or ()),
                )
                for page in pages
                for one in page
            }

        expected = {one.name: (protocol, len(one.owned())) for one in self.members}
        eventually(shown, lambda seen: seen == expected, what="the pages show the members", timeout_s=20)

    def until_quiet(self) -> None:
        """No callback for a second: the broker describes a group as Stable before the clients have called theirs.

        Between two callbacks of a cooperative rebalance a busy machine may take longer: a partition has no owner then.
        """

        def last() -> int:
            return max((event.mono for one in self.members for event in one.callbacks()), default=0)

        eventually(
            lambda: self._is_shared() and time.monotonic_ns() - last() > QUIET_NS,
            what="no client calls a callback any more",
        )

    def account(self) -> Accounting:
        """What became of the records; nothing may be lost, and no partition have had two owners."""
        assert overlaps(self.consumers.logs) == []
        found = account(self.produced(), self.consumers.logs)
        assert found.lost == frozenset(), str(found)
        return found

    def callbacks(self, marks: list[int], *kinds: str) -> list[str]:
        """The callbacks of all members since then."""
        return [
            str(event)
            for one, mark in zip(self.members, marks, strict=True)
            for event in one.callbacks(mark)
            if not kinds or event.kind in kinds
        ]

    def classic_ids(self) -> set[str]:
        """The members of a classic group that is Stable."""
        described = self.kafka.describe_classic(self.group)
        return {one.member_id for one in described.members} if described.group_state == "Stable" else set()

    def until_consumer_group(self, *, timeout_s: float = 60.0) -> set[str]:
        """All members, and no helper any more, are of type consumer; returns their ids."""

        def members() -> dict[str, str]:
            described = self.kafka.describe(self.group)
            if described is None or described.helpers:
                return {}
            return {one.member_id: one.member_type for one in described.members}

        types = eventually(
            members,
            lambda seen: list(seen.values()) == ["consumer"] * len(self.members),
            what="all are members of the new protocol, and nobody else is in the group",
            timeout_s=timeout_s,
        )
        return set(types)

    def until_classic(self, *, timeout_s: float = 60.0) -> set[str]:
        """The group is a classic one, Stable with all members; returns their ids."""
        return eventually(
            self.classic_ids,
            lambda seen: len(seen) == len(self.members),
            what="the group is a classic one, and Stable",
            timeout_s=timeout_s,
        )


@contextlib.contextmanager
def live_group(
    kafka: Kafka,
    consumers: Consumers,
    folder: Path,
    group: str,
    *sizes: int,
    proxies: int = 1,
    **options: Any,
) -> Iterator[LiveGroup]:
    """Proxies that observe, and load on new topics of so many partitions; all is read at the end."""
    with contextlib.ExitStack() as stack:
        topics = {kafka.new_topic(partitions=size): size for size in sizes or (6,)}
        started = [
            stack.enter_context(running_proxy(kafka.bootstrap, folder / f"proxy-{number}", **options))
            for number in range(1, proxies + 1)
        ]
        live = LiveGroup(kafka, consumers, started, group, topics)
        live.policy("observe")
        live.loads = [stack.enter_context(Load(kafka, topic)) for topic in topics]
        yield live
        for load in live.loads:
            load.stop()
        live.read_up_to_now()
