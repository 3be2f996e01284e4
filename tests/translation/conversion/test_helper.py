"""The helper of a conversion: it converts a group, and leaves last."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TRANSLATE_ALL, Bench
from tests.translation.classic_group import (
    A_OWNS,
    B_OWNS,
    CLASSIC,
    GENERATION,
    NEW,
    OTHERS,
    answer_up_to,
    consumer_group,
    converted,
    is_converted,
    joined,
    live_group,
    live_member,
    observed,
    refused,
    to_observe,
    to_translate,
    topics,
    usual_answers,
    waits_for,
)
from tests.translation.live_groups import A, B
from translation.actions import Call, Connection
from translation.members.conversion import HELPER_CLIENT_ID, HELPER_PREFIX, Conversion, is_helper
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

USUAL = usual_answers()
ALL_NEW = {A: (NEW, GENERATION, A_OWNS), B: (NEW, GENERATION, B_OWNS)}
A_NEW = {A: (NEW, GENERATION, A_OWNS), **OTHERS}


def conversion(bench: Bench) -> Conversion | None:
    """What the process does to convert the group."""
    group = bench.translator._context.registry.groups.get(GROUP)
    return None if group is None else group.conversion


def helper_id(bench: Bench) -> str:
    """The helper that this process has in the group."""
    present = conversion(bench)
    assert present is not None
    return present.helper_id


def helpers(bench: Bench) -> list[Call]:
    """The heartbeats of helpers that wait for an answer."""
    return [
        call
        for call in bench.calls
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and is_helper(call.message.member_id)
    ]


def keep_alive(bench: Bench) -> None:
    """Answer the heartbeats of members."""
    for call in list(bench.calls):
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and not is_helper(call.message.member_id):
            bench.reply(bench.heartbeat_answer(GENERATION), call)


def tick(
    bench: Bench, described: Mapping[str, tuple[int, int, tuple[int, ...]]], epoch: int = GENERATION
) -> None:
    """The helper's next heartbeat is due; then the broker is asked for the group, which it describes so."""
    bench.advance(1.0)
    keep_alive(bench)
    (call,) = helpers(bench)
    bench.reply(bench.heartbeat_answer(epoch), call)
    describe(bench, described, epoch)


def describe(
    bench: Bench, described: Mapping[str, tuple[int, int, tuple[int, ...]]], epoch: int = GENERATION
) -> None:
    (call,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]
    bench.reply(consumer_group(described, epoch), call)


def one_converted() -> tuple[Bench, Connection]:
    """The member A is converted; B is classic still."""
    bench, connection = live_group()
    converted(bench, connection)
    return bench, connection


# -- the way in --------------------------------------------------------------------------------------------------------


def test_the_helper_has_a_name_of_its_own_and_no_topics() -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    message = answer_up_to(bench, "the helper").message
    assert is_helper(message.member_id)
    assert message.member_epoch == 0
    assert (message.subscribed_topic_names, message.topic_partitions) == ((), ())
    assert (message.server_assignor, message.instance_id) == (
        None,
        None,
    )  # a vote moves the group epoch since 4.4


def test_the_helpers_epoch_is_kept_and_its_heartbeats_come_with_a_client_id_of_its_own() -> None:
    bench, _ = one_converted()
    first = helper_id(bench)
    tick(bench, A_NEW, epoch=5)
    bench.advance(1.0)
    keep_alive(bench)
    (call,) = helpers(bench)
    assert (call.message.member_id, call.message.member_epoch) == (first, 5)
    assert call.client_id == HELPER_CLIENT_ID
    assert call.message.topic_partitions is None


