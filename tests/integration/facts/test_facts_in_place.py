"""What brokers answer when members of a live classic group are converted in place: see docs/evidence/in-place.md."""

import math

import pytest
from kio.schema.errors import ErrorCode
from support.broker import Kafka
from support.in_place import NO_TOPICS, SESSION_MS, Conversion, settle, until
from support.raw_member import Offer
from support.raw_new_member import LEAVE, partitions_of
from support.waiting import eventually

PARTITIONS = 6
NATIVE_ONLY = 9
"""The first version of OffsetCommit that a native member may send."""

pytestmark = pytest.mark.kafka


@pytest.fixture
def conversion(kafka, group):
    with Conversion(kafka, group, kafka.new_topic(partitions=PARTITIONS)) as conversion:
        yield conversion


def nobody_noticed(members, generation):
    for member in members:
        assert member.heartbeat() == ErrorCode.none
        assert member.sync_error() == ErrorCode.none
        assert {member.commit_as(version) for version in (2, 7, 8, 9)} == {ErrorCode.none}
        assert member.generation == generation


# -- the helper and the members ------------------------------------------------------------------------------


def test_a_helper_without_topics_converts_a_group_at_its_generation_and_no_member_notices(conversion):
    members = conversion.form()
    generation = conversion.generation
    helper = conversion.helper()
    assert (helper.epoch, helper.owned) == (generation, frozenset())
    view = conversion.view()
    assert (view.group_epoch, view.assignment_epoch) == (generation, generation)
    shown = {
        member.member_id: (member.member_type, member.assignment, member.target) for member in view.members
    }
    assert shown == {
        **{member.member_id: ("classic", member.shares, member.shares) for member in members},
        helper.member_id: ("consumer", {}, {}),
    }
    nobody_noticed(members, generation)


def test_a_member_keeps_its_epoch_and_partitions_when_it_is_converted_with_its_true_list(conversion):
    first, *others = conversion.form()
    generation = conversion.generation
    conversion.helper()
    native = conversion.convert(first)
    again = native.full(first.shares, epoch=generation)  # as after a lost answer
    assert (again.error_code, again.member_epoch, partitions_of(again)) == (0, generation, first.owned)
    plain = native.beat()
    assert (plain.error_code, plain.member_epoch, plain.assignment) == (0, generation, None)
    assert conversion.view().group_epoch == generation
    nobody_noticed(others, generation)


def test_a_converted_member_is_unknown_to_classic_calls_and_commits_by_version_9_only(conversion):
    first, *_ = conversion.form()
    conversion.helper()
    conversion.convert(first)
    assert first.heartbeat() == ErrorCode.unknown_member_id
    assert first.sync_error() == ErrorCode.unknown_member_id
    assert {first.commit_as(version) for version in (2, 7, 8)} == {ErrorCode.unsupported_version}
    assert first.commit_as(NATIVE_ONLY) == ErrorCode.none


def test_a_classic_member_rejoins_alone_beside_a_converted_one_whatever_list_it_names(conversion):
    first, second, third = conversion.form()
    generation, owned = conversion.generation, second.shares
    conversion.helper()
    native = conversion.convert(first)
    for claims in ({}, owned):
        second.rejoin_alone(claims=claims)
        assert (second.generation, second.shares, second.leads) == (generation, owned, False)
    assert native.beat().assignment is None
    nobody_noticed([second, third], generation)


def test_any_heartbeat_under_a_classic_members_id_makes_it_native_even_one_without_fields(conversion):
    """A keep-alive in flight undoes the way back by JoinGroup, and no answer shows it."""
    first, *_ = conversion.form()
    conversion.helper()
    native = conversion.convert(first)
    first.rejoin_alone()
    assert first.heartbeat() == ErrorCode.none
    assert conversion.types()[first.member_id] == "classic"
    answer = native.beat()
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, None)
    assert conversion.types()[first.member_id] == "consumer"
    assert first.heartbeat() == ErrorCode.unknown_member_id


def test_only_epoch_0_converts_a_classic_group_and_a_wrong_epoch_converts_no_member(conversion):
    first, *_ = conversion.form()
    generation = conversion.generation
    native = conversion.native(first.member_id)
    assert native.full(first.shares, epoch=generation).error_code == ErrorCode.group_id_not_found
    assert conversion.classic_state() == "Stable"
    conversion.helper()
    for wrong in (generation - 1, generation + 1):
        assert native.full(first.shares, epoch=wrong).error_code == ErrorCode.fenced_member_epoch
    stranger = conversion.native("epochgate-raw-5d3f2f0e-5a57-4b6a-9a0c-0123456789ab")
    assert stranger.full(first.shares, epoch=generation).error_code == ErrorCode.unknown_member_id
    assert native.full(first.shares, epoch=0).error_code == ErrorCode.invalid_request  # owned at epoch 0
    assert conversion.types()[first.member_id] == "classic"
    nobody_noticed(conversion.members, generation)
    conversion.convert(first)


