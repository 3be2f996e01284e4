"""The rules of client-side assignors, one by one (KIP-848): choice, computing, Prepare, Install, metadata, errors."""

import pytest

from coordinator.config import CoordinatorConfig
from coordinator.consumer_groups.client_side.declaring import MOST_ASSIGNORS
from coordinator.group_coordinator import UnservedRequest
from coordinator.log import MemoryLog
from coordinator.snapshot import persistent
from protocol_codecs.all_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupPrepareAssignmentRequest,
    ExperimentalErrorCode,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_subscription,
)
from tests.coordinator.client_side.group import BAR, CONFIG, FOO, REBALANCE_MS, Group, assignor

INVALID = ExperimentalErrorCode.INVALID_ASSIGNMENT


def group_of(*member_ids: str) -> Group:
    """A group in which the first member has installed everything for itself, and nothing is needed."""
    group = Group()
    for member_id in member_ids:
        group.join(member_id)
    group.beat(member_ids[0])
    epoch = group.prepare(member_ids[0]).group_epoch
    assert group.install(member_ids[0], epoch, {member_ids[0]: {FOO: (0, 1)}}).error_code == 0
    return group


# -- off ----------------------------------------------------------------------------------------------------------


def test_it_is_off_unless_it_is_asked_for():
    group = Group(CoordinatorConfig())
    with pytest.raises(UnservedRequest):
        group.join("a")
    with pytest.raises(UnservedRequest):
        group.ask(ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="a"), 0)


def test_members_without_client_side_assignors_get_the_answers_of_kafka():
    answer = Group().join("a", server_assignor="range")
    assert type(answer) is ConsumerGroupHeartbeatResponse
    assert answer.assignment.topic_partitions[0].partitions == (0, 1)


def test_the_log_of_a_group_without_them_is_the_same_with_and_without_the_experiment():
    logs = []
    for config in (CONFIG, CoordinatorConfig(classic_initial_rebalance_delay_ms=0)):
        group = Group(config)
        group.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="a",
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=("foo",),
                topic_partitions=(),
            )
        )
        logs.append(group.log.batches)
    assert logs[0] == logs[1]


# -- what a heartbeat may declare -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared",
    [
        (assignor(""),),
        (assignor(low=-2, metadata_version=0),),
        (assignor(low=-1, high=-1, metadata_version=-1),),
        (assignor(low=3, high=2, metadata_version=3),),
        (assignor(low=0, high=3, metadata_version=4),),
        (assignor(low=1, high=3, metadata_version=0),),
        (assignor(), assignor()),
        tuple(assignor(f"a{number}") for number in range(MOST_ASSIGNORS + 1)),
    ],
    ids=["no name", "minimum", "maximum below 0", "maximum below minimum", "above", "below", "twice", "many"],
)
def test_a_declaration_that_contradicts_itself_is_refused(declared):
    assert Group().join("a", *declared).error_code == ErrorCode.INVALID_REQUEST


