"""The broker is stopped and started again: clients of every kind read on, each pair in its group.

All kinds live through the same restart, one for each entry, since a restart takes its time.
"""

import contextlib
from dataclasses import dataclass, field

import pytest
from support.broker import Kafka
from support.clients import ALL, ClientKind
from support.consumers import Consumers
from support.entry import Entries, Entry
from support.ownership import Partition, account, overlaps
from support.story import Case

PARTITIONS = 4
CASES = [Case(entry, kind, kind.assignors[0]) for entry in ("direct", "translate") for kind in ALL]

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("case", CASES, ids=str, scope="module")]


@dataclass
class Pair:
    """Two consumers of one kind in their group, with their topic."""

    kind: ClientKind
    topic: str
    consumers: Consumers
    produced: dict[tuple[Partition, int], str] = field(default_factory=dict)
    error: AssertionError | None = None

    def start(self, entry: Entry) -> None:
        """Both at once."""
        group = entry.new_group()
        for _ in range(2):
            self.consumers.start(self.kind, entry.bootstrap, group, self.topic, self.kind.assignors[0])

    def produce(self, kafka: Kafka) -> None:
        """A few more records."""
        records = kafka.produce(self.topic, 20)
        self.produced.update({(Partition(r.topic, r.partition), r.offset): r.value for r in records})

    def wait(self) -> None:
        """Until they own their halves and have read everything; what went wrong is kept for this kind's test."""
        try:
            self.consumers.wait_until(
                lambda: self._complete() and self._has_read_everything(),
                "the pair owns and reads everything",
                timeout_s=60,
            )
        except AssertionError as error:
            self.error = self.error or error

    def _complete(self) -> bool:
        owned = [member.owned() for member in self.consumers.all]
        return {len(partitions) for partitions in owned} == {PARTITIONS // 2} and not owned[0] & owned[1]

    def _has_read_everything(self) -> bool:
        return self.produced.keys() <= set().union(*(member.consumed() for member in self.consumers.all))


@pytest.fixture(scope="module")
def restart(own_kafka_of_module, empty_folder):
    """`restart(entry)` is {client kind: what became of its pair}."""
    lived = {}

    def through(mode):
        if mode not in lived:
            cluster = own_kafka_of_module()
            kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
            with contextlib.ExitStack() as stack:
                entry = Entries(kafka, empty_folder(f"restart-proxy-{mode}"), stack)[mode]
                pairs = [
                    Pair(
                        kind,
                        kafka.new_topic(partitions=PARTITIONS),
                        Consumers(empty_folder(f"restart-{mode}-{kind}")),
                    )
                    for kind in ALL
                ]
                for pair in pairs:
                    stack.callback(pair.consumers.end)
                _live_through(cluster, kafka, entry, pairs)
                lived[mode] = {pair.kind: pair for pair in pairs}
        return lived[mode]

    return through


def _live_through(cluster, kafka, entry, pairs):
    for pair in pairs:
        pair.start(entry)
        pair.produce(kafka)
    for pair in pairs:
        pair.wait()
    cluster.stop_broker(1)
    cluster.start_broker(1)
    for pair in pairs:
        pair.produce(kafka)
    for pair in pairs:
        pair.wait()


@pytest.mark.scenario("reads on when the broker was stopped and started again")
def test_a_group_reads_on_after_the_broker_was_stopped_and_started_again(case, restart, record_property):
    pair = restart(case.entry)[case.client]
    if pair.error is not None:
        raise pair.error
    accounting = account(pair.produced, pair.consumers.logs)
    record_property("read_twice", len(accounting.duplicates))
    record_property("errors", sum(len(one.seen("error")) for one in pair.consumers.all))
    assert not accounting.lost
    assert [overlap for overlap in overlaps(pair.consumers.logs) if not overlap.after_loss] == []
