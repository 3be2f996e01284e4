"""A classic member is converted in place at its Heartbeat, or stays as it is: each condition by itself."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_subscription
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.metadata import MetadataResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import (
    GROUP,
    NO_CONSUMER_GROUP,
    OTHER_TOPIC,
    TOPIC,
    Bench,
    owned,
)
from tests.translation.classic_group import (
    A_OWNS,
    CLASSIC,
    GENERATION,
    NEW,
    OF_A_MIXED_GROUP,
    OTHERS,
    QUESTIONS,
    answer_up_to,
    assigned,
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
from tests.translation.live_groups import A, B, classic_group
from translation.actions import Call, Connection, EventKind, RequestId
from translation.members.conversion import is_helper
from translation.members.member_ids import LONGEST_MEMBER_ID
from translation.members.member_state import MemberState
from translation.moving.in_place import UNNOTICED
from translation.settings import TranslatorSettings

USUAL = usual_answers()
MIXED = consumer_group({A: (CLASSIC, GENERATION, A_OWNS), **OTHERS})


def stays_classic(bench: Bench, heartbeat: RequestId) -> None:
    """Nothing has been said to the broker in the member's name, and its client notices nothing."""
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert not is_converted(bench)
    assert [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT] == []


def is_relayed_now(bench: Bench, connection: Connection) -> bool:
    """Whether the member's next Heartbeat is relayed."""
    return bench.heartbeat(connection, A, GENERATION) in bench.forwarded


# -- it goes well ------------------------------------------------------------------------------------------------------


def test_a_member_is_converted_under_its_id_with_its_generation_and_all_its_partitions() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    helper = answer_up_to(bench, "the helper").message
    assert is_helper(helper.member_id)
    assert (helper.member_epoch, helper.subscribed_topic_names, helper.topic_partitions) == (0, (), ())
    bench.reply(USUAL["the helper"])
    bench.reply(USUAL["the converted group"])
    bench.reply(USUAL["the sizes of its topics"])
    message = bench.heartbeat_call().message
    assert (message.member_id, message.member_epoch, owned(message)) == (A, GENERATION, {TOPIC: A_OWNS})
    assert (message.subscribed_topic_names, message.server_assignor) == ((TOPIC,), None)
    bench.reply(USUAL["its conversion"])
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert bench.forwarded == [1, 2]  # its JoinGroup and SyncGroup, from before
    assert bench.kinds()[-1] is EventKind.ADOPTED


def test_a_converted_member_goes_on_with_its_generation_and_without_a_vote() -> None:
    bench, connection = live_group()
    converted(bench, connection)
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    message = bench.heartbeat_call().message
    assert (message.member_epoch, message.server_assignor, message.topic_partitions) == (
        GENERATION,
        None,
        None,
    )
    bench.reply(bench.heartbeat_answer(GENERATION), bench.heartbeat_call())
    assert bench.error(heartbeat) == ErrorCode.NONE


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_member_of_a_mixed_group_is_converted_without_a_new_helper(instance_id: str | None) -> None:
    bench, connection = live_group(instance_id=instance_id)
    heartbeat = bench.heartbeat(connection, A, GENERATION, instance_id=instance_id)
    call = answer_up_to(bench, "its conversion", OF_A_MIXED_GROUP, is_it_a_consumer_group=MIXED)
    assert (call.message.member_id, call.message.instance_id) == (A, instance_id)
    bench.reply(USUAL["its conversion"])
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert is_converted(bench)


def test_the_second_member_here_is_converted_with_the_helper_of_the_first() -> None:
    bench, connection = live_group()
    other = bench.connect()
    to_observe(bench)
    live_member(bench, other, B, owns=(2, 3))
    to_translate(bench)
    converted(bench, connection)
    heartbeat = bench.heartbeat(other, B, GENERATION)
    described = consumer_group({A: (NEW, GENERATION, A_OWNS), **OTHERS})
    bench.reply(described)
    bench.reply(HeartbeatResponse())
    bench.reply(topics(TOPIC))
    bench.reply(described)
    message = bench.heartbeat_call().message
    assert (message.member_id, owned(message)) == (B, {TOPIC: (2, 3)})
    bench.reply(bench.heartbeat_answer(GENERATION, orders=(2, 3)))
    assert bench.error(heartbeat) == ErrorCode.NONE


