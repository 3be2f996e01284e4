"""A live group moves by steps: who is told, who is translated, and who stays classic."""

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, Bench
from tests.translation.live_groups import (
    A,
    B,
    classic_group,
    described,
    helper_converts,
    known_classic_member,
    mixed_group,
)
from translation.actions import Connection, EventKind, RequestId
from translation.member_log.group_records import MOVE, Phase, Proof, Slot, slot_name
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

M = "epochgate-uuid-1"


def by_steps(*steps: int | str, hold_s: int = 0) -> Policy:
    return Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=steps, hold_s=hold_s),))


def slots_of(bench: Bench) -> dict[int, Slot | None]:
    slots = bench.translator._context.moves.slots(GROUP)
    return {number: stored.record.slot for number, stored in slots.items()}


def told_in_a_classic_group(bench: Bench, connection: Connection) -> None:
    """A's Heartbeat, up to the question whether it is still a member."""
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())  # can it be converted?
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())  # who is in it?


def test_a_classic_member_has_a_slot_before_it_is_converted() -> None:
    bench = Bench(policy=by_steps(1))
    connection = bench.connect()
    known_classic_member(bench, connection)
    told_in_a_classic_group(bench, connection)
    assert slots_of(bench) == {1: Slot(member_id=A, leaves=A)}
    bench.reply(HeartbeatResponse())
    bench.reply(bench.heartbeat_answer(4, orders=(0, 1)), helper_converts(bench))
    (slot,) = slots_of(bench).values()
    assert slot is not None
    assert (slot.member_id, slot.begun) == (A, True)
    assert [answer.error_code for answer in bench.answers.values()] == [ErrorCode.NONE]
    assert [event.reason for event in bench.events if event.kind is EventKind.STEP_CHANGED] == [
        "step 1 of 1 (1)"
    ]


def test_a_member_that_has_to_rejoin_before_it_is_converted_gives_its_slot_back() -> None:
    """Its JoinGroup has not passed through here."""
    bench = Bench(policy=by_steps(1))
    told_in_a_classic_group(bench, bench.connect())
    bench.reply(HeartbeatResponse())
    assert [answer.error_code for answer in bench.answers.values()] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert slots_of(bench) == {1: Slot()}


def test_a_member_that_is_not_told_after_all_gives_its_slot_back() -> None:
    bench = Bench(policy=by_steps(1))
    told_in_a_classic_group(bench, bench.connect())
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert slots_of(bench) == {1: Slot()}


def test_an_id_that_nobody_has_takes_no_slot_and_begins_no_move() -> None:
    """Else whoever may read the group could fill the member log."""
    bench = Bench(policy=by_steps(1))
    bench.heartbeat(bench.connect(), B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    assert slots_of(bench) == {}
    assert bench.translator.rollout.move_of(GROUP) is None


class Refused(Bench):
    """A newcomer has a slot, and a client has joined meanwhile by which its group can't be converted."""

    def __init__(self) -> None:
        super().__init__(policy=by_steps(1), new_group=False)
        self.line = self.connect()
        self.join(self.line, "")
        self.reply(NO_CONSUMER_GROUP)
        self.reply(classic_group())
        assert slots_of(self) == {1: Slot(member_id=M)}

    def not_converted(self) -> RequestId:
        joined = self.join(self.line, M)
        for _ in range(2):  # is somebody in it, and can it be converted?
            self.reply(NO_CONSUMER_GROUP)
            self.reply(classic_group(protocol_type="another"))
        return joined


def test_a_newcomer_whose_group_is_not_converted_gives_its_slot_back() -> None:
    bench = Refused()
    assert bench.not_converted() in bench.forwarded
    assert slots_of(bench) == {1: Slot()}


def test_a_slot_that_somebody_has_begun_with_is_not_free_because_a_join_group_is_relayed() -> None:
    bench = Refused()
    begun = Slot(member_id=M, begun=True)
    bench.translator._context.moves._write(GROUP, 1, begun)
    assert bench.not_converted() in bench.forwarded
    assert slots_of(bench) == {1: begun}


def test_a_client_that_comes_while_its_group_stays_classic_gives_its_slot_back() -> None:
    """It was given an id, and another client has found out meanwhile that the group is not converted."""
    bench = Refused()
    bench.translator._context.registry.group(GROUP).migration.relay_for(60.0, bench.now)
    joined = bench.join(bench.line, M)
    assert joined in bench.forwarded
    assert slots_of(bench) == {1: Slot()}


def test_nobody_frees_the_slot_of_a_client_that_another_process_gave_its_id() -> None:
    """That process may be beginning the membership."""
    bench = Refused()
    other = Slot(member_id="epochgate-of-another-one")
    bench.translator._context.moves._write(GROUP, 2, other)
    bench.translator._context.registry.group(GROUP).migration.relay_for(60.0, bench.now)
    bench.join(bench.line, "epochgate-of-another-one")
    assert slots_of(bench)[2] == other


def test_a_newcomer_beyond_the_step_becomes_a_classic_member_as_it_came() -> None:
    bench = Bench(policy=by_steps(1), new_group=False)
    joined = bench.join(bench.connect(), "")
    bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))
    assert joined in bench.forwarded
    assert slots_of(bench) == {}


