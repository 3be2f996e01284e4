"""A broker answers Metadata without any broker, as one that stops or starts may: librdkafka behind the proxy."""

import msgspec
import pytest
from support.clients import CONFLUENT
from support.embedded import Embedded
from support.entry import running_proxy
from support.waiting import eventually

from coordinator.broker import dispatch
from protocol_codecs import ApiKey

A_FEW = 12
OFTEN_MS = 500


@pytest.fixture
def answered(monkeypatch):
    """The client ids whose next Metadata is answered without brokers, and those that were answered so."""
    wanted, done = set(), set()
    metadata = dispatch.APIS_SERVED[ApiKey.METADATA]

    async def serve(context, request):
        response = await metadata(context, request)
        if context.client_id not in wanted or not request.topics:
            return response
        wanted.remove(context.client_id)
        done.add(context.client_id)
        return msgspec.structs.replace(response, brokers=(), controller_id=-1)

    monkeypatch.setitem(dispatch.APIS_SERVED, ApiKey.METADATA, serve)
    return wanted, done


def test_librdkafka_behind_the_proxy_is_told_the_brokers_all_the_same(answered, consumers, group, folder):
    """Straight at such a broker it gives up its brokers, and some consumers never connect again."""
    wanted, done = answered
    with Embedded(nodes=1) as broker, running_proxy(broker.bootstrap, folder / "proxy") as proxy:
        topic = broker.new_topic()
        settings = {"topic.metadata.refresh.interval.ms": OFTEN_MS, "debug": "metadata"}
        consumer = consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range", own_settings=settings)
        broker.produce(topic, A_FEW)
        consumer.wait_until(lambda: len(consumer.consumed()) == A_FEW, "everything is read")
        wanted.add(consumer.name)
        eventually(lambda: done, bool, what="the broker has answered without brokers")
        broker.produce(topic, A_FEW)
        consumer.wait_until(lambda: len(consumer.consumed()) == 2 * A_FEW, "it reads on")
        consumer.close()
    log = consumer.stderr.read_text()
    assert " 1 brokers, 1 topics" in log
    assert " 0 brokers, " not in log
