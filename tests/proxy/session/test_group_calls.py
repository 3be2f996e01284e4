"""Group calls that are too large to be decoded, or come before the broker has let their client in."""

import gc
import weakref
from collections.abc import Callable

import pytest
import trio

from protocol_codecs import ApiKey, ErrorCode, Message, decode, encode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.metadata import MetadataRequest, MetadataResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol_codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from protocol_codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol_codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from proxy.config.schema import Limits
from proxy.session.errors import ClientError
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.wire.frame_splitter import STREAM_ABOVE
from proxy.wire.request_header import group_id_of, read_header
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import a_bench
from tests.proxy.fakes.talk import (
    Talk,
    broker_sends,
    client_sends,
    negotiated,
    plain_response,
    session,
    taken,
)
from translation.actions import Call, CallId, ConnectionId
from translation.engine.group_router import with_routed_groups
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule

SMALL = Limits(group_call_max_bytes=2 * STREAM_ABOVE, group_call_max_elements=1000)
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


def a_talk(mode: Mode = Mode.OBSERVE, limits: Limits = SMALL, *, trusted: bool = True, **more) -> Talk:
    """A session whose groups have this mode; ``trusted`` if the broker has answered a request."""
    more.setdefault("rule_for", Policy(default=mode).rule_for)
    talk = negotiated(session(limits, **more))
    if trusted:
        let_in(talk)
    return talk


def let_in(talk: Talk) -> None:
    client_sends(talk, messages.plain(99))
    broker_sends(talk, plain_response(99))
    assert talk.responses.trusted


def join_of(metadata: bytes, version: int = 9, group_id: str = "g", correlation_id: int = 5) -> bytes:
    protocols = tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in ASSIGNORS)
    message = JoinGroupRequest(group_id=group_id, protocol_type="consumer", protocols=protocols)
    return wire.request(ApiKey.JOIN_GROUP, version, correlation_id, message)


def owning(partitions: int, topics: int = 1) -> bytes:
    owned = tuple(
        ConsumerProtocolTopicPartition(topic=f"t{n}", partitions=tuple(range(partitions // topics)))
        for n in range(topics)
    )
    subscription = ConsumerProtocolSubscription(
        topics=tuple(one.topic for one in owned), owned_partitions=owned
    )
    return encode_subscription(subscription, 3)


def commit_of(partitions: int, version: int = 8) -> bytes:
    rows = tuple(OffsetCommitRequestPartition(partition_index=n) for n in range(partitions))
    message = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=rows),))
    return wire.request(ApiKey.OFFSET_COMMIT, version, 5, message)


def sync_of(size: int) -> bytes:
    assignments = (SyncGroupRequestAssignment(member_id="m", assignment=bytes(size)),)
    return wire.request(ApiKey.SYNC_GROUP, 5, 5, SyncGroupRequest(group_id="g", assignments=assignments))


def fetch_of(groups: int) -> bytes:
    message = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id="g") for _ in range(groups)))
    return wire.request(ApiKey.OFFSET_FETCH, 8, 5, message)


def describe_of(groups: int) -> bytes:
    return wire.request(ApiKey.DESCRIBE_GROUPS, 5, 5, DescribeGroupsRequest(groups=("g",) * groups))


def counted(talk: Talk, outcome: str) -> float:
    return talk._listener.request_metrics.metrics.large_group_calls.labels(outcome)._value.get()


