"""Which member has a group instance id, also when two processes come with it at once (simulation found those races)."""

import pytest

from protocol_codecs import ErrorCode
from tests.translation.answers import described, member
from tests.translation.bench import Bench
from translation.actions import Connection
from translation.settings import TranslatorSettings

ONE_OF_MANY = TranslatorSettings(sole_process=False)


def test_the_join_group_that_waits_of_a_replaced_process_is_fenced() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    waiting = bench.join(old, "", instance_id="i-1")
    bench.beat(1)
    bench.join(new, "", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    bench.reply(described(member("epochgate-uuid-1", instance_id="i-1")))
    bench.beat(-2)
    assert bench.error(waiting) == ErrorCode.FENCED_INSTANCE_ID


def test_an_older_process_that_still_joins_does_not_replace_the_newer_one() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    older = bench.join(old, "", instance_id="i-1")
    first_heartbeat = bench.heartbeat_call()
    newer = bench.join(new, "", instance_id="i-1")
    bench.reply(bench.heartbeat_answer(1, orders=(0,)), bench.calls[-1])
    bench.reply_names()
    assert bench.error(newer) == ErrorCode.NONE
    bench.reply(bench.heartbeat_answer(0, ErrorCode.UNRELEASED_INSTANCE_ID), first_heartbeat)
    assert bench.error(older) == ErrorCode.FENCED_INSTANCE_ID
    assert not any(getattr(call.message, "member_epoch", 0) < 0 for call in bench.calls)


@pytest.mark.parametrize("settings", [TranslatorSettings(), ONE_OF_MANY])
def test_a_process_that_has_a_member_id_already_replaces_nobody(settings: TranslatorSettings) -> None:
    bench = Bench(settings=settings)
    older = bench.join(bench.connect(), "epochgate-old", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)  # the newer one came while this one was on its way
    bench.reply(described(member("epochgate-new", instance_id="i-1")))
    assert bench.error(older) == ErrorCode.FENCED_INSTANCE_ID
    assert bench.calls == []


def test_a_process_that_has_a_member_id_already_may_stand_in_its_own_way() -> None:
    bench = Bench()
    join = bench.join(bench.connect(), "epochgate-old", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    bench.reply(described(member("epochgate-old", instance_id="i-1")))
    away = bench.heartbeat_call().message
    assert (away.member_id, away.member_epoch) == ("epochgate-old", -2)
    bench.beat(-2)
    bench.beat(6, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_coordinator_that_can_not_release_the_instance_id_is_not_the_end_of_the_process(
    code: ErrorCode,
) -> None:
    """A deposed coordinator goes on refusing the newer process, and writes nothing."""
    bench = Bench()
    join = bench.join(bench.connect(), "", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    bench.reply(described(member("epochgate-old", instance_id="i-1")))
    bench.beat(-2, code)
    assert bench.error(join) == code
    assert bench.calls == []


def test_an_older_process_that_is_adopted_does_not_stop_the_newer_one_that_joins() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    old, new = bench.connect(), bench.connect()
    join = bench.join(new, "", instance_id="i-1")
    first_heartbeat = bench.heartbeat_call()
    bench.heartbeat(old, "epochgate-old", 5, instance_id="i-1")
    bench.reply(described(member("epochgate-old", epoch=5, instance_id="i-1")), bench.calls[-1])
    bench.reply(bench.heartbeat_answer(5), bench.calls[-1])
    bench.reply(bench.heartbeat_answer(0, ErrorCode.UNRELEASED_INSTANCE_ID), first_heartbeat)
    bench.reply(described(member("epochgate-old", epoch=5, instance_id="i-1")))
    away = bench.heartbeat_call().message
    assert (away.member_id, away.member_epoch) == ("epochgate-old", -2)
    bench.beat(-2)
    bench.beat(6, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_a_join_group_that_nobody_waits_for_any_more_replaces_nobody() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, "", instance_id="i-1")
    bench.client_disconnected(connection)
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    assert bench.calls == []


@pytest.mark.parametrize("settings", [TranslatorSettings(), ONE_OF_MANY])
def test_a_join_group_whose_client_hangs_up_while_the_instance_id_is_looked_up_replaces_nobody(
    settings: TranslatorSettings,
) -> None:
    """It may have joined since, through another process, under the id that the broker describes."""
    bench = Bench(settings=settings)
    connection = bench.connect()
    bench.join(connection, "", instance_id="i-1")
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    bench.client_disconnected(connection)
    bench.reply(described(member("epochgate-new", instance_id="i-1")))
    assert bench.calls == []


def test_a_heartbeat_that_waited_while_its_process_was_replaced_is_fenced() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1), member_id="epochgate-old", instance_id="i-1")
    waiting = bench.heartbeat(old, "epochgate-old", 1, instance_id="i-1")
    late_answer = bench.heartbeat_call()
    bench.join(new, "", instance_id="i-1")
    bench.reply(bench.heartbeat_answer(0, ErrorCode.UNRELEASED_INSTANCE_ID), bench.calls[-1])
    bench.reply(described(member("epochgate-old", instance_id="i-1")), bench.calls[-1])
    bench.reply(bench.heartbeat_answer(-2), bench.calls[-1])
    bench.reply(bench.heartbeat_answer(1), late_answer)
    assert bench.error(waiting) == ErrorCode.FENCED_INSTANCE_ID


def test_a_join_group_that_waited_while_its_process_was_replaced_is_fenced() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1), member_id="epochgate-old", instance_id="i-1")
    bench.heartbeat(old, "epochgate-old", 1, instance_id="i-1")
    slow = bench.heartbeat_call()
    waiting = bench.join(bench.connect(), "epochgate-old", instance_id="i-1")
    bench.join(new, "", instance_id="i-1")
    bench.reply(bench.heartbeat_answer(1), slow)
    assert bench.error(waiting) == ErrorCode.FENCED_INSTANCE_ID


