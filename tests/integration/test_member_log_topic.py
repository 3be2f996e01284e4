"""The member log on the topic of a real Kafka: written, read back, replayed, away, lost, and refused."""

import contextlib
from collections.abc import AsyncIterator

import pytest
import trio
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from support.secured import TlsFiles, allow, secret, secured_cluster

from proxy.config.fleet import Fleet
from proxy.member_log import log_client
from proxy.member_log.broker_settings import migration_policy
from proxy.member_log.driver import FleetDriver
from proxy.member_log.refusals import MemberLogRefused
from proxy.member_log.topic import required_settings
from proxy.metrics.registry import Metrics
from translation.member_log.group_records import MOVE, encode_group_key, group_key
from translation.member_log.outputs import Expired, Health, JoinTerms, Output, ServeDecision, Taken
from translation.member_log.ownership import Ownership
from translation.member_log.records import MemberKey, Writer, encode_key, member_key, partition_of

pytestmark = pytest.mark.kafka

KEY = member_key("payments", "epochgate-1")
PARTITIONS = 4


class Replica:
    """A process with a member log, and what that said."""

    def __init__(self, fleet: Fleet) -> None:
        self.said: list[Output] = []
        self.refusals: list[str | None] = []
        self.changed = trio.Event()
        self.metrics = Metrics()
        self.driver = FleetDriver(fleet, dict(fleet.kafka), self.metrics, server="test")
        self.log = self.driver.log

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.driver.run(self.hear, self.refusals.append, lambda _: None, task_status=task_status)

    def hear(self, outputs: list[Output]) -> None:
        self.said += outputs
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, holds, within_s: float = 40.0) -> None:
        with trio.fail_after(within_s):
            while not holds():
                with trio.move_on_after(0.2):
                    await self.changed.wait()

    async def claim(self, key: MemberKey, connection: int = 1) -> ServeDecision:
        if self.log.claim(key, connection, trio.current_time(), JoinTerms(10_000)) is ServeDecision.PENDING:
            self.driver.carry_out()
            await self.until(
                lambda: self.log.verdict(key, connection, trio.current_time()) is not ServeDecision.PENDING
            )
        return self.log.verdict(key, connection, trio.current_time())


@contextlib.asynccontextmanager
async def replica(fleet: Fleet) -> AsyncIterator[Replica]:
    started = Replica(fleet)
    async with trio.open_nursery() as nursery:
        await nursery.start(started.run)
        with trio.fail_after(30):
            assert await started.driver.wait_ready()
        yield started
        nursery.cancel_scope.cancel()


def fleet_at(bootstrap: str, topic: str, **options) -> Fleet:
    kafka = {"bootstrap.servers": bootstrap, **options.pop("kafka", {})}
    return Fleet(
        **{
            "topic": topic,
            "partitions": PARTITIONS,
            "replication": 1,
            "expires": True,
            "kafka": kafka,
            **options,
        }
    )


@pytest.fixture
def topic(group) -> str:
    return f"members-{group}"


async def refusal(fleet: Fleet) -> str:
    replica = Replica(fleet)
    with pytest.raises(MemberLogRefused) as refused, trio.fail_after(30):
        await replica.run()
    return str(refused.value)


def account(name: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": name,
        "sasl.password": secret(name),
    }


def denial(name: str, topic: str, right: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{name}",
        "*",
        right,
        AclPermissionType.DENY,
    )


def alter(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)


async def made(admin: AdminClient, topic: NewTopic) -> None:
    """Make a topic whose namesake is being deleted, which the brokers do in the background."""
    with trio.fail_after(10):
        while True:
            try:
                admin.create_topics([topic])[topic.topic].result(10)
            except KafkaException:
                await trio.sleep(0.05)
            else:
                return


