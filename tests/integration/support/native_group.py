"""A group of native members (`group.protocol=consumer`) and classic ones, and what became of its work.

The same script runs straight at the broker and through the proxy, and must come to the same outcome.
"""

import contextlib
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from support.broker import Kafka, Record
from support.clients import CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Entry
from support.other_clients import FRANZ_GO
from support.ownership import Event, Partition, account, overlaps
from support.waiting import eventually

NATIVES = (CONFLUENT, JAVA, FRANZ_GO)
PARTITIONS = 6
RECORDS = 60
COMMIT_EVERY_MS = 200
SESSION_TIMEOUT_MS = 6_000


@dataclass(frozen=True)
class MemberKind:
    """What a member of the group is."""

    client: ClientKind
    native: bool = True
    straight: bool = False
    """Connects to the broker itself, whatever the entry is."""

    def __str__(self) -> str:
        """As the name of a test has it."""
        path = "-straight" if self.straight else ""
        return f"{self.client}-{'native' if self.native else 'classic'}{path}"


CLASSIC = (MemberKind(CONFLUENT, native=False), MemberKind(KAFKA_PYTHON, native=False))
STRAIGHT = MemberKind(CONFLUENT, native=False, straight=True)


@dataclass(frozen=True)
class Outcome:
    """How often something happened that nobody wants."""

    refused_commits: int = 0
    evictions: int = 0
    """Native members that lost partitions because they were members no more, or whose client gave up."""
    overlaps: int = 0
    """A partition had two owners. One that was replaced hears of it a heartbeat later, and is not counted."""
    lost: int = 0
    duplicates: int = 0
    """Records that were read twice although their first reader was not killed before it could commit them."""

    def __str__(self) -> str:
        """As one line."""
        return ", ".join(f"{getattr(self, one.name)} {one.name.replace('_', ' ')}" for one in fields(self))


