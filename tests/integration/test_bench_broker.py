"""The bench itself: the broker is there, and can be stopped and started again."""

import pytest
from support.broker import Kafka

pytestmark = pytest.mark.kafka


def test_what_was_produced_is_acknowledged_with_its_offset(kafka):
    topic = kafka.new_topic(partitions=3)
    records = kafka.produce(topic, 9)
    assert sorted((record.partition, record.offset) for record in records) == [
        (partition, offset) for partition in range(3) for offset in range(3)
    ]


def test_a_group_that_does_not_exist_has_no_description(kafka, group):
    assert kafka.describe(group) is None
    assert kafka.describe_classic(group).group_state == "Dead"


def test_a_broker_is_stopped_and_started_again_on_its_port_with_its_data(own_kafka):
    cluster = own_kafka()
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=1)
    kafka.produce(topic, 3)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert [record.offset for record in kafka.produce(topic, 1)] == [3]