def test_a_newcomer_within_the_step_is_given_an_id_with_a_slot() -> None:
    bench = Bench(policy=by_steps("50%"), new_group=False)
    joined = bench.join(bench.connect(), "")
    bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))  # two of three with it
    assert bench.error(joined) == ErrorCode.MEMBER_ID_REQUIRED
    assert slots_of(bench) == {1: Slot(member_id=M)}


def test_a_classic_member_that_rejoins_is_not_converted_for_that() -> None:
    """Without steps a mixed group's member that owns nothing is."""
    bench = Bench(policy=by_steps(3), new_group=False)
    joined = bench.join(bench.connect(), A)
    bench.reply(mixed_group(A))
    assert joined in bench.forwarded


def test_a_classic_member_whose_client_id_begins_as_our_ids_do_is_a_classic_one() -> None:
    own = "epochgate-app-cbcbf785-f490-4773-9817-72d9dcefcc3c"
    bench = Bench(policy=by_steps(3), new_group=False)
    joined = bench.join(bench.connect(), own)
    bench.reply(mixed_group(own))
    assert joined in bench.forwarded


@pytest.mark.parametrize("refusal", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_an_id_of_ours_that_the_broker_does_not_have_is_relayed_without_it(refusal: ErrorCode) -> None:
    bench = Bench(policy=by_steps(1), new_group=False)
    bench.join(bench.connect(), "epochgate-gone")
    full = described({"epochgate-other": (1, 5), A: (0, 5)})
    bench.reply(full)
    bench.reply(full)
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-gone")
    bench.reply(JoinGroupResponse(error_code=refusal))
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "")


def test_an_id_of_ours_without_a_slot_stays_the_member_that_went_back_under_it() -> None:
    """Under another id its membership would be left behind, and take part until its session timeout."""
    own = "epochgate-back"
    bench = Bench(policy=by_steps(1), new_group=False)
    joined = bench.join(bench.connect(), own)
    full = described({"epochgate-other": (1, 5), own: (0, 5)})
    bench.reply(full)
    bench.reply(full)
    bench.reply(JoinGroupResponse(member_id=own, generation_id=5))
    assert (bench.answers[joined].member_id, bench.calls) == (own, [])


def test_a_new_process_with_the_instance_id_of_a_translated_member_takes_its_place() -> None:
    """As a classic member it would replace it at once, and the broker would make the group a classic one."""
    bench = Bench(policy=by_steps(1), new_group=False)
    bench.join(bench.connect(), "", instance_id="one")
    group = described({"epochgate-old": (1, 5), A: (0, 5)}).groups[0]
    old, classic = group.members
    with_instance = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP,
        assignment_epoch=5,
        members=(
            type(old)(member_id=old.member_id, member_epoch=5, member_type=1, instance_id="one"),
            classic,
        ),
    )
    answer = ConsumerGroupDescribeResponse(groups=(with_instance,))
    bench.reply(answer)
    while not any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in bench.calls):
        bench.reply(answer)
    assert bench.heartbeat_call().message.member_epoch == 0
    assert bench.forwarded == []


def test_a_new_process_with_the_instance_id_of_a_classic_member_makes_the_group_no_larger() -> None:
    """The step allows one of two members, and one is translated: the restarted one is not the third."""
    bench = Bench(policy=by_steps("50%"), new_group=False)
    joined = bench.join(bench.connect(), "", instance_id="one")
    (group,) = described({"epochgate-other": (1, 5), A: (0, 5)}).groups
    members = tuple(
        msgspec.structs.replace(one, instance_id="one") if one.member_id == A else one
        for one in group.members
    )
    answer = ConsumerGroupDescribeResponse(groups=(msgspec.structs.replace(group, members=members),))
    bench.reply(answer)  # is a translated member to be replaced?
    bench.reply(answer)  # is there a slot?
    assert joined in bench.forwarded
    assert slots_of(bench) == {}