def test_the_helper_leaves_last_and_the_members_have_voted_before() -> None:
    """Its end moves the group epoch once; before, it would make all that are still classic rejoin."""
    bench, _ = one_converted()
    present = helper_id(bench)
    tick(bench, A_NEW)
    assert helpers(bench) == []  # B is classic still
    tick(bench, ALL_NEW)
    waits_for_sizes(bench)
    bench.advance(0.5)
    (vote,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
    assert (vote.message.member_id, vote.message.server_assignor) == (A, "range")
    bench.reply(bench.heartbeat_answer(GENERATION), vote)
    tick(bench, ALL_NEW)
    (leave,) = helpers(bench)
    assert (leave.message.member_id, leave.message.member_epoch) == (present, -1)
    bench.reply(bench.heartbeat_answer(-1), leave)
    assert conversion(bench) is None


def waits_for_sizes(bench: Bench) -> None:
    (call,) = [call for call in bench.calls if call.api_key == ApiKey.METADATA]
    bench.reply(topics(TOPIC), call)


def test_the_helper_stays_while_a_member_here_has_not_voted() -> None:
    bench, _ = one_converted()
    tick(bench, ALL_NEW)
    waits_for_sizes(bench)
    bench.advance(1.0)
    (call,) = helpers(bench)
    bench.reply(bench.heartbeat_answer(GENERATION), call)
    describe(bench, ALL_NEW)
    assert all(call.message.member_epoch >= 0 for call in helpers(bench))
    assert conversion(bench) is not None


def test_members_with_another_librarys_range_vote_for_uniform() -> None:
    """The vote for the broker's range would move partitions of a group that was converted without any."""
    bench, _ = one_converted()
    tick(bench, {A: (NEW, GENERATION, (0,)), B: (NEW, GENERATION, (1, 2, 3))})
    waits_for_sizes(bench)
    bench.advance(0.5)
    (vote,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
    assert vote.message.server_assignor == "uniform"


def test_an_assignor_of_the_policy_is_voted_for_whatever_the_members_have() -> None:
    bench, _ = one_converted()
    rule = Rule(pattern=".*", mode=Mode.TRANSLATE, assignor="range")
    bench._do(bench.translator.set_policy(bench.now, Policy(rules=(rule,))))
    tick(bench, {A: (NEW, GENERATION, (0,)), B: (NEW, GENERATION, (1, 2, 3))})
    assert [call for call in bench.calls if call.api_key == ApiKey.METADATA] == []
    bench.advance(0.5)
    (vote,) = [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]
    assert vote.message.server_assignor == "range"


# -- partitions without an owner ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "size"),
    [({A: A_OWNS, B: (2,)}, 4), ({A: A_OWNS, B: (2, 3)}, 5)],
    ids=["of a member that has just left", "added before the leader knew"],
)
def test_partitions_without_an_owner_have_the_group_epoch_moved_by_a_second_helper(
    targets: dict[str, tuple[int, ...]], size: int
) -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the converted group")
    first = helper_id(bench)
    members = {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS}
    bench.reply(consumer_group(members, targets=targets))
    bench.reply(topics(TOPIC, size=size))
    (joins,) = helpers(bench)
    assert joins.message.member_id != first
    assert joins.message.member_epoch == 0
    bench.reply(bench.heartbeat_answer(5), joins)
    (leaves,) = helpers(bench)
    assert (leaves.message.member_id, leaves.message.member_epoch) == (first, -1)
    bench.reply(bench.heartbeat_answer(-1), leaves)
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert not is_converted(bench)
    assert helper_id(bench) == joins.message.member_id


def test_where_a_second_helper_finds_no_room_the_first_one_stays() -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the converted group")
    first = helper_id(bench)
    members = {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS}
    bench.reply(consumer_group(members, targets={B: (2,)}))
    bench.reply(topics(TOPIC))
    (joins,) = helpers(bench)
    bench.reply(refused(ErrorCode.GROUP_MAX_SIZE_REACHED), joins)
    assert helpers(bench) == []
    assert helper_id(bench) == first


def test_a_member_with_nothing_beside_one_with_two_has_the_group_epoch_moved() -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the converted group")
    members = {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS, "newcomer": (CLASSIC, GENERATION, ())}
    bench.reply(consumer_group(members))
    bench.reply(topics(TOPIC))
    (joins,) = helpers(bench)
    assert joins.message.member_epoch == 0


def test_only_one_helper_joins_at_a_time() -> None:
    """Two members come at once."""
    bench = observed()
    connection, other = bench.connect(), bench.connect()
    live_member(bench, connection)
    live_member(bench, other, B, owns=B_OWNS)
    to_translate(bench)
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the helper")
    second = bench.heartbeat(other, B, GENERATION)
    (helper,) = helpers(bench)
    for question in ("is it a consumer group", "can it be converted", "its Heartbeat", "its topics"):
        (call,) = [call for call in bench.calls if call is not helper]
        bench.reply(USUAL[question], call)
    assert bench.calls == [helper]
    assert bench.error(second) == ErrorCode.NONE
    bench.reply(USUAL["the helper"], helper)
    waits_for(bench, "the converted group")


# -- the helper is lost ------------------------------------------------------------------------------------------------


def test_a_helper_whose_connection_is_lost_goes_on_on_that_of_a_member() -> None:
    bench = observed()
    connection, other = bench.connect(), bench.connect()
    live_member(bench, connection)
    live_member(bench, other, B, owns=B_OWNS)
    to_translate(bench)
    converted(bench, connection)
    present = helper_id(bench)
    bench.heartbeat(other, B, GENERATION)
    bench.reply(consumer_group(A_NEW))
    bench.reply(HeartbeatResponse())
    bench.reply(topics(TOPIC))
    bench.reply(consumer_group(A_NEW))
    bench.reply(bench.heartbeat_answer(GENERATION, orders=B_OWNS))
    bench.client_disconnected(connection)
    bench.upstream_lost(connection)
    bench.advance(1.0)
    (call,) = helpers(bench)
    assert (call.message.member_id, call.connection_id) == (present, other.id)


def test_a_connection_without_answers_does_not_hold_up_the_helper() -> None:
    """Its client has stopped reading. Else the members of its group would never vote, nor go back."""
    bench = observed()
    connection, other = bench.connect(), bench.connect()
    live_member(bench, connection)
    live_member(bench, other, B, owns=B_OWNS)
    to_translate(bench)
    converted(bench, connection)
    bench.heartbeat(other, B, GENERATION)  # it is not converted yet: the broker does not answer
    bench.advance(1.0)
    (unanswered,) = helpers(bench)
    assert unanswered.connection_id == connection.id
    for _ in range(6):
        bench.advance(1.0)
        keep_alive(bench)
    _, call = helpers(bench)
    assert (call.message.member_id, call.connection_id) == (helper_id(bench), other.id)
    assert bench.closed == []  # a client that waits there in JoinGroup goes on waiting
    bench.reply(bench.heartbeat_answer(GENERATION), unanswered)
    assert helpers(bench) == [call]


def test_a_helper_without_any_connection_is_forgotten() -> None:
    """When its session is over at the broker, which ends it then; until then clients may come back."""
    bench, connection = one_converted()
    bench.client_disconnected(connection)
    bench.upstream_lost(connection)
    for _ in range(40):
        bench.advance(1.0)
    assert helpers(bench) == []
    assert conversion(bench) is not None
    for _ in range(6):
        bench.advance(1.0)
    assert conversion(bench) is None


def test_a_first_heartbeat_whose_connection_is_lost_leaves_no_conversion_behind() -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the helper")
    bench.upstream_lost(connection)
    assert conversion(bench) is None


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_helper_that_the_broker_has_lost_sends_nothing_any_more(code: ErrorCode) -> None:
    bench, _ = one_converted()
    bench.advance(1.0)
    keep_alive(bench)
    (call,) = helpers(bench)
    bench.reply(refused(code), call)
    describe(bench, A_NEW)
    bench.advance(1.0)
    assert helpers(bench) == []


# -- the way back ------------------------------------------------------------------------------------------------------


def going_back() -> tuple[Bench, Connection]:
    """Converted with its helper in; the policy says observe now."""
    bench, connection = one_converted()
    to_observe(bench)
    return bench, connection


@pytest.mark.parametrize(
    "others",
    [{B: (NEW, GENERATION, B_OWNS)}, {B: (CLASSIC, 3, B_OWNS)}],
    ids=["a native member", "a member below the group epoch"],
)
def test_on_the_way_back_the_helper_waits_for_all_members(
    others: dict[str, tuple[int, int, tuple[int, ...]]],
) -> None:
    """A classic member below the group epoch would be answered ILLEGAL_GENERATION."""
    bench, _ = going_back()
    tick(bench, {A: (CLASSIC, GENERATION, A_OWNS), **others})
    assert helpers(bench) == []
    tick(bench, {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS})
    (leave,) = helpers(bench)
    assert leave.message.member_epoch == -1


def helper_calls_over(
    bench: Bench, seconds: int, members: Mapping[str, tuple[int, int, tuple[int, ...]]]
) -> list[int]:
    """The epochs of the heartbeats of helpers in so many seconds, while the broker describes these members."""
    epochs = []
    present: set[str] = set()
    for _ in range(seconds):
        bench.advance(1.0)
        for _ in range(4):
            for call in helpers(bench):
                epochs.append(call.message.member_epoch)
                present.add(call.message.member_id)
                if call.message.member_epoch < 0:
                    present.remove(call.message.member_id)
                bench.reply(bench.heartbeat_answer(GENERATION), call)
            for call in list(bench.calls):
                if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE:
                    here = dict.fromkeys(present, (NEW, GENERATION, ()))
                    bench.reply(consumer_group({**members, **here}), call)
    return epochs


def joins_a_consumer_group(bench: Bench) -> Connection:
    """A classic member joins through a process that knows nothing of its group, which is a consumer group."""
    connection = bench.connect()
    join = bench.join(connection, A)
    bench.relayed_response(connection, join, replace(joined(A), leader=""))
    return connection


ALL_CLASSIC = {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS}


def test_a_consumer_group_of_classic_members_gets_a_helper_that_leaves() -> None:
    """The process that was to bring it has ended. Once, as a broker without a downgrade leaves it a consumer group."""
    bench = observed()
    joins_a_consumer_group(bench)
    epochs = helper_calls_over(bench, 200, ALL_CLASSIC)
    assert epochs[:1] == [0]
    assert epochs.count(0) == epochs.count(-1) == 1


def test_a_consumer_group_of_classic_members_is_found_by_its_description() -> None:
    """All have gone back, and the process that was to bring the helper has ended since."""
    bench = observed()
    connection = bench.connect()
    bench.heartbeat(connection, A, GENERATION)
    (group,) = consumer_group(ALL_CLASSIC).groups
    bench._do(bench.translator.handle_description(bench.now, connection.id, GROUP, group))
    assert helper_calls_over(bench, 10, ALL_CLASSIC)[0] == 0


@pytest.mark.parametrize(
    "members",
    [{}, {A: (NEW, GENERATION, A_OWNS)}, {**ALL_CLASSIC, "mK2xYc0tQ7mWcWQx3r3O1g": (NEW, GENERATION, ())}],
    ids=["nobody is in it", "a member that is to go back", "a native member"],
)
def test_another_consumer_group_gets_no_helper(members: dict[str, tuple[int, int, tuple[int, ...]]]) -> None:
    bench = observed()
    joins_a_consumer_group(bench)
    assert helper_calls_over(bench, 100, members) == []
    assert conversion(bench) is None


def test_a_consumer_group_of_classic_members_that_is_translated_gets_no_helper_for_the_way_back() -> None:
    bench = observed()
    connection = bench.connect()
    join = bench.join(connection, A)
    to_translate(bench)
    bench.relayed_response(connection, join, replace(joined(A), leader=""))
    assert conversion(bench) is None


def test_a_helper_without_members_goes_on_on_the_connection_of_a_client_that_is_relayed() -> None:
    """Else its session would end while members are behind the group epoch."""
    bench = observed()
    first = joins_a_consumer_group(bench)
    bench.advance(1.0)
    describe(bench, ALL_CLASSIC)
    (helper,) = helpers(bench)
    bench.reply(bench.heartbeat_answer(GENERATION), helper)
    other = bench.connect()
    heartbeat = bench.heartbeat(other, B, GENERATION)
    bench.reply(HeartbeatResponse())
    assert bench.error(heartbeat) == ErrorCode.NONE
    bench.client_disconnected(first)
    bench.upstream_lost(first)
    bench.advance(1.0)
    (call,) = helpers(bench)
    assert (call.message.member_id, call.connection_id) == (helper.message.member_id, other.id)


def test_a_classic_group_ends_the_way_back() -> None:
    bench = observed()
    joins_a_consumer_group(bench)
    bench.advance(1.0)
    bench.reply(NO_CONSUMER_GROUP)
    assert conversion(bench) is None


def test_on_the_way_back_the_helper_does_not_wait_for_native_members_for_ever() -> None:
    bench, _ = going_back()
    members = {A: (CLASSIC, GENERATION, A_OWNS), B: (NEW, GENERATION, B_OWNS)}
    left = []
    for _ in range(80):
        bench.advance(1.0)
        keep_alive(bench)
        for call in helpers(bench):
            left += [call] if call.message.member_epoch == -1 else []
            bench.reply(bench.heartbeat_answer(GENERATION), call)
        if any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in bench.calls):
            describe(bench, members)
            left += [call for call in helpers(bench) if call.message.member_epoch == -1]
    assert left


