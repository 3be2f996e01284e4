"""LeaveGroup: relayed to the broker, and the end of the memberships that it names."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.translation.answers import A
from tests.translation.bench import GROUP, Bench
from translation.actions import EventKind


def test_leave_group_is_the_brokers_and_ends_the_member() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.leave(connection, A)
    (call,) = bench.calls
    assert call.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert bench.answers[request].members[0].error_code == ErrorCode.NONE
    assert bench.kinds()[-1] is EventKind.LEFT
    bench.client_disconnected(connection)
    assert bench.released == [connection.id]


def test_leave_group_of_several_members_by_member_id_and_by_instance_id() -> None:
    bench = Bench()
    bench.stable_member(bench.connect(), (0,), member_id="epochgate-a", protocol="cooperative-sticky")
    bench.stable_member(
        bench.connect(), (1,), member_id="epochgate-b", instance_id="i-1", protocol="cooperative-sticky"
    )
    identities = (
        MemberIdentity(member_id="epochgate-a"),
        MemberIdentity(member_id="", group_instance_id="i-1"),
        MemberIdentity(member_id="stranger"),
    )
    admin = bench.connect()
    leave = bench.send(admin, ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=identities))
    bench.answer_lookups()
    bench.reply(
        LeaveGroupResponse(
            members=(
                MemberResponse(member_id="epochgate-a"),
                MemberResponse(member_id="", group_instance_id="i-1"),
                MemberResponse(member_id="stranger", error_code=ErrorCode.UNKNOWN_MEMBER_ID),
            )
        )
    )
    codes = [one.error_code for one in bench.answers[leave].members]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.translator._context.registry.find(GROUP, "epochgate-a") is None
    assert bench.translator._context.registry.find(GROUP, "epochgate-b") is None


def test_leave_group_before_version_3_names_one_member() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = LeaveGroupRequest(group_id=GROUP, member_id="epochgate-a")
    leave = bench.send(connection, ApiKey.LEAVE_GROUP, 2, request)
    bench.answer_lookups()
    bench.reply(LeaveGroupResponse())
    assert bench.error(leave) == ErrorCode.NONE
    assert bench.translator._context.registry.find(GROUP, "epochgate-a") is None


def test_a_leave_group_that_the_broker_does_not_do_becomes_epoch_minus_1() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0,))
    leave = bench.leave(connection, "epochgate-a")
    refused = MemberResponse(member_id="epochgate-a", error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(LeaveGroupResponse(members=(refused,)))
    request = bench.heartbeat_call().message
    assert (request.member_id, request.member_epoch) == ("epochgate-a", -1)
    bench.beat(-1)
    assert bench.answers[leave].members[0].error_code == ErrorCode.NONE


def test_an_answer_to_a_leave_group_that_is_about_other_members_is_an_error_of_the_server() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.leave(connection, A)
    bench.reply(LeaveGroupResponse())
    assert bench.answers[request].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.kinds()[-1] is not EventKind.LEFT