HUGE = 3 * STREAM_ABOVE
TOO_LONG = {"JoinGroup": join_of(bytes(HUGE)), "OffsetCommit": commit_of(HUGE // 8)}
TOO_MANY = {
    "JoinGroup": join_of(owning(1001)),
    "OffsetCommit": commit_of(1001),
}


def in_pieces(talk: Talk, frame: bytes) -> list[bytes]:
    """The client sends a frame in pieces; what goes upstream after each."""
    pieces = [frame[n : n + STREAM_ABOVE] for n in range(0, len(frame), STREAM_ABOVE)]
    return [client_sends(talk, piece) for piece in pieces]


# -- what is too large -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.REJECT])
@pytest.mark.parametrize("frame", [TOO_LONG["OffsetCommit"], sync_of(HUGE)], ids=["commit", "sync"])
def test_a_call_that_is_too_long_passes_on_piece_by_piece(frame: bytes, mode: Mode):
    talk = a_talk(mode)
    passed = in_pieces(talk, frame)
    assert b"".join(passed) == frame
    assert [len(piece) for piece in passed[:-1]] == [STREAM_ABOVE] * (len(passed) - 1), "nothing is held"
    assert talk.request is None


@pytest.mark.parametrize("frame", [*TOO_LONG.values(), *TOO_MANY.values()])
def test_a_call_that_is_too_large_ends_the_connection_if_its_group_is_translated(frame: bytes):
    talk = a_talk(Mode.TRANSLATE)
    with pytest.raises(ClientError, match=r"group 'g'.*limits\.group_call_max_") as caught:
        in_pieces(talk, frame)
    assert caught.value.kind == "group_call_too_large"
    assert counted(talk, "ended") == 1


@pytest.mark.parametrize("frame", TOO_MANY.values(), ids=TOO_MANY)
def test_a_call_with_too_many_elements_passes_on_undecoded_and_unobserved(frame: bytes):
    talk = a_talk()
    assert client_sends(talk, frame) == frame
    assert talk.request is None
    assert not talk.passed
    assert counted(talk, "relayed") == 1


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "frame",
    [sync_of(HUGE), fetch_of(HUGE // 3), fetch_of(1001), describe_of(HUGE // 2), describe_of(1001)],
    ids=["sync", "long fetch", "fetch", "long describe", "describe"],
)
def test_calls_that_the_broker_judges_alone_pass_on_whatever_the_policy_says(frame: bytes, mode: Mode):
    talk = a_talk(mode)
    assert b"".join(in_pieces(talk, frame)) == frame
    assert talk.request is None


@pytest.mark.parametrize("frame", [TOO_LONG["JoinGroup"], TOO_MANY["JoinGroup"]], ids=["long", "many"])
def test_a_join_group_that_is_too_large_for_a_group_that_is_rejected_is_answered_and_dropped(frame: bytes):
    talk = a_talk(Mode.REJECT)
    assert b"".join(in_pieces(talk, frame)) == b""
    answer = taken(talk.to_client)
    assert wire.answered_id(answer) == 5
    message = decode(JoinGroupResponse, 9, answer, 9)
    assert message.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert counted(talk, "refused") == 1
    assert client_sends(talk, messages.plain(6)) == messages.plain(6), "the next request begins behind it"


def test_a_join_group_that_is_too_large_is_told_of_the_groups_type():
    rule = Rule(pattern=".*", mode=Mode.OBSERVE, type=GroupType.SHARE)
    talk = a_talk(rule_for=Policy(rules=(rule,)).rule_for)
    in_pieces(talk, TOO_LONG["JoinGroup"])
    message = decode(JoinGroupResponse, 9, taken(talk.to_client), 9)
    assert message.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- members that speak to the broker --------------------------------------------------------------------------


def member_heartbeat(*, topics: int = 1) -> bytes:
    names = tuple("t" for _ in range(topics))
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=names)
    return wire.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 5, message)


@pytest.mark.parametrize(
    ("rule", "is_handed_over"),
    [
        (Rule(group="g", mode=Mode.OBSERVE), False),
        (Rule(group="g", mode=Mode.TRANSLATE), False),
        (Rule(group="g", mode=Mode.OBSERVE, type=GroupType.CONSUMER), False),
        (Rule(group="other", mode=Mode.REJECT), False),
        (Rule(group="g", mode=Mode.OBSERVE, type=GroupType.STREAMS), True),
        (Rule(group="g", mode=Mode.REJECT), True),
    ],
)
def test_only_a_heartbeat_that_may_be_refused_is_handed_to_the_translation(rule: Rule, is_handed_over: bool):
    talk = a_talk(rule_for=Policy(rules=(rule,)).rule_for)
    passed = client_sends(talk, member_heartbeat())
    if is_handed_over:
        assert passed == b""
        assert talk.request.message.group_id == "g"
    else:
        assert passed == member_heartbeat()
        assert talk.request is None


def test_a_heartbeat_that_may_be_refused_and_is_not_goes_to_the_broker_as_it_came():
    talk = a_talk(Mode.REJECT)
    client_sends(talk, member_heartbeat())
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == member_heartbeat()


def test_a_group_with_routed_groups_members_is_hosted_whatever_the_policy_says():
    """On the way back to the broker nobody may join there before the translation has seen it."""
    observed = Policy(rules=(Rule(group="g", mode=Mode.OBSERVE),)).rule_for
    for hosted in (True, False):
        talk = a_talk(rule_for=with_routed_groups(observed, {"g": hosted}.__getitem__))
        assert (client_sends(talk, member_heartbeat()) == b"") == hosted
        assert (talk.request is not None) == hosted


@pytest.mark.parametrize("topics", [1001, HUGE])
def test_a_heartbeat_that_is_too_large_ends_the_connection_if_it_may_be_refused(topics: int):
    frame = member_heartbeat(topics=topics)
    assert b"".join(in_pieces(a_talk(), frame)) == frame
    with pytest.raises(ClientError, match=r"limits\.group_call_max_") as caught:
        in_pieces(a_talk(Mode.REJECT), frame)
    assert caught.value.kind == "group_call_too_large"


def test_what_is_within_the_limits_is_decoded_as_ever():
    talk = a_talk(Mode.TRANSLATE)
    in_pieces(talk, commit_of(999))
    assert len(talk.request.message.topics[0].partitions) == 999


def test_the_same_owned_partitions_for_each_assignor_count_little():
    """10,000 partitions in 500 topics with four assignors are below the default."""
    talk = a_talk(Mode.TRANSLATE, Limits())
    in_pieces(talk, join_of(owning(10_000, topics=500)))
    assert talk.request is not None
    other = tuple(
        JoinGroupRequestProtocol(name=name, metadata=owning(10_000 + n, topics=500))
        for n, name in zip((0, 500, 1000, 1500), ASSIGNORS, strict=True)
    )
    message = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=other)
    with pytest.raises(ClientError, match="elements"):
        in_pieces(a_talk(Mode.TRANSLATE, Limits()), wire.request(ApiKey.JOIN_GROUP, 9, 5, message))


