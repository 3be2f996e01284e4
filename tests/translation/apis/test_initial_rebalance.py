"""The initial rebalance: clients that start together are answered together, each with its final share."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from tests.translation.bench import GROUP, TOPIC, Bench, owned
from translation.actions import Connection, RequestId
from translation.settings import TranslatorSettings

DELAY_S = 3.0
AHEAD_S = 0.5
WAITS = TranslatorSettings(initial_rebalance_delay_s=DELAY_S)
ONE_OF_SEVERAL = TranslatorSettings(initial_rebalance_delay_s=DELAY_S, sole_process=False)
A, B, C = "epochgate-a", "epochgate-b", "epochgate-c"


class Broker:
    """What the broker says to each member's heartbeats, until the test says otherwise: (epoch, partitions or None)."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.says: dict[str, tuple[int, tuple[int, ...] | None]] = {}
        self.owned: dict[str, list[object]] = {}

    def answer(self) -> None:
        """Answer all heartbeats that wait."""
        while calls := [c for c in self.bench.calls if c.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]:
            member_id = calls[0].message.member_id
            self.owned.setdefault(member_id, []).append(owned(calls[0].message))
            epoch, partitions = self.says[member_id]
            topics: dict[str, Any] = {} if partitions is None else {TOPIC: partitions}
            self.bench.reply(self.bench.heartbeat_answer(epoch, **topics), calls[0])
            if any(call.api_key == ApiKey.METADATA for call in self.bench.calls):
                self.bench.reply_names()

    def let(self, seconds: float) -> None:
        """Let time pass, and answer every heartbeat."""
        until = self.bench.now + seconds
        while self.bench.translator.next_deadline() <= until:
            self.bench.advance(max(0.0, self.bench.translator.next_deadline() - self.bench.now))
            self.answer()
        self.bench.advance(until - self.bench.now)


def started(settings: TranslatorSettings = WAITS) -> tuple[Broker, Connection, RequestId]:
    """A first member, to which the broker has assigned everything."""
    bench = Bench(settings=settings)
    broker, connection = Broker(bench), bench.connect()
    request = bench.join(connection, A)
    broker.says[A] = 1, (0, 1)
    broker.answer()
    return broker, connection, request


def joined_by(broker: Broker, member_id: str, epoch: int) -> tuple[Connection, RequestId]:
    """Another client's JoinGroup; the broker has nothing for it yet."""
    connection = broker.bench.connect()
    request = broker.bench.join(connection, member_id)
    broker.says[member_id] = epoch, ()
    broker.answer()
    return connection, request


def test_the_only_member_of_a_new_group_is_answered_when_the_delay_has_passed() -> None:
    broker, connection, request = started()
    broker.let(DELAY_S - AHEAD_S - 0.01)
    assert request not in broker.bench.answers
    broker.let(0.02)
    assert broker.bench.answers[request].generation_id == 1
    assert broker.bench.handed(broker.bench.sync(connection, A, 1)) == {TOPIC: (0, 1)}


@pytest.mark.parametrize("settings", [WAITS, ONE_OF_SEVERAL])
def test_members_that_start_together_get_their_final_share_at_once(settings: TranslatorSettings) -> None:
    """The first one gives up what others are to have with its client's SyncGroup, and never before."""
    broker, one, first = started(settings)
    broker.let(0.2)
    other, second = joined_by(broker, B, 2)
    broker.says[A] = 1, (0,)  # it is to give up the other partition
    broker.let(2 * DELAY_S - AHEAD_S - 0.3)
    assert not {first, second} & broker.bench.answers.keys()
    broker.let(0.2)
    assert broker.bench.answers[first].generation_id == 1
    assert second not in broker.bench.answers
    assert set(map(str, broker.owned[A][1:])) == {"None"}

    sync = broker.bench.sync(one, A, 1)
    broker.says[A], broker.says[B] = (2, (0,)), (2, (1,))
    broker.answer()
    assert broker.owned[A][-1] == {}
    assert broker.bench.handed(sync) == {TOPIC: (0,)}
    assert broker.bench.answers[second].generation_id == 2
    assert broker.bench.handed(broker.bench.sync(other, B, 2)) == {TOPIC: (1,)}


def test_each_further_member_prolongs_the_wait_as_at_a_broker_up_to_fourteen_seconds() -> None:
    broker, _, request = started()
    for number in range(12):
        broker.let(1.1)
        joined_by(broker, f"epochgate-{number}", 2 + number)
        broker.says = {one: (2 + number, (0, 1) if one == A else ()) for one in broker.says}
    assert request not in broker.bench.answers
    broker.let(1.1)  # 14.3 s: the end, and one heartbeat of each
    assert request in broker.bench.answers


def test_the_wait_ends_before_three_quarters_of_a_short_rebalance_timeout() -> None:
    bench = Bench(settings=WAITS)
    broker = Broker(bench)
    request = bench.join(bench.connect(), A, rebalance_timeout_ms=2_000)
    broker.says[A] = 1, (0,)
    broker.answer()
    broker.let(1.0)
    assert request not in bench.answers
    broker.let(0.2)
    assert request in bench.answers


