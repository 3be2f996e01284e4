"""Share consumers (KIP-932) of Java and librdkafka on the embedded broker, straight and through the proxy."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients import ClientKind
from support.embedded import Embedded
from support.entry import Proxy, running_proxy
from support.find_broker import wanted_version
from support.share import (
    CONFLUENT_SHARE_CONSUMER,
    SHARE_CONSUMER,
    ShareGroup,
    deliveries,
    refused,
)
from support.waiting import eventually

from tests.skips import Need, without
from tools.java_client import compiled
from tools.kafka import jars, share_groups_tool

NODES = 3
PARTITIONS = 3
LIMIT = 2
"""The least delivery count at which a record may be given up."""

KINDS = {"java": SHARE_CONSUMER, "librdkafka": CONFLUENT_SHARE_CONSUMER}
both = pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "proxy"])
of_any_kind = pytest.mark.parametrize("client", KINDS)
one_partition = pytest.mark.parametrize("partitions", [1], ids=[""])


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    with Embedded(nodes=NODES) as broker:
        yield broker


@pytest.fixture(scope="module")
def proxy(embedded: Embedded, empty_folder) -> Iterator[Proxy]:
    with running_proxy(embedded.bootstrap, empty_folder("embedded-share-proxy")) as proxy:
        yield proxy


@pytest.fixture
def partitions() -> int:
    return PARTITIONS


@pytest.fixture
def kind(client: str) -> ClientKind:
    if client == "java":
        needs_java()
    return KINDS[client]


def needs_java() -> None:
    """Skip without Java and its jars; in CI, where they must be there, fail."""
    try:
        compiled.ensure_compiled(wanted_version(), compiled.SHARE_CONSUMER)
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Java client: {reason}")


@pytest.fixture
def share_group(embedded, proxy, consumers, group, behind_proxy, partitions) -> ShareGroup:
    bootstrap = proxy.bootstrap if behind_proxy else embedded.bootstrap
    topic = embedded.new_topic(partitions=partitions)
    return ShareGroup(embedded, bootstrap, consumers, group, topic).configured()


@both
@pytest.mark.parametrize(
    ("client", "mode"),
    [
        *(("java", mode) for mode in ("implicit", "explicit", "renew")),
        *(("librdkafka", mode) for mode in ("implicit", "explicit")),
    ],
)
def test_every_record_is_acknowledged_once(share_group, kind, mode):
    records = share_group.kafka.produce(share_group.topic, 300)
    for _ in range(2):
        share_group.start(mode, kind)
    times = 2 if mode == "renew" else 1  # once to renew it, and then by another poll
    share_group.wait_until_acknowledged(records, times)
    for consumer in share_group.consumers.all:
        consumer.close()
    returned = sorted((record.value, 1) for record in records for _ in range(times))
    assert sorted(deliveries(share_group.consumers.all)) == returned
    assert refused(share_group.consumers.all) == []


@both
@one_partition
@of_any_kind
def test_what_a_killed_consumer_had_locked_is_delivered_again_at_once(share_group, kind):
    """Long before the locks end: the broker hears that the connection has ended."""
    records = share_group.kafka.produce(share_group.topic, 30)
    victim = share_group.start("hold", kind)
    victim.wait_for("records")
    victim.kill()
    held = {delivery.value for delivery in deliveries([victim])}
    heir = share_group.start("explicit", kind)
    share_group.wait_until_acknowledged(records)
    counts = dict(deliveries([heir]))
    assert {counts[value] for value in held} == {2}
    assert counts.keys() == {record.value for record in records}


@both
@of_any_kind
def test_what_is_released_comes_again_with_a_higher_count(share_group, kind):
    records = share_group.kafka.produce(share_group.topic, 30)
    share_group.start("release", kind)
    share_group.wait_until_acknowledged(records, times=2)
    returned = sorted((record.value, count) for record in records for count in (1, 2))
    assert sorted(deliveries(share_group.consumers.all)) == returned


@pytest.mark.parametrize("behind_proxy", [False], ids=[""])
@one_partition
@of_any_kind
def test_a_record_is_given_up_at_the_delivery_limit(share_group, kind):
    share_group.configured({"share.delivery.count.limit": str(LIMIT)})
    records = share_group.kafka.produce(share_group.topic, 10)
    share_group.start("give-up", kind)
    share_group.wait_until_acknowledged(records, times=LIMIT)
    last = share_group.kafka.produce(share_group.topic, 1)
    share_group.wait_until_acknowledged(last, times=LIMIT)
    assert max(count for _, count in deliveries(share_group.consumers.all)) == LIMIT


@pytest.mark.parametrize("behind_proxy", [False], ids=[""])
@one_partition
@of_any_kind
def test_a_lock_ends_while_its_holder_lives(share_group, kind):
    share_group.configured({"share.record.lock.duration.ms": "1000"})
    records = share_group.kafka.produce(share_group.topic, 10)
    holder = share_group.start("hold", kind)
    holder.wait_for("records")
    heir = share_group.start("explicit", kind)
    share_group.wait_until_acknowledged(records)
    assert min(dict(deliveries([heir])).values()) >= 2


@both
@one_partition
@of_any_kind
def test_a_broker_that_drops_its_connections_costs_one_delivery(embedded, share_group, kind):
    """The consumer itself comes back: what it had not acknowledged is delivered to it again."""
    records = share_group.kafka.produce(share_group.topic, 30)
    victim = share_group.start("hold", kind)
    victim.wait_for("records")
    embedded.drop_connections()
    heir = share_group.start("explicit", kind)
    share_group.wait_until_acknowledged(records)
    assert {delivery.count for delivery in deliveries([heir])} <= {1, 2}
    held = {delivery.value for delivery in deliveries([victim])}
    assert {dict(deliveries([heir]))[value] for value in held} == {2}


@of_any_kind
def test_a_broker_that_starts_again_goes_on(folder: Path, consumers, group, kind):
    logs = folder / "broker"
    with Embedded(nodes=NODES, log_directory=logs) as first:
        topic = first.new_topic(partitions=PARTITIONS)
        share_group = ShareGroup(first, first.bootstrap, consumers, group, topic).configured()
        share_group.start("explicit", kind)
        records = first.produce(topic, 30)
        share_group.wait_until_acknowledged(records)
        ports = first.ports
    with Embedded(nodes=NODES, log_directory=logs, ports=ports) as second:
        more = second.produce(topic, 30)
        share_group.wait_until_acknowledged(more)
    assert Counter(
        (event.fields["partition"], offset)
        for consumer in consumers.all
        for event in consumer.seen("records")
        for offset in event.fields["offsets"]
    ) == Counter((record.partition, record.offset) for record in [*records, *more])


@both
@one_partition
@pytest.mark.parametrize("client", ["librdkafka"])
def test_kafkas_own_tool_describes_resets_and_deletes(embedded, proxy, share_group, kind, behind_proxy):
    needs_java()
    entry = proxy.bootstrap if behind_proxy else embedded.bootstrap

    def tool(*arguments: str) -> str:
        return share_groups_tool.run(wanted_version(), entry, *arguments)

    def offsets() -> list[str]:
        """Start offset and lag."""
        found = tool("--describe", "--group", share_group.group, "--offsets")
        line = next((line.split() for line in found.splitlines() if share_group.topic in line), [])
        return line[3:5]

    records = embedded.produce(share_group.topic, 20)
    consumer = share_group.start("explicit", kind)
    share_group.wait_until_acknowledged(records)
    eventually(offsets, lambda at: at[1:] == ["0"], what="all is acknowledged")
    assert f"{share_group.topic}:0" in tool("--describe", "--group", share_group.group, "--members")
    assert re.search(rf"^{share_group.group}$", tool("--list"), re.MULTILINE)
    consumer.close()
    tool(
        "--reset-offsets",
        "--group",
        share_group.group,
        "--topic",
        share_group.topic,
        "--to-earliest",
        "--execute",
    )
    assert offsets() == ["0", "20"]
    tool("--delete-offsets", "--group", share_group.group, "--topic", share_group.topic)
    assert offsets() == []
    tool("--delete", "--group", share_group.group)
    assert not re.search(rf"^{share_group.group}$", tool("--list"), re.MULTILINE)
