"""Clients that fall silent while their coordinator, or the member log, is away: they are ended when both are back."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.admission.test_serving import served_member
from tests.translation.answers import A, commit_error, described, member
from tests.translation.bench import GROUP, Bench, owned
from tests.translation.member_log.bench import Replica, SharedLog
from tests.translation.member_log.test_ends import fall_silent, left
from translation.actions import EventKind
from translation.engine.reach import END_AGAIN_S
from translation.member_log.records import Kind, member_key
from translation.member_log.settings import FleetSettings
from translation.settings import TranslatorSettings

SESSION_S = 10.0
B = "epochgate-b"


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def answered_again(bench: Bench) -> None:
    """Another client of the group comes, and the coordinator answers whether it may act."""
    bench.heartbeat(bench.connect(), "somebody", 1)
    bench.calls = [call for call in bench.calls if hasattr(call.message, "member_epoch")]


def ends(bench: Bench) -> list[str]:
    """The members for which epoch -1 is under way."""
    return [call.message.member_id for call in bench.calls if getattr(call.message, "member_epoch", 0) == -1]


# -- one process --


def a_silent_member() -> Bench:
    """The only process, whose coordinator has been away for a minute; its member's client has not come back."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench._new_group = False
    bench.upstream_lost(connection)
    bench.advance(60)
    return bench


def test_a_deadline_that_passes_while_the_coordinator_is_away_ends_nothing() -> None:
    assert EventKind.SESSION_EXPIRED not in a_silent_member().kinds()


def test_a_client_has_a_whole_session_when_the_coordinator_answers_again() -> None:
    bench = a_silent_member()
    answered_again(bench)
    bench.advance(SESSION_S - 0.1)
    assert ends(bench) == []
    bench.advance(0.2)
    assert ends(bench) == ["epochgate-a"]


def test_an_end_whose_answer_is_lost_is_sent_again_when_the_coordinator_answers_again() -> None:
    bench = a_silent_member()
    answered_again(bench)
    bench.advance(SESSION_S)
    (call,) = (one for one in bench.calls if getattr(one.message, "member_epoch", 0) == -1)
    bench.upstream_lost(bench.translator._context.connections.connection(call.connection_id))  # type: ignore[arg-type]
    bench.advance(60)
    assert EventKind.SESSION_EXPIRED not in bench.kinds()
    answered_again(bench)
    bench.advance(SESSION_S + 0.1)
    assert ends(bench) == ["epochgate-a"]
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()


def test_a_coordinator_that_loads_its_groups_is_not_back_yet() -> None:
    """It answers a classic Heartbeat with NONE."""
    bench = a_silent_member()
    bench._lets_in = False
    bench.heartbeat(bench.connect(), "somebody", 1)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.NONE), bench.questions()[0])
    bench.calls.clear()
    bench.advance(2 * SESSION_S)
    assert ends(bench) == []


def test_a_client_that_joins_while_the_coordinator_loads_waits_for_the_end_of_what_it_left_behind() -> None:
    """Its own session ended during the outage; that of its old membership begins when the group is loaded."""
    bench = a_silent_member()
    bench._lets_in = False
    bench._new_group = True
    request = bench.join(bench.connect(), B)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.NONE), bench.questions()[0])
    bench.reply(described(member(A, epoch=1)))
    bench.answer_lookups()
    loaded_at = bench.now + 2.0
    while bench.now < loaded_at:
        bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        bench.advance(TranslatorSettings().load_retry_s)
        bench.answer_lookups()
    bench.beat(2)
    while ends(bench) != [A]:
        waits_on(bench)
    assert bench.now == pytest.approx(loaded_at + SESSION_S, abs=1.0)
    assert request not in bench.answers
    bench.reply(bench.heartbeat_answer(-1), next(call for call in bench.calls if call.message.member_id == A))
    waits_on(bench, orders=(0, 1))
    assert request in bench.answers
    assert bench.answers[request].generation_id == 2
    assert bench.now == pytest.approx(loaded_at + SESSION_S, abs=1.0)


@pytest.mark.parametrize(
    ("states", "polls"),
    [(["Assigning", "Reconciling", "Stable"], 3), ([None] * 30, 9)],
    ids=["described", "not described"],
)
def test_a_client_that_joins_after_an_outage_waits_until_its_group_has_settled(
    states: list[str | None], polls: int
) -> None:
    """Of a group that the broker does not describe it waits for two assignment intervals."""
    bench = a_silent_member()
    bench._new_group = True
    request = bench.join(bench.connect(), B)
    bench.answer_lookups()
    bench.beat(2)
    while ends(bench) != [A]:
        waits_on(bench, state="none is asked for")
    bench.reply(bench.heartbeat_answer(-1), next(call for call in bench.calls if call.message.member_id == A))
    waited = 0
    while request not in bench.answers:
        waits_on(bench, state=states[waited], orders=(0,) if waited < polls - 1 else (0, 1))
        waited += 1
    assert waited == polls


