"""Who owned which partition when, by what the clients themselves said, and what became of every record.

Reads the event logs of the drivers (drivers/line_protocol.py) and knows nothing of brokers, the proxy or the
tests, so that it can judge them. As a program: `python ownership.py LOG.jsonl ...`, exit 1 on an overlap.

When ownership begins and ends. All moments are CLOCK_MONOTONIC of one machine.

- It begins with `assigned`, which is stamped at the start of the callback: from here on the application
  may work.
- It ends with `revoked` or `lost`, stamped at the end of the callback: until there the application may work
  (commit, flush), and only after it does the client tell anybody that it let go.
- So an interval covers at least the time in which the application may use the partition: two that use it
  at once always overlap here. And it covers no more than the time between hearing of the assignment and
  letting go: another client that is given the partition because of the release hears of it later, by at
  least one message through a broker. An overlap is therefore never an artefact of where the stamps are.
- A client without callbacks in close() ends what it owned at `closing`, before it calls close(): its
  LeaveGroup goes out during close(), and the application has stopped by then. If callbacks come, they count.
- A killed client ends at `killed`, stamped just before the signal is sent: nothing that follows the
  signal, such as the connection's end, can be earlier. One that crashed ends at `failed` or `died`.
- An overlap whose earlier owner ended with `lost` is marked: that client had left its contract (its session
  had expired, or it was fenced), and only a test knows whether it should have.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

FOREVER = sys.maxsize


class Partition(NamedTuple):
    """A topic partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True)
class Event:
    """One line of a client's log."""

    client: str
    kind: str
    mono: int
    time: int
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, client: str, line: str) -> "Event":
        """From a line as a driver writes it."""
        fields = json.loads(line)
        return cls(client, fields.pop("event"), fields.pop("mono"), fields.pop("time"), fields)

    @property
    def partitions(self) -> frozenset[Partition]:
        """Of `assigned`, `revoked` and `lost`."""
        named = self.fields.get("partitions", {})
        return frozenset(Partition(topic, number) for topic, numbers in named.items() for number in numbers)

    def __str__(self) -> str:
        partitions = ", ".join(str(at) for at in sorted(self.partitions))
        return f"{self.client} {self.kind} at {self.mono / 1e9:.6f} [{partitions}]"


Log = Sequence[Event]