def test_many_small_subscriptions_are_too_many():
    protocols = tuple(JoinGroupRequestProtocol(name="a", metadata=b"") for _ in range(11))
    message = JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=protocols)
    frame = wire.request(ApiKey.JOIN_GROUP, 9, 5, message)
    assert client_sends(a_talk(), frame) == frame


# -- the group id ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api_key", "version", "message"),
    [
        (ApiKey.JOIN_GROUP, 5, JoinGroupRequest(group_id="the group")),
        (ApiKey.JOIN_GROUP, 9, JoinGroupRequest(group_id="the group")),
        (
            ApiKey.TXN_OFFSET_COMMIT,
            2,
            TxnOffsetCommitRequest(transactional_id="t" * 200, group_id="the group"),
        ),
        (
            ApiKey.TXN_OFFSET_COMMIT,
            3,
            TxnOffsetCommitRequest(transactional_id="t" * 200, group_id="the group"),
        ),
    ],
)
def test_the_group_id_is_read_from_the_head(api_key: ApiKey, version: int, message: Message):
    frame = wire.request(api_key, version, 1, message)
    assert group_id_of(frame, read_header(frame)) == "the group"


def test_a_long_group_id_arrives_before_anything_is_decided():
    talk = a_talk(Mode.TRANSLATE)
    frame = join_of(bytes(HUGE), group_id="g" * 20_000)
    assert client_sends(talk, frame[:10_000]) == b""
    with pytest.raises(ClientError, match="group_call_max_bytes"):
        client_sends(talk, frame[10_000:80_000])


# -- before the broker has let the client in --------------------------------------------------------------------


def metadata_answer(request: bytes) -> bytes:
    return wire.response(ApiKey.METADATA, 1, wire.correlation_id(request), MetadataResponse())


def test_a_strangers_call_waits_until_the_broker_has_answered_the_proxy():
    limits = Limits(first_group_call_max_bytes=2000)
    frame = join_of(owning(300))
    assert len(frame) > 2000
    talk = a_talk(limits=limits, trusted=False)
    asked = client_sends(talk, frame)
    assert wire.api_of(asked) == (ApiKey.METADATA, 1)
    assert asked.endswith(encode(MetadataRequest(topics=()), 1))
    assert talk.request is None
    assert counted(talk, "waited_for_broker") == 1
    assert not talk.request_incomplete, "the client owes nothing"
    assert client_sends(talk, bytes(1000)) == b""
    assert talk.backlog_bytes == 1000, "what follows is not looked at, and soon not read"
    assert broker_sends(talk, metadata_answer(asked)) == b"", "the client has not asked"
    assert talk.request is not None