ORPHAN = f"{HELPER_PREFIX}of-before"
"""A helper that its process left behind when it crashed; the broker ends it when its session times out."""


@pytest.mark.parametrize("epoch", [GENERATION, 3], ids=["all have the group epoch", "one has not"])
def test_on_the_way_back_a_helper_that_a_crash_left_behind_is_ended_before_this_one_leaves(
    epoch: int,
) -> None:
    """If it ended last, by its session timeout, members below the group epoch would be answered ILLEGAL_GENERATION."""
    bench, _ = going_back()
    members = {A: (CLASSIC, GENERATION, A_OWNS), B: (CLASSIC, epoch, B_OWNS)}
    tick(bench, {**members, helper_id(bench): (NEW, GENERATION, ()), ORPHAN: (NEW, GENERATION, ())})
    (leave,) = helpers(bench)
    assert (leave.message.member_id, leave.message.member_epoch) == (ORPHAN, -1)
    bench.reply(bench.heartbeat_answer(-1), leave)
    assert helpers(bench) == []
    tick(bench, {**ALL_CLASSIC, helper_id(bench): (NEW, GENERATION, ())})
    (leave,) = helpers(bench)
    assert leave.message.member_id != ORPHAN
    assert leave.message.member_epoch == -1


def test_on_the_way_back_a_helper_that_a_crash_left_behind_is_taken_over_if_there_is_no_other() -> None:
    bench = observed()
    joins_a_consumer_group(bench)
    members = {**ALL_CLASSIC, ORPHAN: (NEW, GENERATION, ())}
    bench.advance(1.0)
    describe(bench, {**members, B: (CLASSIC, 3, B_OWNS)})
    assert helpers(bench) == []
    tick(bench, members)
    (leave,) = helpers(bench)
    assert (leave.message.member_id, leave.message.member_epoch) == (ORPHAN, -1)


def test_of_several_processes_none_ends_the_helper_of_another() -> None:
    bench, connection = live_group(TranslatorSettings(sole_process=False))
    bench.advance(61.0)  # no timer of the classic membership runs
    converted(bench, connection)
    to_observe(bench)
    tick(bench, {**ALL_CLASSIC, helper_id(bench): (NEW, GENERATION, ()), ORPHAN: (NEW, GENERATION, ())})
    assert all(call.message.member_id != ORPHAN for call in helpers(bench))


def test_a_policy_that_flips_in_between_lets_the_helper_stay_for_the_way_back() -> None:
    """Else the last member that goes back would leave a consumer group of classic members."""
    bench, _ = one_converted()
    bench.advance(1.0)
    keep_alive(bench)
    (call,) = helpers(bench)
    to_observe(bench)
    bench.reply(bench.heartbeat_answer(GENERATION), call)
    describe(bench, ALL_NEW)
    assert helpers(bench) == []
    assert conversion(bench) is not None
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    tick(bench, ALL_NEW)
    waits_for_sizes(bench)
    assert conversion(bench) is not None