def test_a_group_whose_last_translated_member_has_left_is_held() -> None:
    bench = Bench(policy=by_steps(1), new_group=False)
    connection = bench.connect()
    bench.join(connection, "")
    bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))
    bench.advance(3)
    joined = bench.join(connection, "")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    assert joined in bench.forwarded
    move = bench.translator.rollout.move_of(GROUP)
    assert move is not None
    assert (move.phase, bench.translator.rollout.moves_by_phase()) == (Phase.HELD, {Phase.HELD: 1})
    again = bench.join(connection, "")
    assert again in bench.forwarded
    assert bench.calls == [], "nobody asks any more"


def test_an_answer_from_before_the_group_was_converted_does_not_hold_the_move() -> None:
    """Another client joined while the broker was asked: the group was still a classic one then, and is none again."""
    bench = Bench(policy=by_steps(2), new_group=False)
    bench.join(bench.connect(), "")
    moves = bench.translator._context.moves
    move = moves.move(GROUP, bench.translator._context.rules.rule_for(GROUP))
    assert move is not None
    filled = Slot(member_id="epochgate-other", begun=True, number=move.number)
    moves.records.write(GROUP, slot_name(1), bench.now, slot=filled)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    assert bench.translator.rollout.moves_by_phase() == {Phase.MOVING: 1}


def test_other_steps_begin_anew_and_no_steps_end_the_move() -> None:
    bench = Bench(policy=by_steps(1), new_group=False)
    bench.join(bench.connect(), "")
    bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))
    bench._do(bench.translator.set_policy(bench.now, by_steps(2)))
    assert bench.translator.rollout.move_of(GROUP) is None
    bench._do(bench.translator.set_policy(bench.now, Policy(default=Mode.OBSERVE)))
    assert bench.translator.rollout.moves_by_phase() == {}


def test_several_processes_without_a_member_log_move_nobody_by_steps() -> None:
    bench = Bench(policy=by_steps(1), settings=TranslatorSettings(sole_process=False), new_group=False)
    joined = bench.join(bench.connect(), "")
    assert joined in bench.forwarded
    assert [event.reason for event in bench.events if event.kind is EventKind.PASSED_THROUGH] == [
        "its steps need a member log, because several processes serve it (`fleet`)"
    ]


def test_brokers_that_let_no_classic_member_back_move_nobody_by_steps() -> None:
    bench = Bench(policy=by_steps(1), new_group=False)
    bench.translator.rollout.set_migration_policy("upgrade")
    assert bench.join(bench.connect(), "") in bench.forwarded
    (reason,) = (event.reason for event in bench.events if event.kind is EventKind.PASSED_THROUGH)
    assert "group.consumer.migration.policy is upgrade" in reason


def test_a_group_that_is_moved_all_at_once_is_not_moved_in_part() -> None:
    bench = Bench(policy=by_steps(1))
    bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(user_data=b"x"))
    (reason,) = (event.reason for event in bench.events if event.kind is EventKind.PASSED_THROUGH)
    assert reason.startswith("its step moves only a part of the group, and ")
    assert slots_of(bench) == {}


def test_the_step_of_100_percent_is_as_without_steps() -> None:
    bench = Bench(policy=by_steps("100%"))
    assert bench.error(bench.join(bench.connect(), "")) == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.calls == []
    assert bench.translator.rollout.move_of(GROUP) is None


def test_the_next_step_waits_for_its_proof_which_is_recorded_for_rules_that_ask() -> None:
    rule = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "100%"), hold_s=0, proof_s=60)
    bench = Bench(policy=Policy(rules=(rule,)))
    told_in_a_classic_group(bench, bench.connect())
    moves = bench.translator._context.moves
    (_, move), *_ = moves.records.moves()
    settled = msgspec.structs.replace(move, settled_ms=int(bench.now * 1000))
    moves.records.write(GROUP, MOVE, bench.now, move=settled)
    assert moves.why_not_proven(GROUP, rule, settled) == "no replica verifies it"

    asked: list[str] = []

    def proof_of(group_id: str) -> Proof:
        asked.append(group_id)
        return Proof(clean_ms=3_600_000)

    bench.translator.rollout.note_proofs(bench.now, proof_of)
    assert asked == [GROUP]
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert view.unproven.startswith("proven for ")
    bench.now += 100
    bench.translator.rollout.note_proofs(bench.now, proof_of)
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert view.unproven == ""

    bench.translator.set_policy(bench.now, by_steps(1, "100%"))
    bench.translator.rollout.note_proofs(bench.now, proof_of)
    assert asked == [GROUP, GROUP], "without `proof_s` nobody asks"
