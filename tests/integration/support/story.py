"""A group's life: two consumers, a third joins, one is killed without a word, one leaves cleanly.

Told once for a client, an assignor and an entry; the tests then ask different things of the same story.

    together   A and B start and share all partitions
    join       C joins
    kill       kill -9 of C
    leave      B leaves cleanly
    end        A owns everything, and leaves too

After each step the partitions of the members are complete, and every record produced then is read before the
next step: so whatever is read twice or never was lost or doubled by a rebalance.

Five partitions, so that in a balanced group of two and of three there is always a member that need
not give up or be given anything. Range assignors move partitions all the same; for them there is an
onlooker in a translated group, who subscribes to another topic, and whom nothing of all this concerns.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.broker import GroupView, Kafka, Record
from support.clients import ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Entry
from support.ownership import Accounting, Event, Gap, Overlap, Partition, account, gaps, overlaps
from support.waiting import eventually

PARTITIONS = 5
RECORDS_A_STEP = 50
SESSION_TIMEOUT_MS = 4_000
ONLOOKER = "onlooker"
MOVES_WITHOUT_NEED = {"4.0.0"}
"""Versions whose uniform assignor moves more partitions than a balance needs."""


@dataclass(frozen=True)
class Case:
    """What a scenario is run with."""

    entry: str
    client: ClientKind
    assignor: str

    def __str__(self) -> str:
        return f"{self.entry}-{self.client}-{self.assignor}"


@dataclass(frozen=True)
class Step:
    """One step of the story, from just before it until the group has settled and read everything."""

    name: str
    settled_s: float
    before: dict[str, frozenset[Partition]]
    after: dict[str, frozenset[Partition]]
    callbacks: dict[str, Sequence[Event]]
    group: GroupView | None

    @property
    def untouched(self) -> list[str]:
        """Members from before to after whose partitions are the same."""
        return [name for name, owned in self.before.items() if self.after.get(name) == owned]


@dataclass
class Story:
    """What happened."""

    case: Case
    group: str
    topic: str
    onlooker: str | None = None
    """The onlooker's topic."""
    steps: dict[str, Step] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    logs: list[list[Event]] = field(default_factory=list)
    offsets: dict[Partition, int] = field(default_factory=dict)

    @property
    def partitions(self) -> frozenset[Partition]:
        """All partitions of the topic that is shared."""
        return frozenset(Partition(self.topic, number) for number in range(PARTITIONS))

    @property
    def ends(self) -> dict[Partition, int]:
        """The end offset of each partition."""
        ends: dict[Partition, int] = {}
        for record in self.records:
            at = Partition(record.topic, record.partition)
            ends[at] = max(ends.get(at, 0), record.offset + 1)
        return ends

    @property
    def overlaps(self) -> list[Overlap]:
        """Moments in which a partition had two owners."""
        return overlaps(self.logs)

    @property
    def gaps(self) -> list[Gap]:
        """Times in which a partition had no owner."""
        return gaps(self.logs)

    @property
    def accounting(self) -> Accounting:
        """What became of the records."""
        produced = {(Partition(r.topic, r.partition), r.offset): r.value for r in self.records}
        return account(produced, self.logs)


def tell(case: Case, entry: Entry, kafka: Kafka, folder: Path) -> Story:
    """Run it. Raises AssertionError when a step does not come to its end."""
    return _Narrator(case, entry, kafka, Consumers(folder)).tell()


class _Narrator:
    def __init__(self, case: Case, entry: Entry, kafka: Kafka, consumers: Consumers) -> None:
        self._case = case
        self._entry = entry
        self._kafka = kafka
        self._consumers = consumers
        self._members: list[ConsumerProcess] = []
        self._story = Story(
            case,
            entry.new_group(),
            kafka.new_topic(partitions=PARTITIONS),
            kafka.new_topic(partitions=1) if entry.translates and case.assignor == "range" else None,
        )

    def tell(self) -> Story:
        try:
            self._step("together", self._begin)
            self._step("join", lambda: self._join("C"))
            self._step("kill", lambda: self._kill("C"))
            self._step("leave", lambda: self._leave("B"))
            for member in list(self._members):
                self._leave(member.name)
        finally:
            self._consumers.end()
        self._story.logs = self._consumers.logs
        committed = self._kafka.committed(self._story.group)
        self._story.offsets = {Partition(*at): offset for at, offset in committed.items()}
        return self._story

    def _step(self, name: str, act: Callable[[], object]) -> None:
        before = {member.name: member.owned() for member in self._members}
        marks = {member.name: member.mark() for member in self._members}
        began = time.monotonic()
        act()
        self._consumers.wait_until(self._shared_evenly, f"the partitions are shared ({name})")
        settled_s = time.monotonic() - began
        self._read_more()
        group = self._settled_on_the_broker() if self._entry.translates else None
        self._story.steps[name] = Step(
            name,
            settled_s,
            before,
            {member.name: member.owned() for member in self._members},
            {m.name: m.callbacks(marks[m.name]) for m in self._members if m.name in marks},
            group,
        )

    def _begin(self) -> None:
        if self._story.onlooker is not None:
            self._join(ONLOOKER, self._story.onlooker)
        self._join("A")
        self._join("B")

    def _join(self, name: str, topic: str | None = None) -> None:
        self._members.append(
            self._consumers.start(
                self._case.client,
                self._entry.bootstrap,
                self._story.group,
                topic or self._story.topic,
                self._case.assignor,
                name=name,
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
        )

    def _kill(self, name: str) -> None:
        """What it has read is committed before, so that nobody has to read it again."""
        member = self._take(name)
        assert member.commit().kind == "committed"
        member.kill()

    def _leave(self, name: str) -> None:
        self._take(name).close()

    def _take(self, name: str) -> ConsumerProcess:
        member = next(member for member in self._members if member.name == name)
        self._members.remove(member)
        return member

    def _shared_evenly(self) -> bool:
        owned = {member.name: member.owned() for member in self._members}
        if self._story.onlooker is not None and owned.pop(ONLOOKER) != {Partition(self._story.onlooker, 0)}:
            return False
        sizes = [len(partitions) for partitions in owned.values()]
        complete = frozenset().union(*owned.values()) == self._story.partitions and sum(sizes) == PARTITIONS
        return complete and max(sizes) - min(sizes) <= 1

    def _read_more(self) -> None:
        self._story.records += self._kafka.produce(self._story.topic, RECORDS_A_STEP)
        if self._story.onlooker is not None:
            self._story.records += self._kafka.produce(self._story.onlooker, 1)
        produced = {(Partition(r.topic, r.partition), r.offset) for r in self._story.records}
        self._consumers.wait_until(
            lambda: produced <= set().union(*(one.consumed() for one in self._consumers.all)),
            "every record is read",
        )

    def _settled_on_the_broker(self) -> GroupView:
        """The group, once the broker's assignment of each member is what its client owns."""

        def agrees(group: GroupView | None) -> bool:
            return (
                group is not None
                and group.state == "Stable"
                and {member.client_id: _partitions(member.assignment) for member in group.members}
                == {member.name: member.owned() for member in self._members}
            )

        return eventually(
            lambda: self._kafka.describe(self._story.group),
            agrees,
            what="broker and clients agree on who owns what",
        )


def _partitions(assignment: dict[str, frozenset[int]]) -> frozenset[Partition]:
    return frozenset(Partition(topic, number) for topic, numbers in assignment.items() for number in numbers)
