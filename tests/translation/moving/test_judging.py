"""A move with gates: measured before anybody is told, stopped by what is missing, aborted and taken back by harm."""

import itertools

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, Bench
from tests.translation.live_groups import A, classic_group, described
from translation.actions import EventKind, RequestId
from translation.member_log.group_records import MOVE, Move, Phase
from translation.member_log.signals import GateState, Report, Window
from translation.policy.gates import AbortIf
from translation.policy.policy import Mode, Policy, Rule

M = "epochgate-a"
CALM = Window(ms=10_000, members=2, classic=1, owned_ms=20_000)
BAD = replace(CALM, disconnects=9)


def with_gates(*steps: int | str, **more: int) -> Policy:
    rule = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=steps, hold_s=0, abort_if=AbortIf(), **more)
    return Policy(rules=(rule,))


def report(bench: Bench, *windows: Window) -> None:
    """Ten seconds later this process reports."""
    bench.now += 10
    bench._do(bench.translator.rollout.handle_reports(bench.now, {GROUP: Report(windows=windows)}))


def move_of(bench: Bench) -> Move:
    stored = bench.translator._context.moves.records.of_group(GROUP)[MOVE].record.move
    assert stored is not None
    return stored


def says(bench: Bench) -> str:
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    return view.gates


def begun(*steps: int | str) -> Bench:
    """A group of A and of a member that is translated, which was measured before."""
    bench = Bench()
    bench.stable_member(bench.connect(), (0, 1), member_id=M)
    bench._do(bench.translator.set_policy(bench.now, with_gates(*steps or (1, "100%"))))
    bench._new_group = False
    bench.heartbeat(bench.connect(), A, 4)
    bench.reply(described({M: (1, 5), A: (0, 5)}))
    bench.reply(described({M: (1, 5), A: (0, 5)}))
    report(bench, CALM, CALM, CALM)
    report(bench, CALM, CALM, CALM)
    return bench


def test_nobody_is_told_before_the_group_is_measured() -> None:
    bench = Bench(policy=with_gates(1))
    for _ in range(2):
        bench.heartbeat(bench.connect(), A, 4)
        answers = itertools.cycle((NO_CONSUMER_GROUP, classic_group()))
        while bench.calls:
            bench.reply(next(answers))
        assert bench.answers == {}
        assert move_of(bench).baseline is None
        report(bench, CALM)
        bench.now += 60
    assert says(bench) in {GateState.BASELINE, GateState.MISSING}
    report(bench, CALM, CALM, CALM)
    baseline = move_of(bench).baseline
    assert baseline is not None
    assert baseline.owned == 2


@pytest.mark.parametrize("begins", ["heartbeat", "join"])
def test_a_group_whose_last_translated_member_leaves_while_it_is_measured_is_held(begins: str) -> None:
    """The process was started again, without a member log: it does not know that the group was converted before."""
    bench = Bench(policy=with_gates(1), new_group=False)

    def asks() -> RequestId:
        bench.now += 3
        connection = bench.connect()
        return bench.heartbeat(connection, A, 4) if begins == "heartbeat" else bench.join(connection, "")

    asks()
    while bench.calls:
        bench.reply(described({M: (1, 5), A: (0, 5)}))
    assert (says(bench), move_of(bench).converted) == (GateState.MISSING, True)
    report(bench, CALM, CALM, CALM)
    report(bench, CALM, CALM, CALM)
    assert says(bench) == GateState.CLEAR
    stays = asks()
    answers = itertools.cycle((NO_CONSUMER_GROUP, classic_group()))
    while bench.calls:
        bench.reply(next(answers))
    assert move_of(bench).phase == Phase.HELD
    assert stays in bench.forwarded


def test_three_windows_of_harm_abort_the_move_once_and_it_is_told() -> None:
    bench = begun()
    report(bench, BAD, CALM, CALM)
    assert says(bench) == GateState.SUSPECT
    report(bench, BAD, BAD, CALM)
    assert move_of(bench).phase == Phase.MOVING
    report(bench, BAD, BAD, BAD)
    aborted = move_of(bench)
    assert (aborted.phase, aborted.why.partition(":")[0]) == (Phase.ABORTED, "disconnects")
    told = [event.reason for event in bench.events if event.kind is EventKind.STEP_CHANGED]
    (text,) = (one for one in told if "aborted" in one)
    assert text == (
        "step 1 of 2 (1), aborted: disconnects: at least 54 a minute more than before the move, "
        "for 3 windows; 10 are allowed"
    )
    for _ in range(3):
        report(bench, CALM, CALM, CALM)
    assert move_of(bench) == aborted, "nothing but other steps ends it"


def aborted_bench() -> Bench:
    bench = begun()
    report(bench, BAD, BAD, BAD)
    assert move_of(bench).phase == Phase.ABORTED
    return bench