def test_server_side_and_client_side_assignors_cannot_be_used_together():
    answer = Group().join("a", assignor(), server_assignor="range")
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_versions_that_do_not_overlap_are_refused():
    group = Group()
    group.join("a", assignor(low=0, high=1))
    assert group.join("b", assignor(low=2, high=3)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert group.join("c", assignor(low=1, high=3)).error_code == 0


def test_another_assignor_is_no_reason_to_refuse():
    group = Group()
    group.join("a", assignor("x", low=0, high=1))
    assert group.join("b", assignor("y", low=2, high=3)).error_code == 0


# -- choice ---------------------------------------------------------------------------------------------------------


def described(group: Group) -> str:
    return group.ask(ConsumerGroupDescribeRequest(group_ids=("g",))).groups[0].assignor_name


def test_the_assignor_is_one_that_all_members_support():
    group = Group()
    group.join("a", assignor("x"), assignor("y"))
    group.join("b", assignor("y"))
    assert described(group) == "y"


def test_members_orders_decide_by_majority_and_names_between_equals():
    group = Group()
    group.join("a", assignor("x"), assignor("y"))
    group.join("b", assignor("y"), assignor("x"))
    assert described(group) == "x"
    group.join("c", assignor("y"), assignor("x"))
    assert described(group) == "y"


def test_without_a_common_assignor_the_coordinator_assigns():
    group = Group()
    assert group.join("a", assignor("x")).should_compute_assignment
    group.join("b", assignor("y"))
    assert described(group) == "uniform"
    assert sorted(number for part in group.target.values() for number in part[FOO]) == [0, 1]
    assert not group.beat("a").should_compute_assignment


def test_one_member_that_names_a_server_side_assignor_brings_the_group_to_the_server_side_and_back():
    group = group_of("a")
    assert described(group) == "theirs"
    group.join("b", server_assignor="range")
    group.wait(1_000)
    group.beat("a")
    assert described(group) == "range"
    assert group.target == {"a": {FOO: (0,)}, "b": {FOO: (1,)}}
    group.leave("b")
    assert group.beat("a").should_compute_assignment


def test_a_member_changes_sides():
    group = group_of("a")
    group.beat("a", server_assignor="range")
    assert described(group) == "range"
    assert not hasattr(group.beat("a"), "should_compute_assignment")
    assert group.beat("a", client_assignors=(assignor(),)).should_compute_assignment
    assert group.group.members["a"].server_assignor is None


# -- what asks for a new assignment ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "asks"),
    [
        ((assignor(),), False),
        ((assignor(reason=1),), True),
        ((assignor(metadata_bytes=b"new"),), True),
        ((assignor(metadata_version=1),), True),
        ((assignor(high=4),), True),
        ((assignor(), assignor("y")), True),
        (None, False),
    ],
)
def test_changed_metadata_or_a_reason_asks_for_an_assignment(declared, asks):
    group = group_of("a")
    group.beat("a")
    assert group.beat("a", client_assignors=declared).should_compute_assignment == asks


def test_a_reason_that_ends_asks_for_nothing_and_one_that_comes_again_does():
    group = group_of("a")
    group.beat("a", client_assignors=(assignor(reason=1),))
    group.install("a", group.prepare("a").group_epoch, {"a": {FOO: (0, 1)}})
    assert not group.beat("a", client_assignors=(assignor(reason=1),)).should_compute_assignment
    assert not group.beat("a", client_assignors=(assignor(reason=0),)).should_compute_assignment
    assert group.beat("a", client_assignors=(assignor(reason=1),)).should_compute_assignment


# -- who computes ---------------------------------------------------------------------------------------------------


def test_the_first_member_is_told_in_the_answer_to_its_join_and_until_it_is_done():
    group = Group()
    answer = group.join("a")
    assert answer.should_compute_assignment
    assert answer.member_epoch == 1
    assert group.beat("a").should_compute_assignment
    assert not group.join("b").should_compute_assignment
    assert group.prepare("a").error_code == 0
    assert group.beat("a").should_compute_assignment


def test_who_computed_last_computes_again():
    group = Group()
    group.join("a")
    group.join("b")
    group.wait(REBALANCE_MS)
    group.beat("a")
    assert group.beat("b").should_compute_assignment
    group.install("b", group.prepare("b").group_epoch, {"b": {FOO: (0, 1)}})
    group.join("c")
    assert not group.beat("a").should_compute_assignment
    assert group.beat("b").should_compute_assignment