def test_a_client_that_came_with_the_first_has_time_to_wait_for_what_that_gives_up() -> None:
    """librdkafka's test 0102: two clients with a rebalance timeout of 9 s, which prolong the wait to its limit."""
    bench = Bench(settings=WAITS)
    broker, connection = Broker(bench), bench.connect()
    first = bench.join(connection, A, rebalance_timeout_ms=9_000)
    other = bench.connect()
    bench.join(other, B, rebalance_timeout_ms=9_000)
    broker.says[A], broker.says[B] = (1, (0, 1)), (2, ())
    broker.answer()
    broker.says[A] = 1, (0,)
    broker.let(5.4)
    assert first not in bench.answers
    broker.let(0.4)
    assert first in bench.answers
    sync = bench.sync(connection, A, 1)
    broker.says[A], broker.says[B] = (2, (0,)), (2, (1,))
    broker.answer()
    broker.let(0.3)
    assert bench.handed(sync) == {TOPIC: (0,)}
    assert bench.handed(bench.sync(other, B, 2)) == {TOPIC: (1,)}


def test_nobody_waits_in_a_group_that_has_members() -> None:
    bench = Bench(settings=WAITS, new_group=False)
    broker = Broker(bench)
    request = bench.join(bench.connect(), "")
    member_id = bench.answers[request].member_id
    request = bench.join(bench.connect(), member_id)
    (describe,) = (call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE)
    native = ConsumerGroupDescribeResponseMember(member_id="AAAAAAAAAAAAAAAAAAAAAA", member_type=1)
    group = ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, members=(native,))
    bench.reply(ConsumerGroupDescribeResponse(groups=(group,)), describe)
    broker.says[member_id] = 7, (0,)
    broker.answer()
    assert bench.answers[request].generation_id == 7


def test_a_consumer_group_that_everybody_has_left_waits_for_its_members_again() -> None:
    bench = Bench(settings=WAITS, new_group=False)
    broker = Broker(bench)
    request = bench.join(bench.connect(), "")
    member_id = bench.answers[request].member_id
    request = bench.join(bench.connect(), member_id)
    (describe,) = (call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE)
    group = ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, group_state="Empty")
    bench.reply(ConsumerGroupDescribeResponse(groups=(group,)), describe)
    broker.says[member_id] = 7, (0,)
    broker.answer()
    assert request not in bench.answers
    broker.let(DELAY_S)
    assert bench.answers[request].generation_id == 7


def test_who_comes_after_the_end_waits_for_partitions_only() -> None:
    broker, _, first = started()
    broker.let(DELAY_S)
    assert first in broker.bench.answers
    connection = broker.bench.connect()
    request = broker.bench.join(connection, B)
    broker.says[B] = 2, (1,)
    broker.answer()
    assert broker.bench.answers[request].generation_id == 2


def test_a_member_for_which_nothing_is_left_is_answered_when_its_group_has_settled() -> None:
    broker, _, _first = started()
    broker.let(0.2)
    _, second = joined_by(broker, B, 2)
    broker.says[A] = 2, (0, 1)
    broker.let(2 * DELAY_S - AHEAD_S + 0.2)
    assert broker.bench.answers[second].generation_id == 2


def test_one_of_several_processes_does_not_take_its_members_for_the_whole_group() -> None:
    broker, _, _first = started(ONE_OF_SEVERAL)
    broker.let(0.2)
    _, second = joined_by(broker, B, 2)
    broker.says[A] = 2, (0, 1)
    broker.let(2 * DELAY_S)
    assert second not in broker.bench.answers
    broker.says[B] = 3, (2,)
    broker.let(1.0)
    assert broker.bench.answers[second].generation_id == 3


def test_a_second_join_group_of_a_client_waits_on_and_answers_the_first_too() -> None:
    broker, _, first = started()
    broker.let(1.0)
    again = broker.bench.join(broker.bench.connect(), A)
    broker.answer()
    broker.let(DELAY_S - AHEAD_S - 1.0 - 0.01)
    assert not {first, again} & broker.bench.answers.keys()
    broker.let(0.02)
    assert broker.bench.answers[first] == broker.bench.answers[again]


def test_a_client_that_hangs_up_while_it_waits_is_not_answered_and_its_member_ends_with_its_session() -> None:
    broker, connection, first = started()
    broker.let(1.0)
    broker.bench.client_disconnected(connection)
    broker.says[A] = -1, None
    broker.let(DELAY_S + 11.0)
    assert first not in broker.bench.answers
    assert broker.bench.translator._context.registry.find(GROUP, A) is None


def test_what_comes_last_before_the_end_is_waited_for_with_what_others_give_up() -> None:
    """Two members have partitions to give up; the third gets its whole share when both have."""
    broker, one, _first = started()
    broker.says[A] = 1, (0, 1, 2, 3)
    broker.let(0.2)
    other, second = joined_by(broker, B, 2)
    _, third = joined_by(broker, C, 3)
    broker.says[A], broker.says[B] = (1, (0, 1)), (2, (2, 3))
    broker.let(2.0)
    broker.says[A], broker.says[B] = (1, (0,)), (2, (2,))
    broker.let(2 * DELAY_S - AHEAD_S - 2.2 + 0.1)
    assert second in broker.bench.answers
    sync_one = broker.bench.sync(one, A, 1)
    broker.says[A], broker.says[C] = (3, (0,)), (3, (1,))
    broker.answer()
    broker.let(0.3)
    assert third not in broker.bench.answers  # the second one has still to give something up
    assert sync_one not in broker.bench.answers
    sync_other = broker.bench.sync(other, B, 2)
    broker.says[B], broker.says[C] = (3, (2,)), (3, (1, 3))
    broker.answer()
    broker.let(0.3)
    assert broker.bench.handed(sync_one) == {TOPIC: (0,)}
    assert broker.bench.handed(sync_other) == {TOPIC: (2,)}
    assert broker.bench.answers[third].error_code == ErrorCode.NONE
