"""Members of the new protocol in a translated group are left alone."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from protocol_codecs.messages.offset_commit import OffsetCommitResponse
from tests.translation.bench import GROUP, Bench
from tests.translation.live_groups import described, joins_cut_short, mixed_group
from tests.translation.victim import VICTIM, a_victim, heartbeat_succeeds

NATIVE = "vvT4/e3hRkqyt1NzTWv0cA"
NATIVE_IDS = [NATIVE, "Wv6fceSXTeWfbSvp3EbAoA", "OO7mw8SJ3_QwRA_ktvzo-A=="]
"""As librdkafka 2.16, Java 4.4 and franz-go 1.22 make them."""


@pytest.mark.parametrize("member_id", NATIVE_IDS)
def test_a_commit_of_a_native_member_passes_through(member_id: str) -> None:
    bench = Bench(new_group=False)
    commit = bench.commit(bench.connect(), member_id, 12, version=9)
    assert bench.forwarded == [commit]
    assert bench.calls == []
    assert bench.translator.next_deadline() == float("inf")


def test_a_native_member_is_known_by_its_heartbeat_whatever_its_id_looks_like() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=VICTIM, member_epoch=0)
    heartbeat = bench.send(connection, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    bench.relayed_response(
        connection, heartbeat, ConsumerGroupHeartbeatResponse(member_id=VICTIM, member_epoch=3)
    )
    commit = bench.commit(connection, VICTIM, 3, version=9)
    assert bench.forwarded == [heartbeat, commit]
    leaves = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=VICTIM, member_epoch=-1)
    left = bench.send(connection, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, leaves)
    bench.relayed_response(
        connection, left, ConsumerGroupHeartbeatResponse(member_id=VICTIM, member_epoch=-1)
    )
    bench.commit(connection, VICTIM, 3, version=9)
    assert [call.api_key for call in bench.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]  # it may be translated


def test_a_heartbeat_upstream_in_the_name_of_a_translated_member_makes_it_no_native_one() -> None:
    bench, own = a_victim()
    stranger = bench.connect()
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=VICTIM, member_epoch=1)
    heartbeat = bench.send(stranger, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    bench.relayed_response(
        stranger, heartbeat, ConsumerGroupHeartbeatResponse(member_id=VICTIM, member_epoch=1)
    )
    heartbeat_succeeds(bench, own)


def test_a_classic_member_of_a_mixed_group_is_given_an_id_of_ours_when_it_is_moved() -> None:
    """The broker gave it an id as native members have; another process would take it for one of them. Its JoinGroup is
    not relayed, because brokers can't read it in a consumer group."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    join = joins_cut_short(bench, connection, NATIVE, version=4)
    bench.reply(mixed_group(NATIVE))
    (left,) = bench.calls
    assert left.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse())
    while bench.calls and bench.calls[0].api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
        bench.reply(mixed_group("another"))
    answer = bench.answers[join]
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "epochgate-uuid-1")


def test_a_member_that_was_taken_for_a_classic_client_is_let_go_when_its_own_heartbeat_passes() -> None:
    """Its id looks like one that a classic coordinator gave out."""
    native = "app-7b4e1f0c-0000-4000-8000-000000000001"
    bench = Bench(new_group=False)
    connection = bench.connect()
    commit = bench.commit(connection, native, 5, version=9)
    bench.reply(described({native: (1, 5)}))
    bench.reply(OffsetCommitResponse())
    assert commit in bench.answers
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=native, member_epoch=5)
    heartbeat = bench.send(connection, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    bench.relayed_response(
        connection, heartbeat, ConsumerGroupHeartbeatResponse(member_id=native, member_epoch=5)
    )
    bench.advance(60)
    assert bench.calls == []
    relayed = bench.commit(connection, native, 5, version=9)
    assert relayed in bench.forwarded


def test_a_native_member_that_joined_as_a_classic_one_is_a_native_one_no_more() -> None:
    bench = Bench(new_group=False)
    natives = bench.translator._context.natives
    natives.add(GROUP, NATIVE)
    connection = bench.connect()
    join = bench.join(connection, NATIVE)
    bench.relayed_response(connection, join, JoinGroupResponse(member_id=NATIVE, generation_id=3))
    assert (GROUP, NATIVE) not in natives