def test_after_the_rebalance_timeout_the_next_member_computes_and_the_former_stays_a_member():
    group = Group()
    for member_id in "abc":
        group.join(member_id)
    group.wait(REBALANCE_MS - 1)
    assert group.beat("a").should_compute_assignment
    group.beat("b")
    group.beat("c")
    group.wait(1)
    assert not group.beat("a").should_compute_assignment
    assert group.beat("b").should_compute_assignment
    assert group.prepare("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(group.group.members) == {"a", "b", "c"}


def test_the_timeout_begins_when_the_member_is_told():
    group = group_of("a", "b")
    group.wait(20_000)
    group.beat("b")
    group.join("c")  # a is chosen, and does not know
    group.wait(20_000)
    assert group.beat("a").should_compute_assignment
    group.beat("b")
    group.wait(REBALANCE_MS - 1)
    assert group.beat("a").should_compute_assignment
    group.wait(1)
    assert not group.beat("a").should_compute_assignment


def test_a_member_that_is_never_heard_of_costs_one_timeout_though_its_session_is_longer():
    group = group_of("a", "b")
    group.wait(10_000)
    group.join("c")
    group.wait(REBALANCE_MS)
    assert group.beat("b").should_compute_assignment
    assert "a" in group.group.members


def test_nobody_computes_twice_before_all_have_tried():
    group = Group()
    for member_id in "abc":
        group.join(member_id)
    turns = []
    for _ in range(6):
        turns += [one for one in "abc" if group.beat(one).should_compute_assignment]
        group.wait(REBALANCE_MS)
    assert turns == ["a", "b", "c", "a", "b", "c"]


def test_when_the_computing_member_leaves_another_is_told_at_once():
    group = Group()
    group.join("a")
    group.join("b")
    group.prepare("a")
    group.leave("a")
    assert group.beat("b").should_compute_assignment
    assert group.prepare("b").group_epoch == 4


def test_a_member_that_comes_back_has_to_ask_again():
    group = Group()
    group.join("a")
    epoch = group.prepare("a").group_epoch
    group.leave("a")
    group.join("a")
    assert group.install("a", epoch, {"a": {FOO: (0, 1)}}).error_code == INVALID


def test_a_static_member_that_is_away_does_not_compute():
    group = Group()
    group.join("a", instance_id="i")
    group.leave("a", -2, instance_id="i")
    assert group.join("b").should_compute_assignment


def test_a_rebalance_timeout_of_nothing_does_not_keep_the_coordinator_busy():
    group = Group()
    group.join("a", rebalance_timeout_ms=0)
    before = group.coordinator.shard.computations_begun
    group.wait(10_000)
    assert group.coordinator.shard.computations_begun - before <= 10


# -- Prepare --------------------------------------------------------------------------------------------------------


def test_the_computing_member_is_told_of_the_whole_group():
    group = group_of("a")
    group.join(
        "b",
        assignor(low=1, reason=2, metadata_bytes=b"of b"),
        topics=("foo", "bar", "nothing"),
        instance_id="i",
        rack_id="r",
    )
    group.beat("a")
    told = group.prepare("a")
    assert (told.error_code, told.group_epoch, told.assignor_name) == (0, 3, "theirs")
    assert {(t.topic_name, t.topic_id, t.num_partitions) for t in told.topics} == {
        ("foo", FOO, 2),
        ("bar", BAR, 1),
    }
    a, b = told.members
    assert (a.member_id, a.member_epoch, a.instance_id, a.rack_id) == ("a", 2, None, None)
    assert [(t.topic_id, t.partitions) for t in a.topic_partitions] == [(FOO, (0, 1))]
    assert (b.member_id, b.member_epoch, b.instance_id, b.rack_id) == ("b", 2, "i", "r")
    assert set(b.subscribed_topic_ids) == {FOO, BAR}
    assert (b.assignor.reason, b.assignor.metadata_version, b.assignor.metadata_bytes) == (2, 1, b"of b")
    assert b.topic_partitions == ()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "another"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 7}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"member_id": "b", "member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "b", "member_epoch": 7}, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
@pytest.mark.parametrize("call", ["prepare", "install"])
def test_who_may_not_compute_is_told_so_in_the_order_of_the_kip(call, fields, error):
    group = Group()
    group.join("a")
    group.join("b")
    before = len(group.log.batches)
    answer = group.prepare("a", **fields) if call == "prepare" else group.install("a", 3, {}, **fields)
    assert answer.error_code == error
    assert len(group.log.batches) == before


def test_nobody_may_compute_what_is_not_needed():
    group = group_of("a")
    assert group.beat("a").error_code == 0
    assert group.prepare("a").error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- Install --------------------------------------------------------------------------------------------------------