def test_a_strangers_large_call_is_not_collected_before():
    talk = a_talk(limits=Limits(), trusted=False)
    frame = join_of(bytes(STREAM_ABOVE))
    asked = client_sends(talk, frame[:STREAM_ABOVE])
    assert wire.api_of(asked) == (ApiKey.METADATA, 1)
    assert client_sends(talk, frame[STREAM_ABOVE : 2 * STREAM_ABOVE]) == b""
    assert talk.backlog_bytes == STREAM_ABOVE
    broker_sends(talk, metadata_answer(asked))
    client_sends(talk, frame[2 * STREAM_ABOVE :])
    assert talk.request.message.protocols[0].metadata == bytes(STREAM_ABOVE)


def test_a_small_call_and_one_of_a_client_that_was_let_in_do_not_wait():
    limits = Limits(first_group_call_max_bytes=2000)
    talk = a_talk(limits=limits, trusted=False)
    client_sends(talk, messages.heartbeat(1))
    assert talk.request is not None
    talk = a_talk(limits=limits)
    client_sends(talk, join_of(owning(300)))
    assert talk.request is not None


def test_an_answer_to_the_proxys_own_call_shows_that_the_client_is_let_in():
    talk = a_talk(trusted=False)
    client_sends(talk, messages.heartbeat(1))
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    call = Call(int(ApiKey.CONSUMER_GROUP_HEARTBEAT), 1, message, "a-client", ConnectionId(1), CallId(1))
    talk.call(call)
    asked = taken(talk.to_upstream)
    assert not talk.responses.trusted
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1)
    broker_sends(talk, wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(asked), answer))
    assert talk.responses.trusted


@pytest.mark.parametrize("who", ["client", "broker"])
async def test_a_connection_ends_while_its_call_waits_for_the_broker(autojump_clock, who: str):
    """A broker closes it if the client has not authenticated."""
    async with a_bench(limits=Limits(first_group_call_max_bytes=2000)) as bench:
        await bench.negotiate()
        await bench.client.send_all(join_of(owning(300)))
        asked = await bench.at_broker.frame()
        assert wire.api_of(asked) == (ApiKey.METADATA, 1)
        if who == "client":
            await bench.client.aclose()
            await trio.testing.wait_all_tasks_blocked()
            await bench.broker.send_all(metadata_answer(asked))
        await bench.broker.aclose()
        await bench.ended.wait()
        assert not bench.translator.told, "nobody heard of the call"


# -- the room for large calls ----------------------------------------------------------------------------------


def test_reservations_are_granted_in_the_order_of_asking_and_never_beyond_the_whole():
    budget = HeldCallsBudget(100)
    granted: list[str] = []

    def granting(name: str) -> Callable[[], None]:
        return lambda: granted.append(name)

    first = budget.reserve(60, granting("first"))
    assert (first.granted, budget.taken) == (True, 60)
    second, third = budget.reserve(50, granting("second")), budget.reserve(10, granting("third"))
    assert not second.granted
    assert not third.granted, "it would fit, but another was before"
    fourth = budget.reserve(1000, granting("fourth"))
    budget.release(first)
    assert (granted, budget.taken) == (["second", "third"], 60)
    budget.release(third)
    budget.release(second)
    assert (granted, budget.taken) == (["second", "third", "fourth"], 100), "the largest has it alone"
    fifth = budget.reserve(1, granting("fifth"))
    budget.release(fifth)
    budget.release(fourth)
    assert (len(granted), budget.taken) == (3, 0), "who gave up waiting gets nothing"