def test_the_broker_assigns_when_all_that_was_left_behind_has_ended() -> None:
    """It assigns once in each interval: a heartbeat between the ends of two members would have it do so too early."""
    bench = a_silent_member()
    bench._new_group = True
    bench.join(bench.connect(), B)
    bench.answer_lookups()
    bench.beat(2)
    heartbeats, keep_alive_s = 0, bench.translator._context.registry.find(GROUP, B).broker.keep_alive_s  # type: ignore[union-attr]
    began_at = bench.now
    while ends(bench) != [A]:
        bench.advance(TranslatorSettings().join_poll_s)
        for call in [call for call in bench.calls if getattr(call.message, "member_id", "") == B]:
            heartbeats += 1
            bench.reply(bench.heartbeat_answer(2), call)
        if any(call.api_key == ApiKey.METADATA for call in bench.calls):
            bench.reply_names()
    assert 0 < heartbeats <= (bench.now - began_at) / keep_alive_s
    (leave,) = (call for call in bench.calls if getattr(call.message, "member_epoch", 0) == -1)
    bench.reply(bench.heartbeat_answer(-1), leave)
    bench.advance(TranslatorSettings().join_poll_s)
    assert bench.heartbeat_call().message.member_id == B


def test_a_client_that_waits_for_its_group_keeps_nothing_from_the_others() -> None:
    """It was assigned all as the first that came after the outage. Its group settles when it has given some up."""
    bench = a_silent_member()
    bench._new_group = True
    request = bench.join(bench.connect(), B)
    bench.answer_lookups()
    bench.beat(2)
    while ends(bench) != [A]:
        waits_on(bench)
    bench.reply(bench.heartbeat_answer(-1), next(call for call in bench.calls if call.message.member_id == A))
    waits_on(bench, state="Reconciling", orders=(0, 1))
    waits_on(bench, state="Reconciling", orders=(0,))
    bench.advance(TranslatorSettings().join_poll_s)
    gives_up = bench.heartbeat_call().message
    assert (gives_up.member_id, owned(gives_up)) == (B, {})
    waits_on(bench, state="Stable", orders=(0,))
    assert request in bench.answers


def waits_on(bench: Bench, *, state: str | None = "Stable", **assigned: tuple[int, ...]) -> None:
    """A client that waits in JoinGroup, of which the broker answers each heartbeat, and what state its group is in."""
    bench.advance(TranslatorSettings().join_poll_s)
    for call in [call for call in bench.calls if getattr(call.message, "member_id", "") == B]:
        bench.reply(bench.heartbeat_answer(2, **assigned), call)
    if any(call.api_key == ApiKey.METADATA for call in bench.calls):
        bench.reply_names()
    for call in [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]:
        error = ErrorCode.NONE if state else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        bench.reply(described(state=state or "", error=error), call)


def test_a_member_that_nobody_can_end_is_forgotten_at_last() -> None:
    bench = a_silent_member()
    bench.advance(TranslatorSettings().out_of_reach_limit_s)
    assert EventKind.SESSION_EXPIRED in bench.kinds()
    assert bench.translator._context.registry.groups == {}


# -- several replicas --


def test_a_whole_session_begins_when_the_log_is_back(log: SharedLog) -> None:
    one = log.replica()
    one.client_disconnected(served_member(one))
    log.go_away()
    fall_silent(one, 3 * SESSION_S)
    log.come_back()
    came_back_at = log.now
    while Kind.EXPIRING not in log.kinds(A):
        fall_silent(one, 0.2)
    assert log.now - came_back_at == pytest.approx(SESSION_S, abs=FleetSettings().probe_away_s)
    assert log.now - came_back_at > SESSION_S / 2
    assert log.kinds(A)[-1] is Kind.EXPIRING
    one.reply(described(member(A)))  # no classic member is left behind
    assert one.leave_epochs() == [-1]


def after_an_outage(log: SharedLog) -> tuple[Replica, Replica]:
    """The coordinator of a member was away, and nobody has come back to its replica, but to another one: B."""
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    one.upstream_lost(connection)
    log.advance(60)
    other._new_group = True
    other.stable_member(other.connect(), (2,), member_id=B, epoch=2, session_timeout_ms=45_000)
    other._new_group = False
    return one, other


def test_another_replica_that_serves_a_member_shows_that_the_coordinator_is_back(log: SharedLog) -> None:
    after_an_outage(log)
    assert Kind.EXPIRING not in log.kinds(A)
    log.advance(SESSION_S)
    assert log.kinds(A)[-1] is Kind.EXPIRING