def prepared() -> Group:
    """Members a and b subscribe to foo, c to bar too; a has been told of epoch 4."""
    group = Group()
    group.join("a")
    group.join("b")
    group.join("c", topics=("foo", "bar"))
    assert group.prepare("a").group_epoch == 4
    return group


RIGHT = {"a": {FOO: (0,)}, "b": {FOO: (1,)}, "c": {BAR: (0,)}}


def test_a_right_assignment_becomes_the_target_with_its_metadata():
    group = prepared()
    assert group.install("a", 4, RIGHT, version=2, metadata=b"said").error_code == 0
    assert group.target == RIGHT
    answer = group.beat("b")
    assert answer.member_epoch == 4
    assert answer.assignment.topic_partitions[0].partitions == (1,)
    details = answer.assignment_details
    assert (details.error, details.metadata_version, details.metadata_bytes) == (0, 2, b"said")


@pytest.mark.parametrize(
    "parts",
    [
        {**RIGHT, "b": {FOO: (0, 1)}},
        {**RIGHT, "b": {FOO: (1, 1)}},
        {**RIGHT, "b": {}},
        {"a": RIGHT["a"], "b": RIGHT["b"]},
        {},
        {**RIGHT, "b": {FOO: (1, 2)}},
        {**RIGHT, "b": {FOO: (1, -1)}},
        {**RIGHT, "b": {FOO: (1,), b"x" * 16: (0,)}},
        {**RIGHT, "b": {FOO: (1,), BAR: (0,)}, "c": {}},
        {"a": RIGHT["a"], "gone": RIGHT["b"], "c": RIGHT["c"]},
        {**RIGHT, "gone": {}},
    ],
    ids=[
        "a partition twice",
        "a partition twice for one member",
        "a partition to nobody",
        "a topic to nobody",
        "nothing",
        "no such partition",
        "a negative partition",
        "no such topic",
        "not subscribed",
        "a stranger",
        "a stranger without partitions",
    ],
)
def test_what_is_no_assignment_of_the_group_changes_nothing(parts):
    group = prepared()
    before = persistent(group.coordinator), len(group.log.batches)
    assert group.install("a", 4, parts).error_code == INVALID
    assert (persistent(group.coordinator), len(group.log.batches)) == before
    assert group.install("a", 4, RIGHT).error_code == 0, "it may try again until its time is over"


def test_a_member_may_be_named_once():
    members = tuple(ConsumerGroupInstallAssignmentRequestMember(member_id=one) for one in "abca")
    assert "twice" in prepared().install("a", 4, {}, members=members).error_message


@pytest.mark.parametrize("version", [-1, 4, 70_000])
def test_metadata_must_be_of_a_version_that_the_member_reads(version):
    assert prepared().install("a", 4, RIGHT, version=version).error_code == INVALID


@pytest.mark.parametrize("epoch", [0, 3, 5])
def test_an_assignment_must_be_for_the_epoch_that_was_told(epoch):
    assert prepared().install("a", epoch, RIGHT).error_code == INVALID


def test_what_was_not_asked_for_is_not_installed():
    group = Group()
    group.join("a")
    assert group.install("a", 2, {"a": {FOO: (0, 1)}}).error_code == INVALID


def test_an_assignment_for_an_older_epoch_is_installed_and_computed_again():
    group = prepared()
    group.leave("b")
    group.join("d")
    assert group.install("a", 4, RIGHT).error_code == 0
    assert group.group.assignment_epoch == 4
    assert group.group.group_epoch == 6
    assert group.target == {"a": RIGHT["a"], "c": RIGHT["c"]}, "b has left, and d is not in it"
    assert group.beat("a").should_compute_assignment
    assert group.prepare("a").group_epoch == 6


def test_the_same_answer_installs_once():
    group = prepared()
    group.join("d")
    assert group.install("a", 4, RIGHT).error_code == 0
    assert group.install("a", 4, RIGHT).error_code == INVALID
    group.install("a", group.prepare("a").group_epoch, RIGHT)
    assert group.install("a", 5, RIGHT).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_later_question_is_what_counts():
    group = prepared()
    group.join("d")
    assert group.prepare("a").group_epoch == 5
    assert group.install("a", 4, RIGHT).error_code == INVALID
    assert group.install("a", 5, RIGHT).error_code == 0


