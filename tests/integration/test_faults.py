"""Strangers and accidents in front of the proxy do not disturb those whom it serves."""

import struct

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from support.clients import AIOKAFKA
from support.entry import running_proxy
from support.ownership import Partition
from support.raw import RawConnection
from support.raw_member import RawMember

pytestmark = pytest.mark.kafka

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(197),
    "negative-size": struct.pack(">i", -5),
    "empty-frame": struct.pack(">i", 0),
    "two-gigabytes": struct.pack(">i", 2**31 - 1) + b"x" * 64,
    "no-such-api": struct.pack(">ihhih", 10, 9_999, 0, 1, -1),
    "api-versions-cut-short": struct.pack(">ihhihb", 11, 18, 3, 1, -1, 0),
    "join-group-with-a-hostile-length": struct.pack(">ihhihh", 16, 11, 5, 1, -1, 2) + b"g" + b"\x7f" * 3,
}


@pytest.fixture(scope="module")
def proxy(kafka, empty_folder):
    """Of these tests alone."""
    with running_proxy(kafka.bootstrap, empty_folder("faults-proxy")) as running:
        yield running


@pytest.fixture
def served(proxy, kafka, consumers):
    """A consumer that the proxy serves meanwhile, and that must not notice anything."""
    topic = kafka.new_topic(partitions=2)
    consumer = consumers.start(AIOKAFKA, proxy.bootstrap, "translate-" + topic, topic, "range")
    consumer.wait_until(lambda: len(consumer.owned()) == 2, "it owns the topic")
    mark = consumer.mark()
    yield consumer
    assert proxy.alive, proxy.last_words()
    new = {(Partition(topic, record.partition), record.offset) for record in kafka.produce(topic, 10)}
    consumer.wait_until(lambda: new <= consumer.consumed(), "it reads on")
    assert consumer.callbacks(since=mark) == []


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_client_that_sends_garbage_is_disconnected_alone(served, proxy, garbage):
    with RawConnection(proxy.bootstrap) as stranger:
        stranger.send_bytes(garbage)
        stranger.wait_closed()


@pytest.mark.parametrize("vanish", [RawConnection.vanish, RawConnection.close], ids=["reset", "close"])
def test_a_client_may_vanish_in_the_middle_of_a_frame(served, proxy, vanish):
    stranger = RawConnection(proxy.bootstrap)
    frame = stranger.frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    stranger.send_bytes(struct.pack(">i", len(frame)) + frame[: len(frame) // 2])
    vanish(stranger)


def test_the_partitions_of_a_member_that_vanished_in_a_frame_go_to_the_others(proxy, kafka, consumers):
    topic = kafka.new_topic(partitions=2)
    group = "translate-" + topic
    member = RawMember(proxy.bootstrap, group, topic, session_timeout_ms=3_000)
    member.join()
    assert member.sync() == {topic: {0, 1}}
    member.vanish_in_a_frame()
    consumer = consumers.start(AIOKAFKA, proxy.bootstrap, group, topic, "range")
    consumer.wait_until(lambda: len(consumer.owned()) == 2, "the other owns everything")
