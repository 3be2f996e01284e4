"""Known cases of the broker excuse only the affected partitions, and only until the group changes."""

from collections.abc import Callable

import pytest

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.uuids import SeededUuids
from tests.simulation.oversights import Oversights
from tests.simulation.standing import Pid

TOPIC = SeededUuids(1).next()


@pytest.fixture
def seen() -> Oversights:
    """A topic of two partitions, and a stable classic group with both, whose first generation began after that."""
    oversights = Oversights()
    oversights.added({(TOPIC, 0), (TOPIC, 1)})
    oversights.served(None, classic_group(1), assigns(0, 1))
    return oversights


def classic_group(generation: int, state: ClassicGroupState = ClassicGroupState.STABLE) -> ClassicGroup:
    group = ClassicGroup("g", state=state, now_ms=0)
    group.generation = generation
    return group


def consumer_group(epoch: int) -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.group_epoch = epoch
    return group


def assigns(*partitions: int) -> Callable[[], frozenset[Pid]]:
    return lambda: frozenset((TOPIC, index) for index in partitions)


def test_a_partition_that_came_before_the_conversion_is_excused_until_the_epoch_moves(
    seen: Oversights,
) -> None:
    seen.added({(TOPIC, 2)})

    assert seen.served(classic_group(1), consumer_group(1), assigns(0, 1)) == {(TOPIC, 2)}

    assert seen.excuse(consumer_group(1), (TOPIC, 2))
    assert not seen.excuse(consumer_group(1), (TOPIC, 1)), "it is as old as the classic assignment"
    assert not seen.excuse(consumer_group(2), (TOPIC, 2)), "the broker has assigned anew"


def test_a_partition_of_a_member_that_left_before_the_conversion_is_excused(seen: Oversights) -> None:
    rebalancing = classic_group(1, ClassicGroupState.PREPARING_REBALANCE)
    seen.served(classic_group(1), rebalancing, assigns(0))

    assert seen.served(rebalancing, consumer_group(1), assigns(0)) == {(TOPIC, 1)}


def test_a_partition_that_nobody_had_before_the_conversion_is_not_excused(seen: Oversights) -> None:
    rebalancing = classic_group(1, ClassicGroupState.PREPARING_REBALANCE)
    seen.served(classic_group(1), rebalancing, assigns(0))
    rebalanced = classic_group(2)
    seen.served(rebalancing, rebalanced, assigns(0))

    assert seen.served(rebalanced, consumer_group(2), assigns(0)) == frozenset()


def test_a_partition_that_came_before_the_last_rebalance_is_not_excused(seen: Oversights) -> None:
    seen.added({(TOPIC, 2)})
    group = classic_group(2)
    seen.served(group, group, assigns(0, 1))

    assert seen.served(group, consumer_group(2), assigns(0, 1)) == frozenset()


def test_a_partition_that_is_assigned_at_the_conversion_is_not_excused(seen: Oversights) -> None:
    seen.added({(TOPIC, 2)})

    assert seen.served(classic_group(1), consumer_group(2), assigns(0, 1, 2)) == frozenset()


def test_a_failover_in_the_rebalance_after_a_downgrade_excuses_its_generation(seen: Oversights) -> None:
    rebalancing = classic_group(7, ClassicGroupState.PREPARING_REBALANCE)
    seen.served(consumer_group(7), rebalancing, assigns(0))
    assert not seen.excuse(rebalancing, (TOPIC, 1))

    seen.failed_over(rebalancing)

    assert seen.excuse(classic_group(7), (TOPIC, 1))
    assert not seen.excuse(classic_group(8), (TOPIC, 1)), "it has rebalanced"


def test_a_failover_after_the_rebalance_excuses_nothing(seen: Oversights) -> None:
    rebalancing = classic_group(7, ClassicGroupState.PREPARING_REBALANCE)
    seen.served(consumer_group(7), rebalancing, assigns(0))

    seen.failed_over(classic_group(7))

    assert not seen.excuse(classic_group(7), (TOPIC, 1))


