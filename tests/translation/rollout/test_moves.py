"""A move by steps is over when the policy has no steps for its group any more, whatever the log does meanwhile."""

from tests.translation.bench import GROUP
from tests.translation.live_groups import OBSERVE_ALL
from tests.translation.member_log.bench import Replica, SharedLog
from translation.member_log.group_records import MOVE, Move, Phase
from translation.policy.policy import Mode, Policy, Rule

BY_STEPS = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%")),))
AT_THE_SECOND = Move("1, 50%", number=1, step=1)


def phase(replica: Replica) -> str:
    move = replica.log.groups.of_group(GROUP)[MOVE].record.move
    assert move is not None
    return move.phase


def a_move(shared: SharedLog) -> Replica:
    replica = shared.replica(policy=BY_STEPS)
    replica.log.groups.write(GROUP, MOVE, shared.now, move=AT_THE_SECOND)
    return replica


def test_a_policy_without_steps_that_comes_while_the_log_is_away_ends_the_move_when_it_is_back() -> None:
    shared = SharedLog()
    replica = a_move(shared)
    shared.settle()
    shared.go_away()
    replica._do(replica.translator.set_policy(shared.now, OBSERVE_ALL))
    shared.come_back()
    assert phase(replica) == Phase.OVER


def test_a_policy_without_steps_that_comes_while_a_step_is_being_written_ends_the_move() -> None:
    shared = SharedLog()
    replica = a_move(shared)
    shared.settle()
    shared.is_held = True
    replica.log.groups.write(GROUP, MOVE, shared.now, move=AT_THE_SECOND)
    replica._do(replica.translator.set_policy(shared.now, OBSERVE_ALL))
    shared.is_held = False
    shared.settle()
    assert phase(replica) == Phase.OVER


def test_a_process_that_starts_with_a_policy_without_steps_ends_the_move() -> None:
    shared = SharedLog()
    before = a_move(shared)
    shared.settle()
    shared.replicas.remove(before)
    after = shared.replica(policy=OBSERVE_ALL)
    shared.settle()
    assert phase(after) == Phase.OVER
