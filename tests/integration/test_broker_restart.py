"""The broker is stopped and started again: clients of every kind read on, each pair in its group.

All kinds live through the same restart, one for each entry, since a restart takes its time.

Straight at the broker, librdkafka may get an answer to Metadata without any broker while that stops, and never connect
again (docs/evidence/facts.md). A consumer that shows just this is replaced, as its supervisor would do. Through the
proxy there is no such answer, and so no excuse.
"""

import contextlib
from dataclasses import dataclass, field

import pytest
from support.broker import Kafka
from support.clients import ALL, CONFLUENT, ClientKind
from support.consumers import ConsumerProcess, Consumers
from support.entry import Entries, Entry
from support.ownership import Partition, account, overlaps
from support.story import Case

from benchmarks.lib.soak_clients import connections, has_lost_its_brokers

PARTITIONS = 4
CASES = [Case(entry, kind, kind.assignors[0]) for entry in ("direct", "translate") for kind in ALL]

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("case", CASES, ids=str, scope="module")]


@dataclass
class Pair:
    """Two consumers of one kind in their group, with their topic."""

    kind: ClientKind
    topic: str
    consumers: Consumers
    entry: Entry
    group: str
    produced: dict[tuple[Partition, int], str] = field(default_factory=dict)
    replaced: int = 0
    error: AssertionError | None = None

    def start(self) -> None:
        """Both at once."""
        for _ in range(2):
            self._start_one()

    def _start_one(self) -> None:
        own_settings = {"debug": "metadata"} if self.kind is CONFLUENT else {}
        self.consumers.start(
            self.kind,
            self.entry.bootstrap,
            self.group,
            self.topic,
            self.kind.assignors[0],
            own_settings=own_settings,
        )

    def produce(self, kafka: Kafka) -> None:
        """A few more records."""
        records = kafka.produce(self.topic, 20)
        self.produced.update({(Partition(r.topic, r.partition), r.offset): r.value for r in records})

    def wait(self) -> None:
        """Until they own their halves and have read everything; what went wrong is kept for this kind's test."""
        try:
            self._wait()
        except AssertionError as error:
            without_brokers = [member for member in self._running() if self._has_no_brokers(member)]
            if not without_brokers:
                self.error = self.error or error
                return
            for member in without_brokers:
                member.kill()
                self._start_one()
                self.replaced += 1
            self.wait()

    def _wait(self) -> None:
        self.consumers.wait_until(
            lambda: self._complete() and self._has_read_everything(),
            "the pair owns and reads everything",
            timeout_s=60,
        )

    def _has_no_brokers(self, member: ConsumerProcess) -> bool:
        """Whether its last metadata named no broker and it is connected to nobody, so that nobody owes it an answer."""
        return (
            self.kind is CONFLUENT
            and not self.entry.translates
            and has_lost_its_brokers(member.stderr)
            and not connections(member.pid)
        )

    def _running(self) -> list[ConsumerProcess]:
        return [member for member in self.consumers.all if not member.ended]

    def _complete(self) -> bool:
        owned = [member.owned() for member in self._running()]
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
                        entry,
                        entry.new_group(),
                    )
                    for kind in ALL
                ]
                for pair in pairs:
                    stack.callback(pair.consumers.end)
                _live_through(cluster, kafka, pairs)
                lived[mode] = {pair.kind: pair for pair in pairs}
        return lived[mode]

    return through


def _live_through(cluster, kafka, pairs):
    for pair in pairs:
        pair.start()
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
    record_property("replaced", pair.replaced)
    record_property("read_twice", len(accounting.duplicates))
    record_property("errors", sum(len(one.seen("error")) for one in pair.consumers.all))
    assert not accounting.lost
    assert [overlap for overlap in overlaps(pair.consumers.logs) if not overlap.after_loss] == []
