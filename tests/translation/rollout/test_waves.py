"""Groups of a wave begin when those of the waves before are over; what nobody knows is not over."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TRANSLATE_ALL, Bench
from tests.translation.live_groups import OBSERVE_ALL, A, classic_group, described, loading
from tests.translation.member_log.bench import Replica, SharedLog
from tests.translation.moving.test_moving_by_steps import M
from translation.actions import Call, EventKind
from translation.member_log.counting import FORGET_MS
from translation.member_log.group_log import RENEW_MS, local_group_log
from translation.member_log.group_records import MOVE, GroupKey, GroupRecord, Move, Phase, StoredGroup
from translation.member_log.records import Writer
from translation.moving.slot_admission import WAVE_LOOK_AGAIN_S
from translation.moving.wave_progress import WAVE_CHECK_EVERY_S
from translation.policy.policy import Mode, Policy, Rule, Waves
from translation.policy.steps import Step, parse_steps
from translation.rollout.wave_counts import WaveCount, WaveCounts, WaveState, state_of, why_not_yet
from translation.settings import TranslatorSettings

STEPS = (1, "100%")
TEXT = "1, 100%"
SETTLED = Move(TEXT, number=1, step=1, settled_ms=5)


def wave(number: int, *groups: str, steps: tuple[int | str, ...] = STEPS) -> Rule:
    return Rule(groups=groups, mode=Mode.TRANSLATE, steps=steps, hold_s=0, wave=number)


def in_waves(*rules: Rule, share: str = "100%") -> Policy:
    return Policy(rules=rules, waves=Waves(share=share))


TWO_WAVES = in_waves(wave(1, "first", "second"), wave(2, GROUP))


def write(bench: Bench, group_id: str, move: Move) -> None:
    """Some replica has written how far another group is."""
    bench.translator._context.moves.records.write(group_id, MOVE, bench.now, move=move)


def passed_through(bench: Bench) -> list[str]:
    return [event.reason for event in bench.events if event.kind is EventKind.PASSED_THROUGH]


# -- the decision --------------------------------------------------------------------------------------------------


def count(number: int, **groups: int) -> WaveCount:
    return WaveCount(number, {WaveState(state): groups[state] for state in groups})


@pytest.mark.parametrize(
    ("before", "share", "why"),
    [
        ([], "100%", None),
        ([count(1, over=10)], "100%", None),
        ([count(1, over=9, moving=1)], "100%", "9 of 10 groups of wave 1 are over"),
        ([count(1, over=9, waiting=1)], "100%", "9 of 10 groups of wave 1 are over"),
        ([count(1, over=9, waiting=1)], "90%", None),
        ([count(1, over=9, waiting=2)], "90%", "9 of 11 groups of wave 1 are over"),
        ([count(1, over=9, held=1)], "90%", "1 of 10 groups of wave 1 are held or aborted"),
        ([count(1, over=9, aborted=1)], "90%", "1 of 10 groups of wave 1 are held or aborted"),
        ([count(1, over=1), count(2, moving=1)], "100%", "0 of 1 groups of wave 2 are over"),
        ([count(1, moving=1), count(2, over=1)], "100%", "0 of 1 groups of wave 1 are over"),
        (
            None,
            "1%",
            "a part of the member log can't be read, so it is not known whether those before it are over",
        ),
    ],
)
def test_a_wave_begins_when_enough_of_each_before_it_are_over_and_none_is_stopped(
    before: list[WaveCount] | None, share: str, why: str | None
) -> None:
    found = why_not_yet(3, before, parse_steps((share,))[0])
    assert found == (None if why is None else f"wave 3 waits: {why}")


def test_a_group_is_over_at_its_last_step_when_that_has_settled() -> None:
    rule = wave(1, "g")
    moving = Move(TEXT, number=1)
    assert state_of(None, rule) is WaveState.WAITING
    assert state_of(moving, rule) is WaveState.MOVING
    assert state_of(Move(TEXT, number=1, settled_ms=5), rule) is WaveState.MOVING, "of the first step"
    assert state_of(Move(TEXT, number=1, step=1), rule) is WaveState.MOVING
    assert state_of(SETTLED, rule) is WaveState.OVER
    assert state_of(Move("100%", number=1, settled_ms=5), rule) is WaveState.WAITING, "by other steps"
    assert state_of(Move(TEXT, phase=Phase.OVER, step=1, settled_ms=5), rule) is WaveState.WAITING
    assert state_of(Move(TEXT, phase=Phase.HELD, step=1, settled_ms=5), rule) is WaveState.HELD
    assert state_of(Move(TEXT, phase="of a later release"), rule) is WaveState.HELD
    assert state_of(Move(TEXT, phase=Phase.ABORTED), rule) is WaveState.ABORTED


# -- the counts ----------------------------------------------------------------------------------------------------

MOVES = (Move(TEXT, number=1), SETTLED, Move(TEXT, phase=Phase.HELD), Move("1", number=1))
NAMES = ("a", "b", "c", "in no wave")
POLICIES = (
    in_waves(wave(1, "a", "b"), wave(2, "c")),
    in_waves(wave(1, "a", steps=(1,)), wave(4, "b", "c")),
    OBSERVE_ALL,
)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(NAMES), st.sampled_from(MOVES)),
            st.sampled_from(POLICIES),
            st.just("lost"),
        ),
        max_size=20,
    )
)
def test_counts_that_are_kept_equal_those_that_are_made_anew(history: list[object]) -> None:
    log = local_group_log()
    kept = WaveCounts(log, POLICIES[0])
    policy = POLICIES[0]
    for position, event in enumerate(history):
        if isinstance(event, Policy):
            policy = event
            kept.set_policy(policy)
        elif event == "lost":
            log.lose(0)
        else:
            name, move = event  # type: ignore[misc]
            log._members.partitions[0].view.read_to(position)
            log.write(name, MOVE, float(position), move=move)
        told = [(one.wave, {state: n for state, n in one.groups.items() if n}) for one in kept.all()]
        anew: dict[int, Counter[WaveState]] = {}
        for group_id, number in policy.wave_of.items():
            stored = log.of_group(group_id).get(MOVE)
            state = state_of(None if stored is None else stored.record.move, policy.rule_for(group_id))
            anew.setdefault(number, Counter())[state] += 1
        assert dict(told) == anew


def test_a_record_that_is_forgotten_counts_as_none() -> None:
    log = local_group_log()
    counts = WaveCounts(log, in_waves(wave(1, "g")))
    log.write("g", MOVE, 0.0, move=SETTLED)
    assert counts.all() == [WaveCount(1, {WaveState.WAITING: 0, WaveState.OVER: 1})]
    log._is_local = False  # as in a fleet, where retention ends what nobody writes anew
    later = StoredGroup(5, FORGET_MS + 1, Writer(b"other"), GroupRecord(version=5, first=True, move=SETTLED))
    log.read(0, GroupKey("other", MOVE), later)
    assert counts.all() == [WaveCount(1, {WaveState.WAITING: 1, WaveState.OVER: 0})]


# -- one process ---------------------------------------------------------------------------------------------------


def test_clients_of_a_wave_that_waits_stay_classic_and_nobody_asks_the_broker_what_to_do() -> None:
    bench = Bench(policy=TWO_WAVES, new_group=False)
    write(bench, "first", SETTLED)
    write(bench, "second", Move(TEXT, number=1))
    assert bench.join(bench.connect(), "") in bench.forwarded
    assert passed_through(bench) == ["wave 2 waits: 1 of 2 groups of wave 1 are over"]
    connection = bench.connect()
    told = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)  # is it a member that is translated?
    assert told in bench.forwarded
    assert bench.heartbeat(connection, A, 4) in bench.forwarded
    assert bench.calls == []
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert (view.phase, view.text) == ("waiting", "wave 2 waits: 1 of 2 groups of wave 1 are over")
    assert bench.translator._context.moves.records.of_group(GROUP) == {}, "and no move has begun"


def test_they_move_once_the_wave_before_is_over() -> None:
    bench = Bench(policy=TWO_WAVES, new_group=False)
    connection = bench.connect()
    write(bench, "first", SETTLED)
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    write(bench, "second", SETTLED)
    assert bench.heartbeat(connection, A, 4) in bench.forwarded, "it is relayed for a while"
    bench.advance(WAVE_LOOK_AGAIN_S)
    told = bench.heartbeat(connection, A, 4)
    for answer in (NO_CONSUMER_GROUP, classic_group(), NO_CONSUMER_GROUP, classic_group()):
        bench.reply(answer)
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS, "it is not known here: converted after that"
    assert bench.translator.rollout.waves() == [
        WaveCount(1, {WaveState.WAITING: 0, WaveState.OVER: 2}),
        WaveCount(2, {WaveState.WAITING: 0, WaveState.MOVING: 1}),
    ]


def test_what_has_begun_goes_on_whatever_becomes_of_the_wave_before() -> None:
    bench = Bench(policy=TWO_WAVES, new_group=False)
    write(bench, GROUP, Move(TEXT, number=1))
    joined = bench.join(bench.connect(), "")
    bench.reply(described({A: (0, 5)}))
    assert bench.error(joined) == ErrorCode.MEMBER_ID_REQUIRED


def test_a_group_that_moves_as_a_whole_waits_for_its_wave_too() -> None:
    """At the step of 100 % nobody is counted, so nothing else would keep it."""
    whole = in_waves(wave(1, "first"), wave(2, GROUP, steps=("100%",)))
    bench = Bench(policy=whole, new_group=False)
    assert bench.join(bench.connect(), "") in bench.forwarded
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    assert bench.calls == []
    write(bench, "first", SETTLED)
    assert bench.error(bench.join(bench.connect(), "")) == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.calls == [], "nobody is counted"
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert view.text == "step 1 of 1 (100%)"


@pytest.mark.parametrize("whole", [classic_group(user_data=b"x"), classic_group(cut_short=True)])
def test_a_group_that_is_moved_all_at_once_is_moved_in_its_wave(whole: DescribeGroupsResponse) -> None:
    bench = Bench(policy=in_waves(wave(1, GROUP, steps=("100%",))))
    told = bench.heartbeat(bench.connect(), A, 4)
    for answer in (NO_CONSUMER_GROUP, whole, NO_CONSUMER_GROUP, whole, HeartbeatResponse()):
        bench.reply(answer)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def alone(policy: Policy) -> tuple[Bench, int]:
    """A group of one member, which is translated: no classic client is there that would ask for a slot."""
    bench = Bench(policy=policy, settings=TranslatorSettings(first_member_wait_s=0))
    connection = bench.connection = bench.connect()  # type: ignore[attr-defined]
    empty = DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),))
    request = bench.join(connection, "")
    while bench.calls:
        bench.reply(empty)
    assert bench.error(request) == ErrorCode.MEMBER_ID_REQUIRED
    return bench, bench.stable_member(connection, (0,), member_id=M)


def looks(bench: Bench, generation: int) -> list[Call]:
    """The Heartbeat of a translated member; return what the broker is asked beside it."""
    bench.heartbeat(bench.connection, M, generation)  # type: ignore[attr-defined]
    while any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in bench.calls):
        bench.beat(1)
    return list(bench.calls)


@pytest.mark.parametrize("steps", [("100%",), (1,), (1, "10%", "100%")])
def test_the_heartbeats_of_translated_members_bring_a_move_to_its_end(steps: tuple[int | str, ...]) -> None:
    bench, generation = alone(in_waves(wave(1, GROUP, steps=steps), wave(2, "next")))
    for _ in range(2 * len(steps)):
        for call in looks(bench, generation):
            bench.reply(described({M: (1, 5)}), call)
        bench.advance(WAVE_CHECK_EVERY_S / 2)
        assert looks(bench, generation) == [], "not so soon again"
        bench.advance(WAVE_CHECK_EVERY_S / 2)
    assert bench.translator.rollout.waves()[0] == WaveCount(
        1, {WaveState.WAITING: 0, WaveState.MOVING: 0, WaveState.OVER: 1}
    )
    assert looks(bench, generation) == [], "nobody asks any more"


@pytest.mark.parametrize(
    "answer",
    [described({M: (1, 5), A: (0, 5)}), described({}), NO_CONSUMER_GROUP, loading()],
    ids=["a classic member is left", "nobody is there", "no such group", "the broker does not say"],
)
def test_a_group_is_not_over_while_the_broker_does_not_say_so(answer: object) -> None:
    bench, generation = alone(in_waves(wave(1, GROUP, steps=("100%",)), wave(2, "next")))
    for call in looks(bench, generation):
        bench.reply(answer, call)
    while bench.calls:
        bench.reply(classic_group(state="Empty"))
    assert bench.translator.rollout.waves()[0].groups[WaveState.MOVING] == 1


def test_a_group_outside_waves_is_not_looked_after() -> None:
    bench, generation = alone(Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1,)),)))
    assert looks(bench, generation) == []


def test_a_connection_that_nobody_has_let_in_makes_nobody_ask() -> None:
    """Else whoever knows a member id could have all looks made where they find nothing."""
    bench, _ = alone(in_waves(wave(1, GROUP, steps=("100%",))))
    bench._lets_in = False
    bench.heartbeat(bench.connect("/10.0.0.9"), M, 7)
    assert {call.api_key for call in bench.calls} == {ApiKey.HEARTBEAT}, "who may act in the group?"
    assert bench.translator._context.moves.is_wave_check_due(
        GROUP, bench.translator._context.rules.rule_for(GROUP)
    )


def test_a_group_that_is_translated_already_begins_its_move_with_its_wave() -> None:
    bench, generation = alone(TRANSLATE_ALL)
    bench._do(bench.translator.set_policy(bench.now, TWO_WAVES))
    assert looks(bench, generation) == []
    assert bench.translator._context.moves.records.of_group(GROUP) == {}
    write(bench, "first", SETTLED)
    write(bench, "second", SETTLED)
    bench.advance(WAVE_CHECK_EVERY_S / 2)
    looks(bench, generation)
    bench.advance(WAVE_CHECK_EVERY_S / 2)
    for call in looks(bench, generation):
        bench.reply(described({M: (1, 5)}), call)
    assert bench.translator.rollout.waves()[1].groups[WaveState.MOVING] == 1


# -- several replicas ----------------------------------------------------------------------------------------------


def a_fleet(policy: Policy = TWO_WAVES) -> tuple[SharedLog, Replica]:
    shared = SharedLog()
    return shared, shared.replica(policy=policy)


def test_a_replica_that_starts_counts_what_the_log_has() -> None:
    shared, before = a_fleet()
    for group_id in ("first", "second"):
        write(before, group_id, SETTLED)
    shared.settle()
    after = shared.replica(policy=TWO_WAVES)
    assert after.translator.rollout.waves()[0].groups[WaveState.OVER] == 2
    assert after.translator.rollout.move_of(GROUP) is None, "and nothing is in the way"


def test_while_the_log_is_away_no_wave_begins() -> None:
    shared, replica = a_fleet()
    for group_id in ("first", "second"):
        write(replica, group_id, SETTLED)
    shared.settle()
    assert replica.translator.rollout.move_of(GROUP) is None
    shared.go_away()
    view = replica.translator.rollout.move_of(GROUP)
    assert view is not None
    assert "can't be read" in view.text
    shared.come_back()
    assert replica.translator.rollout.move_of(GROUP) is None


def test_records_of_waves_are_written_anew_while_nobody_uses_the_group() -> None:
    """Else a wave would be unfinished again five days after its groups were stopped."""
    shared, replica = a_fleet()
    write(replica, "first", SETTLED)
    write(replica, "of no wave", SETTLED)
    shared.settle()
    shared.advance(RENEW_MS / 1000 + 800)
    written = [key.group_id for key, _, record in shared.records if getattr(record, "move", None)]
    assert (written.count("first"), written.count("of no wave")) == (2, 1)


def test_a_share_of_a_wave_may_be_enough() -> None:
    bench = Bench(policy=in_waves(*TWO_WAVES.rules, share="50%"), new_group=False)
    assert bench.translator.rollout.move_of(GROUP) is not None
    write(bench, "first", SETTLED)
    assert bench.translator.rollout.move_of(GROUP) is None
    write(bench, "second", Move(TEXT, number=1, phase=Phase.HELD))
    assert bench.translator.rollout.move_of(GROUP) is not None
    assert Waves(share="50%").needed == Step(share=5000)
