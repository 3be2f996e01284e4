"""The lag of groups, read at real brokers: what is known, and what is said when it is not."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import pytest
import trio
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from support.secured import sasl_settings, secret

from proxy.groups.lag.reader import LagReader
from proxy.groups.lag.readings import GroupLag, Partition, Reading, Unknown, Why
from tools.kafka.cluster import Cluster, ExtraListener

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def reader_at(bootstrap: str, **account: str) -> AsyncIterator[LagReader]:
    reader = LagReader(
        {"bootstrap.servers": bootstrap} | {key.replace("_", "."): at for key, at in account.items()}
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        yield reader
        nursery.cancel_scope.cancel()


def make_topic(bootstrap: str, name: str, brokers: Collection[int] = (1, 2, 3)) -> None:
    """One partition at each of these brokers, ten records in each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, len(brokers), replica_assignment=[[broker] for broker in brokers])
    admin.create_topics([topic])[name].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(len(brokers)):
        for number in range(10):
            producer.produce(name, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0


def commit(bootstrap: str, group: str, offsets: dict[Partition, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


async def read(reader: LagReader, groups: Collection[str], **options: float) -> dict[str, Reading]:
    """A new reading: readings of the last second are used again."""
    await trio.sleep(1.01)
    return await reader.read(groups, **options)


async def read_until(
    reader: LagReader, groups: Collection[str], wanted: Callable[[dict[str, Reading]], bool]
) -> dict[str, Reading]:
    with trio.fail_after(60):
        while True:
            found = await read(reader, groups)
            if wanted(found):
                return found


def coordinated_by(bootstrap: str, groups: list[str], broker: int) -> list[str]:
    """Those of the groups whose coordinator is this broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its answers come while it lives
    described = admin.describe_consumer_groups(groups)
    return [group for group, found in described.items() if found.result(30).coordinator.id == broker]


def of(readings: dict[str, Reading], group: str) -> GroupLag:
    found = readings[group]
    assert isinstance(found, GroupLag), found
    return found


@pytest.fixture(scope="module")
def three(own_kafka_of_module) -> Cluster:
    """Three brokers; who comes without an account may do everything, accounts only what they are allowed."""
    plain = {"sasl.enabled.mechanisms": "PLAIN"} | {
        name: value for name, value in sasl_settings().items() if name.startswith("plain.")
    }
    return own_kafka_of_module(
        brokers=3,
        overrides={
            "offsets.topic.num.partitions": "9",
            "broker.session.timeout.ms": "60000",  # no other takes over from a broker that is stopped for a while
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        listeners=(ExtraListener("SASL", "SASL_PLAINTEXT", plain),),
    )


async def test_lag_is_read_as_kafka_says_it(three):
    make_topic(three.bootstrap, "told")
    commit(three.bootstrap, "told", {Partition("told", 0): 4, Partition("told", 1): 10})
    async with reader_at(three.bootstrap) as reader:
        readings = await reader.read(["told", "never-committed"], patience_s=20)
    admin = AdminClient({"bootstrap.servers": three.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("told")])["told"].result(20)
    found = of(readings, "told")
    assert {at: one.committed for at, one in found.partitions.items() if one.committed is not None} == {
        Partition(one.topic, one.partition): one.offset for one in asked.topic_partitions
    }
    for (topic, number), one in found.partitions.items():
        place = TopicPartition(topic, number)
        latest = OffsetSpec.latest()
        assert one.end == admin.list_offsets({place: latest})[place].result(20).offset
    assert [one.lag for one in found.partitions.values()] == [6, 0, None]
    assert found.lag == 6
    assert found.unknown_partitions == {}
    assert found.stale is None
    assert of(readings, "never-committed").partitions == {}


async def test_a_dead_and_a_stuck_broker_cost_only_their_own(three):
    groups = [f"spread-{number}" for number in range(12)]
    make_topic(three.bootstrap, "spread")
    for group in groups:
        commit(three.bootstrap, group, {Partition("spread", number): 5 for number in range(3)})
    stuck = three.brokers[1].pid()
    late = coordinated_by(three.bootstrap, groups, 2)
    assert late, "broker 2 coordinates none of these groups"
    fresh = [group for group in groups if group not in late]
    async with reader_at(three.bootstrap) as reader:
        before = await reader.read(groups, patience_s=20)
        assert {of(before, group).lag for group in groups} == {15}
        os.kill(stuck, signal.SIGSTOP)
        try:
            first = await read(reader, groups)
            with trio.fail_after(60):
                while True:  # who was slow before is not waited for; who is slow for the first time is
                    began = trio.current_time()
                    second = await read(reader, groups)
                    waited_for_nobody = trio.current_time() - began < 1.01 + 1.5
                    if waited_for_nobody and all(of(second, group).stale is None for group in fresh):
                        break
                    first = second
        finally:
            os.kill(stuck, signal.SIGCONT)
        for group in fresh:
            assert set(of(second, group).unknown_partitions) == {Partition("spread", 1)}
            assert of(second, group).unknown_partitions[Partition("spread", 1)].why is Why.NO_ANSWER
            assert of(second, group).read_at > of(first, group).read_at
        for group in late:
            assert of(second, group).partitions == of(before, group).partitions
            assert of(second, group).stale.why in {Why.NO_ANSWER, Why.NO_COORDINATOR}
            assert of(second, group).age_s(trio.current_time()) > 2
        await read_until(
            reader,
            groups,
            lambda found: all(
                of(found, group).stale is None and not of(found, group).unknown_partitions for group in groups
            ),
        )


def allow_describe(bootstrap: str, user: str, resource: ResourceType, name: str) -> None:
    rule = AclBinding(
        resource,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_acls([rule])[rule].result(30)


async def test_what_the_account_may_not_describe_is_unknown_or_left_out(three):
    for topic in ("open", "closed"):
        make_topic(three.bootstrap, topic)
    for group in ("allowed", "denied"):
        commit(three.bootstrap, group, {Partition("open", 0): 4, Partition("closed", 0): 4})
    allow_describe(three.bootstrap, "alice", ResourceType.GROUP, "allowed")
    allow_describe(three.bootstrap, "alice", ResourceType.TOPIC, "open")
    account = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": secret("alice"),
    }
    async with reader_at(three.bootstrap_of("SASL"), **account) as reader:
        found = await read_until(
            reader, ["allowed", "denied"], lambda found: isinstance(found["allowed"], GroupLag)
        )
    assert {at.topic for at in of(found, "allowed").partitions} == {"open"}
    assert of(found, "allowed").lag == 6
    assert isinstance(found["denied"], Unknown)
    assert found["denied"].why is Why.NOT_AUTHORIZED


async def test_an_account_that_brokers_refuse_is_named_as_the_reason(three):
    account = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": "wrong",
    }
    async with reader_at(three.bootstrap_of("SASL"), **account) as reader:
        found = await read_until(
            reader, ["g"], lambda found: isinstance(one := found["g"], Unknown) and one.why is Why.BAD_ACCOUNT
        )
    assert "uthentication" in found["g"].detail
    async with reader_at(three.bootstrap, no_such_property="1") as reader:
        found = await read_until(reader, ["g"], lambda found: found["g"].why is Why.BAD_ACCOUNT)
    assert "no.such.property" in found["g"].detail


async def test_when_the_asking_process_dies_another_goes_on(three):
    make_topic(three.bootstrap, "again")
    commit(three.bootstrap, "again", {Partition("again", 0): 4})
    async with reader_at(three.bootstrap) as reader:
        before = of(await reader.read(["again"], patience_s=20), "again")
        killed = reader.asking.process_id
        os.kill(killed, signal.SIGKILL)
        after = await read_until(reader, ["again"], lambda found: of(found, "again").read_at > before.read_at)
        assert reader.asking.process_id not in {0, killed}
    assert of(after, "again").stale is None


@pytest.mark.long  # a broker is fenced after 9 s, and started again
async def test_a_partition_without_a_leader_is_unknown_and_the_others_are_not(three):
    make_topic(three.bootstrap, "led", brokers=(1, 3))
    commit(three.bootstrap, "led", {Partition("led", number): 5 for number in range(2)})
    async with reader_at(three.bootstrap) as reader:
        assert of(await reader.read(["led"], patience_s=20), "led").lag == 10
        three.kill_broker(3)
        try:
            no_leader = {Partition("led", 1): Unknown(Why.NO_LEADER)}
            found = await read_until(
                reader,
                ["led"],
                lambda found: (
                    of(found, "led").stale is None and of(found, "led").unknown_partitions == no_leader
                ),
            )
        finally:
            three.start_broker(3)
        assert of(found, "led").partitions[Partition("led", 0)].lag == 5
        assert of(found, "led").lag == 5
        await read_until(reader, ["led"], lambda found: of(found, "led").lag == 10)