def test_large_calls_of_many_connections_are_held_only_as_far_as_there_is_room():
    budget = HeldCallsBudget(3 * STREAM_ABOVE)
    frame = join_of(bytes(STREAM_ABOVE // 2))
    assert 2 * STREAM_ABOVE < len(frame) < 3 * STREAM_ABOVE
    resumed: list[str] = []
    one = a_talk(limits=Limits(), held_calls=budget)
    other = a_talk(limits=Limits(), held_calls=budget, on_unblocked=lambda: resumed.append("other"))
    in_pieces(one, frame)
    assert one.request is not None
    assert budget.taken == len(frame), "it is held until it is answered"
    for n in range(0, len(frame), 1024):
        client_sends(other, frame[n : n + 1024])
    assert other.request is None
    assert counted(other, "waited_for_room") == 1
    assert other.backlog_bytes > 0
    one.forward(one.request.id)
    assert resumed == ["other"]
    other.process()
    assert other.request is not None
    other.forget_request()
    assert budget.taken == 0


async def test_a_connection_that_ends_gives_its_room_to_the_one_that_waits(autojump_clock: trio.abc.Clock):
    budget = HeldCallsBudget(3 * STREAM_ABOVE)
    frame = join_of(bytes(STREAM_ABOVE // 2))
    async with a_bench(held_calls=budget) as first, a_bench(held_calls=budget) as second:
        for bench in (first, second):
            bench.translator.on_request = lambda _request: []
            await bench.negotiate()
            await bench.client.send_all(messages.plain(1))
            await bench.at_broker.frame()
            await bench.broker.send_all(plain_response(1))
            await bench.from_proxy.frame()
        await first.client.send_all(frame)
        await trio.testing.wait_all_tasks_blocked()
        assert [what for what, *_ in first.translator.told] == ["request"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.client.send_all, frame)
            await trio.testing.wait_all_tasks_blocked()
            assert not second.translator.told
            await first.client.aclose()
            await trio.testing.wait_all_tasks_blocked()
        assert [what for what, *_ in second.translator.told] == ["request"]


# -- what is watched -------------------------------------------------------------------------------------------


def test_a_native_heartbeat_with_too_many_elements_passes_unseen():
    def beat(topics: int) -> bytes:
        message = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", subscribed_topic_names=("t",) * topics
        )
        return wire.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 5, message)

    talk = a_talk()
    assert client_sends(talk, beat(1000)) == beat(1000)
    assert len(talk.passed) == 1
    talk = a_talk()
    assert client_sends(talk, beat(1001)) == beat(1001)
    assert not talk.passed


@pytest.mark.parametrize(
    ("request_type", "response_type", "version", "when_relayed"),
    [
        (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, 1, 0),
        (StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, 0, 1),
    ],
)
def test_heartbeats_of_share_and_streams_groups_pass_and_are_seen(
    request_type, response_type, version, when_relayed
):
    talk, api_key = a_talk(), request_type.__schema__.api_key
    frame = wire.request(api_key, version, 5, request_type(group_id="g", member_id="m"))
    assert client_sends(talk, frame) == frame
    assert [response for _, response in talk.passed] == [None] * when_relayed
    answer = wire.response(api_key, version, 5, response_type(member_id="m", member_epoch=1))
    assert broker_sends(talk, answer) == answer
    (request, response) = talk.passed[-1]
    assert (request.message.group_id, response.member_epoch) == ("g", 1)


@pytest.mark.parametrize(("partitions", "seen"), [(900, 1), (1001, 0)])
def test_an_assignment_with_too_many_elements_passes_unseen(partitions: int, seen: int):
    talk = a_talk()
    frame = wire.request(ApiKey.SYNC_GROUP, 3, 5, SyncGroupRequest(group_id="g", member_id="m"))
    client_sends(talk, frame)
    talk.forward(talk.request.id)
    topic = ConsumerProtocolTopicPartition(topic="t", partitions=tuple(range(partitions)))
    assignment = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=(topic,)), 1)
    answer = wire.response(ApiKey.SYNC_GROUP, 3, 5, SyncGroupResponse(assignment=assignment))
    assert broker_sends(talk, answer) == answer
    assert len(talk.passed) == seen


def test_a_connection_that_ends_while_the_broker_is_asked_about_its_client_is_freed():
    def ended() -> weakref.ref[Talk]:
        shell: list[Talk] = []  # leads back to the session, as the shell does in the process

        def go_on() -> None:
            shell[0].process()

        talk = a_talk(limits=Limits(first_group_call_max_bytes=2000), trusted=False, on_unblocked=go_on)
        shell.append(talk)
        question = client_sends(talk, join_of(owning(20_000)))
        assert read_header(question).api_key == ApiKey.METADATA
        return weakref.ref(talk)

    gone = ended()
    gc.collect()
    assert gone() is None
