"""The broker is stopped and started again: clients of every kind read on, each pair in its group.

All kinds live through the same restart, one for each entry, since a restart takes its time.
"""

import contextlib
from dataclasses import dataclass

import pytest
from support.broker import Kafka
from support.clients import ALL
from support.consumers import ConsumerProcess, Consumers
from support.entry import Entries, NoProxyError
from support.ownership import Partition, account, overlaps
from support.story import Case

PARTITIONS = 4
CASES = [Case(entry, kind, kind.assignors[0]) for entry in ("direct", "translate") for kind in ALL]

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("case", CASES, ids=str, scope="module")]


@dataclass
class Pair:
    """Two consumers of one kind in their group, with their topic."""

    topic: str
    members: list[ConsumerProcess]
    produced: dict[tuple[Partition, int], str]

    @property
    def complete(self) -> bool:
        """Whether both own their half."""
        owned = [member.owned() for member in self.members]
        return {len(partitions) for partitions in owned} == {PARTITIONS // 2} and not owned[0] & owned[1]

    @property
    def has_read_everything(self) -> bool:
        """Whether every record was delivered to one of them."""
        return self.produced.keys() <= set().union(*(member.consumed() for member in self.members))


@pytest.fixture(scope="module")
def restart(own_kafka_of_module, empty_folder):
    """`restart(entry)` is {client kind: what became of its pair}, or the error in which it ended."""
    lived = {}

    def through(mode):
        if mode not in lived:
            cluster = own_kafka_of_module()
            kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
            with contextlib.ExitStack() as stack:
                entry = Entries(kafka, empty_folder(f"restart-proxy-{mode}"), stack)[mode]
                consumers = Consumers(empty_folder(f"restart-{mode}"))
                stack.callback(consumers.end)
                try:
                    lived[mode] = _live_through(cluster, kafka, entry, consumers)
                except AssertionError as error:
                    lived[mode] = error
        if isinstance(lived[mode], AssertionError):
            raise lived[mode]
        return lived[mode]

    return through


def _live_through(cluster, kafka, entry, consumers):
    pairs = {}
    for kind in ALL:
        group, topic = entry.new_group(), kafka.new_topic(partitions=PARTITIONS)
        members = [
            consumers.start(kind, entry.bootstrap, group, topic, kind.assignors[0], name=f"{kind}-{number}")
            for number in (1, 2)
        ]
        pairs[kind] = Pair(topic, members, {})

    def read_more():
        for pair in pairs.values():
            records = kafka.produce(pair.topic, 20)
            pair.produced.update({(Partition(r.topic, r.partition), r.offset): r.value for r in records})
        consumers.wait_until(
            lambda: all(pair.has_read_everything and pair.complete for pair in pairs.values()),
            "every pair owns and reads everything",
            timeout_s=60,
        )

    read_more()
    cluster.stop_broker(1)
    cluster.start_broker(1)
    read_more()
    return pairs


@pytest.mark.scenario("reads on when the broker was stopped and started again")
def test_a_group_reads_on_after_the_broker_was_stopped_and_started_again(case, restart, record_property):
    try:
        pair = restart(case.entry)[case.client]
    except NoProxyError as reason:
        pytest.skip(str(reason))
    logs = [member.events for member in pair.members]
    accounting = account(pair.produced, logs)
    record_property("read_twice", len(accounting.duplicates))
    assert not accounting.lost
    assert [overlap for overlap in overlaps(logs) if not overlap.after_loss] == []
