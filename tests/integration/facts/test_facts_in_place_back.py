"""Members that were converted in place go back to the classic protocol: see docs/evidence/in-place.md."""

import pytest
from kio.schema.errors import ErrorCode
from support.broker import Kafka
from support.in_place import Conversion, settle, until
from support.raw_member import Offer
from support.raw_new_member import LEAVE
from support.transactional_commits import TransactionalCommits
from support.waiting import eventually, stays

PARTITIONS = 6
WATCHED_S = 3.0

pytestmark = pytest.mark.kafka


@pytest.fixture
def conversion(kafka, group):
    with Conversion(kafka, group, kafka.new_topic(partitions=PARTITIONS)) as conversion:
        yield conversion


def converted(conversion, count=3, **options):
    """All members are native and the helper has left."""
    conversion.form(count, **options)
    generation = conversion.generation
    helper = conversion.helper()
    natives = [conversion.convert(member, instance_id=member.instance_id) for member in conversion.members]
    helper.beat(LEAVE)
    settle(natives, generation + 1)
    return natives


def shown(conversion):
    return {one.member_id: one for one in conversion.view().members}


def test_join_group_and_sync_group_with_the_true_list_make_a_member_classic_and_no_other_notices(conversion):
    natives = converted(conversion)
    epoch, shares = natives[0].epoch, [native.shares for native in natives]
    for number, member in enumerate(conversion.members):
        member.rejoin_alone()
        assert (member.generation, member.shares) == (epoch, shares[number])
        for native in natives[number + 1 :]:
            answer = native.beat()
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, epoch, None)
        for classic in conversion.members[: number + 1]:
            assert classic.heartbeat() == ErrorCode.none
            assert {classic.commit_as(version) for version in (7, 9)} == {ErrorCode.none}
    view = conversion.view()  # the last dynamic member's JoinGroup leaves it a consumer group
    assert (view.group_epoch, set(conversion.types().values())) == (epoch, {"classic"})


def test_a_helper_in_and_out_makes_it_a_classic_group_by_one_rebalance_of_all(conversion):
    epoch = converted(conversion)[0].epoch
    before = [member.shares for member in conversion.members]
    for member in conversion.members:
        member.rejoin_alone()
    helper = conversion.helper()
    assert helper.epoch == epoch
    assert {member.heartbeat() for member in conversion.members} == {ErrorCode.none}
    helper.beat(LEAVE)
    assert conversion.classic_state() == "PreparingRebalance"
    for member in conversion.members:
        assert member.heartbeat() == ErrorCode.rebalance_in_progress
        assert member.sync_error() == ErrorCode.rebalance_in_progress
        assert {member.commit_as(version) for version in (2, 7, 8, 9)} == {ErrorCode.none}
    conversion.rebalance()
    assert conversion.generation == epoch + 1
    assert [member.shares for member in conversion.members] == before


def test_a_producers_commit_at_the_old_generation_counts_until_the_rebalance_is_complete(conversion):
    """A classic group takes it while members are still to join, and refuses it afterwards."""
    member, *_ = conversion.form()
    old = conversion.generation
    transaction = TransactionalCommits(member.call, conversion.group, member.topic)
    conversion.helper().beat(LEAVE)  # all have to rejoin
    assert conversion.classic_state() == "PreparingRebalance"
    assert transaction.commit(member.member_id, old) == ErrorCode.none
    conversion.rebalance()
    assert transaction.commit(member.member_id, old) == ErrorCode.illegal_generation
    assert transaction.commit(member.member_id, conversion.generation) == ErrorCode.none


def test_a_producers_commit_at_the_old_generation_is_refused_from_the_join_group_of_the_way_back_on(
    conversion,
):
    """If the group epoch has moved: the JoinGroup in a consumer group is complete at once.

    Since Kafka 4.3 (KIP-1251) that is so for partitions which are not the member's since the old epoch.
    """
    native, *others = converted(conversion)
    member = conversion.members[0]
    old = native.epoch
    transaction = TransactionalCommits(member.call, conversion.group, member.topic)
    assert transaction.commit(member.member_id, old) == ErrorCode.none
    conversion.helper().beat(LEAVE)  # moves the group epoch
    settle(others, old + 1)
    member.rejoin_alone()
    assert member.generation == old + 1
    elsewhere = min(others[0].owned)
    assert transaction.commit(member.member_id, old, elsewhere) == ErrorCode.illegal_generation
    assert transaction.commit(member.member_id, old + 1) == ErrorCode.none


def test_with_the_helper_as_last_native_member_each_way_back_costs_the_same(conversion):
    """The helper that came for the conversion has stayed."""
    conversion.form()
    generation = conversion.generation
    helper = conversion.helper()
    conversion.convert_all()
    for member in conversion.members:
        member.rejoin_alone()
        assert member.generation == generation
    assert helper.beat(LEAVE).error_code == ErrorCode.none
    assert {member.heartbeat() for member in conversion.members} == {ErrorCode.rebalance_in_progress}
    conversion.rebalance()
    assert conversion.generation == generation + 1


