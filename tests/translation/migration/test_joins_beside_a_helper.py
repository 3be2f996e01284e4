"""A classic JoinGroup while the helper is still in the group, which is a consumer group until it leaves."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.translation.bench import GROUP, TOPIC, Bench
from tests.translation.live_groups import OBSERVE_ALL, A
from translation.actions import ConnectionId
from translation.engine.conversion import Conversion

CUT_SHORT = b"\0\1" + encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC,)), 0)[2:]
"""As kafka-go sends it: version 1 without owned partitions, which a broker reads in classic groups only."""


@pytest.mark.parametrize("helper", [True, False])
def test_a_consumer_group_gets_subscriptions_that_brokers_can_read(*, helper: bool) -> None:
    bench = Bench()
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    context = bench.translator._context
    if helper:
        group = context.registry.group(GROUP)
        group.conversion = Conversion(group, ConnectionId(1), context.now, lambda _conversion: None)
    protocols = (JoinGroupRequestProtocol(name="range", metadata=CUT_SHORT),)
    message = JoinGroupRequest(
        group_id=GROUP, member_id=A, protocol_type="consumer", session_timeout_ms=10_000, protocols=protocols
    )
    request = bench.send(bench.connect(), ApiKey.JOIN_GROUP, 2, message)
    relayed = [call.message.protocols[0].metadata for call in bench.calls]
    assert relayed == ([CUT_SHORT + b"\0\0\0\0"] if helper else [])
    assert bench.forwarded == ([] if helper else [request])