@dataclass(frozen=True)
class Interval:
    """`client` owned `partition` from `begin` until `end`; `ended_by` is None while it still does."""

    client: str
    partition: Partition
    began_by: Event
    ended_by: Event | None

    @property
    def begin(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return self.began_by.mono

    @property
    def end(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC, or FOREVER."""
        return FOREVER if self.ended_by is None else self.ended_by.mono

    def __str__(self) -> str:
        return f"{self.client} ({self.began_by} .. {self.ended_by or 'still'})"


@dataclass(frozen=True)
class Overlap:
    """Two clients owned one partition at once; `first` was there first."""

    first: Interval
    second: Interval

    @property
    def partition(self) -> Partition:
        """The partition in question."""
        return self.first.partition

    @property
    def after_loss(self) -> bool:
        """Whether `first` ended by learning that its membership was lost."""
        return self.first.ended_by is not None and self.first.ended_by.kind == "lost"

    def __str__(self) -> str:
        until = min(self.first.end, self.second.end)
        lasted = "until the end" if until == FOREVER else f"for {(until - self.second.begin) / 1e6:.1f} ms"
        return f"{self.partition} had two owners {lasted}: {self.first} and {self.second}"


@dataclass(frozen=True)
class Gap:
    """Nobody owned `partition` from `begin` until `end`."""

    partition: Partition
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end - self.begin) / 1e9


def intervals(log: Log) -> list[Interval]:
    """What one client owned, from its log in the order in which it was written."""
    found: list[Interval] = []
    open_since: dict[Partition, Event] = {}
    closing: Event | None = None

    def end(partitions: Iterable[Partition], by: Event) -> None:
        owned = sorted(open_since.keys() & set(partitions))
        found.extend(Interval(by.client, partition, open_since.pop(partition), by) for partition in owned)

    for event in log:
        match event.kind:
            case "assigned":
                if not event.fields.get("incremental", False):
                    end(open_since.keys() - event.partitions, event)
                for partition in event.partitions:
                    open_since.setdefault(partition, event)
            case "revoked" | "lost":
                end(event.partitions, event)
            case "closing":
                closing = event
            case "closed" | "failed" | "killed" | "died":
                end(set(open_since), closing or event)
    still = [Interval(began.client, partition, began, closing) for partition, began in open_since.items()]
    return found + still


def owned_now(log: Log) -> frozenset[Partition]:
    """What the client owns at the end of its log."""
    return frozenset(interval.partition for interval in intervals(log) if interval.ended_by is None)


def overlaps(logs: Iterable[Log]) -> list[Overlap]:
    """Every pair of intervals of different clients in which one partition had two owners."""
    found = []
    for together in _by_partition(logs).values():
        for number, second in enumerate(together):
            found += [
                Overlap(first, second)
                for first in together[:number]
                if first.client != second.client and first.end > second.begin
            ]
    return found


def gaps(logs: Iterable[Log], *, until: int | None = None) -> list[Gap]:
    """Every time after its first owner in which a partition had none.

    A gap that lasts is reported only when `until` says where looking ended.
    """
    found = []
    for partition, together in _by_partition(logs).items():
        free_from = together[0].end
        for interval in together[1:]:
            if interval.begin > free_from:
                found.append(Gap(partition, free_from, interval.begin))
            free_from = max(free_from, interval.end)
        if until is not None and free_from < until:
            found.append(Gap(partition, free_from, until))
    return found


def _by_partition(logs: Iterable[Log]) -> dict[Partition, list[Interval]]:
    together: dict[Partition, list[Interval]] = defaultdict(list)
    for log in logs:
        for interval in intervals(log):
            together[interval.partition].append(interval)
    for found in together.values():
        found.sort(key=lambda interval: (interval.begin, interval.end))
    return dict(sorted(together.items()))


class Delivery(NamedTuple):
    """One record that a client's poll returned."""

    partition: Partition
    offset: int
    value: str
    client: str
    mono: int


@dataclass(frozen=True)
class Accounting:
    """What became of the records that were produced, as (partition, offset)."""

    lost: frozenset[tuple[Partition, int]]
    duplicates: Mapping[tuple[Partition, int], Sequence[Delivery]]
    unexpected: Sequence[Delivery]
    strays: Sequence[Delivery]

    @property
    def each_once(self) -> bool:
        """Whether every record that was produced was delivered exactly once, and nothing else was."""
        return not (self.lost or self.duplicates or self.unexpected)

    def __str__(self) -> str:
        twice = "; ".join(
            f"{partition}@{offset} to {', '.join(delivery.client for delivery in to)}"
            for (partition, offset), to in sorted(self.duplicates.items())[:5]
        )
        missing = ", ".join(f"{partition}@{offset}" for partition, offset in sorted(self.lost)[:5])
        return (
            f"{len(self.lost)} lost ({missing}), {len(self.duplicates)} duplicate ({twice}), "
            f"{len(self.unexpected)} unexpected, {len(self.strays)} after the partition was given up"
        )


def deliveries(log: Log) -> list[Delivery]:
    """Every record that a client's polls returned."""
    return [
        Delivery(
            Partition(event.fields["topic"], event.fields["partition"]),
            offset,
            value,
            event.client,
            event.mono,
        )
        for event in log
        if event.kind == "records"
        for offset, value in zip(event.fields["offsets"], event.fields["values"], strict=True)
    ]


def account(produced: Mapping[tuple[Partition, int], str], logs: Iterable[Log]) -> Accounting:
    """Hold what was delivered against what was produced, {(partition, offset): value}.

    `strays` are records that a client was still given after it had let go of their partition; the
    new owner is given them too, so they are among the duplicates unless the old one committed past them.
    """
    logs = list(logs)
    delivered: dict[tuple[Partition, int], list[Delivery]] = defaultdict(list)
    unexpected, strays = [], []
    for log in logs:
        mine = intervals(log)
        for delivery in deliveries(log):
            at = (delivery.partition, delivery.offset)
            if produced.get(at) != delivery.value:
                unexpected.append(delivery)
                continue
            delivered[at].append(delivery)
            if not any(i.partition == at[0] and i.begin <= delivery.mono <= i.end for i in mine):
                strays.append(delivery)
    return Accounting(
        lost=frozenset(produced.keys() - delivered.keys()),
        duplicates={at: to for at, to in delivered.items() if len(to) > 1},
        unexpected=unexpected,
        strays=strays,
    )


def read_log(path: Path) -> list[Event]:
    """A client's log; the client is called as its file."""
    return [Event.parse(path.stem, line) for line in path.read_text().splitlines()]


def main(paths: Sequence[str]) -> int:
    """Print what the logs say."""
    logs = [read_log(Path(path)) for path in paths]
    found = overlaps(logs)
    for overlap in found:
        print(f"OVERLAP{' (after a loss)' if overlap.after_loss else ''} {overlap}")
    for gap in gaps(logs):
        print(f"gap     {gap.partition} had no owner for {gap.seconds * 1000:.1f} ms")
    for log in logs:
        for interval in intervals(log):
            ended = "now" if interval.ended_by is None else f"{interval.end / 1e9:.6f}"
            span = f"{interval.begin / 1e9:.6f} to {ended}"
            print(f"owned   {interval.partition} by {interval.client} from {span}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