async def test_one_of_two_replicas_has_a_member_and_a_third_knows_who(kafka, topic):
    fleet = fleet_at(kafka.bootstrap, topic)
    async with replica(fleet) as first, replica(fleet) as second:
        assert await first.claim(KEY) is ServeDecision.SERVE
        await second.until(lambda: second.log.ownership(KEY) is Ownership.ELSEWHERE)
        assert await second.claim(KEY) is ServeDecision.SERVE
        await first.until(lambda: Taken(KEY) in first.said)
        assert not first.log.expire(KEY, trio.current_time())
        assert second.log.expire(KEY, trio.current_time())
        second.driver.carry_out()
        await second.until(lambda: Expired(KEY) in second.said)
        async with replica(fleet) as third:
            assert third.log.ownership(KEY) is Ownership.EXPIRED
            assert third.log.record(KEY).session_timeout_ms == 10_000
            third.log.end(KEY, trio.current_time())
            third.driver.carry_out()
            await first.until(lambda: first.log.ownership(KEY) is Ownership.ENDED)


V1, V99 = [("v", b"\x01")], [("v", b"\x63")]
DEEP = b"\x81\xa1x" + b"\x91" * 3_000
GARBAGE = (
    (b"\xff", b"x", None),  # as kafka-console-producer writes it
    (b"\xff\xfe", b"\xff", V1),
    (b"\x93\xa1\xff\xa1m\xc4\x01w", b"\x80", V1),
    (b"\x91" * 3_000, b"\x80", V1),
    (encode_key(KEY, Writer(b"somebody")), DEEP, V1),
    (encode_key(KEY, Writer(b"somebody")), None, V1),
    (encode_key(KEY, Writer(b"somebody")), b"\x82\xa4kind\xa6served\xa7version\xcf" + b"\xff" * 8, V1),
    (b"\x94", DEEP, V99),
    (encode_group_key(group_key("payments", MOVE), Writer(b"somebody")), DEEP, V1),
    (b"", b"", [("v", b"v1"), ("v", b""), ("x", None)]),
)
"""Keys, values and headers that are none of the member log's. (Brokers let no record without a key into its topic.)"""


def write_garbage(bootstrap: str, topic: str) -> None:
    """Write all of it to each partition, straight to the broker."""
    producer, errors = Producer({"bootstrap.servers": bootstrap}), []
    for partition in range(PARTITIONS):
        for key, value, headers in GARBAGE:
            producer.produce(
                topic,
                key=key,
                value=value,
                partition=partition,
                headers=headers,
                on_delivery=lambda error, _: errors.append(error),
            )
    assert producer.flush(30) == 0
    assert not any(errors), errors


async def test_garbage_in_the_topic_is_counted_and_ends_no_replica_also_after_a_restart(kafka, topic):
    fleet = fleet_at(kafka.bootstrap, topic)
    async with replica(fleet) as one, replica(fleet) as other:
        await trio.to_thread.run_sync(write_garbage, kafka.bootstrap, topic)
        for each in (one, other):
            await each.until(lambda each=each: each.driver.ignored.total() == PARTITIONS * len(GARBAGE))
        assert await one.claim(KEY) is ServeDecision.SERVE
        assert await other.claim(KEY) is ServeDecision.SERVE
        async with replica(fleet) as late:
            assert late.driver.ignored == one.driver.ignored == other.driver.ignored
            assert late.log.ownership(KEY) is Ownership.ELSEWHERE
            assert (one.refusals, other.refusals, late.refusals) == ([], [], [])
            counted = late.metrics.registry.get_sample_value(
                "epochgate_fleet_records_ignored_total", {"reason": "format"}
            )
            assert counted == 2 * PARTITIONS