def test_a_static_member_that_came_back_meanwhile_gets_what_was_meant_for_it():
    group = Group()
    group.join("a")
    group.join("b", instance_id="i")
    epoch = group.prepare("a").group_epoch
    group.leave("b", -2, instance_id="i")
    group.join("c", instance_id="i")
    assert group.install("a", epoch, {"a": {FOO: (0,)}, "b": {FOO: (1,)}}).error_code == 0
    assert group.target == {"a": {FOO: (0,)}, "c": {FOO: (1,)}}


def test_an_assignor_that_failed_leaves_everything_where_it_is_and_members_hear_of_it():
    group = group_of("a")
    group.beat("a")
    group.join("b")
    group.beat("a")
    assert group.install("a", group.prepare("a").group_epoch, {}, error=3).error_code == 0
    assert group.target == {"a": {FOO: (0, 1)}}
    assert group.beat("a").assignment_details.error == 3
    assert group.beat("b").assignment_details.error == 3


def test_an_error_may_come_with_an_assignment():
    group = prepared()
    assert group.install("a", 4, {**RIGHT, "b": {}}, error=1).error_code == INVALID
    assert group.install("a", 4, RIGHT, error=1).error_code == 0
    assert group.beat("b").assignment_details.error == 1


def test_a_member_hears_of_partitions_that_others_still_own():
    group = group_of("a", "b")
    group.beat("a")
    group.beat("b")
    group.beat("b", client_assignors=(assignor(reason=1),))
    group.beat("a", owned={FOO: (0, 1)})
    group.install("a", group.prepare("a").group_epoch, {"a": {FOO: (0,)}, "b": {FOO: (1,)}})
    details = group.beat("b").assignment_details
    assert [(t.topic_id, t.partitions) for t in details.pending_topic_partitions] == [(FOO, (1,))]
    group.beat("a", owned={FOO: (0, 1)})
    group.beat("a", owned={FOO: (0,)})
    answer = group.beat("b")
    assert answer.assignment.topic_partitions[0].partitions == (1,)
    assert answer.assignment_details.pending_topic_partitions == ()


def test_metadata_alone_reaches_the_members():
    group = group_of("a")
    group.beat("a")
    group.beat("a", client_assignors=(assignor(reason=1),))
    group.install("a", group.prepare("a").group_epoch, {"a": {FOO: (0, 1)}}, version=1, metadata=b"new")
    assert group.beat("a").assignment_details.metadata_bytes == b"new"


# -- restart --------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_starts_at_any_record_is_the_same_and_goes_on():
    group = prepared()
    group.install("a", 4, RIGHT, version=2, metadata=b"said")
    for member_id in "abc":
        group.beat(member_id)
    group.leave("c")
    group.beat("a")
    group.install("a", group.prepare("a").group_epoch, {"a": {FOO: (0,)}, "b": {FOO: (1,)}}, version=1)
    assert persistent(group.restarted().coordinator) == persistent(group.coordinator)
    for count in range(1, len(group.log.batches)):
        log = MemoryLog(group.log.batches[:count], codec=CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS)
        again = Group(log=log, now=group.now)
        alive = list(again.group.members)
        if not alive:
            continue
        again.epochs = {one: again.group.members[one].member_epoch for one in alive}
        needed = again.group.group_epoch > again.group.assignment_epoch
        assert again.beat(alive[0]).should_compute_assignment == needed
        assert again.prepare(alive[0]).error_code == (0 if needed else ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_coordinator_that_starts_has_told_nobody_of_anything():
    group = prepared().restarted()
    assert group.install("a", 4, RIGHT).error_code == INVALID
    assert group.prepare("a").error_code == 0
    assert group.install("a", 4, RIGHT).error_code == 0


def test_a_coordinator_without_the_experiment_reads_the_log_and_assigns_by_itself():
    group = group_of("a", "b")
    plain = Group(CoordinatorConfig(), MemoryLog(group.log.batches), group.now)
    assert set(plain.group.members) == {"a", "b"}
    answer = plain.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=("foo",),
            topic_partitions=(),
        )
    )
    assert answer.error_code == 0
    plain.wait(1_000)
    plain.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="c", member_epoch=answer.member_epoch))
    assert plain.group.assignment_epoch == plain.group.group_epoch


