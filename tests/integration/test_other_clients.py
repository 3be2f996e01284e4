"""kafkajs, franz-go, sarama and kafka-go through the proxy: the story of support/story.py, and their peculiarities."""

import math
from dataclasses import dataclass

import pytest
from support.entry import Entry, running_proxy
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, OLD_SARAMA, OTHERS, SARAMA, Counted
from support.ownership import Partition, account
from support.story import MOVES_WITHOUT_NEED, Case, Story, tell

from tools.kafka.settings import CONSUMER_SESSION_TIMEOUT_MS

CASES = [Case("translate", kind, assignor) for kind in OTHERS for assignor in kind.assignors]

pytestmark = pytest.mark.kafka
each_client = pytest.mark.parametrize("case", CASES, ids=str, scope="module")


@dataclass(frozen=True)
class Told:
    """A story, and what the proxy counted while it was told."""

    story: Story
    counted: Counted


@pytest.fixture(scope="module")
def told(case: Case, kafka, empty_folder) -> Told:
    folder = empty_folder(f"other-{case}")
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        story = tell(case, Entry(case.entry, proxy.bootstrap), kafka, folder)
        return Told(story, Counted.at(proxy))


@each_client
@pytest.mark.scenario("every record is read once")
def test_another_client_reads_every_record_once(told):
    assert told.story.accounting.each_once, told.story.accounting


@each_client
@pytest.mark.scenario("a third joins, one is killed, one leaves: partitions complete, one owner each")
def test_no_partition_of_another_client_has_two_owners_at_any_moment(told):
    assert told.story.overlaps == [], "\n".join(map(str, told.story.overlaps))


@each_client
@pytest.mark.scenario("members whose partitions stay see no callback")
def test_another_client_whose_partitions_stay_sees_no_callback(told, kafka):
    steps = told.story.steps.values()
    untouched = [(step, name) for step in steps for name in step.untouched]
    if kafka.version not in MOVES_WITHOUT_NEED:
        assert untouched, "the story is made so that there is such a member"
    seen = [event for step, name in untouched for event in step.callbacks[name]]
    assert seen == [], "\n".join(map(str, seen))


@each_client
@pytest.mark.scenario("the broker shows members of the new protocol")
def test_the_broker_shows_another_client_as_a_member_of_the_new_protocol(told):
    for name, size in {"together": 2, "join": 3, "kill": 2, "leave": 1}.items():
        members = told.story.steps[name].group.members
        assert [member.member_type for member in members] == ["consumer"] * size
        assert {frozenset(member.subscribed_topics) for member in members} == {frozenset({told.story.topic})}


@each_client
@pytest.mark.scenario("the last commits are at the end of every partition")
def test_what_another_client_has_read_is_committed(told):
    assert told.story.offsets == told.story.ends


@dataclass(frozen=True)
class Manner:
    """How a client talks: the versions of these APIs, and how many connections one consumer makes (least, most)."""

    join_group: set[int]
    heartbeat: set[int]
    offset_commit: set[int]
    offset_fetch: set[int]
    leave_group: set[int]
    connections: tuple[float, float]


MANNERS = {
    # A bootstrap, and two to the node: Fetch has its own.
    KAFKAJS.name: Manner({5}, {3}, {5}, {4}, {3}, (3, 3)),
    # JoinGroup, Fetch and the rest are apart. Version 10 is there since Kafka 4.1.
    FRANZ_GO.name: Manner({9}, {4}, {9, 10}, {9, 10}, {5}, (4, 6)),
    # A bootstrap, and one to the node, which Fetch shares.
    SARAMA.name: Manner({7}, {4}, {8}, {7}, {4}, (2, 2)),
    # The same. Kafka 4 has no OffsetCommit v1 any more.
    OLD_SARAMA.name: Manner({1}, {0}, {1}, {1}, {0}, (2, 2)),
    # New ones for each generation, each reader and for leaving.
    KAFKA_GO.name: Manner({2}, {0}, {2}, {1}, {0}, (10, math.inf)),
}
CONSUMERS = 3


@each_client
def test_another_client_talks_as_the_facts_say(case, told):
    """Whoever reads a newer version of a client sees here that its facts have to be read anew."""
    manner = MANNERS[case.client.name]
    for api in ("join_group", "heartbeat", "offset_commit", "offset_fetch", "leave_group"):
        assert told.counted.versions[api.upper()] <= getattr(manner, api), api
    least, most = manner.connections
    assert least <= told.counted.connections / CONSUMERS <= most


def test_kafkajs_that_works_longer_than_the_brokers_session_keeps_its_partitions(entries, kafka, consumers):
    """It heartbeats only between messages; its own session allows more than the broker's six seconds."""
    entry = entries["translate"]
    group, topic = entry.new_group(), kafka.new_topic(partitions=2)
    everything = {Partition(topic, 0), Partition(topic, 1)}
    slow, other = (
        consumers.start(
            KAFKAJS, entry.bootstrap, group, topic, "RoundRobinAssigner", session_timeout_ms=30_000
        )
        for _ in range(2)
    )
    consumers.wait_until(
        lambda: len(slow.owned()) == len(other.owned()) == 1 and slow.owned() | other.owned() == everything,
        "each has a partition",
    )
    marks = slow.mark(), other.mark()
    slow.send("stall", ms=CONSUMER_SESSION_TIMEOUT_MS + 2_000)
    produced = {(Partition(r.topic, r.partition), r.offset): r.value for r in kafka.produce(topic, 20)}
    consumers.wait_until(
        lambda: slow.consumed() | other.consumed() == produced.keys(), "the slow one has worked too"
    )
    slow.commit()
    assert slow.callbacks(marks[0]) == other.callbacks(marks[1]) == []
    assert account(produced, consumers.logs).each_once
