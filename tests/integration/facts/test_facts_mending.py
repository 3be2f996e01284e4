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


@pytest.fixture
def of_a_grown_topic(kafka: Kafka, group: str) -> Iterator[RawNewMember]:
    """A static member that was converted in its own place after its topic had grown from two partitions to three."""
    topic = kafka.new_topic(partitions=2)
    with RawMember(kafka.bootstrap, group, topic, offer=Offer(instance_id="one")) as classic:
        classic.join()
        classic.sync(2)
        kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(timeout=60)
        with RawNewMember(kafka, group, topic, instance_id="one") as member:
            yield member.join().until_owns(2)


def targets(view: GroupView) -> set[int]:
    return {number for one in view.members for at in one.target.values() for number in at}


def test_a_member_without_topics_that_leaves_makes_the_broker_assign_what_nobody_has(kafka, of_a_grown_topic):
    member = of_a_grown_topic
    for _ in range(3):
        assert member.beat().error_code == ErrorCode.none
    before = kafka.describe(member.group)
    assert (before.state, targets(before)) == ("Stable", {0, 1})

    with RawNewMember(kafka, member.group, member.topic) as stirring:
        joined = stirring.full(epoch=0, topics=())
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, before.group_epoch)
        assert kafka.describe(member.group).group_epoch == before.group_epoch
        assert stirring.owned == frozenset()
        assert stirring.beat(LEAVE).error_code == ErrorCode.none

    member.until_owns(3)
    after = eventually(
        lambda: kafka.describe(member.group), lambda view: view.state == "Stable", what="the group is stable"
    )
    assert (after.group_epoch, targets(after)) == (before.group_epoch + 1, {0, 1, 2})