# -- classic members ------------------------------------------------------------------------------------------------


def classic_join(group: Group, member_id: str, *, user_data: bytes | None, name: str = "theirs"):
    subscription = ConsumerProtocolSubscription(topics=("foo",), user_data=user_data)
    return group.ask(
        JoinGroupRequest(
            group_id="g",
            member_id=member_id,
            session_timeout_ms=20_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=name, metadata=encode_subscription(subscription, 1)),),
        ),
        5,
    )


def sync(group: Group, member_id: str, generation: int):
    return group.ask(
        SyncGroupRequest(
            group_id="g",
            member_id=member_id,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="theirs",
        ),
        5,
    )


def test_a_classic_members_user_data_is_told_as_version_minus_1_and_answered_in_it():
    group = Group()
    group.join("a", assignor(low=-1))
    joined = classic_join(group, "", user_data=b"theirs")
    member_id = joined.member_id
    joined = classic_join(group, member_id, user_data=b"theirs")
    assert joined.error_code == 0
    assert group.beat("a").should_compute_assignment
    told = group.prepare("a")
    (classic,) = [member for member in told.members if member.member_id == member_id]
    assert (classic.assignor.metadata_version, classic.assignor.metadata_bytes) == (-1, b"theirs")

    parts = {"a": {FOO: (0,)}, member_id: {FOO: (1,)}}
    assert group.install("a", told.group_epoch, parts, version=0).error_code == INVALID, "it reads -1 only"
    assert group.install("a", told.group_epoch, parts, version=-1, metadata=b"answer").error_code == 0

    sync(group, member_id, joined.generation_id)
    heartbeat = HeartbeatRequest(group_id="g", member_id=member_id, generation_id=joined.generation_id)
    assert group.ask(heartbeat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = classic_join(group, member_id, user_data=b"theirs")
    _, assignment = decode_assignment(sync(group, member_id, joined.generation_id).assignment)
    assert assignment.assigned_partitions[0].partitions == (1,)
    assert assignment.user_data == b"answer"


def test_who_does_not_read_classic_metadata_may_not_join_a_group_that_has_some():
    group = Group()
    group.join("s", server_assignor="range")
    member_id = classic_join(group, "", user_data=b"theirs").member_id
    classic_join(group, member_id, user_data=b"theirs")
    assert group.join("a", assignor(low=0)).error_code == ErrorCode.INVALID_REQUEST
    assert group.join("b", assignor(low=-1)).error_code == 0


def test_without_user_data_every_assignor_goes_together_with_classic_members():
    group = Group()
    group.join("a", assignor(low=0))
    member_id = classic_join(group, "", user_data=None).member_id
    classic_join(group, member_id, user_data=None)
    assert described(group) == "theirs"
    assert group.beat("a").should_compute_assignment


def test_a_classic_member_with_other_assignors_brings_the_group_to_the_server_side():
    group = Group()
    group.join("a", assignor(low=-1))
    member_id = classic_join(group, "", user_data=None, name="range").member_id
    classic_join(group, member_id, user_data=None, name="range")
    assert described(group) == "uniform"
    assert not group.beat("a").should_compute_assignment


def test_a_target_that_the_coordinator_computes_meanwhile_ends_a_members_turn():
    group = Group()
    group.join("a", assignor(low=-1))
    epoch = group.prepare("a").group_epoch
    member_id = classic_join(group, "", user_data=None, name="range").member_id
    classic_join(group, member_id, user_data=None, name="range")  # the coordinator assigns for this epoch
    assigned = group.group.assignment_epoch
    assert assigned > epoch
    group.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member_id),)), 5)
    assert group.install("a", epoch, {"a": {FOO: (0, 1)}}).error_code == INVALID
    assert group.group.assignment_epoch == assigned
