"""Share consumers (KIP-932) of Java and librdkafka behind the proxy, each story beside the same one without it."""

import re
import time
from collections.abc import Iterator

import pytest
from support.broker import Kafka, Record
from support.entry import LIMITS_OF_TEST_BROKERS, Proxy, running_proxy
from support.leaders import move_leaders
from support.share import (
    CONFLUENT_SHARE_CONSUMER,
    SHARE_CONSUMER,
    ShareGroup,
    counts_releases,
    deliveries,
    refused,
    skip_without_share_groups,
)
from support.tracing import needs_strace, traced
from support.waiting import eventually

from tests.skips import not_here

pytestmark = pytest.mark.kafka

PARTITIONS = 3
both = pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "proxy"])
of_any_kind = pytest.mark.parametrize(
    "kind", [SHARE_CONSUMER, CONFLUENT_SHARE_CONSUMER], ids=["java", "librdkafka"]
)
of_any_mode = pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((SHARE_CONSUMER, mode) for mode in ("implicit", "explicit", "renew")),
        *((CONFLUENT_SHARE_CONSUMER, mode) for mode in ("implicit", "explicit")),
    ],
    ids=lambda value: {SHARE_CONSUMER: "java", CONFLUENT_SHARE_CONSUMER: "librdkafka"}.get(value, value),
)


@pytest.fixture(autouse=True)
def _released(kafka: Kafka) -> None:
    skip_without_share_groups(kafka.version)


