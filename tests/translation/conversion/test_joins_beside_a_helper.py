"""A classic JoinGroup while the helper is still in the group, which is a consumer group until it leaves."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol_codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.translation.bench import GROUP, TOPIC, Bench
from tests.translation.classic_group import joined
from tests.translation.live_groups import OBSERVE_ALL, A
from translation.actions import ConnectionId, RequestId
from translation.members.conversion import Conversion

CUT_SHORT = b"\0\1" + encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC,)), 0)[2:]
"""As kafka-go sends it: version 1 without owned partitions, which a broker reads in classic groups only."""


READABLE = CUT_SHORT + b"\0\0\0\0"


def join(bench: Bench, version: int = 2) -> RequestId:
    protocols = (JoinGroupRequestProtocol(name="range", metadata=CUT_SHORT),)
    message = JoinGroupRequest(
        group_id=GROUP, member_id=A, protocol_type="consumer", session_timeout_ms=10_000, protocols=protocols
    )
    return bench.send(bench.connect(), ApiKey.JOIN_GROUP, version, message)


def observing(*, helper: bool) -> Bench:
    bench = Bench()
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    context = bench.translator._context
    if helper:
        group = context.registry.group(GROUP)
        group.conversion = Conversion(group, ConnectionId(1), context.now, lambda _conversion: None)
    return bench


def relayed(bench: Bench) -> bytes:
    (call,) = bench.calls
    return bytes(call.message.protocols[0].metadata)


@pytest.mark.parametrize("helper", [True, False])
def test_a_group_gets_a_subscription_as_the_client_sent_it(*, helper: bool) -> None:
    """Also beside a helper, that may have left: in a classic group kafka-go's leader can't read it with an empty list,
    and leaves, as often as such a member joins."""
    bench = observing(helper=helper)
    request = join(bench)
    assert relayed(bench) == CUT_SHORT
    bench.reply(joined(A))
    assert bench.answers[request] == joined(A)
    assert not bench.calls


@pytest.mark.parametrize("helper", [True, False])
@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.UNKNOWN_SERVER_ERROR], ids=["4.4.0", "4.0.1"]
)
def test_a_consumer_group_gets_one_that_it_can_read_when_it_has_refused_that(
    code: ErrorCode, *, helper: bool
) -> None:
    """kafka-go joins without its id after that answer: its membership stays behind, and holds the group."""
    bench = observing(helper=helper)
    request = join(bench)
    bench.reply(JoinGroupResponse(error_code=code, member_id=A))
    assert relayed(bench) == READABLE
    bench.reply(joined(A))
    assert bench.answers[request] == joined(A)


def test_a_group_that_is_converted_meanwhile_gets_the_clients_own_again() -> None:
    bench = observing(helper=False)
    join(bench)
    bench.reply(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=A))
    bench.reply(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=A))
    bench.advance(0.3)
    assert relayed(bench) == CUT_SHORT


def test_a_group_that_refuses_both_has_the_last_word() -> None:
    bench = observing(helper=False)
    request = join(bench)
    refused = JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=A)
    bench.reply(refused)
    bench.reply(refused)
    assert bench.answers[request] == refused
    assert not bench.calls