@pytest.mark.parametrize(
    ("join_version", "subscription_version", "assignor"),
    [(0, 0, "range"), (2, 0, "roundrobin"), (4, 1, "cooperative-sticky"), (9, 3, "range")],
)
def test_the_versions_of_join_group_and_subscription_do_not_matter(
    conversion, join_version, subscription_version, assignor
):
    conversion.form(
        offers=[
            Offer(assignor=assignor, join_version=join_version, subscription_version=subscription_version)
        ]
        * 3
    )
    conversion.helper()
    conversion.convert_all()


def test_a_static_member_is_converted_with_its_instance_id_or_without_and_keeps_it(conversion):
    one, two, three = conversion.form(offers=[Offer(instance_id=name) for name in ("one", "two", "three")])
    generation = conversion.generation
    conversion.helper()
    conversion.convert(one)
    native = conversion.convert(two, instance_id="two")
    assert native.full(two.shares, epoch=generation).error_code == ErrorCode.none
    other = conversion.native(three.member_id, instance_id="two")
    assert other.full(three.shares, epoch=generation).error_code == ErrorCode.fenced_instance_id
    unknown = conversion.native(three.member_id, instance_id="four")
    assert unknown.full(three.shares, epoch=generation).error_code == ErrorCode.unknown_member_id
    assert three.heartbeat() == ErrorCode.none
    by_0 = conversion.native(three.member_id, instance_id="three")
    assert by_0.full(epoch=0).error_code == ErrorCode.none
    assert by_0.full(epoch=0).error_code == ErrorCode.unreleased_instance_id  # against itself
    shown = {member.member_id: member.instance_id for member in conversion.view().members}
    assert [shown[member.member_id] for member in (one, two, three)] == ["one", "two", "three"]


# -- the helper leaves ---------------------------------------------------------------------------------------


def test_when_the_helper_leaves_last_all_get_the_next_epoch_and_keep_their_partitions(kafka, conversion):
    members = conversion.form()
    generation = conversion.generation
    helper = conversion.helper()
    natives = conversion.convert_all()
    assert helper.beat(LEAVE).error_code == ErrorCode.none
    view = conversion.view()
    assert (view.group_epoch, view.assignment_epoch) == (generation + 1, generation)
    settle(natives, generation + 1)
    assert [native.shares for native in natives] == [member.shares for member in members]
    old = {member.commit_as(NATIVE_ONLY, generation) for member in members}
    assert old == ({ErrorCode.none} if kafka.version >= "4.3" else {ErrorCode.stale_member_epoch})  # KIP-1251
    assert {member.commit_as(NATIVE_ONLY, generation + 1) for member in members} == {ErrorCode.none}


def test_a_helper_that_leaves_before_any_conversion_costs_all_members_one_rebalance(conversion):
    members = conversion.form()
    generation = conversion.generation
    conversion.helper().beat(LEAVE)
    assert conversion.classic_state() == "PreparingRebalance"
    assert {member.heartbeat() for member in members} == {ErrorCode.rebalance_in_progress}
    assert {member.commit_as(8) for member in members} == {ErrorCode.none}
    conversion.rebalance()
    assert conversion.generation == generation + 1


@pytest.mark.parametrize("converted", [1, 2])
def test_a_helper_that_leaves_early_costs_each_classic_member_one_rejoin(conversion, converted):
    members = conversion.form()
    generation = conversion.generation
    before = [member.shares for member in members]
    helper = conversion.helper()
    natives = [conversion.convert(member) for member in members[:converted]]
    helper.beat(LEAVE)
    settle(natives, generation + 1)  # since 4.3 a native heartbeat makes the assignment
    for member in members[converted:]:
        until(member, ErrorCode.rebalance_in_progress)
        assert {member.commit_as(version) for version in (7, 8, 9)} == {ErrorCode.none}
        member.rejoin_alone()
        assert member.generation == generation + 1
        assert member.heartbeat() == ErrorCode.none
        conversion.convert(member)
    assert [member.shares for member in members] == before
    assert set(conversion.types().values()) == {"consumer"}