# -- what is not known here: one ordinary rebalance --------------------------------------------------------------------


def not_known() -> tuple[Bench, Connection]:
    """The proxy was started after the group had joined."""
    bench = Bench(new_group=False)
    return bench, bench.connect()


def test_a_client_that_is_not_known_here_rejoins_once_and_is_relayed_if_it_stays_unknown() -> None:
    bench, connection = not_known()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []
    second = bench.heartbeat(connection, A, GENERATION)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    stays_classic(bench, second)
    assert is_relayed_now(bench, connection)


def test_a_client_with_a_member_id_that_is_too_long_to_be_remembered_is_not_made_to_rejoin() -> None:
    bench, connection = not_known()
    heartbeat = bench.heartbeat(connection, "x" * (LONGEST_MEMBER_ID + 1), GENERATION)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    stays_classic(bench, heartbeat)
    assert bench.translator._context.registry.group(GROUP).asked_to_rejoin == {}


def test_a_client_that_was_not_known_is_converted_after_its_rejoin() -> None:
    bench, connection = not_known()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    join = bench.join(connection, A, claims=A_OWNS)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(joined(generation=5))
    assert bench.answers[join].generation_id == 5
    sync = bench.sync(connection, A, 5)
    bench.reply(NO_CONSUMER_GROUP)
    bench.relayed_response(connection, sync, SyncGroupResponse(assignment=assigned(**{TOPIC: A_OWNS})))
    heartbeat = bench.heartbeat(connection, A, 5)
    answer_up_to(bench, "the helper")
    bench.reply(bench.heartbeat_answer(5))
    bench.reply(consumer_group({A: (CLASSIC, 5, A_OWNS), B: (CLASSIC, 5, (2, 3))}, 5))
    bench.reply(USUAL["the sizes of its topics"])
    assert bench.heartbeat_call().message.member_epoch == 5
    bench.reply(bench.heartbeat_answer(5, orders=A_OWNS))
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert is_converted(bench)


def test_a_client_whose_generation_is_not_the_one_that_is_known_rejoins() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, 5)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []


# -- what is known says no ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stranger", [{"host": "/10.0.0.66"}, {"instance_id": "one"}], ids=["another host", "another instance id"]
)
def test_a_heartbeat_of_somebody_else_in_the_name_of_a_member_does_not_convert_it(
    stranger: dict[str, str],
) -> None:
    """Anybody who may read the group can name its member id."""
    bench, connection = live_group()
    if "host" in stranger:
        connection = bench.connect(stranger["host"])
    heartbeat = bench.heartbeat(connection, A, GENERATION, instance_id=stranger.get("instance_id"))
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    stays_classic(bench, heartbeat)
    assert bench.calls == []


def test_a_member_with_partitions_to_give_up_is_not_converted_yet() -> None:
    bench, connection = live_group(claims=(0, 1, 2), protocol="cooperative-sticky")
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    stays_classic(bench, heartbeat)
    assert bench.calls == []
    bench.advance(bench.translator._context.settings.assignment_interval_s)
    assert not is_relayed_now(bench, connection)


def test_a_member_that_never_gives_up_what_it_reported_rejoins() -> None:
    """Its client had given that up before its JoinGroup, so it has no reason to join by itself."""
    bench, connection = live_group(claims=(0, 1, 2), protocol="cooperative-sticky")
    for expected in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        heartbeat = bench.heartbeat(connection, A, GENERATION)
        answer_up_to(bench, "its Heartbeat")
        bench.reply(USUAL["its Heartbeat"])
        assert bench.error(heartbeat) == expected
        bench.advance(bench.translator._context.settings.revocation_grace_s)