async def test_the_brokers_migration_policy_is_known_to_an_account_that_may_ask(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert await trio.to_thread.run_sync(migration_policy, admin) == "bidirectional"


async def test_a_broker_that_is_away_and_comes_back(own_kafka, topic):
    cluster = await trio.to_thread.run_sync(own_kafka)
    async with replica(fleet_at(cluster.bootstrap, topic)) as one:
        assert await one.claim(KEY) is ServeDecision.SERVE
        partition = partition_of(KEY, PARTITIONS)
        await trio.to_thread.run_sync(cluster.stop_broker, 1)
        one.said.clear()
        assert one.log.claim(KEY, 2, trio.current_time()) is ServeDecision.PENDING
        one.driver.carry_out()
        await one.until(lambda: one.log.health(partition) is Health.AWAY)
        assert one.log.claim(KEY, 1, trio.current_time()) is ServeDecision.SERVE
        assert one.log.claim(KEY, 3, trio.current_time()) is ServeDecision.UNAVAILABLE
        await trio.to_thread.run_sync(cluster.start_broker, 1)
        await one.until(lambda: one.log.health(partition) is Health.READY)
        assert await one.claim(KEY, 4) is ServeDecision.SERVE


async def test_two_replicas_go_on_with_another_topic_of_the_name(kafka, topic):
    """It is deleted, and made again with other settings; those are mended later."""
    fleet = fleet_at(kafka.bootstrap, topic)
    admin = AdminClient(dict(fleet.kafka))
    async with replica(fleet) as first, replica(fleet) as second:
        assert await first.claim(KEY) is ServeDecision.SERVE
        admin.delete_topics([topic])[topic].result(10)
        wrong = {**required_settings(1), "retention.ms": "1000000"}
        await made(admin, NewTopic(topic, PARTITIONS, 1, config=wrong))
        for one in (first, second):
            await one.until(lambda at=one: at.refusals, 60)
            assert "another one than before" in one.refusals[0]
        for one in (first, second):
            await one.until(lambda at=one: at.driver.refused is None, 90)
            assert "retention.ms=1000000" in one.driver.warning
        assert await second.claim(KEY) is ServeDecision.SERVE
        await first.until(lambda: first.log.ownership(KEY) is Ownership.ELSEWHERE)


async def test_settings_that_change_are_told_until_they_are_mended(kafka, topic, monkeypatch):
    fleet = fleet_at(kafka.bootstrap, topic)
    admin = AdminClient(dict(fleet.kafka))
    monkeypatch.setattr(log_client, "MODULE", "tests.integration.support.quick_log_child")
    changes = {
        "retention.ms": "86400000",
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "min.compaction.lag.ms": "0",
    }
    async with replica(fleet) as one:
        assert await one.claim(KEY) is ServeDecision.SERVE
        for name, value in changes.items():
            alter(admin, topic, name, value)
            await one.until(lambda at=f"{name}={value}": at in (one.driver.warning or ""))
            metric = one.metrics.registry.get_sample_value("epochgate_fleet_topic_settings_wrong")
            assert metric == 1
            assert not one.log.expire(KEY, trio.current_time()), "what replicas agree on is not certain"
            alter(admin, topic, name, required_settings(1)[name])
            await one.until(lambda: one.driver.warning is None)
        assert one.log.expire(KEY, trio.current_time())
        assert one.refusals == []


@pytest.mark.parametrize("right", [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE])
async def test_a_right_that_is_withdrawn_and_given_back(own_kafka, topic, empty_folder, right):
    tls = TlsFiles(empty_folder("member-log-tls"))
    cluster = await trio.to_thread.run_sync(lambda: own_kafka(**secured_cluster(tls)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=required_settings(1))])[topic].result(10)
    # READ and WRITE imply DESCRIBE, so all of them are denied where that is.
    rights = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    allow(admin, "bob", ResourceType.TOPIC, topic, *rights)
    async with replica(fleet_at(cluster.bootstrap_of("SASL"), topic, kafka=account("bob"))) as one:
        assert await one.claim(KEY) is ServeDecision.SERVE
        deny = denial("bob", topic, right)
        admin.create_acls([deny])[deny].result(10)
        writing = member_key("payments", "epochgate-2")
        one.log.claim(writing, 2, trio.current_time())
        one.driver.carry_out()
        await one.until(lambda: one.refusals, 60)
        assert "kafka-acls.sh" in one.refusals[0]
        await trio.sleep(5)  # it stays refused while the right is missing, however often it is tried
        assert one.driver.refused is not None
        assert None not in one.refusals
        given = AclBindingFilter(
            deny.restype,
            deny.name,
            deny.resource_pattern_type,
            deny.principal,
            deny.host,
            deny.operation,
            deny.permission_type,
        )
        (deleted,) = admin.delete_acls([given]).values()
        deleted.result(10)
        await one.until(lambda: one.driver.refused is None, 60)
        assert one.refusals[-1] is None
        assert await one.claim(writing, 2) is ServeDecision.SERVE
        assert await one.claim(KEY) is ServeDecision.SERVE


