"""What a process finds out about the migration of a group, without a group."""

import math

import pytest

from translation.members.group_migration import PACE, ROUTING, GroupEvent, GroupMigration, Pace, Routing


def test_each_state_has_a_block_and_each_event_is_in_a_table() -> None:
    assert set(ROUTING) == set(Routing)
    assert set(PACE) == set(Pace)
    assert {event for table in (ROUTING, PACE) for exits in table.values() for event in exits} == set(
        GroupEvent
    )
    for table in (ROUTING, PACE):
        for state, exits in table.items():
            assert state not in exits.values()


def test_a_group_is_relayed_for_a_while_and_then_tried_again() -> None:
    migration = GroupMigration()
    migration.relay_for(60.0, now=10.0)
    assert migration.relays(69.9)
    assert migration.relays_joins(69.9)
    assert not migration.relays(70.0)
    assert migration.routing is Routing.RELAYED_UNTIL_TIME  # asking changes nothing
    migration.translate_join(70.0)
    assert migration.is_unknown


def test_a_client_that_cannot_be_translated_does_not_keep_others_from_joining() -> None:
    migration = GroupMigration()
    migration.relay_until_join()
    assert migration.relays(math.inf)
    assert not migration.relays_joins(0.0)
    migration.translate_join(0.0)
    assert not migration.relays(0.0)


@pytest.mark.parametrize("told_all", [False, True])
def test_what_the_broker_refuses_for_good_is_relayed_until_the_policy_changes(told_all: bool) -> None:
    migration = GroupMigration()
    if told_all:
        migration.move_all(0.0)
    migration.relay_for(math.inf, 0.0)
    assert migration.relays_joins(1e9)
    migration.expire(1e9)
    assert migration.relays(1e9)
    migration.policy_changed()
    assert migration.is_unknown


def test_all_members_are_told_at_once_for_a_limited_time_which_is_not_begun_anew() -> None:
    migration = GroupMigration()
    assert not migration.moves_all(0.0)
    migration.move_all(0.0)
    assert migration.moves_all(29.9)
    migration.move_all(20.0)
    assert not migration.moves_all(30.0)
    assert migration.pace is Pace.ALL_AT_ONCE


def test_a_group_whose_members_remain_is_left_alone_twice_as_long_each_time_until_it_is_converted() -> None:
    migration = GroupMigration()
    assert migration.back_off(0.0, 60.0) == math.inf  # nothing is seen that stands in the way
    pauses = []
    now = 0.0
    for _ in range(3):
        migration.move_all(now)
        pauses.append(migration.back_off(now, 60.0))
        migration.relay_for(pauses[-1], now)
        assert migration.back_off(now + 1, 60.0) == pauses[-1] - 1  # another client's JoinGroup ends with it
        now += pauses[-1]
        migration.translate_join(now)
    assert pauses == [60.0, 120.0, 240.0]
    migration.converted()
    migration.move_all(now)
    assert migration.back_off(now, 60.0) == 60.0


def test_revocations_are_waited_for_once_and_again_when_there_was_nothing_to_revoke_in_between() -> None:
    migration = GroupMigration()
    assert migration.awaits_revocation(0.0, 300.0)
    assert not migration.is_unknown
    assert not migration.awaits_revocation(300.0, 300.0)
    migration.nothing_to_revoke()
    assert migration.awaits_revocation(300.0, 300.0)