def test_a_member_with_a_topic_outside_its_subscription_stays_classic() -> None:
    """Clients break on partitions of topics that they did not subscribe to."""
    bench, connection = live_group(assignment=assigned(**{TOPIC: A_OWNS, OTHER_TOPIC: (0,)}))
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    stays_classic(bench, heartbeat)
    assert bench.events[-1].reason.startswith("not converted: ")
    bench.advance(10.0)
    assert is_relayed_now(bench, connection)


def test_a_member_with_an_assignment_that_is_not_readable_stays_classic() -> None:
    bench, connection = live_group(assignment=b"\0\0\x7f")
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(USUAL["its Heartbeat"])
    stays_classic(bench, heartbeat)
    assert bench.events[-1].reason.startswith("not converted: ")


def test_a_member_whose_principal_may_not_describe_its_topics_stays_classic() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its topics")
    bench.reply(topics(TOPIC, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    stays_classic(bench, heartbeat)
    assert "may not describe" in bench.events[-1].reason


def test_a_topic_that_it_may_not_describe_and_has_nothing_of_is_left_out() -> None:
    """One name that is not allowed refuses the whole heartbeat."""
    bench, connection = live_group(topics=(TOPIC, OTHER_TOPIC))
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its topics")
    forbidden = topics(OTHER_TOPIC, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED).topics
    bench.reply(MetadataResponse(topics=(*topics(TOPIC).topics, *forbidden)))
    bench.reply(USUAL["the helper"])
    bench.reply(USUAL["the converted group"])
    bench.reply(USUAL["the sizes of its topics"])
    assert bench.heartbeat_call().message.subscribed_topic_names == (TOPIC,)


def test_a_member_is_not_converted_while_the_broker_does_not_know_its_topic() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its topics")
    bench.reply(MetadataResponse())
    stays_classic(bench, heartbeat)
    assert bench.calls == []


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])
def test_a_heartbeat_that_the_broker_does_not_accept_converts_nobody(code: ErrorCode) -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(HeartbeatResponse(error_code=code))
    assert bench.error(heartbeat) == code
    assert bench.calls == []
    assert not is_converted(bench)


# -- what changes during a wait ----------------------------------------------------------------------------------------

WAITS = ("its topics", "the helper", "the converted group", "the sizes of its topics")


def goes_on_from(bench: Bench, question: str) -> None:
    """Answer what the broker is asked from this question on, as far as it is asked; it may not be the conversion."""
    for name in list(QUESTIONS)[list(QUESTIONS).index(question) : -1]:
        if not any(call.api_key == QUESTIONS[name] for call in bench.calls):
            return
        bench.reply(USUAL[name], next(call for call in bench.calls if call.api_key == QUESTIONS[name]))


def is_sent_under_its_id(bench: Bench) -> bool:
    """Whether a ConsumerGroupHeartbeat is on its way under the member's own id."""
    return any(
        call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and call.message.member_id == A
        for call in bench.calls
    )


@pytest.mark.parametrize("question", WAITS)
@pytest.mark.parametrize("change", ["another policy", "its client hangs up", "a JoinGroup"])
def test_a_member_is_not_converted_when_something_changes_during_a_wait(question: str, change: str) -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, question)
    match change:
        case "another policy":
            to_observe(bench)
        case "its client hangs up":
            bench.hung_up.add(connection.id)
        case _:
            bench.join(connection, A, claims=A_OWNS)
    goes_on_from(bench, question)
    assert not is_sent_under_its_id(bench)
    assert not is_converted(bench)


@pytest.mark.parametrize("question", WAITS)
def test_a_member_is_converted_when_nothing_changes_during_a_wait(question: str) -> None:
    bench, connection = live_group()
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, question)
    goes_on_from(bench, question)
    assert is_sent_under_its_id(bench)


# -- commits on another connection -------------------------------------------------------------------------------------


def with_a_commit_elsewhere() -> tuple[Bench, Connection, Connection, RequestId]:
    """A commit of the member was relayed on another connection of its client; its Heartbeat comes on the first."""
    bench = observed()
    connection, other = bench.connect(), bench.connect()
    live_member(bench, connection)
    commit = bench.commit(other, A, GENERATION)
    assert commit in bench.forwarded
    to_translate(bench)
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its topics")
    bench.reply(USUAL["its topics"])
    return bench, connection, other, heartbeat


