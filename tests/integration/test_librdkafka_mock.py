"""librdkafka's mock cluster as the broker behind the proxy: people test their applications against it.

It answers ApiVersions above v2 in a form of its own (proxy/wire/api_versions.py), and can't read the JoinGroup of
kafka-python, with the proxy or without. It needs no Kafka.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.ownership import Partition

TIMEOUT_S = 30.0
TOPIC = "orders"


@pytest.fixture
def proxy(folder) -> Iterator[Proxy]:
    """A proxy in front of a mock cluster, which lives as long as the producer that runs it."""
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced", "log_level": 0})
    (broker,) = cluster.list_topics(timeout=TIMEOUT_S).brokers.values()
    with running_proxy(f"{broker.host}:{broker.port}", folder / "proxy") as proxy:
        yield proxy


def test_a_group_works_on_a_mock_cluster(proxy, consumers, group):
    producer = Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0})
    producer.produce(TOPIC, b"1", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = consumers.start(CONFLUENT, proxy.bootstrap, group, TOPIC, "range")
    consumers.wait_until(lambda: consumer.consumed() == {(Partition(TOPIC, 0), 0)}, "the record is read")
    assert consumer.commit().kind == "committed"
    consumer.close()
