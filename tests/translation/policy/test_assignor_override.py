"""The policy says which server-side assignor a group has, and changes its mind while the group lives."""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.bench import GROUP, TRANSLATE_ALL, Bench, owned
from translation.actions import Connection, EventKind
from translation.policy.policy import Mode, Policy, Rule

UNIFORM = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, assignor="uniform"),))


def stable(policy: Policy = TRANSLATE_ALL) -> tuple[Bench, Connection]:
    """A member whose own assignor is range, and the connection of its client."""
    bench = Bench(policy)
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="range")
    bench.advance(0.5)
    return bench, connection


def sent(bench: Bench) -> ConsumerGroupHeartbeatRequest:
    message: ConsumerGroupHeartbeatRequest = bench.heartbeat_call().message
    return message


def test_a_changed_assignor_goes_upstream_at_once_alone_and_no_client_is_asked_to_join_again() -> None:
    bench, connection = stable()
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.advance(0.0)
    request = sent(bench)
    assert (request.member_epoch, request.server_assignor) == (1, "uniform")
    assert owned(request) is None
    assert request.subscribed_topic_names is None
    bench.beat(1)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    assert sent(bench).server_assignor is None  # it is told once
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_policy_that_says_no_more_which_assignor_gives_the_client_its_own_back() -> None:
    bench, _ = stable(UNIFORM)
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    bench.advance(0.0)
    assert sent(bench).server_assignor == "range"


def test_a_policy_with_the_same_assignor_sends_nothing() -> None:
    bench, _ = stable(UNIFORM)
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.advance(0.0)
    assert bench.calls == []


def test_a_changed_assignor_whose_answer_is_lost_goes_with_the_next_full_heartbeat() -> None:
    bench, connection = stable()
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.advance(0.0)
    bench.upstream_lost(connection)
    bench.heartbeat(bench.connect(), "epochgate-a", 1)
    request = sent(bench)
    assert request.server_assignor == "uniform"
    assert owned(request) == {"orders": (0, 1)}


def test_an_assignor_that_the_broker_does_not_have_is_given_up_and_the_client_goes_on() -> None:
    bench, connection = stable()
    unknown = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, assignor="magic"),))
    bench.translator.set_policy(bench.now, unknown)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    bench.beat(0, ErrorCode.UNSUPPORTED_ASSIGNOR)
    assert sent(bench).server_assignor is None
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
    (refused,) = [event for event in bench.events if event.kind is EventKind.CALL_REFUSED]
    assert refused.reason == "the broker does not have the assignor 'magic' that the policy says"


def test_a_join_group_that_waited_while_the_policy_changed_takes_the_new_assignor() -> None:
    bench, connection = stable()
    bench.heartbeat(connection, "epochgate-a", 1)
    bench.join(connection, "epochgate-a", protocol="range")
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.beat(1)
    assert sent(bench).server_assignor == "uniform"


def test_an_assignor_that_changes_while_the_first_heartbeat_is_under_way_goes_with_the_next() -> None:
    bench = Bench(TRANSLATE_ALL)
    connection = bench.connect()
    bench.join(connection, "epochgate-a", protocol="range")
    assert sent(bench).server_assignor == "range"
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.beat(1, orders=(0,))
    bench.sync(connection, "epochgate-a", 1)
    bench.heartbeat(connection, "epochgate-a", 1)
    assert sent(bench).server_assignor == "uniform"


def test_an_adopted_member_has_no_assignor_of_its_own_before_it_has_joined() -> None:
    bench, connection = stable()
    member = bench.translator._context.registry.member(GROUP, "epochgate-a")
    member.adopted = True
    bench.translator.set_policy(bench.now, UNIFORM)
    bench.heartbeat(connection, "epochgate-a", 1)
    assert sent(bench).server_assignor is None


def test_the_members_of_a_group_vote_for_one_assignor() -> None:
    """Kafka 4.4 never comes to rest with one vote for each of two."""
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), member_id="epochgate-first", protocol="range")
    bench.join(second, "epochgate-second", protocol="roundrobin")
    assert bench.heartbeat_call().message.server_assignor == "range"


def test_the_vote_of_a_group_is_another_when_the_member_that_it_was_of_has_left() -> None:
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), member_id="epochgate-first", protocol="range")
    bench.stable_member(second, (1,), member_id="epochgate-second", protocol="roundrobin", epoch=2)
    bench.leave(first, "epochgate-first")
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id="epochgate-first"),)))
    bench.advance(2)
    assert bench.heartbeat_call().message.server_assignor == "uniform"
