"""What makes a broker assign what it has left to nobody, asked of one by hand: see docs/evidence/facts.md."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewPartitions
from kio.schema.errors import ErrorCode
from support.broker import GroupView, Kafka
from support.raw_member import Offer, RawMember
from support.raw_new_member import LEAVE, RawNewMember
from support.waiting import eventually

pytestmark = pytest.mark.kafka


def converted_after_its_topic_grew(kafka: Kafka, classic: RawMember, other: RawMember, topic: str) -> None:
    """A static member alone in its classic group; its topic gets more partitions than it was assigned."""
    del other
    classic.join()
    classic.sync(2)
    kafka.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(timeout=60)


def converted_after_another_left(kafka: Kafka, classic: RawMember, other: RawMember, topic: str) -> None:
    """Another member leaves, and the rebalance that follows is not over."""
    kafka.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(timeout=60)
    # The coordinator learns of them from the metadata log a little later, and loses what it does not know.
    eventually(
        lambda: len(kafka.admin.list_topics(topic, timeout=10).topics[topic].partitions),
        lambda count: count == 4,
        what="the broker knows the new partitions",
    )
    classic.join()
    classic.sync(4)
    other.send_join()
    eventually(
        classic.heartbeat,
        lambda code: code == ErrorCode.rebalance_in_progress,
        what="it is told that another has come",
    )
    classic.join()
    other.receive_join()
    assert len(classic.sync(4)[topic]) == 2
    other.sync()
    other.leave()


@pytest.fixture(
    params=[converted_after_its_topic_grew, converted_after_another_left], ids=lambda one: one.__name__
)
def with_half_of_it(request: pytest.FixtureRequest, kafka: Kafka, group: str) -> Iterator[RawNewMember]:
    """A static member that was converted in its own place; nobody has two of the four partitions."""
    topic = kafka.new_topic(partitions=2)
    with (
        RawMember(kafka.bootstrap, group, topic, offer=Offer(instance_id="one")) as classic,
        RawMember(kafka.bootstrap, group, topic) as other,
    ):
        request.param(kafka, classic, other, topic)
        with RawNewMember(kafka, group, topic, instance_id="one") as member:
            yield member.join().until_owns(2)


def targets(view: GroupView) -> set[int]:
    return {number for one in view.members for at in one.target.values() for number in at}


def test_a_member_without_topics_that_leaves_makes_the_broker_assign_what_nobody_has(kafka, with_half_of_it):
    member, had = with_half_of_it, with_half_of_it.owned
    for _ in range(3):
        assert member.beat().error_code == ErrorCode.none
    before = kafka.describe(member.group)
    assert (before.state, targets(before)) == ("Stable", had)

    with RawNewMember(kafka, member.group, member.topic) as stirring:
        joined = stirring.full(epoch=0, topics=())
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, before.group_epoch)
        assert kafka.describe(member.group).group_epoch == before.group_epoch
        assert stirring.owned == frozenset()
        assert stirring.beat(LEAVE).error_code == ErrorCode.none

    member.until_owns(4)
    after = eventually(
        lambda: kafka.describe(member.group), lambda view: view.state == "Stable", what="the group is stable"
    )
    assert (after.group_epoch, targets(after)) == (before.group_epoch + 1, {0, 1, 2, 3})


def test_a_member_without_topics_that_is_silent_ends_with_its_session_which_does_the_same(
    kafka, with_half_of_it
):
    """As after a process that ends between its join and its leave."""
    member, had = with_half_of_it, with_half_of_it.owned
    with RawNewMember(kafka, member.group, member.topic) as stirring:
        assert stirring.full(epoch=0, topics=()).error_code == ErrorCode.none
    assert member.full(member.owned).error_code == ErrorCode.none
    assert targets(kafka.describe(member.group)) == had
    member.until_owns(4)
    assert len(kafka.describe(member.group).members) == 1


def test_a_member_without_topics_that_comes_and_goes_in_a_rebalance_takes_nothing_from_anybody(
    kafka, alone, newcomer
):
    newcomer.join()
    with RawNewMember(kafka, alone.group, alone.topic) as stirring:
        assert stirring.full(epoch=0, topics=()).error_code == ErrorCode.none
        assert stirring.owned == frozenset()
        assert stirring.beat(LEAVE).error_code == ErrorCode.none

    def shared() -> bool:
        for one in (alone, newcomer):
            assert one.full(one.owned).error_code == ErrorCode.none
            assert alone.owned.isdisjoint(newcomer.owned) or len(alone.owned) == 4
        return len(alone.owned) == len(newcomer.owned) == 2

    eventually(shared, bool, what="the two share the partitions")
    view = eventually(
        lambda: (shared(), kafka.describe(alone.group))[1],
        lambda view: view.state == "Stable",
        what="the group is stable",
    )
    assert len(view.members) == 2


def test_a_member_without_topics_that_meets_a_classic_group_costs_it_one_rebalance(kafka, group):
    """All others have left since somebody looked: its join converts the group, and its leave converts that back."""
    topic = kafka.new_topic(partitions=4)
    with (
        RawMember(kafka.bootstrap, group, topic) as classic,
        RawNewMember(kafka, group, topic) as stirring,
    ):
        classic.join()
        classic.sync(4)
        assert stirring.full(epoch=0, topics=()).error_code == ErrorCode.none
        assert stirring.beat(LEAVE).error_code == ErrorCode.none
        eventually(
            classic.heartbeat,
            lambda code: code == ErrorCode.rebalance_in_progress,
            what="it is told to join again",
        )
        classic.join()
        assert len(classic.sync(4)[topic]) == 4
        assert classic.heartbeat() == ErrorCode.none
        assert kafka.describe_classic(group).group_state == "Stable"