class NativeGroup:
    """One group and the records that it reads; its members are consumer processes, by name."""

    def __init__(self, kafka: Kafka, entry: Entry, consumers: Consumers, *, group: str | None = None) -> None:
        self.group = group or entry.new_group()
        self.topic = kafka.new_topic(partitions=PARTITIONS)
        self.members: dict[str, ConsumerProcess] = {}
        self.records: list[Record] = []
        self.kinds: dict[str, MemberKind] = {}
        self._kafka = kafka
        self._entry = entry
        self._consumers = consumers
        self._numbers = itertools.count(1)
        self._replaced: set[str] = set()

    def join(
        self, kind: MemberKind, *, settle: bool = True, instance_id: str | None = None
    ) -> ConsumerProcess:
        """Start a member, and wait until the partitions are shared."""
        name = f"m{next(self._numbers)}-{kind}"
        member = self._consumers.start(
            kind.client,
            self._kafka.bootstrap if kind.straight else self._entry.bootstrap,
            self.group,
            self.topic,
            *(() if kind.native else (_assignor(kind.client),)),
            name=name,
            group_protocol="consumer" if kind.native else "classic",
            instance_id=instance_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            auto_commit=False,
            commit_every_ms=COMMIT_EVERY_MS,
        )
        self.members[name] = member
        self.kinds[name] = kind
        if settle:
            self.settle(f"{name} joined")
        return member

    def kill(self, member: ConsumerProcess, *, settle: bool = True) -> float:
        """kill -9 once all that was read is committed; seconds until the others have its partitions."""
        self.wait_for_commits()
        self._take(member)
        began = time.monotonic()
        member.kill()
        if settle and self.members:
            self.settle(f"{member.name} was killed")
        return time.monotonic() - began

    def leave(self, member: ConsumerProcess, *, settle: bool = True) -> float:
        """Close it; seconds until the others have its partitions."""
        self._take(member)
        began = time.monotonic()
        member.close()
        if settle and self.members:
            self.settle(f"{member.name} left")
        return time.monotonic() - began

    def replaced(self, member: ConsumerProcess) -> None:
        """Another process has its instance id: whatever it does from now on, it is no member."""
        self._take(member)
        self._replaced.add(member.name)

    def returned(self, member: ConsumerProcess) -> None:
        """A member that was replaced has its place back; what it met on the way is not held against it."""
        self.members[member.name] = member

    def wait_until_refused(self, member: ConsumerProcess) -> None:
        """Wait until a member that was replaced has heard that its instance id is another's, and so joins no more.

        That it has lost its partitions is not enough: it may join anew right then.
        """
        self._wait(lambda: member.seen("error", "failed"), f"{member.name} is refused its instance id", 60.0)

    def wait_until_moved(self, mode: str) -> None:
        """Wait until the classic clients that come through the proxy are what its policy makes them."""
        wanted = Counter("consumer" if self._is_new(name, mode) else "classic" for name in self.members)
        with self._explained():
            eventually(
                lambda: Counter(
                    one.member_type for one in getattr(self._kafka.describe(self.group), "members", ())
                ),
                lambda types: types == wanted,
                what=f"the broker shows {dict(wanted)} in {mode}",
            )
        self.settle(f"the policy is {mode}")

    def settle(self, why: str, *, timeout_s: float = 60.0) -> None:
        """Wait until every partition has one owner among the members, and each has its share."""
        self._wait(self.shared, f"the partitions are shared after {why}", timeout_s)

    def shared(self) -> bool:
        """Whether it is so now."""
        owned = [member.owned() for member in self.members.values()]
        sizes = [len(some) for some in owned]
        everything = {Partition(self.topic, number) for number in range(PARTITIONS)}
        return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1 and set().union(*owned) == everything

    def work(self, rounds: int = 1) -> None:
        """Produce records, and wait until all are read and committed, so often."""
        for _ in range(rounds):
            self.records += self._kafka.produce(self.topic, RECORDS)
            self.wait_for_commits()

    def wait_for_commits(self, *, timeout_s: float = 60.0) -> None:
        """Wait until the broker has the commit of everything that was produced until now."""
        ends = self._ends()
        if not ends:
            return
        self._wait(lambda: self.read() >= set(self.produced()), "every record is read", timeout_s)
        with self._explained():
            eventually(
                lambda: self._kafka.committed(self.group),
                lambda committed: all(committed.get(at, 0) >= end for at, end in ends.items()),
                what=f"every record is committed, up to {ends}",
                timeout_s=timeout_s,
            )

    def produced(self) -> dict[tuple[Partition, int], str]:
        """{(partition, offset): value} of all records."""
        return {(Partition(self.topic, at.partition), at.offset): at.value for at in self.records}

    def read(self) -> set[tuple[Partition, int]]:
        """(partition, offset) of what anybody has read."""
        return set().union(*(one.consumed() for one in self._all()))

    def outcome(self) -> Outcome:
        """Of everything until now."""
        everybody = self._all()
        logs = [one.events for one in everybody]
        accounting = account(self.produced(), logs)
        killed = {one.name for one in everybody if one.seen("killed")}
        return Outcome(
            refused_commits=sum(len(self._refused(one)) for one in everybody if self._belongs(one)),
            evictions=sum(
                len(_evicted(one)) for one in everybody if self._is_native(one) and self._belongs(one)
            ),
            overlaps=sum(found.first.client not in self._replaced for found in overlaps(logs)),
            lost=len(accounting.lost),
            duplicates=sum(
                min(to, key=lambda delivery: delivery.mono).client not in killed
                for to in accounting.duplicates.values()
            ),
        )

    def judge(self) -> None:
        """Raises AssertionError unless nothing happened that nobody wants."""
        assert self.outcome() == Outcome(), self.unwanted()

    def unwanted(self) -> str:
        """The events behind the outcome, for the message of a failed test."""
        everybody = self._all()
        refused = [
            f"{one.name}: {event.kind} {event.fields.get('error', '')}"
            for one in everybody
            for event in (*self._refused(one), *_evicted(one))
        ]
        logs = [one.events for one in everybody]
        return "\n".join([*refused[:20], *map(str, overlaps(logs)[:5]), str(account(self.produced(), logs))])

    def _refused(self, member: ConsumerProcess) -> list[Event]:
        """Commits that were refused, without those for which the client only has to try again.

        A classic client is told so while its group rebalances (kafka-python says it without asking anybody), and up to
        Kafka 4.2 a native one whose commit crosses a change of its epoch.
        """
        refused = member.seen("commit_failed")
        if not self._is_native(member):
            again = "rebalance"
        elif not _accepts_stale_epochs(self._kafka.version):
            again = "stale"
        else:
            return refused
        return [event for event in refused if again not in event.fields["error"].lower()]

    def _is_new(self, name: str, mode: str) -> bool:
        kind = self.kinds[name]
        return kind.native or (mode == "translate" and not kind.straight)

    def _belongs(self, member: ConsumerProcess) -> bool:
        return member.name not in self._replaced

    def _is_native(self, member: ConsumerProcess) -> bool:
        return self.kinds[member.name].native

    def _all(self) -> list[ConsumerProcess]:
        return [one for one in self._consumers.all if one.name in self.kinds]

    def _ends(self) -> dict[tuple[str, int], int]:
        ends: dict[tuple[str, int], int] = {}
        for record in self.records:
            at = record.topic, record.partition
            ends[at] = max(ends.get(at, 0), record.offset + 1)
        return ends

    def _take(self, member: ConsumerProcess) -> None:
        del self.members[member.name]

    def _wait(self, is_so: Callable[[], object], what: str, timeout_s: float) -> None:
        with self._explained():
            self._consumers.wait_until(is_so, what, timeout_s=timeout_s, may_crash=self._replaced)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as failure:
            failure.add_note(f"until then: {self.outcome()}\n{self.unwanted()}")
            raise


def _accepts_stale_epochs(version: str) -> bool:
    """KIP-1251, from 4.3 on: a commit counts if its epoch is not older than the assignment of the partition."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= (4, 3)


def _assignor(client: ClientKind) -> str:
    return COOPERATIVE if COOPERATIVE in client.assignors else client.assignors[0]


def _evicted(member: ConsumerProcess) -> Sequence[Event]:
    return [
        *member.seen("failed"),
        *(event for event in member.seen("lost") if event.partitions),
        *(event for event in member.seen("error") if event.fields.get("fatal")),
    ]
