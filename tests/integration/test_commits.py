"""Commits through the entry: a consumer on the other side goes on from them, and old ones are refused."""

import pytest
from confluent_kafka import Consumer, Producer
from support.clients import ALL, EVERY_ASSIGNOR
from support.ownership import Partition
from support.raw_member import ILLEGAL_GENERATION, NONE, REBALANCE_IN_PROGRESS, RawMember
from support.short_form import first_or_last_assignor, of_librdkafka, shortened
from support.story import Case
from support.waiting import eventually

from benchmarks.commits import CommittingConsumer

PARTITIONS = 2
MANY = 30_000
"""A broker on a laptop takes ten seconds for so many."""

ENTRIES = ("direct", "translate")
CASES = [
    *shortened((Case("direct", kind, kind.assignors[-1]) for kind in ALL), of_librdkafka),
    *shortened((Case("translate", *how) for how in EVERY_ASSIGNOR), first_or_last_assignor),
]

pytestmark = pytest.mark.kafka


@pytest.mark.scenario("commits through the entry are read back directly, and the reverse")
@pytest.mark.parametrize("case", CASES, ids=str, scope="module")
def test_a_consumer_goes_on_from_what_was_committed_on_the_other_side(case, entry, kafka, consumers):
    group, topic = entry.new_group(), kafka.new_topic(partitions=PARTITIONS)

    def read_and_commit(bootstrap):
        """A new consumer reads everything that is new, commits, and leaves; returns what it read."""
        new = {(Partition(topic, record.partition), record.offset) for record in kafka.produce(topic, 20)}
        consumer = consumers.start(case.client, bootstrap, group, topic, case.assignor, auto_commit=False)
        consumer.wait_until(lambda: consumer.consumed() >= new, "it has read what is new")
        assert consumer.commit().kind == "committed"
        consumer.close()
        assert consumer.consumed() == new
        assert set(kafka.committed(group).values()) == {1 + max(offset for _, offset in new)}

    read_and_commit(entry.bootstrap)
    read_and_commit(kafka.bootstrap)
    read_and_commit(entry.bootstrap)


@pytest.mark.parametrize(
    "case", [Case(entry, ALL[0], "raw") for entry in ENTRIES], ids=lambda case: case.entry, scope="module"
)
def test_a_consumer_that_commits_all_the_time_stays_a_member(case, entry, kafka):
    """Its Heartbeats wait behind its commits for longer than the broker's session lasts (`make bench-commits`)."""
    consumer = CommittingConsumer(entry.bootstrap, entry.new_group(), kafka.new_topic(partitions=1))
    consumer.join()
    row = consumer.commit(case.entry, MANY)
    assert (row.accepted, row.errors, row.lost, row.committed) == (MANY, {}, 0, MANY), row


@pytest.mark.parametrize(
    "case", [Case(entry, ALL[0], "raw") for entry in ENTRIES], ids=lambda case: case.entry, scope="module"
)
def test_a_transactional_consumer_and_producer_commit_through_the_proxy(case, entry, kafka):
    group, topic, target = (
        entry.new_group(),
        kafka.new_topic(partitions=PARTITIONS),
        kafka.new_topic(partitions=1),
    )
    kafka.produce(topic, 10)
    settings = {"bootstrap.servers": entry.bootstrap, "log_level": 0}
    consumer = Consumer(
        {**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    producer = Producer({**settings, "transactional.id": group})
    try:
        consumer.subscribe([topic])
        read = []
        eventually(
            lambda: read.extend(consumer.consume(10, 0.2)), lambda _: len(read) == 10, what="it has read all"
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(target, b"done")
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
    finally:
        consumer.close()
    eventually(  # the markers are written after the answer
        lambda: kafka.committed(group),
        lambda committed: committed == {(topic, 0): 5, (topic, 1): 5},
        what="the transaction's offsets are there",
    )


@pytest.mark.parametrize(
    "case", [Case(entry, ALL[0], "raw") for entry in ENTRIES], ids=lambda case: case.entry, scope="module"
)
def test_a_commit_with_an_old_generation_is_refused(case, entry, kafka):
    group, topic = entry.new_group(), kafka.new_topic(partitions=PARTITIONS)
    with (
        RawMember(entry.bootstrap, group, topic) as first,
        RawMember(entry.bootstrap, group, topic) as second,
    ):
        first.join()
        assert first.sync(PARTITIONS) == {topic: {0, 1}}
        old = first.generation
        assert first.commit(0, 5) == NONE

        second.send_join()
        eventually(
            first.heartbeat, lambda code: code == REBALANCE_IN_PROGRESS, what="the first has to rejoin"
        )
        first.join()
        second.receive_join()
        mine, theirs = first.sync(PARTITIONS)[topic], second.sync(PARTITIONS)[topic]
        assert mine | theirs == {0, 1}
        assert not mine & theirs

        (partition,) = mine
        assert first.generation > old
        assert first.commit(partition, 7, generation=old) == ILLEGAL_GENERATION
        assert first.commit(partition, 6) == NONE
    assert kafka.committed(group)[topic, partition] == 6