def test_a_replica_that_reaches_the_coordinator_ends_a_dead_member_of_another_that_does_not(
    log: SharedLog,
) -> None:
    one, other = after_an_outage(log)
    log.advance(SESSION_S + 2)
    assert one.leave_epochs() == []
    assert ends(other) == [A]
    while ends(other) != [other.heartbeats()[0].message.member_id]:
        other.beat(2)
    left(other)
    assert log.kinds(A)[-1] is Kind.ENDED


def test_a_dead_id_that_had_no_connection_is_ended_when_a_heartbeat_of_its_group_is_answered(
    log: SharedLog,
) -> None:
    """A coordinator that loads its groups lets the client in, and says no more when it is back."""
    one, other = after_an_outage(log)
    (member_b,) = other.translator._context.registry.groups[GROUP].members.values()
    other.upstream_lost(other.translator._context.connections.connection(member_b.connection_id))  # type: ignore[arg-type]
    log.advance(SESSION_S + 3)
    assert log.kinds(A)[-1] is Kind.EXPIRING
    one._lets_in = False
    one.heartbeat(one.connect(), B, 2)
    one.reply(HeartbeatResponse(error_code=ErrorCode.NONE), one.questions()[0])
    one.reply(described(member(B, epoch=2)))
    assert ends(one) == ends(other) == []
    one.beat(2)
    log.advance(END_AGAIN_S)
    assert ends(one) == [A]


def test_a_claim_by_another_replica_wins(log: SharedLog) -> None:
    one, other = after_an_outage(log)
    log.advance(SESSION_S - 4)
    other.heartbeat(other.connect(), A, 1)
    record = other.log.record(member_key(GROUP, A))
    assert record is not None
    assert record.kind is Kind.SERVED
    log.advance(5)
    assert Kind.EXPIRING not in log.kinds(A)
    assert (one.leave_epochs(), ends(other)) == ([], [])
    assert EventKind.SESSION_EXPIRED not in one.kinds()


# -- a wrong setting of the topic --


def test_a_client_that_goes_while_the_topic_has_a_wrong_setting_is_ended_when_it_is_mended(
    log: SharedLog,
) -> None:
    """Until then only the broker's session timeout ends its membership, and the log has it as served."""
    one = log.replica()
    served_member(one)
    one.log.pause_expiry(one.now, is_paused=True)
    fall_silent(one, SESSION_S + 1)
    assert one.translator._context.registry.find(GROUP, A) is None
    assert log.kinds(A) == [Kind.SERVED]
    one.log.pause_expiry(one.now, is_paused=False)
    log.settle()
    assert log.kinds(A) == [Kind.SERVED, Kind.EXPIRING]
    assert A in one.translator._context.registry.groups[GROUP].dead, (
        "epoch -1 goes out on the group's next connection"
    )


# -- beside replicas that do not write the log --


def test_who_went_silent_beside_a_replica_without_the_log_is_left_to_the_broker(log: SharedLog) -> None:
    """Its client may have been served there, and be on its way back."""
    one = log.replica()
    served_member(one)
    one.log.trust_silence(all_write=False)
    fall_silent(one, SESSION_S + 1)
    assert one.translator._context.registry.find(GROUP, A) is None
    one.log.trust_silence(all_write=True)
    log.settle()
    fall_silent(one, 2 * SESSION_S)
    assert log.kinds(A) == [Kind.SERVED]


def test_when_all_write_the_log_a_client_that_was_not_heard_has_a_whole_session(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    one.log.trust_silence(all_write=False)
    fall_silent(one, SESSION_S - 3)
    one.log.trust_silence(all_write=True)
    log.settle()
    fall_silent(one, SESSION_S - 1)
    assert log.kinds(A) == [Kind.SERVED]
    fall_silent(one, 2)
    assert log.kinds(A) == [Kind.SERVED, Kind.EXPIRING]


def test_a_wrong_setting_and_a_replica_without_the_log_keep_expiry_off_each_by_itself(log: SharedLog) -> None:
    one = log.replica()
    one.log.trust_silence(all_write=False)
    one.log.pause_expiry(one.now, is_paused=True)
    one.log.trust_silence(all_write=True)
    assert not one.log.settings.expires
    one.log.trust_silence(all_write=False)
    one.log.pause_expiry(one.now, is_paused=False)
    assert not one.log.settings.expires
    one.log.trust_silence(all_write=True)
    assert one.log.settings.expires
    assert not log.replica(expires=False).log.settings.expires


def test_an_older_generation_is_not_refused_for_good_while_the_log_is_away() -> None:
    """Another replica may have answered it since, and the newer one here has found nobody: the client tries again."""
    log = SharedLog()
    one = log.replica()
    connection = served_member(one)
    refused = one.commit(connection, A, 0)
    assert commit_error(one, refused) == ErrorCode.ILLEGAL_GENERATION
    log.go_away()
    unknown = one.commit(connection, A, 0)
    assert commit_error(one, unknown) == ErrorCode.COORDINATOR_NOT_AVAILABLE