def adopted(bench: Bench) -> Connection:
    """A connection whose client has sent a Heartbeat as a member that another process had served."""
    connection = bench.connect()
    bench.heartbeat(connection, "epochgate-a", 4)
    bench.reply(described(member("epochgate-a", epoch=5)))
    bench.beat(5)
    return connection


def test_a_new_process_with_the_same_instance_id_replaces_the_old_one_at_once() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1), member_id="epochgate-old", instance_id="i-1")
    join = bench.join(new, "", instance_id="i-1")
    # No MEMBER_ID_REQUIRED for static members.
    assert bench.heartbeat_call().message.member_id == "epochgate-uuid-1"
    bench.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    bench.reply(described(member("epochgate-old", instance_id="i-1")))
    away = bench.heartbeat_call().message
    assert (away.member_id, away.member_epoch, away.instance_id) == ("epochgate-old", -2, "i-1")
    bench.beat(-2)
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.beat(1, orders=(0, 1))
    assert bench.error(join) == ErrorCode.NONE
    # The old one is told on every call, and is not adopted again.
    assert (
        bench.error(bench.heartbeat(old, "epochgate-old", 1, instance_id="i-1"))
        == ErrorCode.FENCED_INSTANCE_ID
    )
    assert bench.error(bench.join(old, "epochgate-old", instance_id="i-1")) == ErrorCode.FENCED_INSTANCE_ID


def test_the_instance_id_goes_with_every_heartbeat() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), instance_id="i-1")
    bench.heartbeat(connection, "epochgate-a", 1, instance_id="i-1")
    assert bench.heartbeat_call().message.instance_id == "i-1"


def test_an_older_process_with_the_instance_id_fences_nobody_before_the_broker_was_asked() -> None:
    bench = Bench(new_group=False)
    bench.join(bench.connect(), "epochgate-older", instance_id="instance-1")
    commit = bench.commit(bench.connect(), "epochgate-newer", 3, instance_id="instance-1")
    assert commit not in bench.answers


def test_a_late_join_group_replaces_nobody_although_somebody_else_called_under_the_newer_ones_id() -> None:
    """Whether it is of the same client is told by the host of its last JoinGroup, which no other call moves."""
    bench = Bench()
    given_up, own, stranger = bench.connect(), bench.connect(), bench.connect("/10.9.9.9")
    join = bench.join(own, "", instance_id="i-1")
    bench.beat(1, orders=(0,))
    bench.sync(own, bench.answers[join].member_id, bench.answers[join].generation_id)
    bench.settle(1)
    bench.heartbeat(stranger, bench.answers[join].member_id, bench.answers[join].generation_id)
    bench.beat(1)
    late = bench.join(given_up, "", instance_id="i-1")
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []
