"""A move by steps is rolled back: its translated members go back, and nobody of the group is translated any more."""

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, Bench
from tests.translation.live_groups import A, classic_group
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection
from translation.member_log.group_log import RENEW_MS
from translation.member_log.group_records import MOVE, GroupKey, Move, Phase
from translation.member_log.outputs import Settled
from translation.members.conversion import is_helper
from translation.policy.policy import Mode, Policy, Rule
from translation.rollout.next_step import roll_back

M = "epochgate-uuid-1"
BY_STEPS = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=0),))
OTHER_STEPS = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(2,), hold_s=0),))
FIRST = Move("1, 50%, 100%", number=1)
BACK = roll_back(FIRST, "lag grows", 5)


def write(bench: Bench, move: Move) -> None:
    bench.translator._context.now = bench.now
    assert bench.translator._context.moves.write_move(GROUP, move) is not None
    bench._do(bench.translator.take_actions(bench.now))


def test_what_a_rollback_says_of_the_move() -> None:
    assert replace(FIRST, phase="rolled_back", since_ms=5, why="lag grows") == BACK
    assert not BACK.is_moving


def test_a_translated_member_rejoins_as_a_classic_one_under_its_own_id() -> None:
    bench = Bench(policy=BY_STEPS)
    connection = bench.connect()
    write(bench, replace(FIRST, step=2))
    bench.stable_member(connection, (0, 1), member_id=M)
    write(bench, BACK)
    assert bench.error(bench.heartbeat(connection, M, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(connection, M)
    helper = bench.heartbeat_call()
    assert is_helper(helper.message.member_id)
    bench.reply(bench.heartbeat_answer(1), helper)
    assert [(call.api_key, call.message.member_id) for call in bench.calls] == [(ApiKey.JOIN_GROUP, M)]


def test_newcomers_stay_classic_whatever_its_step_was() -> None:
    bench = Bench(policy=BY_STEPS)
    write(bench, roll_back(replace(FIRST, step=2), "", 5))
    joined = bench.join(bench.connect(), "")
    assert (joined in bench.forwarded, bench.calls) == (True, [])


def test_a_classic_member_whose_turn_it_was_need_not_rejoin_any_more() -> None:
    bench = Bench(policy=BY_STEPS)
    beat = bench.heartbeat(bench.connect(), A, 4)
    for answer in (NO_CONSUMER_GROUP, classic_group(), NO_CONSUMER_GROUP, classic_group()):
        bench.reply(answer)
    move = bench.translator._context.moves.records.of_group(GROUP)[MOVE].record.move
    assert move is not None
    write(bench, roll_back(move, "", 5))
    bench.reply(HeartbeatResponse())
    assert (bench.error(beat), bench.calls) == (ErrorCode.NONE, [])


def test_a_client_that_was_told_before_does_not_begin_its_membership_after() -> None:
    bench = Bench(policy=BY_STEPS)
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    for answer in (NO_CONSUMER_GROUP, classic_group(), NO_CONSUMER_GROUP, classic_group()):
        bench.reply(answer)
    bench.reply(HeartbeatResponse())
    assert bench.error(bench.join(connection, "")) == ErrorCode.MEMBER_ID_REQUIRED
    bench._new_group = False
    joined = bench.join(connection, M)
    write(bench, BACK)
    while joined not in bench.answers:
        (call,) = bench.calls
        assert call.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT
        bench.reply(NO_CONSUMER_GROUP if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE else classic_group())
    assert bench.error(joined) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_policy_with_other_steps_begins_anew_and_the_same_steps_do_not() -> None:
    bench = Bench(policy=BY_STEPS)
    rules = bench.translator._context.rules
    write(bench, BACK)
    assert rules.rule_for(GROUP).mode is Mode.OBSERVE
    bench._do(bench.translator.set_policy(bench.now, BY_STEPS))
    assert rules.rule_for(GROUP).mode is Mode.OBSERVE
    bench._do(bench.translator.set_policy(bench.now, OTHER_STEPS))
    assert rules.rule_for(GROUP) is OTHER_STEPS.rules[0]


def test_a_policy_that_lets_nobody_in_does_so_in_a_group_that_was_rolled_back() -> None:
    bench = Bench(policy=BY_STEPS)
    write(bench, BACK)
    reject = Rule(group=GROUP, mode=Mode.REJECT)
    bench._do(bench.translator.set_policy(bench.now, Policy(rules=(reject,))))
    assert bench.translator._context.rules.rule_for(GROUP) is reject


def test_what_is_shown_of_it() -> None:
    bench = Bench(policy=BY_STEPS)
    write(bench, BACK)
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert view.text == "step 1 of 3 (1), rolled back: lag grows"
    assert bench.translator.rollout.moves_by_phase() == {Phase.ROLLED_BACK: 1}


# -- with a member log -------------------------------------------------------------------------------------------------


def mode(replica: Replica) -> Mode:
    return replica.translator._context.rules.rule_for(GROUP).mode


def test_every_replica_reacts_as_soon_as_it_has_read_it() -> None:
    shared = SharedLog()
    one, other = shared.replica(policy=BY_STEPS), shared.replica(policy=BY_STEPS)
    shared.is_held = True
    write(one, BACK)
    shared.settle()
    assert (mode(one), mode(other)) == (Mode.TRANSLATE, Mode.TRANSLATE), (
        "nothing counts before it is read back"
    )
    shared.is_held = False
    shared.settle()
    assert (mode(one), mode(other)) == (Mode.OBSERVE, Mode.OBSERVE)


def test_a_process_that_starts_holds_to_it() -> None:
    shared = SharedLog()
    before = shared.replica(policy=BY_STEPS)
    write(before, BACK)
    shared.settle()
    shared.replicas.remove(before)
    assert mode(shared.replica(policy=BY_STEPS)) is Mode.OBSERVE


def test_while_the_log_is_away_the_group_stays_rolled_back_and_after_it_what_the_log_says_counts() -> None:
    shared = SharedLog()
    replica = shared.replica(policy=BY_STEPS)
    write(replica, BACK)
    shared.settle()
    stored = replica.log.groups.of_group(GROUP)[MOVE]
    shared.go_away()
    replica.log.groups.lose(0)
    replica.translator.handle_log_outputs(shared.now, [Settled(GroupKey(GROUP, MOVE).member)])
    assert mode(replica) is Mode.OBSERVE, "what is read anew may be from before it"
    replica.log.groups.read(0, GroupKey(GROUP, MOVE), stored)
    shared.come_back()
    assert mode(replica) is Mode.OBSERVE
    write(replica, replace(FIRST, number=2))
    shared.settle()
    assert mode(replica) is Mode.TRANSLATE


def test_its_record_is_kept_as_long_as_its_classic_members_call() -> None:
    shared = SharedLog()
    replica = shared.replica(policy=BY_STEPS)
    write(replica, BACK)
    shared.settle()
    replica._lets_in = False
    line = replica.connect()
    relayed(replica, line)
    assert beats_for_some_hours(shared, replica, line) > 1


def test_a_stranger_who_calls_does_not_keep_it() -> None:
    """Its Heartbeats are relayed, and the broker has accepted none."""
    shared = SharedLog()
    replica = shared.replica(policy=BY_STEPS)
    write(replica, BACK)
    shared.settle()
    replica._lets_in = False
    assert beats_for_some_hours(shared, replica, replica.connect()) == 1


def relayed(replica: Replica, line: Connection) -> None:
    """A Heartbeat of A that the broker accepts."""
    beat = replica.heartbeat(line, A, 4)
    replica.reply(HeartbeatResponse())
    assert replica.error(beat) == ErrorCode.NONE


def beats_for_some_hours(shared: SharedLog, replica: Replica, line: Connection) -> int:
    """How many records of its move there are after a client has called for some hours."""
    for _ in range(3):
        shared.advance(RENEW_MS / 2000)
        replica.heartbeat(line, A, 4)
        code = ErrorCode.NONE if replica._lets_in else ErrorCode.GROUP_AUTHORIZATION_FAILED
        replica.reply(HeartbeatResponse(error_code=code))
    return sum(key[1] == MOVE for key, _, _ in shared.records)


@pytest.mark.parametrize("whom", [{"group": GROUP}, {"groups": (GROUP, "another")}, {"pattern": "pay.*"}])
def test_whatever_names_the_group_it_is_observed(whom: dict[str, object]) -> None:
    rule = Rule(mode=Mode.TRANSLATE, steps=(1, "100%"), **whom)
    bench = Bench(policy=Policy(rules=(rule,)))
    write(bench, replace(BACK, steps="1, 100%"))
    assert bench.translator._context.rules.rule_for(GROUP).mode is Mode.OBSERVE