def question_on(bench: Bench, connection: Connection) -> Call:
    """The question to the broker that waits on this connection."""
    (call,) = [call for call in bench.questions() if call.connection_id == connection.id]
    return call


def test_a_commit_that_is_under_way_on_another_connection_is_answered_before_the_group_is_converted() -> None:
    """A commit below v9 is refused for a member of the new protocol."""
    bench, connection, other, _ = with_a_commit_elsewhere()
    for _ in range(3):
        assert bench.questions() == bench.calls  # nothing else is asked yet
        bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question_on(bench, connection))
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question_on(bench, other))
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question_on(bench, connection))
    waits_for(bench, "the helper")


def test_a_connection_that_is_lost_has_no_commit_under_way() -> None:
    bench, connection, other, _ = with_a_commit_elsewhere()
    bench.upstream_lost(other)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question_on(bench, connection))
    waits_for(bench, "the helper")


def test_a_commit_that_is_not_answered_does_not_hold_a_member_for_long() -> None:
    bench, connection, _, heartbeat = with_a_commit_elsewhere()
    questions = 0
    while heartbeat not in bench.answers:
        questions += 1
        assert questions < 100
        bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question_on(bench, connection))
    stays_classic(bench, heartbeat)


# -- what the broker describes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member",
    [(CLASSIC, 5, A_OWNS), (CLASSIC, 3, A_OWNS), (CLASSIC, GENERATION, (0,)), (NEW, GENERATION, A_OWNS)],
    ids=["a newer epoch", "an older epoch", "another assignment", "not a classic one"],
)
def test_a_member_that_the_broker_has_otherwise_is_not_converted(
    member: tuple[int, int, tuple[int, ...]],
) -> None:
    """A topic that is new is not known to a coordinator when it converts the group, and is lost without an error."""
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the converted group")
    bench.reply(consumer_group({A: member, **OTHERS}, targets={A: A_OWNS}))
    bench.reply(USUAL["the sizes of its topics"])
    stays_classic(bench, heartbeat)
    assert bench.calls == []


def test_a_member_that_the_broker_does_not_describe_is_not_converted() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the converted group")
    bench.reply(consumer_group(OTHERS, targets={B: (0, 1, 2, 3)}))
    bench.reply(USUAL["the sizes of its topics"])
    stays_classic(bench, heartbeat)


# -- timers of the classic membership ----------------------------------------------------------------------------------


def with_a_timer(waited_s: float = 0.0) -> tuple[Bench, Connection, RequestId]:
    """The broker answered the member REBALANCE_IN_PROGRESS; it has rejoined, and its Heartbeat comes."""
    bench = observed()
    connection = bench.connect()
    live_member(bench, connection, generation=3)
    announced = bench.heartbeat(connection, A, 3)
    bench.relayed_response(
        connection, announced, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    )
    live_member(bench, connection, embedded_version=1, claims=A_OWNS, version=5)
    to_translate(bench)
    bench.advance(waited_s)
    return bench, connection, bench.heartbeat(connection, A, GENERATION)


def repeats_join_group(**answers: Any) -> tuple[Bench, RequestId]:
    """Its JoinGroup is sent once more, to the consumer group."""
    bench, _, heartbeat = with_a_timer()
    answer_up_to(bench, "the sizes of its topics", **answers)
    bench.reply(USUAL["the sizes of its topics"])
    return bench, heartbeat


def test_where_a_timer_of_the_broker_may_run_join_group_and_sync_group_are_sent_once_more() -> None:
    """The timer would remove the member after its conversion, though its heartbeats come."""
    bench, heartbeat = repeats_join_group()
    (join,) = bench.calls
    assert (join.api_key, join.message.member_id) == (ApiKey.JOIN_GROUP, A)
    (protocol,) = join.message.protocols
    version, subscription = decode_subscription(protocol.metadata)
    claimed = [(one.topic, one.partitions) for one in subscription.owned_partitions]
    assert (protocol.name, version, claimed) == ("range", 1, [(TOPIC, A_OWNS)])
    bench.reply(joined())
    (sync,) = bench.calls
    assert (sync.api_key, sync.message.member_id, sync.message.generation_id) == (
        ApiKey.SYNC_GROUP,
        A,
        GENERATION,
    )
    bench.reply(SyncGroupResponse(assignment=assigned(**{TOPIC: A_OWNS})))
    waits_for(bench, "its conversion")
    bench.reply(USUAL["its conversion"])
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert is_converted(bench)