def test_a_helper_that_dies_is_removed_when_its_session_ends_as_if_it_had_left(conversion):
    members = conversion.form()
    generation = conversion.generation
    conversion.use_session(6_000)
    conversion.helper()
    conversion.use_session(SESSION_MS)
    natives = conversion.convert_all()
    settle(natives, generation + 1)
    assert [native.shares for native in natives] == [member.shares for member in members]
    assert conversion.view().group_epoch == generation + 1


def test_the_helper_needs_a_place(own_kafka):
    cluster = own_kafka(overrides={"group.consumer.max.size": "2"})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with Conversion(kafka, "g", kafka.new_topic(partitions=PARTITIONS)) as conversion:
        conversion.form(2)
        helper = conversion.native()
        assert helper.full(epoch=0, topics=NO_TOPICS).error_code == ErrorCode.group_max_size_reached
        assert conversion.classic_state() == "Stable"
        nobody_noticed(conversion.members, conversion.generation)


# -- the assignor --------------------------------------------------------------------------------------------


@pytest.fixture
def over_two_topics(kafka, group):
    """Three members with range, of which the first has four partitions and the others two."""
    topics = sorted(kafka.new_topic(partitions=4) for _ in range(2))
    with Conversion(kafka, group, *topics, partitions=4) as conversion:
        conversion.form()
        yield conversion


def test_the_helpers_leave_moves_partitions_of_range_over_several_topics(over_two_topics):
    generation = over_two_topics.generation
    helper = over_two_topics.helper()
    natives = over_two_topics.convert_all()
    helper.beat(LEAVE)
    settle(natives, generation + 1)
    sizes = (
        sorted(sum(map(len, native.shares.values())) for native in natives if native.beat())
        for _ in iter(int, 1)
    )
    eventually(lambda: next(sizes), lambda seen: seen == [2, 3, 3], what="uniform has balanced both topics")


def test_one_vote_for_range_after_the_last_conversion_keeps_them(kafka, over_two_topics):
    members = over_two_topics.members
    generation = over_two_topics.generation
    helper = over_two_topics.helper()
    natives = over_two_topics.convert_all()
    assert natives[0].beat(server_assignor="range").error_code == ErrorCode.none
    voted = generation + 1 if kafka.version >= "4.4" else generation
    assert over_two_topics.view().group_epoch == voted
    helper.beat(LEAVE)
    settle(natives, voted + 1)
    assert [native.shares for native in natives] == [member.shares for member in members]


def test_a_vote_before_the_last_conversion_costs_the_classic_members_a_rejoin_since_4_4(
    kafka, over_two_topics
):
    first, second, _ = over_two_topics.members
    generation = over_two_topics.generation
    over_two_topics.helper()
    native = over_two_topics.native(first.member_id)
    assert native.full(first.shares, epoch=generation, server_assignor="range").error_code == ErrorCode.none
    if kafka.version < "4.4":
        assert over_two_topics.view().group_epoch == generation
        assert second.heartbeat() == ErrorCode.none
    else:
        assert over_two_topics.view().group_epoch == generation + 1
        eventually(
            lambda: (native.beat(), second.heartbeat())[1],
            lambda code: code == ErrorCode.rebalance_in_progress,
            what="a classic member has to join again",
        )


@pytest.mark.parametrize("vote", [None, "range"])
def test_a_vote_for_range_moves_partitions_of_clients_whose_range_is_another(kafka, group, vote):
    """sarama's range gives 1, 2 and 1 of four partitions where Kafka's gives 2, 1 and 1. Uniform keeps both."""
    topic = kafka.new_topic(partitions=4)
    with SaramasRange(kafka, group, topic, partitions=4) as conversion:
        members = conversion.form()
        generation = conversion.generation
        helper = conversion.helper()
        natives = conversion.convert_all()
        natives[0].beat(server_assignor=vote)
        helper.beat(LEAVE)
        epoch = conversion.view().group_epoch
        assert epoch > generation
        settle(natives, epoch)
        kept = [native.shares for native in natives] == [member.shares for member in members]
        assert kept == (vote is None)


class SaramasRange(Conversion):
    def range(self, member_ids):
        step = self.partitions / len(member_ids)
        bounds = [math.floor(number * step + 0.5) for number in range(len(member_ids) + 1)]
        return {
            member_id: {topic: frozenset(range(*bounds[number : number + 2])) for topic in self.topics}
            for number, member_id in enumerate(sorted(member_ids))
        }


# -- a client that leaves --------------------------------------------------------------------------------------


def test_leave_group_ends_a_converted_member_too(conversion):
    first, *_ = conversion.form()
    generation = conversion.generation
    conversion.helper()
    native = conversion.convert(first)
    first.leave()
    assert native.beat().error_code == ErrorCode.unknown_member_id
    assert conversion.view().group_epoch == generation + 1