async def test_a_reader_that_is_out_of_range_reads_everything_again(kafka, topic):
    """librdkafka tells it, instead of going on at the end."""
    fleet = fleet_at(kafka.bootstrap, topic)
    async with replica(fleet) as one:
        assert await one.claim(KEY) is ServeDecision.SERVE
        partition = partition_of(KEY, PARTITIONS)
        other = Replica(fleet)
        begin_with = other.driver._client.begin_with

        def out_of_range(topic_id: str) -> bool:
            begin_with(topic_id)
            other.driver._client._positions[partition] = 1_000_000, None
            return True

        other.driver._client.begin_with = out_of_range
        first_writer = other.driver._client.writer
        async with trio.open_nursery() as nursery:
            await nursery.start(other.run)
            await other.until(lambda: other.log.health(partition) is Health.READY)
            assert other.log.ownership(KEY) is Ownership.ELSEWHERE
            assert other.driver._client.writer != first_writer
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("name", "value"), [("cleanup.policy", "compact"), ("min.compaction.lag.ms", "0")])
async def test_a_topic_with_other_settings_is_refused_with_the_command_that_mends_it(
    kafka, topic, name, value
):
    fleet = fleet_at(kafka.bootstrap, topic)
    admin = AdminClient(dict(fleet.kafka))
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={**required_settings(1), name: value})])[
        topic
    ].result(10)
    said = await refusal(fleet)
    assert f"has {name}={value}" in said
    assert "kafka-configs.sh" in said
    assert f"{name}=[{required_settings(1)[name]}]" in said
    alter(admin, topic, name, required_settings(1)[name])
    with trio.fail_after(10):  # brokers hear of it a moment later
        described = ConfigResource(ResourceType.TOPIC, topic)
        while (  # noqa: ASYNC110  a broker tells nobody
            admin.describe_configs([described])[described].result(10)[name].value == value
        ):
            await trio.sleep(0.05)
    async with replica(fleet):
        pass


async def test_another_number_of_partitions_is_refused(kafka, topic):
    fleet = fleet_at(kafka.bootstrap, topic)
    async with replica(fleet):
        pass
    assert "has 4 partitions, and `fleet.partitions` is 8" in await refusal(
        fleet_at(kafka.bootstrap, topic, partitions=8)
    )


async def test_a_topic_that_can_not_be_made_is_told_with_the_command_that_makes_it(kafka, topic):
    said = await refusal(fleet_at(kafka.bootstrap, topic, replication=3))  # there is one broker
    assert "kafka-topics.sh" in said
    assert "--replication-factor 3" in said
    assert "min.insync.replicas=2" in said


async def test_an_account_without_rights_is_told_which_it_needs(own_kafka, topic, empty_folder):
    tls = TlsFiles(empty_folder("member-log-tls"))
    cluster = await trio.to_thread.run_sync(lambda: own_kafka(**secured_cluster(tls)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    fleet = fleet_at(cluster.bootstrap_of("SASL"), topic, kafka=account("bob"))
    said = await refusal(fleet)
    assert "kafka-acls.sh" in said or "kafka-topics.sh" in said
    rights = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    allow(admin, "bob", ResourceType.TOPIC, topic, *rights[2:])
    said = await refusal(fleet)
    assert "kafka-topics.sh" in said  # it may not make the topic
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=required_settings(1))])[topic].result(10)
    allow(admin, "bob", ResourceType.TOPIC, topic, *rights)
    async with replica(fleet) as one:
        assert await one.claim(KEY) is ServeDecision.SERVE