def test_the_translated_members_of_an_aborted_move_are_moved_back() -> None:
    bench = aborted_bench()
    connection = bench.connect()
    told = bench.heartbeat(connection, M, 1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(connection, M)
    bench.reply(
        bench.heartbeat_answer(1), bench.heartbeat_call()
    )  # the helper's, which joins before the last goes
    assert [(call.api_key, call.message.member_id) for call in bench.calls] == [(ApiKey.JOIN_GROUP, M)]


def test_newcomers_of_an_aborted_move_and_its_classic_members_pass_through() -> None:
    bench = aborted_bench()
    connection = bench.connect()
    joined = bench.join(connection, "")
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]
    bench.reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="another"))
    assert bench.answers[joined].member_id == "another"
    beat = bench.heartbeat(connection, A, 4)
    bench.reply(HeartbeatResponse())
    assert bench.error(beat) == ErrorCode.NONE
    assert bench.heartbeat(connection, A, 4) in bench.forwarded


def test_other_steps_begin_anew_after_an_aborted_move() -> None:
    bench = aborted_bench()
    bench._do(bench.translator.set_policy(bench.now, with_gates(1, "100%")))
    assert bench.translator._context.rules.rule_for(GROUP).mode is Mode.OBSERVE, "the steps are the same"
    bench._do(bench.translator.set_policy(bench.now, with_gates(2, "100%")))
    assert bench.translator._context.rules.rule_for(GROUP).mode is Mode.TRANSLATE
    assert bench.translator.rollout.move_of(GROUP) is None


def test_a_policy_without_steps_ends_an_aborted_move() -> None:
    bench = aborted_bench()
    bench._do(bench.translator.set_policy(bench.now, Policy(default=Mode.TRANSLATE)))
    assert bench.translator._context.rules.rule_for(GROUP).mode is Mode.TRANSLATE
    assert move_of(bench).phase == Phase.OVER


def test_the_next_step_waits_for_three_calm_windows() -> None:
    bench = begun()
    settled = replace(move_of(bench), settled_ms=1)
    moves = bench.translator._context.moves
    moves.records.write(GROUP, MOVE, bench.now, move=settled)

    def asks() -> int:
        bench.now += 3
        bench.heartbeat(bench.connect(), A, 4)
        while bench.calls:
            bench.reply(described({M: (1, 5), A: (0, 5)}))
        return move_of(bench).step

    report(bench, CALM, CALM, replace(CALM, told=1))
    assert (says(bench), asks()) == (GateState.WATCHING, 0)
    report(bench, CALM, CALM, CALM)
    assert says(bench) == GateState.CLEAR
    bench.heartbeat(bench.connect(), A, 4)
    while bench.calls and move_of(bench).step == 0:
        bench.reply(described({M: (1, 5), A: (0, 5)}))
    assert move_of(bench).step == 1


@pytest.mark.parametrize(
    "windows", [(BAD, CALM, CALM), (replace(CALM, fault="broker 1 can't be reached"),) * 3]
)
def test_nobody_is_told_while_the_gates_say_no(windows: tuple[Window, ...]) -> None:
    bench = begun(2, "100%")
    report(bench, *windows)
    bench.heartbeat(bench.connect(), A, 4)
    bench.now += 1
    while bench.calls:
        bench.reply(described({M: (1, 5), A: (0, 5)}))
    assert len(bench.forwarded) >= 1
    assert not any(
        getattr(one, "error_code", 0) == ErrorCode.UNKNOWN_MEMBER_ID for one in bench.answers.values()
    )


def test_gates_that_nobody_judges_any_more_stop_the_move() -> None:
    bench = begun()
    assert says(bench) == GateState.CLEAR
    bench.now += 30
    bench._do(bench.translator.handle_time(bench.now))
    assert says(bench) == GateState.MISSING
    assert bench.translator.rollout.gates_by_state() == {GateState.MISSING: 1}


def test_without_an_account_a_gate_on_the_lag_moves_nobody() -> None:
    rule = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1,), abort_if=AbortIf(lag=10))
    bench = Bench(policy=Policy(rules=(rule,)), new_group=False)
    assert bench.join(bench.connect(), "") in bench.forwarded
    (reason,) = (event.reason for event in bench.events if event.kind is EventKind.PASSED_THROUGH)
    assert reason == "its steps need the account of `fleet.kafka`, which asks for the lag (`abort_if`)"


@pytest.mark.parametrize(
    ("more", "message"),
    [({}, "it needs `steps`"), ({"steps": ("100%",)}, "needs a first step of less than 100%")],
)
def test_gates_without_steps_are_refused(more: dict[str, tuple[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rule(group=GROUP, mode=Mode.TRANSLATE, abort_if=AbortIf(), **more)