def test_a_rebalance_that_is_announced_when_the_member_is_to_be_converted_is_remembered() -> None:
    """The consumer group has become a classic one before the member has rejoined: its timer goes on."""
    bench, connection = live_group(generation=3)
    announced = bench.heartbeat(connection, A, 3)
    answer_up_to(bench, "its Heartbeat")
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.error(announced) == ErrorCode.REBALANCE_IN_PROGRESS
    to_observe(bench)
    live_member(bench, connection, embedded_version=1, claims=A_OWNS, version=5)
    to_translate(bench)
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the sizes of its topics")
    bench.reply(USUAL["the sizes of its topics"])
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


SEVERAL = TranslatorSettings(sole_process=False)


def test_of_several_processes_each_takes_a_timer_of_the_broker_for_running() -> None:
    """A consumer group may have answered REBALANCE_IN_PROGRESS at another one; its client joined the classic group
    here."""
    bench, connection = live_group(settings=SEVERAL)
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the sizes of its topics")
    bench.reply(USUAL["the sizes of its topics"])
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


def test_that_timer_has_run_out_after_the_rebalance_timeout_too() -> None:
    bench, connection = live_group(settings=SEVERAL)
    bench.advance(61.0)
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its conversion")


def test_a_timer_that_has_run_out_has_removed_nobody() -> None:
    bench, _, _ = with_a_timer(61.0)
    answer_up_to(bench, "its conversion")


