"""A static consumer of librdkafka is fenced by its own membership after its coordinator was down for long.

When its session timeout has passed librdkafka forgets its member id, and goes on to send Heartbeats, without one, until
the application has polled (https://github.com/confluentinc/librdkafka/issues/3437). A coordinator that was down in that
time has the member still, since sessions begin anew when it loads, and takes the nameless client for an older process.
That is fatal for the client. Straight at the broker it is so too.
"""

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from support import raw
from support.broker import Kafka
from support.clients import CONFLUENT, COOPERATIVE
from support.entry import Entry
from support.waiting import eventually

pytestmark = pytest.mark.kafka

SESSION_MS = 20_000
"""A broker that starts may load a group many seconds before a client can connect; its session must last until then."""

WORKS_MS = 180_000
"""The application does not poll for so long: longer than the test needs."""


@pytest.mark.parametrize("mode", ["direct", "translate"])
def test_a_heartbeat_without_a_member_id_is_fenced_while_a_member_has_its_instance_id(
    kafka, entries, consumers, mode
):
    entry = entries[mode]
    group, topic = entry.new_group(), kafka.new_topic(partitions=1)
    consumer = consumers.start(CONFLUENT, entry.bootstrap, group, topic, COOPERATIVE, instance_id="one")
    consumer.wait_for("assigned")
    with raw.to_coordinator(entry.bootstrap, group) as connection:

        def answer(instance_id: str) -> ErrorCode:
            nameless = HeartbeatRequest(
                group_id=group, generation_id=1, member_id="", group_instance_id=instance_id
            )
            return connection.call(nameless).error_code

        assert answer("one") == ErrorCode.fenced_instance_id
        assert answer("another") == ErrorCode.unknown_member_id


@pytest.mark.long
def test_librdkafka_is_fenced_by_its_own_membership_after_its_coordinator_was_down(own_kafka, consumers):
    cluster = own_kafka()
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    consumer = consumers.start(
        CONFLUENT,
        cluster.bootstrap,
        Entry("direct", cluster.bootstrap).new_group(),
        kafka.new_topic(partitions=1),
        COOPERATIVE,
        instance_id="one",
        session_timeout_ms=SESSION_MS,
        max_poll_interval_ms=2 * WORKS_MS,
    )
    consumer.wait_for("assigned")
    consumer.send("stall", ms=WORKS_MS)
    cluster.kill_broker(1)
    _until_logged(consumer, "SESSTMOUT")
    cluster.start_broker(1)
    _until_logged(consumer, "Static consumer fenced by other consumer")
    assert not consumer.ended


def _until_logged(consumer, words):
    eventually(
        lambda: words in consumer.stderr.read_text(errors="replace"), what=f"librdkafka has logged {words}"
    )
