"""Records of groups and members are forgotten when nothing has to be remembered."""

import gc

from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.answers import A
from tests.translation.bench import GROUP, Bench
from translation.members.member import Member


def members_alive() -> int:
    return sum(isinstance(one, Member) for one in gc.get_objects())


def test_a_member_that_is_gone_needs_no_garbage_collector() -> None:
    """Full collections are seldom (``proxy.server.process``); what waits for one grows with the clients that come and
    go."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=10_000)
    gc.collect()
    gc.disable()
    try:
        before = members_alive()
        bench.advance(6)
        bench.beat(1)
        bench.client_disconnected(connection)
        bench.advance(4)
        bench.beat(-1)
        assert members_alive() == before - 1
    finally:
        gc.enable()


def test_nothing_is_remembered_of_a_group_that_everybody_left() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.leave(connection, A)
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert GROUP not in bench.translator._context.registry.groups