@pytest.mark.parametrize("claims", ["none", "true"])
def test_a_join_group_that_names_no_partitions_gives_them_away_while_the_client_works_on_them(
    conversion, claims
):
    natives = converted(conversion, 2)
    epoch = natives[0].epoch
    newcomer = conversion.native().join()
    topic = conversion.topics[0]

    def look():
        newcomer.full(newcomer.shares)
        targets = {
            member_id: one.target.get(topic, frozenset()) for member_id, one in shown(conversion).items()
        }
        return [(member, member.owned - targets[member.member_id]) for member in conversion.members]

    both = eventually(look, lambda seen: any(taken for _, taken in seen), what="the target has moved")
    member, taken = next((member, taken) for member, taken in both if taken)
    works_on = member.shares
    member.rejoin_alone(claims={} if claims == "none" else works_on)
    assert member.owned == works_on[topic] - taken
    newcomer.full(newcomer.shares)
    if claims == "none":
        assert member.generation > epoch
        assert newcomer.owned >= taken
    else:
        assert member.generation == epoch
        assert not newcomer.owned & taken
        assert member.heartbeat() == ErrorCode.rebalance_in_progress
        member.rejoin_alone()  # the client has revoked
        newcomer.full(newcomer.shares)
        assert newcomer.owned >= taken


def test_a_downgrade_gives_laggards_the_group_epoch_as_generation_and_they_get_illegal_generation(conversion):
    """A leave moves the group epoch and not the assignment epoch: ConsumerGroupDescribe shows both."""
    natives = converted(conversion)
    epoch = natives[0].epoch
    *back, last = conversion.members
    for member in back:
        member.rejoin_alone()
    other = conversion.helper()
    other.beat(LEAVE)
    view = conversion.view()
    assert (view.group_epoch, view.assignment_epoch) == (epoch + 1, epoch)
    assert natives[-1].member_id == last.member_id
    natives[-1].beat(LEAVE)
    assert conversion.classic_state() == "PreparingRebalance"
    assert {member.heartbeat() for member in back} == {ErrorCode.illegal_generation}
    assert {member.commit_as(8) for member in back} == {ErrorCode.illegal_generation}


def test_a_last_native_member_that_leaves_a_settled_group_costs_the_others_a_27_only(conversion):
    natives = converted(conversion)
    *back, _ = conversion.members
    for member in back:
        member.rejoin_alone()
    natives[-1].beat(LEAVE)
    assert {member.heartbeat() for member in back} == {ErrorCode.rebalance_in_progress}
    assert {member.commit_as(8) for member in back} == {ErrorCode.none}


STATIC = [Offer(instance_id=name) for name in ("one", "two", "three")]


def test_the_join_group_of_a_last_static_member_makes_the_group_classic_and_no_member_notices(conversion):
    natives = converted(conversion, offers=STATIC)
    epoch, shares = natives[0].epoch, [native.shares for native in natives]
    for member in conversion.members:
        member.rejoin_alone()
        assert member.generation == epoch
    assert conversion.classic_state() == "Stable"
    assert [member.shares for member in conversion.members] == shares
    for member in conversion.members:
        assert member.heartbeat() == ErrorCode.none
        assert member.commit_as(8) == ErrorCode.none


def test_the_join_group_of_a_last_static_member_downgrades_a_stale_group_with_a_rebalance_since_4_3(
    kafka, conversion
):
    """Before, the laggards keep partitions by an assignment that counts no more, at a generation that is not theirs."""
    natives = converted(conversion, offers=STATIC)
    epoch = natives[0].epoch
    *back, last = conversion.members
    for member in back:
        member.rejoin_alone()
    conversion.helper().beat(LEAVE)
    assert (conversion.view().group_epoch, conversion.view().assignment_epoch) == (epoch + 1, epoch)
    last.send_join(last.shares)
    eventually(lambda: kafka.describe(conversion.group) is None, what="it is a classic group")
    assert conversion.classic_state() == ("PreparingRebalance" if kafka.version >= "4.3" else "Stable")
    assert {member.heartbeat() for member in back} == {ErrorCode.illegal_generation}


def test_with_migration_policy_upgrade_the_group_stays_a_consumer_group_of_classic_members(own_kafka):
    cluster = own_kafka(overrides={"group.consumer.migration.policy": "upgrade"})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    with Conversion(kafka, "g", kafka.new_topic(partitions=PARTITIONS)) as conversion:
        epoch = converted(conversion)[0].epoch
        for member in conversion.members:
            member.rejoin_alone()
        helper = conversion.helper()
        helper.beat(LEAVE)
        view = conversion.view()
        assert (view.group_epoch, set(conversion.types().values())) == (epoch + 1, {"classic"})
        first, *others = conversion.members
        if kafka.version < "4.3":
            until(first, ErrorCode.rebalance_in_progress)
        else:  # a JoinGroup or a native member's heartbeat makes the assignment; there is none
            stays(first.heartbeat, lambda code: code == ErrorCode.none, what="no assignment", for_s=WATCHED_S)

        def joins_again():
            first.rejoin_alone()
            return first.generation

        eventually(joins_again, lambda generation: generation == epoch + 1, what="its JoinGroup makes it")
        for member in others:
            until(member, ErrorCode.rebalance_in_progress)
            member.rejoin_alone()
            assert member.generation == epoch + 1