def test_a_join_group_that_is_refused_stops_the_conversion() -> None:
    bench, heartbeat = repeats_join_group()
    bench.reply(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    stays_classic(bench, heartbeat)
    assert bench.calls == []


def test_a_sync_group_that_is_refused_stops_the_conversion() -> None:
    bench, heartbeat = repeats_join_group()
    bench.reply(joined())
    bench.reply(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    stays_classic(bench, heartbeat)
    assert bench.calls == []


@pytest.mark.parametrize("policy_changes", [False, True], ids=["translated", "observed"])
@pytest.mark.parametrize(
    ("epoch", "assignment"),
    [(GENERATION + 1, A_OWNS), (GENERATION, (0,)), (GENERATION, ())],
    ids=["another generation", "another assignment", "nothing"],
)
def test_a_member_that_a_rebalance_moves_on_meanwhile_is_converted_as_it_is_now(
    epoch: int, assignment: tuple[int, ...], *, policy_changes: bool
) -> None:
    """Its client knows nothing of the new epoch and assignment: as a classic one its calls would be refused."""
    bench, heartbeat = repeats_join_group()
    bench.reply(joined(generation=epoch))
    (sync,) = bench.calls
    assert sync.message.generation_id == epoch
    if policy_changes:
        to_observe(bench)
    bench.reply(SyncGroupResponse(assignment=assigned(**{TOPIC: assignment})))
    (call,) = bench.calls
    assert (call.api_key, call.message.member_epoch) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, epoch)
    assert [owned.partitions for owned in call.message.topic_partitions] == [A_OWNS]
    bench.reply(bench.heartbeat_answer(epoch, **{TOPIC: assignment}))
    assert is_converted(bench)
    same = assignment == A_OWNS
    assert bench.error(heartbeat) == (ErrorCode.NONE if same else ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_join_group_is_not_repeated_while_the_group_epoch_is_ahead() -> None:
    """It would move the member on, away from what its client works on."""
    members = {A: (CLASSIC, GENERATION, A_OWNS), **OTHERS}
    bench, heartbeat = repeats_join_group(the_converted_group=consumer_group(members, 5))
    stays_classic(bench, heartbeat)
    assert bench.calls == []


# -- the broker's answers ----------------------------------------------------------------------------------------------

REFUSALS = [
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]


@pytest.mark.parametrize("code", REFUSALS, ids=[code.name for code in REFUSALS])
def test_a_conversion_that_the_broker_refuses_changes_nothing_here(code: ErrorCode) -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its conversion")
    bench.reply(refused(code))
    stays_classic(bench, heartbeat)
    bench.advance(0.5)
    assert is_relayed_now(bench, connection)


@pytest.mark.parametrize("code", REFUSALS, ids=[code.name for code in REFUSALS])
def test_a_helper_that_the_broker_refuses_changes_nothing(code: ErrorCode) -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the helper")
    bench.reply(refused(code))
    stays_classic(bench, heartbeat)
    assert bench.translator._context.registry.groups[GROUP].conversion is None
    assert is_relayed_now(bench, connection)


def test_a_group_whose_epoch_is_not_the_generation_is_not_converted_now() -> None:
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "the helper")
    bench.reply(bench.heartbeat_answer(5))
    stays_classic(bench, heartbeat)
    assert bench.calls == []


def test_an_answer_with_fewer_partitions_makes_the_client_rejoin_for_what_it_gives_up() -> None:
    """The target has moved on between the description and the heartbeat: a newcomer's share."""
    bench, connection = live_group()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its conversion")
    bench.reply(bench.heartbeat_answer(GENERATION, orders=(0,)))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    member = bench.translator._context.registry.find(GROUP, A)
    assert member is not None
    assert member.state is MemberState.PREPARE_REBALANCE
    assert len(member.partitions.possibly_owned) == 2  # its client works on both until it has rejoined
    (adopted,) = [event for event in bench.events if event.kind is EventKind.ADOPTED]
    assert adopted.reason != UNNOTICED  # so it does not count among those that nobody noticed


# -- a lost answer -----------------------------------------------------------------------------------------------------


def lost_answer(settings: TranslatorSettings | None = None) -> tuple[Bench, Connection]:
    """The answer to the heartbeat that converts the member is lost; its client comes on another connection."""
    bench, connection = live_group(settings=settings)
    bench.advance(61.0)  # no timer of the classic membership runs
    bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its conversion")
    bench.upstream_lost(connection)
    assert not is_converted(bench)
    return bench, bench.connect()


def test_a_conversion_whose_answer_is_lost_is_sent_again() -> None:
    bench, connection = lost_answer()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    bench.reply(consumer_group({A: (NEW, GENERATION, A_OWNS), **OTHERS}))
    bench.reply(topics(TOPIC))
    message = waits_for(bench, "its conversion").message
    assert (message.member_id, message.member_epoch, owned(message)) == (A, GENERATION, {TOPIC: A_OWNS})
    bench.reply(USUAL["its conversion"])
    bench.reply(bench.heartbeat_answer(GENERATION), bench.heartbeat_call())
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert is_converted(bench)


def test_of_several_processes_none_repeats_a_conversion_whose_answer_is_lost() -> None:
    """Without a member log: the client may have got more elsewhere, with the same generation. It rejoins once."""
    bench, connection = lost_answer(SEVERAL)
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    bench.reply(consumer_group({A: (NEW, GENERATION, A_OWNS), **OTHERS}))
    assert bench.heartbeat_call().message.topic_partitions is None
    bench.reply(bench.heartbeat_answer(GENERATION), bench.heartbeat_call())
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_conversion_that_the_broker_never_got_begins_again() -> None:
    bench, connection = lost_answer()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    answer_up_to(bench, "its conversion", OF_A_MIXED_GROUP, is_it_a_consumer_group=MIXED)
    bench.reply(USUAL["its conversion"])
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_repeated_conversion_that_is_refused_makes_the_client_rejoin() -> None:
    """Two answers were lost: its epoch is another one by now, and what it owns is its client's to say."""
    bench, connection = lost_answer()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    bench.reply(consumer_group({A: (NEW, 5, A_OWNS), **OTHERS}, 5))
    bench.reply(topics(TOPIC))
    bench.reply(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    bench.reply(bench.heartbeat_answer(5), bench.heartbeat_call())
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