def test_a_share_that_a_member_had_not_been_told_of_is_excused_if_no_rebalance_follows_a_downgrade(
    seen: Oversights,
) -> None:
    before = consumer_group(7)
    before.members["told"] = ConsumerGroupMember(member_id="told", assigned={TOPIC: {0: 7}})
    before.members["waits"] = ConsumerGroupMember(member_id="waits")
    before.target_assignment = {"told": {TOPIC: frozenset({0})}, "waits": {TOPIC: frozenset({1})}}

    seen.served(before, classic_group(7), assigns(0, 1))

    assert seen.excuse(classic_group(7), (TOPIC, 1))
    assert not seen.excuse(classic_group(7), (TOPIC, 0)), "it was told"
    assert not seen.excuse(classic_group(8), (TOPIC, 1)), "it has rebalanced"


def test_a_share_is_not_excused_if_a_rebalance_follows_a_downgrade(seen: Oversights) -> None:
    before = consumer_group(7)
    before.members["waits"] = ConsumerGroupMember(member_id="waits")
    before.target_assignment = {"waits": {TOPIC: frozenset({1})}}

    seen.served(before, classic_group(7, ClassicGroupState.PREPARING_REBALANCE), assigns(0, 1))

    assert not seen.excuse(classic_group(7), (TOPIC, 1))


def test_what_a_static_member_gave_up_before_it_started_again_is_excused_until_the_next_generation(
    seen: Oversights,
) -> None:
    group = with_static_member("older")
    seen.served(classic_group(1), classic_group(1, ClassicGroupState.PREPARING_REBALANCE), assigns(0, 1))
    seen.served(group, group, assigns(0))  # 1 is withheld from all in this generation
    assert not seen.excuse(group, (TOPIC, 1)), "its client is to join again"

    seen.served(group, with_static_member("newer"), assigns(0))

    assert seen.excuse(group, (TOPIC, 1))
    assert not seen.excuse(group, (TOPIC, 0)), "it was assigned"
    assert not seen.excuse(classic_group(3), (TOPIC, 1)), "it has rebalanced"


def with_static_member(member_id: str) -> ClassicGroup:
    """A second generation, which follows a rebalance."""
    group = classic_group(2)
    group.static_members["instance"] = member_id
    return group


def test_what_a_static_member_had_before_a_downgrade_and_gave_up_after_it_is_excused_if_it_starts_again(
    seen: Oversights,
) -> None:
    rebalancing = classic_group(1, ClassicGroupState.PREPARING_REBALANCE)
    seen.served(consumer_group(1), rebalancing, assigns(0, 1, 2))
    group = with_static_member("older")
    seen.served(rebalancing, group, assigns(0, 1))

    seen.served(group, with_static_member("newer"), assigns(0, 1))

    assert seen.excuse(group, (TOPIC, 2))


@pytest.mark.parametrize(("restarts", "excused"), [("leader", True), ("follower", False)])
def test_what_was_added_while_a_static_leader_was_away_is_excused_until_the_next_generation(
    seen: Oversights, restarts: str, *, excused: bool
) -> None:
    before, after = led_group("older", "other"), led_group("older", "other")
    if restarts == "leader":
        after = led_group("newer", "other")
    else:
        after.static_members["other"] = "another"
    seen.served(None, before, assigns(0, 1))
    seen.added({(TOPIC, 2)})
    assert not seen.excuse(before, (TOPIC, 2)), "its leader is to notice"

    seen.served(before, after, assigns(0, 1))
    seen.added({(TOPIC, 3)})

    assert seen.excuse(after, (TOPIC, 2)) is excused
    assert not seen.excuse(after, (TOPIC, 3)), "the leader is back"
    assert not seen.excuse(classic_group(3), (TOPIC, 2)), "it has rebalanced"


def led_group(leader_id: str, other_id: str) -> ClassicGroup:
    """A second generation of two static members."""
    group = with_static_member(leader_id)
    group.static_members["other"] = other_id
    group.leader_id = leader_id
    return group