@pytest.fixture
def proxy(kafka, folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        yield proxy


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


one_partition = pytest.mark.parametrize("partitions", [1], ids=[""])
"""A member that is gone without a word has its partitions for 45 s more; the only one, all members have."""


@pytest.fixture
def share_group(kafka, proxy, consumers, group, behind_proxy, partitions) -> ShareGroup:
    bootstrap = proxy.bootstrap if behind_proxy else kafka.bootstrap
    topic = kafka.new_topic(partitions=partitions)
    return ShareGroup(kafka, bootstrap, consumers, group, topic).configured()


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


@both
@of_any_mode
def test_every_record_is_acknowledged_once(kafka, proxy, share_group, behind_proxy, kind, mode):
    needs_strace()
    if mode == "renew" and kafka.version < "4.2":
        not_here(f"Kafka {kafka.version} has no locks that can be renewed (KIP-1222)")
    records = kafka.produce(share_group.topic, 300)
    for _ in range(2):
        share_group.start(mode, traced(kind))
    times = 2 if mode == "renew" else 1  # once to renew it, and then by another poll
    share_group.wait_until_acknowledged(records, times)
    for consumer in share_group.consumers.all:
        consumer.close()
    returned = sorted((record.value, 1) for record in records for _ in range(times))
    assert sorted(deliveries(share_group.consumers.all)) == returned
    assert refused(share_group.consumers.all) == []
    if behind_proxy:
        assert share_group.ports() <= proxy.ports, "somebody walked past the proxy"
    else:
        assert port(kafka.bootstrap) in share_group.ports(), "the trace would have shown it"


@both
@one_partition
@of_any_kind
def test_what_a_killed_consumer_had_locked_is_delivered_again_at_once(kafka, share_group, behind_proxy, kind):
    """Long before the locks end: the broker hears that the connection has ended."""
    records = kafka.produce(share_group.topic, 30)
    victim = share_group.start("hold", kind)
    victim.wait_for("records")
    victim.kill()
    held = {delivery.value for delivery in deliveries([victim])}
    heir = share_group.start("explicit", kind)
    share_group.wait_until_acknowledged(records)
    counts = dict(deliveries([heir]))
    assert {counts[value] for value in held} == {2 if counts_releases(kafka.version) else 1}
    assert counts.keys() == {record.value for record in records}


@both
def test_an_orderly_close_costs_no_lock(kafka, share_group, behind_proxy):
    records = kafka.produce(share_group.topic, 30)
    first = share_group.start("hold")
    first.wait_for("records")
    first.close()
    share_group.start("explicit")
    share_group.wait_until_acknowledged(records)


@pytest.mark.parametrize(
    "lasts_s", [0, pytest.param(60, marks=pytest.mark.long)], ids=["shortly", "for a minute"]
)
@pytest.mark.parametrize(
    ("kind", "mode"),
    [(SHARE_CONSUMER, "implicit"), (CONFLUENT_SHARE_CONSUMER, "explicit")],
    ids=["java-implicit", "librdkafka-explicit"],
)
def test_a_maximum_age_of_connections_costs_no_delivery(kafka, folder, consumers, group, kind, mode, lasts_s):
    limits = {**LIMITS_OF_TEST_BROKERS, "connection_max_age_s": 2}
    with running_proxy(kafka.bootstrap, folder / "proxy", limits=limits) as proxy:
        topic = kafka.new_topic(partitions=PARTITIONS)
        share_group = ShareGroup(kafka, proxy.bootstrap, consumers, group, topic).configured()
        share_group.start(mode, kind)
        records: list[Record] = []
        closed = 0
        until = time.monotonic() + lasts_s
        while closed < 8 or time.monotonic() < until:  # of the consumer's connections, of which it has three
            records += kafka.produce(topic, 5)
            share_group.wait_until_all_are_read(records)
            closed = eventually(
                lambda: count_of(proxy, 'client_to_proxy_disconnects_total{cause="age"}'),
                lambda count, before=closed: count > before,
                what="one more connection has become too old",
            )
        share_group.wait_until_acknowledged(records)
        assert not count_of(proxy, "share_sessions_cut_total")
    assert sorted(deliveries(consumers.all)) == sorted((record.value, 1) for record in records)
    assert refused(consumers.all) == []


def test_a_drain_costs_one_delivery_at_most(kafka, folder, consumers, group):
    topic = kafka.new_topic(partitions=1)
    records = kafka.produce(topic, 30)
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        share_group = ShareGroup(kafka, proxy.bootstrap, consumers, group, topic).configured()
        victim = share_group.start("hold")
        victim.wait_for("records")
    told = [line for line in proxy.log.read_text().splitlines() if "a share session was cut" in line]
    assert len(told) == 1
    assert group in told[0]
    share_group.bootstrap = kafka.bootstrap
    heir = share_group.start("explicit")
    share_group.wait_until_acknowledged(records)
    assert {delivery.count for delivery in deliveries([heir])} == {2 if counts_releases(kafka.version) else 1}


def test_no_share_consumer_connects_to_a_broker_whoever_leads(own_kafka, folder, consumers, group):
    """A broker that leads no more names its successor behind the records (KIP-951)."""
    needs_strace()
    cluster = own_kafka(brokers=3)
    kafka = Kafka(cluster.bootstrap, source="moving", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    move_leaders(cluster.bootstrap, kafka.admin, topic, {0: 1, 1: 2, 2: 3}, [1, 2, 3])
    with running_proxy(cluster.bootstrap, folder / "proxy") as proxy:
        share_group = ShareGroup(kafka, proxy.bootstrap, consumers, group, topic).configured()
        for kind, mode in ((SHARE_CONSUMER, "implicit"), (CONFLUENT_SHARE_CONSUMER, "explicit")):
            share_group.start(mode, traced(kind))
        records = kafka.produce(topic, 30)
        share_group.wait_until_acknowledged(records)
        for leaders in ({0: 2, 1: 3, 2: 1}, {0: 3, 1: 1, 2: 2}):
            move_leaders(cluster.bootstrap, kafka.admin, topic, leaders, [1, 2, 3])
            records += kafka.produce(topic, 30)
            share_group.wait_until_acknowledged(records)
        assert share_group.ports() <= proxy.ports, "somebody walked past the proxy"
        assert {port(proxy.of_node(node)) for node in (1, 2, 3)} <= share_group.ports()


def count_of(proxy: Proxy, series: str) -> int:
    """What /metrics counts, over all series that begin so."""
    pattern = rf"^epochgate_{re.escape(series)}(?:\{{.*\}})? (\S+)$"
    return int(sum(float(value) for value in re.findall(pattern, proxy.metrics(), re.MULTILINE)))
